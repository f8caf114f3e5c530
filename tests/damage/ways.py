"""Ways to damage a file, by the names that the table of damages has for them."""
import shutil


def change(work):
    "A damage: the file's bytes become work(bytes)."
    def damage(file): file.write_bytes(work(file.read_bytes()))
    return damage


def put_text(text):
    "A damage: the file holds this text."
    def damage(file): file.write_text(text)
    return damage


def flip(at):
    "A damage: one bit of byte `at` is flipped; `at` may be a function of the bytes."
    def work(b):
        b, k = bytearray(b), at(b) if callable(at) else at
        b[k] ^= 4
        return bytes(b)
    return change(work)


def half(b): return len(b) // 2


def cut_row(b):
    "The second half is gone, and the last row with it to the middle."
    return b[:b.rindex(b"\n", 0, half(b)) + 4]


def rename_column(b):
    "The last column has another name."
    names, _, rest = b.partition(b"\n")
    return names + b"s\n" + rest


def exchange_rows(b):
    "The last row stands first."
    names, *rows = b.splitlines(keepends=True)
    return names + rows[-1] + b"".join(rows[:-1])


def copy_from(other, *suffixes):
    "A damage: the file, and those of its name with these suffixes, are replaced by those in the folder `other()`."
    def damage(file):
        for path in map(file.with_suffix, (file.suffix, *suffixes)): shutil.copy2(other() / path.name, path)
    return damage


def remove(*suffixes):
    "A damage: the file is deleted, and those of the same name with these suffixes."
    def damage(file):
        for suffix in (file.suffix, *suffixes): file.with_suffix(suffix).unlink()
    return damage


ZERO = change(lambda b: b[:half(b)] + bytes(len(b) - half(b)))
CUT = change(lambda b: b[:-9])
ANY = {
    "bit of the data": flip(-9),
    "bit of the header": flip(30),
    "half zeroed": ZERO,
    "cut": CUT,
    "empty": put_text(""),
    "text": put_text("a text")}
UNSAID = ("absent",) # what is gone altogether is made without a line: whoever deletes a result asks for it anew
