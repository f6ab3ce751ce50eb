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
    const texts = [...svg.querySelectorAll('text')].map((e) => ({ e, at: e.getBoundingClientRect(), slanted: e.hasAttribute('transform') }));
    for (const { e, at } of texts) {
        if (parseFloat(getComputedStyle(e).fontSize) * svg.getScreenCTM().a < 11) wrong.push(`${e.textContent} is small`);
        const outside = at.left < around.left - 1 || at.right > around.right + 1 || at.bottom > around.bottom + 1;
        if (outside) wrong.push(`${e.textContent} is cut off`);
    }
    const flat = texts.filter(({ slanted }) => !slanted);
    flat.forEach((a, i) => flat.slice(i + 1).forEach((b) => {
        const over = a.at.left < b.at.right && b.at.left < a.at.right && a.at.top < b.at.bottom && b.at.top < a.at.bottom;
        if (over) wrong.push(`${a.e.textContent} is over ${b.e.textContent}`);
    }));
    // Of slanted ones the lines are apart: where they end, and by their slant.
    const ends = texts.filter(({ slanted }) => slanted).map(({ at }) => at.right);
    ends.forEach((x, i) => { if (i > 0 && (x - ends[i - 1]) * Math.sin(50 * Math.PI / 180) < 10) wrong.push('slanted labels are close'); });
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
        "(svg) => Math.abs(svg.viewBox.baseVal.width - svg.getBoundingClientRect().width) < 1", arg=image.element_handle()
    )
    wrong = image.evaluate(LABELS)
    check(not wrong, f"in the picture of {name}: {wrong}")


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
    fits(page, "the tables")
    picture(page, f"tables-{name}")

    flights.click()
    expect(page.get_by_role("heading", name="flights")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("bits a value; entropy"))).to_have_count(19)
    expect(page.get_by_role("region", name="First rows").locator("tbody tr")).to_have_count(10)
    fits(page, "a table")
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
    run(page, "SELECT dest, count(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 50")
    page.get_by_role("tab", name="Bars").click()
    drawn(page, "n by dest", 15)
    run(page, "SELECT time_hour, avg(temp) AS temp, avg(humid) AS humid FROM weather GROUP BY time_hour ORDER BY time_hour LIMIT 900")
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
    run(page, "SELECT * FROM flights")
    expect(page.locator(".answer .caption").first).to_contain_text("the first 1,000 rows; there are more")

    keep(page, text)
    run(page, LONG)
    other = page.context.new_page()
    other.goto(f"{URL}/console/#/queries")
    if KEY:
        other.locator("#key-text").fill(KEY)
        other.get_by_role("button", name="Use it").click()
    row = other.locator("tr", has_text="a.distance + b.distance")
    expect(row).to_be_visible()
    fits(other, "the queries")
    picture(other, f"queries-{name}")
    row.get_by_role("button").click()
    expect(page.get_by_role("alert")).to_contain_text("CANCELLED")
    expect(row).to_have_count(0)
    other.close()

    empty(page)
    page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    expect(page.locator(".node")).not_to_have_count(0)
    expect(page.locator(".spark polyline").first).to_have_attribute("points", re.compile(r"\d+.* \d+"), timeout=15000)
    fits(page, "the cluster")
    picture(page, f"cluster-{name}")


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
                    lambda said: problems.append(said.text)
                    if said.type == "error" and expected not in said.text
                    else None,
                )
                walk(page, f"{size}-{scheme}")
                check(not problems, f"the page says {problems}")
                context.close()
        stranger(browser)
        browser.close()
    print(f"console at {urllib.parse.urlsplit(URL).netloc}: clicked through, light and dark, 1280 and 400 pixels wide")


main()
