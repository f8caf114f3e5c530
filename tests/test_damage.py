"""Nothing damaged is used in silence: every kind of file that is kept, damaged in every way that makes sense."""
import pytest

from damage import CASES, draw_table


@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_damage(case, tmp_path):
    "Results are those without damage, or a user's own file is refused; one line says so."
    assert CASES[case](tmp_path) in ("made again", "refused")


def test_table():
    "Every case has a place in it."
    table = draw_table(dict.fromkeys(CASES, "made again"))
    assert table.shape[1] == 10 and len(table) == len({kind for kind, _ in CASES})
