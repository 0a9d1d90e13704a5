"""Sums results of ctest (JUnit XML) and lit (JSON).

The last line is "N passed, N failed"; tests that were skipped are named before it. The
exit status is 1 when a test failed, and when a file is missing or holds no test.
"""
import json
import sys
import xml.etree.ElementTree as ElementTree


def from_ctest(path):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        status = case.get("status")
        yield case.get("name"), {"run": "passed", "notrun": "skipped", "disabled": "skipped"}.get(status, "failed")


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
