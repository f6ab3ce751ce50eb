"""Clicks through the console of a cluster of three nodes in headless Chromium:
python3 check_console_cluster.py URL URL URL [FOLDER].

The tables are those of nycflights13, and flights is of several fragments. NODE_PID is the process of the third node, which is stopped
and goes on at the end. FOLDER is where pictures of the pages go.
"""

import os
import pathlib
import re
import shutil
import signal
import sys

from playwright.sync_api import expect, sync_playwright

URLS = [url.rstrip("/") for url in sys.argv[1:4]]
FOLDER = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
PID = int(os.environ["NODE_PID"])
SIZES = {"wide": (1280, 860), "narrow": (400, 860)}
LONG = "SELECT count(*) FROM flights a, flights b, flights c WHERE a.distance + b.distance * c.distance = 7"
JOINED = """SELECT p.manufacturer, count(*) AS flights, avg(f.arr_delay) AS delay
FROM flights AS f JOIN planes AS p ON f.tailnum = p.tailnum
WHERE p.year < 1990 GROUP BY p.manufacturer ORDER BY flights DESC"""
NO_NAME = """() => [...document.querySelectorAll('button, a, input, select, textarea, [role=img], [role=region]')]
    .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
    .map((e) => e.outerHTML.slice(0, 120))"""
# What is wider than its place, or reaches out of the window.
BEYOND = """(all) => [...all.querySelectorAll('*')]
    .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1 && !e.closest('.scroll, summary, pre'))
    .map((e) => e.outerHTML.slice(0, 120))"""


def check(condition, message):
    if not condition:
        raise SystemExit(f"console of a cluster: {message}")


def picture(page, name):
    if FOLDER:
        FOLDER.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=FOLDER / f"{name}.png", full_page=True)


def fits(page, name):
    width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    check(width <= 0, f"{name} is {width} pixels wider than the window")
    beyond = page.locator("main").evaluate(BEYOND)
    check(not beyond, f"{name} reaches out of the window: {beyond[:3]}")
    nameless = page.evaluate(NO_NAME)
    check(not nameless, f"{name} has controls without a name: {nameless}")


def nodes(page, name):
    """The map: who is there, what each holds, and where a table is found."""
    page.goto(f"{URLS[0]}/console/#/cluster")
    cards = page.locator(".node")
    expect(cards).to_have_count(3)
    expect(cards.filter(has_text="answers you")).to_have_count(1)
    expect(page.locator(".state.alive")).to_have_count(3)
    fragments = page.locator(".node .caption", has_text="flights").all_text_contents()
    held = [int(re.search(r"(\d+) fragment", text).group(1)) for text in fragments]
    check(len(held) == 3 and sum(held) == 2 * 6, f"six fragments, each at two nodes, are {fragments}")
    expect(cards.first.get_by_role("img", name=re.compile(r"^\d.* of .* memory$"))).to_be_visible()
    expect(cards.first.get_by_role("img", name=re.compile(r"^flights: [\d,]+ rows, "))).to_be_visible()
    # Keys reach the table behind a card, and come back.
    link = cards.nth(1).get_by_role("link", name="flights")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="flights")).to_be_visible()
    page.go_back()
    expect(cards).to_have_count(3)
    expect(page.locator(".spark polyline").first).to_have_attribute("points", re.compile(r"\d+.* \d+"), timeout=15000)
    fits(page, "the map of the cluster")
    picture(page, f"cluster-{name}")


def plan(page, name):
    """What each node did for each scan, in words for who does not see the bars."""
    page.get_by_role("navigation").get_by_role("link", name="SQL").click()
    page.get_by_role("textbox", name="Statement").fill(JOINED)
    page.get_by_role("button", name="Explain and time").click()
    expect(page.get_by_label(re.compile("Steps of the plan"))).to_contain_text("BasaltScan")
    of_flights = page.get_by_role("list", name="What each node did for flights")
    # Which fragments are whose is chance; those that the node which is asked does not hold are asked of others.
    hops = of_flights.get_by_role("listitem")
    expect(hops.nth(1)).to_be_visible()
    there = hops.count()
    own = hops.filter(has_text="asked itself").count()
    check(own <= 1 and there - own >= 1, f"{own} of {there} nodes asked themselves")
    fragments = [int(re.search(r"(\d+) fragment", text).group(1)) for text in hops.all_text_contents()]
    check(sum(fragments) == 6, f"six fragments are {fragments}")
    times = of_flights.get_by_role("img", name=re.compile(r": [\d.]+ .?s, .* of it executing$"))
    expect(times).to_have_count(there)
    # The keys of the planes went to the others.
    sets = of_flights.get_by_role("img", name=re.compile(r"there, [\d.]+ k?B of it sets, [\d.]+ k?B back$"))
    expect(sets).to_have_count(there - own)
    expect(page.locator(".legend", has_text="of it sets")).to_contain_text("nodes: ")
    fits(page, "a plan of three nodes")
    summary = page.locator(".plan summary", has_text="BasaltScan").first
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".plan details[open] dt", has_text="elapsed_compute")).to_be_visible()
    fits(page, "an open step")
    page.keyboard.press("Enter")
    picture(page, f"hops-{name}")
    page.get_by_role("tab", name="Text").click()
    expect(page.locator(".answer pre").last).to_contain_text("hops=[")


STAGES = """┌───── DistributedExec ── local_coordinator_channels=0, plan_send_latency_avg={0:79.67ms}
│ SortExec: expr=[n@0 DESC], metrics=[output_rows=17, elapsed_compute=323.35µs, output_bytes=551.0 B]
│   [Stage 1] => NetworkShuffleExec: output_partitions=6, input_tasks=3, metrics=[output_rows=17, bytes_received=2.85 K]
└──────────────────────────────────────────────────
  ┌───── Stage 1 ── tasks=3, partitions=2 plan_added_at={0:1795819330.01s}
  │ DistributedLeafExec:, metrics=[output_rows=336.8 K]
  │   t0: BasaltScan: flights, version=6, node a:1, 6 of 6 fragments, select=[tailnum]
  └──────────────────────────────────────────────────"""
STEPS = [
    [0, "DistributedExec", "local_coordinator_channels=0"],
    [1, "SortExec", "expr=[n@0 DESC]"],
    [2, "NetworkShuffleExec", "[Stage 1] output_partitions=6, input_tasks=3"],
    [1, "Stage 1", "tasks=3, partitions=2"],
    [2, "DistributedLeafExec", ""],
    [3, "BasaltScan", "flights, version=6, node a:1, 6 of 6 fragments, select=[tailnum]"],
]


def stages(page, name):
    """A plan of tasks is of steps, too, without its frames."""
    script = "async (text) => (await import('./plan.js')).steps(text).map(({ depth, name, what }) => [depth, name, what])"
    found = page.evaluate(script, STAGES)
    check(found == STEPS, f"the steps of stages are {found}")


def queries(page, name):
    """What another node runs is seen, and ended."""
    other = page.context.new_page()
    other.goto(f"{URLS[1]}/console/#/sql")
    other.get_by_role("textbox", name="Statement").fill(LONG)
    other.get_by_role("button", name="Run", exact=True).click()
    page.goto(f"{URLS[0]}/console/#/queries")
    row = page.locator("tr", has_text="a.distance + b.distance")
    expect(row).to_have_count(1)
    heads = page.locator("th").all_text_contents()
    check("node" in heads, f"the queries have no node: {heads}")
    # Other pages ask for something now and then.
    expect(page.locator(".queries p").first).to_contain_text(re.compile(r"^\d quer(y|ies) in the cluster$"))
    fits(page, "the queries of a cluster")
    picture(page, f"queries-{name}")
    row.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(other.get_by_role("alert")).to_contain_text("CANCELLED")
    expect(row).to_have_count(0)
    expect(page.get_by_text("No query runs in the cluster.")).to_be_visible(timeout=20000)
    other.close()


def silent(page, name):
    """A node that does not answer is named, and keeps the others from nothing."""
    os.kill(PID, signal.SIGSTOP)
    try:
        page.goto(f"{URLS[0]}/console/#/queries")
        expect(page.locator(".queries .problem")).to_contain_text("nothing is known", timeout=15000)
        fits(page, "the queries of a cluster with a silent node")
        picture(page, f"silent-{name}")
        page.goto(f"{URLS[0]}/console/#/cluster")
        expect(page.locator(".state.suspect, .state.dead")).to_have_count(1, timeout=15000)
        fits(page, "the map of a cluster with a silent node")
        picture(page, f"dead-{name}")
    finally:
        os.kill(PID, signal.SIGCONT)
    expect(page.locator(".state.alive")).to_have_count(3, timeout=30000)


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
                page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
                for part in (nodes, plan, stages, queries):
                    part(page, f"{size}-{scheme}")
                if scheme == "light":
                    silent(page, f"{size}-{scheme}")
                check(not problems, f"the page says {problems}")
                context.close()
        browser.close()
    print("console of a cluster of three nodes: clicked through, light and dark, 1280 and 400 pixels wide")


main()
