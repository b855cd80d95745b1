"""Counts test cases: count_tests.py MESON_LOGS MESON_STATUS PYTEST_RESULTS PYTEST_STATUS SUITE...

PYTEST_RESULTS has a JUnit file for each of the suites.

Prints the failed ones and then, last, "N passed, N failed" (and ", N skipped"). What ends badly without a failed case
of its own (a crash, a time-out, no test at all) counts as one failed. Exit status 1 if anything failed.
"""

import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

RUN = re.compile(r"\[ RUN      \] (\S+)")
END = re.compile(r"\[ +(OK|FAILED|SKIPPED) +\] ([^\s,]+).*\(\d+ ms\)")
OUTCOMES = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}


def googletest_cases(output):
    """(case, outcome) from a GoogleTest program's output; a case that began and did not end has failed."""
    running = None
    for line in output.splitlines():
        if begin := RUN.search(line):
            if running:
                yield running, "failed"
            running = begin[1]
        elif running and (end := END.search(line)) and end[2] == running:
            yield running, OUTCOMES[end[1]]
            running = None
    if running:
        yield running, "failed"


def meson_cases(logs, status):
    """(case, outcome) of the programs in Meson's log. A program that is no GoogleTest is one case."""
    failed = False
    ran = 0
    for file in sorted(pathlib.Path(logs).glob("testlog*.json")):
        for line in file.read_text(errors="replace").splitlines():
            program = json.loads(line)
            result = program["result"]
            cases = list(googletest_cases(program.get("stdout", "")))
            bad = result not in ("OK", "SKIP", "EXPECTEDFAIL")
            if not cases:
                cases = [(result, "failed" if bad else "skipped" if result == "SKIP" else "passed")]
            elif bad and all(outcome != "failed" for _, outcome in cases):
                cases.append((f"ended as {result}", "failed"))
            for case, outcome in cases:
                ran += 1
                failed |= outcome == "failed"
                yield f"{program['name']}: {case}", outcome
    if ran == 0:
        yield "meson test: ran no test", "failed"
    elif status and not failed:
        yield f"meson test: exit status {status}", "failed"


def pytest_cases(results, status, suites):
    failed = False
    for suite in suites:
        path = pathlib.Path(results) / f"{suite}.xml"
        cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase")) if path.exists() else []
        for case in cases:
            outcomes = {child.tag for child in case} & {"failure", "error", "skipped"}
            outcome = "passed" if not outcomes else "skipped" if outcomes == {"skipped"} else "failed"
            failed |= outcome == "failed"
            yield f"{case.get('classname')}: {case.get('name')}", outcome
        if not cases:
            failed = True
            yield f"pytest {suite}: ran no test", "failed"
    if status and not failed:
        yield f"pytest: exit status {status}", "failed"


def main(meson_logs, meson_status, pytest_results, pytest_status, *suites):
    counts = collections.Counter()
    for name, outcome in [*meson_cases(meson_logs, int(meson_status)),
                          *pytest_cases(pytest_results, int(pytest_status), suites)]:
        counts[outcome] += 1
        if outcome == "failed":
            print(f"failed: {name}")
    line = f"{counts['passed']} passed, {counts['failed']} failed"
    if counts["skipped"]:
        line += f", {counts['skipped']} skipped"
    print(line)
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
