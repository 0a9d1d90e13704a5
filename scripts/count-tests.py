"""Sums results of ctest (JUnit XML) and lit (JSON). A ctest that is a verbose Python unittest counts test by test.

The last line is "N passed, N failed"; tests that were skipped are named before it, with the last line that they printed. The
exit status is 1 when a test failed, and when a file is missing or holds no test.
"""
import json
import re
import sys
import xml.etree.ElementTree as ElementTree


# test_name (module.Class.test_name) ... skipped 'why'
UNITTEST = re.compile(r"^\w+ \(([\w.]+)\).*?\.\.\. (ok|skipped .*|FAIL|ERROR)$", re.MULTILINE)


def from_ctest(path):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        kind = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(status, "failed")
        inner = UNITTEST.findall(case.findtext("system-out") or "")
        if kind == "passed" and inner:
            for name, result in inner:
                if result.startswith("skipped"):
                    yield name + result.removeprefix("skipped"), "skipped"
                else:
                    yield name, "passed" if result == "ok" else "failed"
        elif kind == "skipped":
            said = (case.findtext("system-out") or "").strip().splitlines()[-1:]
            yield " ".join([case.get("name"), *map(repr, said)]), kind
        else:
            yield case.get("name"), kind


def from_lit(path):
    with open(path) as f:
        for test in json.load(f)["tests"]:
            kind = {"PASS": "passed", "FLAKYPASS": "passed", "XFAIL": "passed", "UNSUPPORTED": "skipped",
                    "SKIPPED": "skipped", "EXCLUDED": "skipped"}.get(test["code"], "failed")
            yield test["name"], kind


def main():
    names = {"passed": [], "skipped": [], "failed": []}
    for path in sys.argv[1:]:
        try:
            results = list((from_lit if path.endswith(".json") else from_ctest)(path))
        except (OSError, ValueError, KeyError, ElementTree.ParseError) as e:
            results = [(f"{path} ({e})", "failed")]
        if not results:
            results = [(f"{path} holds no test", "failed")]
        for name, kind in results:
            names[kind].append(name)
    for kind in ("skipped", "failed"):
        for name in names[kind]:
            print(f"{kind}: {name}")
    print(f"{len(names['passed'])} passed, {len(names['failed'])} failed")
    return 1 if names["failed"] else 0


sys.exit(main())
