"""The packages stand in one order, no import runs upward, and a public name belongs to one module."""
import ast
import importlib
import pkgutil
import symtable
from collections import Counter

import pytest

import pertnb
from pertnb.report.site_pages import ORDER

MODULES = sorted(m.name for m in pkgutil.walk_packages(pertnb.__path__, "pertnb.") if not m.name.endswith("_modidx"))


def package_of(module): return module.split(".")[1]


def imports_of(module):
    "Modules of ours that a module imports, those inside functions too."
    found = importlib.util.find_spec(module)
    base, names = (module if found.submodule_search_locations else module.rpartition(".")[0]), set()
    for node in ast.walk(ast.parse(open(found.origin, encoding="utf-8").read())):
        if isinstance(node, ast.ImportFrom):
            origin = importlib.util.resolve_name("." * node.level + (node.module or ""), base) if node.level else node.module
            names |= {origin, *(f"{origin}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import): names |= {a.name for a in node.names}
    return {name for name in names if name in MODULES}


def test_every_package_has_its_place(root):
    folders = {p.parent.name for p in (root / "pertnb").glob("*/__init__.py")}
    assert folders == set(ORDER) == {p.name for p in (root / "nbs" / "api").iterdir() if p.is_dir() and not p.name.startswith(".")}


@pytest.mark.parametrize("package", ORDER)
def test_notebooks_of_a_package_have_one_order(root, package):
    "Each notebook has a prefix of its own, so that the names of the files give the order in which they are read."
    names = [p.name for p in sorted((root / "nbs" / "api" / package).glob("*.ipynb"))]
    shared = {n: c for n, c in Counter(name.split("_")[0] for name in names).items() if c > 1}
    assert names[0].endswith(f"_{package}.ipynb") and shared == {}


@pytest.mark.parametrize("module", MODULES)
def test_no_import_runs_upward(module):
    higher = [name for name in imports_of(module) if ORDER.index(package_of(name)) > ORDER.index(package_of(module))]
    assert higher == []


@pytest.mark.parametrize("package", ORDER)
def test_a_package_gives_its_names(package):
    face = importlib.import_module(f"pertnb.{package}")
    assert face.__all__ and all(getattr(face, name) is not None for name in face.__all__)


def public_names(module):
    "Names that a module exports as nbdev writes them; none of a face, which gives the names of other modules."
    for node in ast.parse(open(importlib.util.find_spec(module).origin, encoding="utf-8").read()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_a_public_name_belongs_to_one_module():
    "One name, one meaning: an error shows the modules that share it."
    owners = {}
    for module in MODULES:
        for name in public_names(module): owners.setdefault(name, []).append(module)
    assert len(owners) > 1000 and {name: modules for name, modules in owners.items() if len(modules) > 1} == {}


def shadows(scope, imported=frozenset()):
    "Names of a scope and of those inside it that functions bind although an outer scope imports them; a class keeps its names to itself."
    names = {s.get_name(): s for s in scope.get_symbols()}
    bound = {name for name, s in names.items() if s.is_local()} if scope.get_type() == "function" else set()
    seen = imported if scope.get_type() == "class" else imported | {name for name, s in names.items() if s.is_imported()}
    return (bound & imported).union(*(shadows(child, seen) for child in scope.get_children()))


def test_shadows_are_seen():
    code = """from a import b, c, d, e, f, g as h
class Kept:
    b: int = 0
    def c(self): return self.b
def parameter(b): return lambda c: c
def local():
    d = 1
    return [h for h in e]
def reads(): return f, {k for k in b}
"""
    assert shadows(symtable.symtable(code, "code", "exec")) == {"b", "c", "d", "h"}


@pytest.mark.parametrize("module", MODULES)
def test_no_local_shadows_an_import(module):
    path = importlib.util.find_spec(module).origin
    assert shadows(symtable.symtable(open(path, encoding="utf-8").read(), path, "exec")) == set()
