"""Count what .ci/run ran, from its log and pytest's report; a notebook that was not run has failed."""
import re
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

scratch, status = Path(sys.argv[1]), int(sys.argv[2])


def is_run(path): return not path.name.startswith("_") and ".ipynb_checkpoints" not in path.parts


def count_notebooks(log):
    "How many passed and failed; a line for each that failed."
    notebooks = {p.name for p in Path("nbs").rglob("*.ipynb") if is_run(p)}
    run = {Path(name).name for name in re.findall(r"- Completed (\S+?\.ipynb)", log)}
    broken = set(re.findall(r"^\t(\S+\.ipynb)$", log.partition("nbdev Tests Failed")[2], re.M))
    good = (run & notebooks) - broken
    for name in sorted(notebooks - good): print(f"notebook failed or not run: {name}")
    return len(good), len(notebooks - good)


def tell_reason(skipped):
    "Why a test was skipped, in a few words: what follows a colon says what to do. A module is skipped as a whole."
    whole = re.search(r"['\"]Skipped: (.*)['\"]\)$", skipped.text)
    return (whole[1] if whole else skipped.get("message")).partition(":")[0]


def count_tests(report):
    "How many passed and failed, and {reason: skipped}."
    if not report.exists():
        print("pytest did not run")
        return 0, 1, {}
    suite = ET.parse(report).getroot().find("testsuite")
    total, failures, errors, skipped = (int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped"))
    if not total: print("pytest found no test")
    failed = failures + errors + (not total)
    return total - failures - errors - skipped, failed, Counter(map(tell_reason, suite.iter("skipped")))


good, bad = count_notebooks((scratch / "log").read_text(errors="replace"))
passed, failed, reasons = count_tests(scratch / "tests.xml")
passed, failed = passed + good, failed + bad
if status and not failed:
    print(f"README's test command ended with {status}")
    failed += 1
why = ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items(), key=lambda item: (-item[1], item[0])))
print(f"{passed} passed, {failed} failed, {sum(reasons.values())} skipped{': ' * bool(why)}{why}")
sys.exit(failed > 0)
