"""Checks the paths that pages name. usage: check-paths.py --build BUILD

Links between pages lead somewhere; files of the source tree and of the build (build/release/...) that pages and programs'
help name are there; every dated page is listed. Each word of the glossary is introduced, in italics, by the page that its line
links first, by no other, and is used on another page. Pages of the guide and of concepts that show commands are walked by a test.
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


GLOSSARY = "docs/concepts/glossary.md"
EXPLAINING = ["docs/guide/*.md", "docs/concepts/*.md", "docs/contributing/*.md", "docs/contract.md", "docs/manifest.md"]


def forms(word):
    """A word and its plural, for a regular expression."""
    stem = re.escape(word[:-1]) + "(?:y|ies)" if word.endswith("y") else re.escape(word) + "(?:s|es)?"
    return stem.replace("\\ ", r"\s+")


def unexplained(pages, rows):
    """What is wrong with rows (word, meaning) of the glossary, beside the texts of pages by their paths."""
    words = [word for word, _ in rows]
    yield from (f"{word} is there twice" for word in set(words) if words.count(word) > 1)
    if words != sorted(words):
        yield "words are not in the order of the alphabet"
    for word, meaning in rows:
        links = [os.path.normpath(os.path.join(os.path.dirname(GLOSSARY), t)) for t in re.findall(r"\]\(([^()\s#]+)", meaning)]
        introducing = [p for p, text in pages.items() if re.search(rf"(?<![\w*])\*{forms(word)}\*(?![\w*])", text, re.IGNORECASE)]
        using = [p for p, text in pages.items() if re.search(rf"\b{forms(word)}\b", text, re.IGNORECASE)]
        if not links:
            yield f"{word}: no link to the page that introduces it"
        elif introducing != links[:1]:
            yield f"{word}: {links[0]} is linked, and it is introduced (in italics) by {', '.join(introducing) or 'no page'}"
        yield from (f"{word}: {link} does not have the word" for link in links[1:] if link in pages and link not in using)
        if not set(using) - set(links[:1]):
            yield f"{word}: no page uses it but the one that introduces it"


def glossary():
    """(pages, rows) for unexplained."""
    def read(page):
        with open(os.path.join(root, page), encoding="utf-8") as f:
            return re.sub(r"^```.*?^```", "", f.read(), flags=re.MULTILINE | re.DOTALL)

    rows = re.findall(r"^\| ([^|]+) \| (.*) \|$", read(GLOSSARY), re.MULTILINE)[1:]
    names = sorted(p for pattern in EXPLAINING for p in glob.glob(pattern, root_dir=root))
    return {name: read(name) for name in names if name != GLOSSARY and not name.endswith(".in.md")}, rows


def check_the_check():
    """unexplained() finds what it is for."""
    pages = {"docs/concepts/a.md": "A *ring* has slots.", "docs/guide/b.md": "Rings, and *proxies*."}
    assert not list(unexplained(pages, [("ring", "x ([a](a.md))")]))
    for row in (("ring", "no link"), ("ring", "([b](../guide/b.md))"), ("slot", "([a](a.md))"), ("proxy", "([b](../guide/b.md))")):
        assert list(unexplained(pages, [row])), row
    assert list(unexplained({**pages, "docs/guide/c.md": "a *ring*"}, [("ring", "([a](a.md))")]))


def unwalked():
    """Pages for readers that show commands and that no test walks; commands in blocks that walk.py does not take for any."""
    with open(os.path.join(root, "test/Integration/CMakeLists.txt"), encoding="utf-8") as f:
        walked = re.search(r"foreach\(page (.*?)\)", f.read(), re.DOTALL).group(1).split()
    for page in ["README.md", *sorted(p for room in ("guide", "concepts") for p in glob.glob(f"docs/{room}/*.md", root_dir=root))]:
        if page.endswith(".in.md"):
            continue
        with open(os.path.join(root, page), encoding="utf-8") as f:
            blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", f.read(), re.MULTILINE | re.DOTALL)
        commands = any(language == "sh" or re.search(r"^\$ ", code, re.MULTILINE) for language, code in blocks)
        if commands and page not in walked:
            yield f"{page}: shows commands, and no test in test/Integration/CMakeLists.txt walks it"
        for language, code in blocks:
            for line in code.splitlines() if language == "" else ():
                if re.match(r"(fa2-[a-z]+|scripts/\S+|cmake|ctest|export|pip|python3|sed|sh) \S", line):
                    yield f"{page}: a command in a block that is not sh and without a prompt: {line}"


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
    check_the_check()
    for what in unexplained(*glossary()):
        failed += 1
        print(f"{GLOSSARY}: {what}")
    for what in unwalked():
        failed += 1
        print(what)
    for folder in ("docs/decisions", "docs/measurements"):
        for page in unlisted(folder):
            failed += 1
            print(f"{folder}/README.md: does not list {page}")
    print(f"{checked} pages and programs, {failed} wrong paths")
    return 1 if failed or checked < 20 else 0


sys.exit(main())
