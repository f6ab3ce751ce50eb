"""A preprocessor of mdBook: what a page links to outside of docs/src is in the repository alone, so the book has the link's text
with the path as its title. book.toml names it."""

import json
import posixpath
import re
import sys

# A link, whose text may have code in it; blocks and code outside of links are left as they are.
PARTS = re.compile(r"(?P<block>^```.*?^```$)|\[(?P<text>(?:[^\[\]`]|`[^`\n]*`)*)\]\((?P<target>[^)\s]+)\)|(?P<code>`[^`\n]*`)", re.M | re.S)


def inside(chapter):
    folder = posixpath.dirname(chapter["path"] or "")

    def replaced(found):
        target = found["target"]
        if target is None or re.match(r"[a-z]+:|#", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        if not path.startswith(".."):
            return found[0]
        title = posixpath.normpath(posixpath.join("docs/src", path))
        return f'<span title="{title}, in the repository">{found["text"]}</span>'

    chapter["content"] = PARTS.sub(replaced, chapter["content"])
    chapters(chapter["sub_items"])


def chapters(items):
    for item in items:
        if "Chapter" in item:
            inside(item["Chapter"])


def main():
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0)
    _, book = json.load(sys.stdin)
    # mdBook 0.4 has another name for them.
    chapters(book["items"] if "items" in book else book["sections"])
    json.dump(book, sys.stdout)


main()
