"""Changes of the package's text in memory: those that may change numbers, and those that can't."""
import ast
from collections import defaultdict
from contextlib import contextmanager
from functools import lru_cache
from unittest.mock import patch

from pertnb.core import keys, symbols

SOURCE, DESCRIBE = symbols.source_of, keys.symbol_text
UNUSED = "annotation", "returns", "msg", "decorator_list" # fields of a node that decide no number
INERT = "0 if True else 1" # a statement that does nothing, yet is code


@lru_cache(None)
def parsed(module): return ast.parse(SOURCE(module))


def holds(node, line):
    "Whether a definition's text, decorators included, has this line."
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]) <= line <= node.end_lineno


@lru_cache(None)
def find_node(module, name, line):
    "The innermost definition that holds a line, else the statement at the top; without a line the class of that name."
    nodes = [n for n in ast.walk(parsed(module)) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    if line is None: return next(n for n in nodes if n.name == name)
    inside = [n for n in nodes if isinstance(n, ast.FunctionDef) and holds(n, line)]
    if name.endswith("<lambda>"): inside = [n for n in ast.walk(parsed(module)) if isinstance(n, ast.Lambda) and n.lineno == line]
    if inside: return max(inside, key=lambda n: n.lineno)
    return next(n for n in parsed(module).body if n.lineno <= line <= n.end_lineno)


@lru_cache(None)
def find_values(module, node):
    "{(module, node)} of the values at the top of modules that a definition uses by name, other than in an error alone."
    todo, names = [node], set()
    while todo:
        n = todo.pop()
        if isinstance(n, ast.Name): names.add(n.id)
        if not isinstance(n, ast.Raise): todo += [c for k, c in children(n) if k not in UNUSED]
    return {found for found in (find_value(module, name) for name in names) if found}


@lru_cache(None)
def find_value(module, name):
    "Where a value is set, followed through imports: (module, node); None where it is not a value of the package."
    for node in parsed(module).body:
        if isinstance(node, ast.Assign):
            if name in {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}: return module, node
        elif isinstance(node, ast.ImportFrom) and symbols.is_ours(origin := symbols.imported_from(node, module)):
            for a in node.names:
                if (a.asname or a.name) == name: return find_value(origin, a.name)


def edited(module, edits):
    "The module's text with edits [(line, byte, last line, last byte, text)]; lines from 1."
    lines = SOURCE(module).encode().splitlines(True)
    for line, at, end, to, text in sorted(set(edits), reverse=True):
        lines[line - 1:end] = [lines[line - 1][:at] + text.encode() + lines[end - 1][to:]]
        lines[line - 1:line] = lines[line - 1].splitlines(True)
    return b"".join(lines).decode()


def span(node): return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def children(node):
    "[(field, node)] of the nodes right below one."
    several = [(k, v if isinstance(v, list) else [v]) for k, v in ast.iter_fields(node)]
    return [(k, child) for k, v in several for child in v if isinstance(child, ast.AST)]


def is_text(node):
    "Whether a statement is a constant alone, such as a docstring."
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def doc_of(node):
    "The node of a docstring, or None."
    return node.body[0].value if is_text(node.body[0]) else None


def tells(node):
    "Whether a statement only says how far a work is."
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and getattr(node.value.func, "id", None) == "tell_progress"


def constants(node):
    "Constants that are code: no docstrings, annotations, texts of errors, parts of f-strings, progress; none of inner functions."
    if isinstance(node, (ast.Raise, ast.JoinedStr)) or is_text(node) or tells(node): return []
    if isinstance(node, ast.Constant): return [node] if type(node.value) in (int, float, str) else []
    inside = [child for k, child in children(node) if k not in UNUSED]
    return [c for child in inside if not isinstance(child, (ast.FunctionDef, ast.ClassDef)) for c in constants(child)]


def other(value):
    "Another constant of its kind, as text."
    return repr(value + "~" if isinstance(value, str) else value + 1 if isinstance(value, int) else 2 * value + 1)


def added(module, node, statement):
    "An edit that makes a statement the first one of a body, after the docstring."
    doc = doc_of(node)
    if doc and len(node.body) == 1: return (doc.end_lineno, doc.end_col_offset) * 2 + (f"; {statement}",)
    first = node.body[1 if doc else 0]
    line = min([first.lineno, *(d.lineno for d in getattr(first, "decorator_list", []))])
    lead = SOURCE(module).encode().splitlines()[line - 1]
    at = len(lead) - len(lead.lstrip()) if line < first.lineno else first.col_offset
    alone = not lead[:at].strip()
    return (line, at) * 2 + (f"{statement}\n{at * ' '}" if alone else f"{statement}; ",)


def changing(module, node):
    "The edit that exchanges a constant of a definition, or adds a statement where it has none; None for such a value."
    found = constants(node)
    if isinstance(node, ast.Lambda) and not found: # its body becomes another expression of the same value
        return (*span(node.body), f"({ast.unparse(node.body)}, 0)[0]")
    # what a parameter is by default is a constant as well, but one of the body is used for certain
    first = node.body[0] if isinstance(getattr(node, "body", None), list) else node
    inside = [c for c in found if span(c) >= span(first)]
    if not found: return added(module, node, INERT) if isinstance(getattr(node, "body", None), list) else None
    c = (inside or found)[0]
    return (*span(c), other(c.value))


def edited_everywhere(module):
    "The module's text with another constant in each of its outermost definitions."
    nodes = [n for n in parsed(module).body if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    return edited(module, [changing(module, n) for n in nodes])


def neutral(module, node):
    "{kind: edits} of a definition that change no number."
    if not isinstance(node, ast.FunctionDef): return {}
    doc, end = doc_of(node), (node.end_lineno, node.end_col_offset) * 2
    out = dict(comment=[(*end, " # another comment")], annotation=[], error=[],
               docstring=[(*span(doc), '"Another docstring."')] if doc else [added(module, node, '"A docstring."')],
               progress=[added(module, node, 'tell_progress("work", 1, 2)')])
    for a in (*node.args.args, *node.args.kwonlyargs): # a lambda's have none
        where = span(a.annotation) if a.annotation else (a.end_lineno, a.end_col_offset) * 2
        out["annotation"].append((*where, "list[9]" if a.annotation else ": list[9]"))
    for n in ast.walk(node):
        if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Call) and n.exc.args:
            out["error"].append((*span(n.exc.args[0]), '"another text"'))
    return out


KNOWN = defaultdict(dict) # what keys read of the package's own texts


@contextmanager
def texts(changed):
    "The package as if its modules had these texts, {module: text}, which define the same names; what keys read of another text is not used."
    mutant = defaultdict(dict)

    def remembered(name):
        read = getattr(symbols, name).__wrapped__
        def look_up(module, *more):
            known = (mutant if module in changed else KNOWN)[name]
            if (module, more) not in known: known[module, more] = read(module, *more)
            return known[module, more]
        return look_up

    def describe(symbol):
        known = (mutant if symbol.module in changed else KNOWN)["symbol_text"]
        if symbol not in known: known[symbol] = DESCRIBE(symbol)
        return known[symbol]
    caches = {name: remembered(name) for name in ("bare_tree", "definitions", "definition_of", "imports_of")}
    imported = {name: read for name, read in caches.items() if hasattr(keys, name)}
    with patch.multiple(symbols, source_of=lambda module: changed.get(module) or SOURCE(module), **caches), \
            patch.multiple(keys, **imported, symbol_text=describe): yield
