"""Checks the paths that pages name. usage: check-paths.py --build BUILD

Links between pages lead somewhere; files of the source tree and of the build (build/release/...) that pages and programs'
help name are there; every dated page is listed, and the words
of the glossary stand where it says.
"""
import argparse
import glob
import os
import re
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PAGES = ["*.md", "docs/*.md", "docs/*/*.md", "bench/*.md", "bench/*.py", "bench/fa2bench/*.py", "examples/*", "scripts/*", "python/fa2c/*.py"]
# These are dated: they tell of the tree of their day, and only their links are looked up.
DATED = ("docs/decisions/20", "docs/measurements/20")
# What a command that the page shows makes.
MADE = ("build/release/docs/reference", "build/site", "build/tarball", "build/portable")
FOLDERS = "bench|cmake|docs|examples|include|lib|python|runtime|scripts|test|tools"


def wrong_links(page, text):
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        full = os.path.join(os.path.dirname(page), path) if path else page
        if not os.path.exists(os.path.join(root, full)):
            yield f"link to {target}"
        elif anchor:
            with open(os.path.join(root, full), encoding="utf-8") as f:
                titles = re.findall(r"^#+ (.*)$", f.read(), re.MULTILINE)
            if anchor not in [re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles]:
                yield f"link to {target}: no such title"


def wrong_build_paths(text, build):
    for path in re.findall(r"(?<![\w./$-])build/[\w./+-]*\w", text):
        inside = re.sub("^build/(release|PRESET)(/|$)", "", path)
        if path.startswith(MADE):
            continue
        if inside == path or not os.path.exists(os.path.join(build, inside)):
            yield path


def wrong_source_paths(text):
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./*+-]*[\w*/])`", text):
        if not glob.glob(os.path.join(root, path)):
            yield path


def unexplained():
    """Words of the glossary that the page they are said to be explained on does not have; words that are there twice."""
    page = "docs/concepts/glossary.md"
    with open(os.path.join(root, page), encoding="utf-8") as f:
        rows = re.findall(r"^\| ([^|]+) \| (.*) \|$", f.read(), re.MULTILINE)[1:]
    words = [word for word, _ in rows]
    yield from (f"{word} is there twice" for word in set(words) if words.count(word) > 1)
    for word, meaning in rows:
        for target in re.findall(r"\]\(([^()\s#]+)\)", meaning):
            with open(os.path.join(root, os.path.dirname(page), target), encoding="utf-8") as f:
                text = " ".join(f.read().lower().replace("*", "").replace("`", "").split())
            if word.split(",")[0].lower() not in text:
                yield f"{word}: {target} does not have the word"


def unlisted(folder):
    """Dated pages that the folder's own page does not link."""
    with open(os.path.join(root, folder, "README.md"), encoding="utf-8") as f:
        listed = re.findall(r"\]\(([^()\s#]+)\)", f.read())
    return [page for page in glob.glob("20*.md", root_dir=os.path.join(root, folder)) if page not in listed]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, type=os.path.abspath)
    args = parser.parse_args()
    failed = checked = 0
    for page in sorted(p for pattern in PAGES for p in glob.glob(pattern, root_dir=root)):
        if not os.path.isfile(os.path.join(root, page)):
            continue
        with open(os.path.join(root, page), encoding="utf-8") as f:
            text = f.read()
        checked += 1
        wrong = [] if page.startswith(DATED) else [*wrong_build_paths(text, args.build), *wrong_source_paths(text)]
        if page.endswith(".md"):
            wrong += wrong_links(page, text)
        for what in wrong:
            failed += 1
            print(f"{page}: {what}")
    for what in unexplained():
        failed += 1
        print(f"docs/concepts/glossary.md: {what}")
    for folder in ("docs/decisions", "docs/measurements"):
        for page in unlisted(folder):
            failed += 1
            print(f"{folder}/README.md: does not list {page}")
    print(f"{checked} pages and programs, {failed} wrong paths")
    return 1 if failed or checked < 20 else 0


sys.exit(main())
