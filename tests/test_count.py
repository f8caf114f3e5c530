""".ci/count.py: the last line of .ci/run counts what passed, failed and was skipped, and why."""
import sys
from subprocess import run
from xml.sax.saxutils import quoteattr

import pytest

from test_repository import notebooks

SKIPPED = {"no GPU": 2, "no reference images: none at FOLDER, set PERTNB_REFERENCE": 3, "x is not installed: pip install x": 1}


def write_report(folder, skipped, failures=0):
    "pytest's report of four passed tests, skipped ones and failed ones; a module may be skipped as a whole."
    cases = [f'<testcase name="t"><skipped message={quoteattr(why)}>t.py:1: {why}</skipped></testcase>' for why in skipped]
    whole = """('t.py', 9, "Skipped: y is absent: pip install '.[y]'")"""
    cases += [f"<testcase name='m'><skipped message='collection skipped'>{whole}</skipped></testcase>"]
    numbers = f'tests="{4 + len(cases) + failures}" failures="{failures}" errors="0" skipped="{len(cases)}"'
    (folder / "tests.xml").write_text(f'<testsuites><testsuite {numbers}>{"".join(cases)}</testsuite></testsuites>')


@pytest.fixture
def count(root, tmp_path):
    "count(status, left_out) -> exit status and lines, where all notebooks but some ran."
    def count(status=0, left_out=()):
        names = [p.name for p in notebooks(root) if not p.name.startswith("_") and p.name not in left_out]
        (tmp_path / "log").write_text("\n".join(f"- Completed {name}" for name in names))
        done = run([sys.executable, ".ci/count.py", tmp_path, str(status)], cwd=root, capture_output=True, text=True)
        assert not done.stderr
        return done.returncode, done.stdout.splitlines(), len(names)
    return count


def test_skipped_tests_are_named(count, tmp_path):
    write_report(tmp_path, [why for why, n in SKIPPED.items() for _ in range(n)])
    status, lines, n = count()
    assert status == 0 and lines == [f"{n + 4} passed, 0 failed, 7 skipped: 3 no reference images, 2 no GPU, 1 x is not installed, "
                                     "1 y is absent"]


def test_failures_are_counted(count, tmp_path):
    "A failed test, a notebook that did not run, no report, and a test command that ended badly for no reason seen."
    write_report(tmp_path, [], failures=2)
    status, lines, n = count(1, ["05_cifar10c_robust.ipynb"])
    assert status == 1 and lines == ["notebook failed or not run: 05_cifar10c_robust.ipynb",
                                     f"{n + 4} passed, 3 failed, 1 skipped: 1 y is absent"]
    write_report(tmp_path, [])
    assert count(124)[1] == ["README's test command ended with 124", f"{n + 5} passed, 1 failed, 1 skipped: 1 y is absent"]
    (tmp_path / "tests.xml").unlink()
    assert count()[1] == ["pytest did not run", f"{n + 1} passed, 1 failed, 0 skipped"]
