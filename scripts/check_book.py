"""Follows the links of a book that mdBook has built, for scripts/check-book: python3 check_book.py FOLDER."""

import html.parser
import pathlib
import re
import sys
import urllib.parse

SUMMARY = pathlib.Path(__file__).resolve().parents[1] / "docs/src/SUMMARY.md"


class Page(html.parser.HTMLParser):
    """What a page links to and shows, and the names that its parts have."""

    def __init__(self, path):
        super().__init__()
        self.names, self.links = set(), set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.names.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def wrong(book):
    # The page for what is not there links to the root of wherever the book is served.
    pages = {path: Page(path) for path in book.rglob("*.html") if path.name != "404.html"}
    links = 0
    for listed in re.findall(r"\]\(([^)]+)\.md\)", SUMMARY.read_text()):
        if book / f"{listed}.html" not in pages:
            yield f"{listed}.html was not built"
    for path, page in pages.items():
        for link in sorted(page.links):
            to = urllib.parse.urlsplit(link)
            if to.scheme or to.netloc:
                continue
            links += 1
            goal = (path.parent / urllib.parse.unquote(to.path)).resolve() if to.path else path
            if not goal.is_relative_to(book) or not goal.exists():
                yield f"{path.relative_to(book)}: {link} is not there"
            elif to.fragment and goal in pages and urllib.parse.unquote(to.fragment) not in pages[goal].names:
                yield f"{path.relative_to(book)}: {link} has no such heading"
    if links < 1000:
        yield f"only {links} links were found"
    print(f"{len(pages)} pages, {links} links")


sys.exit("\n".join(wrong(pathlib.Path(sys.argv[1]).resolve())) or None)
