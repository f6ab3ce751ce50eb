"""What check_console.py clicks of an answer that is sorted, copied and downloaded."""

import pathlib

from playwright.sync_api import expect

ROWS = """SELECT * FROM (VALUES (1, 9007199254740993, 'b'), (2, 9007199254740992, 'a	b'), (3, NULL, NULL), (4, -10, ''))
AS t (id, n, word) ORDER BY id"""
# What each format has that no other has, of these rows.
FORMATS = {
    "CSV": (".csv", b'id,n,word\n1,9007199254740993,b\n2,9007199254740992,a\tb\n3,,\n4,-10,""\n'),
    "JSON": (".json", b'[{"id":1,"n":9007199254740993,"word":"b"}'),
    "JSON lines": (".jsonl", b'{"id":1,"n":9007199254740993,"word":"b"}\n'),
    "Parquet": (".parquet", b"PAR1"),
    "Arrow": (".arrows", b"\xff\xff\xff\xff"),
}

# Fractions are behind the whole second that they are of.
MOMENTS = """SELECT * FROM (VALUES (1, TIMESTAMP '2024-05-17 12:00:00.5'), (2, TIMESTAMP '2024-05-17 12:00:01'),
(3, TIMESTAMP '2024-05-17 12:00:00'), (4, TIMESTAMP '2024-05-17 12:00:00.000001'), (5, NULL)) AS t (id, at) ORDER BY id"""


def ids(page):
    return page.locator(".answer tbody tr td:first-child").all_text_contents()


def taken(page, run, check):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    run(page, ROWS)
    expect(page.locator(".answer tbody tr")).to_have_count(4)
    header = page.locator(".answer th", has_text="n").filter(has_not_text="id").first
    button = header.get_by_role("button")
    # By keys and by clicks: up, down, and back; NULL is last, and all digits count.
    for way, expected in [("ascending", "4213"), ("descending", "1243"), (None, "1234")]:
        button.press("Enter")
        check("".join(ids(page)) == expected, f"sorted {way}, rows are {ids(page)}")
        check(header.get_attribute("aria-sort") == way, f"sorted {way}, the header says another way")
    page.get_by_role("button", name="word", exact=True).click()
    check("".join(ids(page)) == "4213", f"sorted by a text, rows are {ids(page)}")
    expect(page.get_by_role("status").filter(has_text="sorted by word, ascending")).to_be_visible()

    page.get_by_role("button", name="Copy", exact=True).press("Enter")
    expect(page.get_by_role("status").filter(has_text="4 rows copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    expected = 'id\tn\tword\n4\t-10\t\n2\t9007199254740992\t"a\tb"\n1\t9007199254740993\tb\n3\t\t'
    check(copied.replace("\r\n", "\n") == expected, f"copied is {copied!r}")

    for name, (end, content) in FORMATS.items():
        page.get_by_label("Format of the file").select_option(name)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download", exact=True).click()
        check(download.value.suggested_filename == f"answer{end}", f"the file is {download.value.suggested_filename}")
        found = pathlib.Path(download.value.path()).read_bytes()
        check(found.startswith(content), f"the file of {name} is {found[:200]!r}")
        expect(page.get_by_role("status").filter(has_text=f"answer{end} is saved")).to_be_visible()

    run(page, MOMENTS)
    expect(page.locator(".answer tbody tr")).to_have_count(5)
    for way, expected in [("ascending", "34125"), ("descending", "21435")]:
        page.locator(".answer th", has_text="at").get_by_role("button").click()
        check("".join(ids(page)) == expected, f"sorted by a timestamp, {way}, rows are {ids(page)}")

    # What changes something is not run again for a file.
    run(page, "SET TimeZone = 'UTC'")
    expect(page.locator(".answer th")).to_have_text(["rows"])
    check(page.get_by_role("button", name="Download").count() == 0, "a statement that is no query can be downloaded")
    # Of an answer that is not all here, what is here is sorted, and that is said.
    run(page, "SELECT flight FROM flights")
    page.get_by_role("button", name="flight", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="only the first 10,000 rows are here")).to_be_visible()
    expect(page.locator(".answer tbody tr")).to_have_count(1000)
