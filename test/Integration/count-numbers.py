"""Checks that pages of the guide and of concepts tell, and do not recite: at most 4 numbers a 100 words of prose. usage: count-numbers.py [-v]

Prose is what is left without code, tables, drawings and the targets of links. A number stands alone: sm_90a, bf16, Q4 and 2.11 of a name such as
"PyTorch 2.11" are names. Figures belong into tables.
"""
import glob
import os
import re
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MOST = 4.0  # a 100 words


def prose(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^\s*\|.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    return re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)


def numbers(text):
    # Not of a version behind a name, such as PyTorch 2.11, CUDA 12.1 or Python 3.9.
    text = re.sub(r"\b[A-Z][\w.]*(?: and| or)? v?\d+(?:\.\d+)+\b", "name", text)
    return re.findall(r"(?<![\w.^-])\d[\d.,]*(?![\w-])", text)


def density(path):
    with open(path, encoding="utf-8") as f:
        text = prose(f.read())
    words = len(re.findall(r"[^\W\d_][\w'-]*", text))
    found = numbers(text)
    return 100 * len(found) / max(words, 1), words, found


def main():
    wrong = 0
    assert numbers("At 128 it is 1.5 times PyTorch 2.11's, in 3 runs of sm_90a.") == ["128", "1.5", "3"]
    for path in sorted(path for room in ("guide", "concepts") for path in glob.glob(os.path.join(root, "docs", room, "*.md"))):
        if path.endswith(".in.md"):  # of which a page is made
            continue
        share, words, found = density(path)
        bad = share > MOST and len(found) > MOST  # a short page may name a few
        wrong += bad
        if bad or "-v" in sys.argv:
            print(f"{os.path.relpath(path, root)}: {share:.1f} numbers a 100 words ({len(found)} of {words}; at most {MOST:g}): {' '.join(found)}")
    print(f"{wrong} pages have too many numbers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
