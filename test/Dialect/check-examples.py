"""Checks that documented examples stand in a test file, which another RUN line parses.

usage: mlir-tblgen -gen-op-doc ... | check-examples.py TEST.mlir

Each section "### name" must have an "Example:", "Examples:" or a block of mlir code; its
code, up to blanks, must be part of TEST.mlir. `...` stands for anything. "Example: see
`x`" is enough where TEST.mlir uses the operation at all.
"""
import re
import sys


def squeeze(text):
    return " ".join(text.split())


def main():
    with open(sys.argv[1]) as f:
        test = squeeze(f.read())
    faults = []
    sections = re.split(r"^### ", sys.stdin.read(), flags=re.M)[1:]
    for section in sections:
        name = section.split("\n", 1)[0].split(" ")[0].strip("`")
        text = re.split(r"^(?:#### |Traits: |Interfaces: |Effects: )", section, flags=re.M)[0]
        blocks = re.findall(r"```mlir\n(.*?)```", text, re.S)
        marked = re.search(r"^Examples?:(.*)", text, re.M | re.S)
        if "Enum cases:" in section or "an enum of type" in section:
            continue  # examples stand with the attribute that holds the enum
        if not blocks and marked:
            if re.match(r"\s*see `", marked.group(1)):
                if not re.search(re.escape(name) + r"\b(?!\.)", test):
                    faults.append(f"{name} is not used in {sys.argv[1]}")
                continue
            blocks = re.findall(r"`([^`]+)`", marked.group(1))
        if not blocks:
            faults.append(f"{name} has no example")
        for piece in (squeeze(p) for b in blocks for p in b.split("...")):
            if piece not in test:
                faults.append(f"the example of {name} is not in {sys.argv[1]}:\n  {piece}")
    if not sections:
        faults.append("no documentation on standard input")
    print("\n".join(faults) or f"{len(sections)} examples found")
    return 1 if faults else 0


sys.exit(main())
