"""What check_console.py loads by the console: files that are chosen or dropped, and folders; what is said where one is wrong."""

import pathlib
import tempfile

from playwright.sync_api import expect

NA = "id,carrier,delay\n1,UA,5\n2,AA,NA\n3,DL,-7\n"
AGAIN = "id,carrier,delay\n2,AA,11\n4,B6,NA\n"
BAD = "id,carrier,delay\n1,UA,5\n2,AA,late\n3,DL,7\n"
FOLDER = {
    "part-10.csv": "day,n\n3,30\n",
    "part-9.csv": "day,n\n1,10\n2,20\n",
    "deeper/part-11.csv": "day,n\n4,40\n",
    "notes.txt": "not a table\n",
    "part-12.csv.gz": "\x1f",
    ".hidden.csv": "day,n\n5,50\n",
}
DROP = """([name, content]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([content], name));
    for (const type of ['dragover', 'drop'])
        document.querySelector('main').dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def named(name, content):
    content = content.encode() if isinstance(content, str) else content
    return {"name": name, "mimeType": "application/octet-stream", "buffer": content}


def framed(stream):
    """A file of Arrow: the stream between its frame, with a footer that nobody reads."""
    footer = b"\0" * 40
    return b"ARROW1\0\0" + stream + footer + len(footer).to_bytes(4, "little") + b"ARROW1"


class Load:
    """The panel, and what the server has."""

    def __init__(self, page, url, key, check):
        self.page, self.url, self.check = page, url, check
        self.headers = {"authorization": f"Bearer {key}"} if key else {}
        self.panel = page.get_by_role("region", name="Load files")
        self.tables = set()

    def ask(self, statement, accept="text/csv"):
        headers = {**self.headers, "content-type": "application/sql", "accept": accept}
        answer = self.page.request.post(f"{self.url}/v1/sql", headers=headers, data=statement)
        self.check(answer.ok, f"{statement} fails: {answer.text()[:300]}")
        return answer.body()

    def holds(self, statement, expected):
        found = self.ask(statement).decode().split("\n", 1)[1].strip()
        self.check(found == expected, f"{statement} is {found!r} and not {expected!r}")

    def choose(self, *files, table=None):
        self.panel.get_by_label("Files", exact=True).and_(self.page.locator("input")).set_input_files(list(files))
        if table:
            self.table.fill(table)

    @property
    def table(self):
        return self.panel.get_by_label("Table", exact=True)

    @property
    def keys(self):
        return self.panel.get_by_label("Key columns")

    @property
    def nulls(self):
        return self.panel.get_by_label("Null texts")

    def says(self, words):
        expect(self.panel.get_by_role("status").filter(has_text=words)).to_be_visible()

    def load(self, button, words):
        self.tables.add(self.table.input_value())
        self.panel.get_by_role("button", name=button, exact=True).click()
        self.says(words)


def loads(page, url, key, check, fits, picture):
    page.get_by_role("navigation").get_by_role("link", name="Tables").click()
    one = Load(page, url, key, check)
    for name in ("load_na", "load_folder", "airlines_2", "load_bad", "load_more", "load_slow"):
        one.ask(f"DROP TABLE IF EXISTS {name}")
    opens = page.get_by_role("button", name="Load files", exact=True)
    expect(one.panel).to_be_hidden()
    opens.press("Enter")
    expect(opens).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Choose files")).to_be_focused()
    fits(page, "the panel that loads files")

    nulls_and_keys(page, one, fits, picture)
    folders(page, one, fits, picture)
    formats(page, one)
    wrong(page, one, fits, picture)
    slow(page, one, fits, picture)
    for name in one.tables:
        one.ask(f"DROP TABLE IF EXISTS {name}")


def nulls_and_keys(page, one, fits, picture):
    """NA is proposed as null; rows with the same key are replaced."""
    one.choose(named("Load-NA.csv", NA))
    expect(one.table).to_have_value("load_na")
    expect(one.nulls).to_have_value("NA")
    one.says("Load-NA.csv has cells that are NA, in delay")
    one.says("A new table")
    fits(page, "a file that is chosen")
    picture("load-chosen")
    # Enter in a field loads, as the button does.
    one.tables.add("load_na")
    one.table.press("Enter")
    one.says("Loaded: 1 file, 3 rows")
    one.holds("SELECT count(*), count(delay), sum(delay) FROM load_na", "3,2,-2")
    # The list below has it at once.
    row = page.get_by_role("region", name="Tables").locator("tr", has_text="load_na")
    expect(row.locator("td").nth(1)).to_have_text("3")

    one.choose(named("again.csv", AGAIN), table="load_na")
    one.says("It is there, with 3 rows. The rows are appended.")
    one.keys.fill(" id ")
    one.says("Rows with the same id are replaced, others are appended.")
    one.load("Load 1 file", "Loaded: 1 file, 2 rows")
    one.holds("SELECT count(*), count(delay), sum(delay) FROM load_na", "4,3,9")
    expect(row.locator("td").nth(1)).to_have_text("4")

    # To the table, and to its rows.
    one.panel.get_by_role("link", name="Its first rows in the editor").click()
    expect(page.locator(".answer tbody tr")).to_have_count(4)
    expect(page.get_by_role("textbox", name="Statement")).to_have_value('SELECT * FROM "load_na" LIMIT 100')
    page.get_by_role("navigation").get_by_role("link", name="Tables").click()
    one.says("Loaded: 1 file, 2 rows")
    one.panel.get_by_role("link", name="The table load_na").click()
    expect(page.get_by_role("heading", name="load_na")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Tables").click()


def folders(page, one, fits, picture):
    """All files of a folder, in their order; others are named."""
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work) / "Load folder"
        for path, content in FOLDER.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content)
        one.panel.get_by_label("A folder", exact=True).set_input_files(folder)
        expect(one.table).to_have_value("load_folder")
        paths = one.panel.locator(".files .path")
        expect(paths).to_have_text(
            [f"Load folder/{path}" for path in ("deeper/part-11.csv", "part-9.csv", "part-10.csv")]
        )
        left_out = one.panel.get_by_role("status").filter(has_text="Left out: 2 files")
        expect(left_out).to_contain_text("part-12.csv.gz (compressed; unpack it")
        expect(left_out).to_contain_text("notes.txt (")
        expect(one.nulls).to_have_value("")
        one.panel.get_by_role("button", name="Leave out Load folder/deeper/part-11.csv").press("Enter")
        expect(paths).to_have_count(2)
        fits(page, "a folder that is chosen")
        one.load("Load 2 files", "Loaded: 2 files, 3 rows")
        picture("load-folder")
    one.holds("SELECT count(*), sum(n) FROM load_folder", "3,60")


def formats(page, one):
    """What the server writes it reads: Parquet, both kinds of Arrow, JSON lines; also when it is dropped."""
    types = {
        "parquet": "application/vnd.apache.parquet",
        "arrows": "application/vnd.apache.arrow.stream",
        "jsonl": "application/x-ndjson",
    }
    statement = "SELECT carrier, name FROM airlines ORDER BY carrier"
    bodies = {end: one.ask(statement, accept) for end, accept in types.items()}
    rows = int(one.ask("SELECT count(*) FROM airlines").split()[1])
    one.choose(
        named("Airlines 2.parquet", bodies["parquet"]),
        named("airlines.arrows", bodies["arrows"]),
        named("airlines.arrow", framed(bodies["arrows"])),
        named("airlines.jsonl", bodies["jsonl"]),
    )
    expect(one.table).to_have_value("airlines_2")
    expect(one.nulls).to_be_hidden()
    one.load("Load 4 files", f"Loaded: 4 files, {4 * rows} rows")
    one.holds(
        "SELECT count(*), count(DISTINCT carrier) FROM airlines_2 JOIN airlines USING (carrier, name)",
        f"{4 * rows},{rows}",
    )
    page.evaluate(DROP, ["airlines_2.csv", "carrier,name\nZZ,Dropped\n"])
    expect(one.table).to_have_value("airlines_2")
    one.load("Load 1 file", "Loaded: 1 file, 1 row in")
    one.holds("SELECT count(*) FROM airlines_2", str(4 * rows + 1))


def wrong(page, one, fits, picture):
    """A file that is wrong says where, stops the load, and leaves what was loaded before; the rest goes on without it."""
    good = "id,carrier,delay\n7,UA,5\n8,AA,6\n"
    one.choose(named("a.csv", good), named("b.csv", BAD), named("c.csv", good), table="load_bad")
    one.load(
        "Load 3 files", "b.csv is not loaded: none of its rows are there. What was loaded before stays: 1 file, 2 rows"
    )
    one.says("1 file behind it waits.")
    alert = one.panel.get_by_role("alert")
    expect(alert).to_contain_text("line 3")
    expect(alert).to_contain_text("delay")
    expect(one.panel.get_by_role("region", name="Line 3 of b.csv")).to_have_text("2,AA,late")
    fits(page, "a file that is wrong")
    picture("load-wrong")
    one.holds("SELECT count(*), sum(delay) FROM load_bad", "2,11")
    one.panel.get_by_role("button", name="Leave out b.csv").press("Enter")
    expect(one.panel.get_by_role("button", name="Load 1 more file")).to_be_focused()
    one.load("Load 1 more file", "Loaded: 2 files, 4 rows")
    one.holds("SELECT count(*), sum(delay) FROM load_bad", "4,22")

    # What is wrong with the request is told, too, and a name that was none is mended.
    one.choose(named("2.csv", good))
    expect(one.table).to_have_value("t_2")
    one.table.fill("no name")
    one.panel.get_by_role("button", name="Load 1 file").click()
    expect(alert).to_contain_text("INVALID")
    one.table.fill("load_more")
    one.load("Load 1 file", "Loaded: 1 file, 2 rows")
    one.holds("SELECT count(*) FROM load_more", "2")
    # Other separators are seen before.
    one.choose(named("semicolons.csv", "a;b\n1;2\n"))
    expect(one.panel.locator(".note")).to_contain_text("separated by semicolons")
    one.panel.get_by_role("button", name="Clear the list").click()
    expect(one.table).to_be_hidden()


def slow(page, one, fits, picture):
    """What is being sent goes on while another page is shown, and is cancelled as a whole."""
    held = []
    page.route("**/v1/tables/load_slow*", lambda route: held.append(route))
    one.choose(named("slow.csv", NA), table="load_slow")
    one.panel.get_by_role("button", name="Load 1 file").click()
    progress = one.panel.get_by_role("progressbar", name="Sent of slow.csv")
    expect(progress).to_be_visible()
    fits(page, "a file that is being sent")
    picture("load-sending")
    page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    page.get_by_role("navigation").get_by_role("link", name="Tables").click()
    expect(progress).to_be_visible()
    expect(one.table).to_be_disabled()
    one.panel.get_by_role("button", name="Cancel slow.csv").press("Enter")
    one.says("slow.csv is cancelled: none of its rows are there.")
    expect(one.panel.get_by_role("button", name="Load 1 file")).to_be_focused()
    held.pop().abort()
    page.unroute("**/v1/tables/load_slow*")
    one.holds("SELECT count(*) FROM system.tables WHERE name = 'load_slow'", "0")
    one.load("Load 1 file", "Loaded: 1 file, 3 rows")
    one.panel.get_by_role("button", name="Clear the list").press("Enter")
    page.get_by_role("button", name="Load files", exact=True).click()
    expect(one.panel).to_be_hidden()
