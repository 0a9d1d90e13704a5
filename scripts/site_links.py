"""A hook of MkDocs: the site's first page is the repository's README, links to files outside of docs lead somewhere, and dated
pages need no line in the navigation.

Pages in the root and bench/README.md are copied into the site; a link to any other file of the source tree becomes its name,
or, with the environment variable FA2_SOURCE_URL, a link to that address and the file's path.
"""
import os
import re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COPIED = {name: f"repository/{os.path.basename(name)}" if "/" not in name else f"repository/{name.replace('/', '-')}"
          for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "bench/README.md")}
COPIED["README.md"] = "README.md"


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as f:
        return f.read()


def rewritten(text, source, page):
    """The text of the repository's file `source` with links for the site's page `page`."""
    def link(match):
        label, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return match.group(0)
        full = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if os.path.isdir(os.path.join(ROOT, full)) and os.path.exists(os.path.join(ROOT, full, "README.md")):
            full = os.path.join(full, "README.md")
        if full == "docs/README.md":
            full = "README.md"
        if full in COPIED:
            inside = COPIED[full]
        elif full.startswith("docs/"):
            inside = full[len("docs/"):]
        elif os.environ.get("FA2_SOURCE_URL"):
            return f"[{label}]({os.environ['FA2_SOURCE_URL'].rstrip('/')}/{full})"
        else:
            return label
        return f"[{label}]({os.path.relpath(inside, os.path.dirname(page) or '.')}{hash_}{anchor})"

    # Code is left as it is.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else re.sub(r"\[([^\]]*)\]\(([^()\s]+)\)", link, part) for part in parts)


def on_config(config):
    """`FOLDER/*` in the navigation is the folder's dated pages, the latest first."""
    for section in config["nav"]:
        for title, entries in section.items() if isinstance(section, dict) else ():
            section[title] = [page for entry in entries for page in pages_of(entry)]
    return config


def pages_of(entry):
    if not entry.endswith("/*"):
        return [entry]
    folder = entry[:-2]
    dated = (name for name in os.listdir(os.path.join(ROOT, "docs", folder)) if re.match(r"\d.*\.md$", name))
    return [f"{folder}/{name}" for name in sorted(dated, reverse=True)]


def on_files(files, config):
    for source, page in COPIED.items():
        if page != "README.md":
            files.append(File.generated(config, page, content=rewritten(read(source), source, page)))
    return files


def on_page_markdown(markdown, page, config, files):
    path = page.file.src_uri
    if path == "README.md":
        return rewritten(read("README.md"), "README.md", path)
    return markdown if path.startswith("repository/") else rewritten(markdown, "docs/" + path, path)
