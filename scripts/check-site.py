"""Checks that each link and picture of a built site leads to a file and a place in it. No network. usage: check-site.py FOLDER"""
import os
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlparse


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        with open(path, encoding="utf-8") as f:
            self.feed(f.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.places.add(value)


def main():
    root = os.path.abspath(sys.argv[1])
    pages = {}
    for folder, _, names in os.walk(root):
        for name in names:
            if name.endswith(".html"):
                path = os.path.join(folder, name)
                pages[path] = Page(path)
    wrong = links = 0
    for path, page in pages.items():
        if path.endswith("404.html"):
            continue
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            links += 1
            target = os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
            if os.path.isdir(target):
                target = os.path.join(target, "index.html")
            lost = not os.path.exists(target) or (parts.fragment and target in pages
                                                  and unquote(parts.fragment) not in pages[target].places)
            if lost:
                wrong += 1
                print(f"{os.path.relpath(path, root)}: {link}")
    print(f"{len(pages)} pages, {links} links, {wrong} lead nowhere")
    return 1 if wrong or len(pages) < 30 else 0


sys.exit(main())
