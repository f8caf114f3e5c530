"""Damage x kind of file: CASES[kind, damage](folder) damages a file and uses it: "made again" or "refused"."""
import pandas as pd

from . import caches, runs, users

CASES = caches.CASES | users.CASES | runs.CASES
COLUMNS = {
    "bit": ("bit of the data", "bit of the header"),
    "zeros": ("half zeroed", "all zeros"),
    "cut": ("cut", "cut in the header"),
    "empty": ("empty",),
    "text": ("text",),
    "absent": ("absent", "absent, its seal there"),
    "part": ("tensor deleted", "column renamed", "rows exchanged", "a row doubled", "corruptions exchanged",
             "blocks exchanged", "longer"),
    "another": ("of another run", "of another run, sealed", "of another part", "of another shape", "of another kind",
                "another array", "other images", "images of another split", "of the best row", "of the checkpoint",
                "of an earlier moment"),
    "seal": ("seal absent", "seal cut", "seal empty", "seal a list", "seal of another run")}


def column_of(
    damage, # its name
):
    "The column of the table that a damage belongs to."
    return next((column for column, names in COLUMNS.items() if damage in names), "more")


def find_all(
    folder, # of all that is damaged
):
    "{(kind, damage): what became of it} of all cases."
    folders = [folder / str(k) for k in range(len(CASES))]
    for f in folders: f.mkdir(parents=True)
    return {case: CASES[case](f) for case, f in zip(CASES, folders)}


def draw_table(
    found, # from find_all
):
    "Kinds of file x damages, put together to a few columns: what became of them."
    rows = [dict(kind=kind, damage=column_of(damage), what=what) for (kind, damage), what in found.items()]
    cells = pd.DataFrame(rows).groupby(["kind", "damage"]).what.agg(lambda what: " or ".join(sorted(set(what))))
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    return cells.unstack(fill_value="–").loc[kinds, [*COLUMNS, "more"]].rename_axis(index=None, columns=None)
