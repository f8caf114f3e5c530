"""Count what .ci/run ran, from its log and pytest's report; a notebook that was not run has failed."""
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

scratch, tests_status, experiment_status = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
log = (scratch / "log").read_text(errors="replace")

notebooks = {p.name for p in Path("nbs").rglob("*.ipynb") if not p.name.startswith("_") and ".ipynb_checkpoints" not in p.parts}
run = {Path(name).name for name in re.findall(r"- Completed (\S+?\.ipynb)", log)}
broken = set(re.findall(r"^\t(\S+\.ipynb)$", log.partition("nbdev Tests Failed")[2], re.M))
good = (run & notebooks) - broken
passed, failed = len(good), len(notebooks - good)
for name in sorted(notebooks - good): print(f"notebook failed or not run: {name}")

report = scratch / "tests.xml"
if report.exists():
    suite = ET.parse(report).getroot().find("testsuite")
    total, bad, skipped = int(suite.get("tests")), int(suite.get("failures")) + int(suite.get("errors")), int(suite.get("skipped"))
    passed, failed = passed + total - bad - skipped, failed + bad
    if not total: print("pytest found no test")
    failed += not total
else:
    print("pytest did not run")
    failed += 1

if experiment_status: print(f"05 at smoke through papermill ended with {experiment_status}")
passed, failed = passed + (experiment_status == 0), failed + (experiment_status != 0)
if tests_status and not failed:
    print(f"README's test command ended with {tests_status}")
    failed += 1
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
