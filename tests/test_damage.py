"""Nothing damaged is used in silence: every kind of file that is kept, damaged in every way that makes sense."""
import pytest

from damage import CASES


@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_damage(case, tmp_path):
    "Results are those without damage, or a user's own file is refused; one line says so."
    assert CASES[case](tmp_path) in ("made again", "refused")
