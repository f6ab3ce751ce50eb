#!/usr/bin/env python3
"""Draws the plots of performance.md from the tables in benches/record: python3 docs/plots.py [--check].

With --check nothing is written, and a plot that is not what the records say is an error. The pictures have their own
background, light or dark as the reader's system is.
"""

import html
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/src/images"
RECORDS = ROOT / "benches/record"
STYLE = """
    .paper { fill: #ffffff } text { fill: #1f2328; font: 13px system-ui, sans-serif } .small { fill: #59636e; font-size: 12px }
    .title { font-weight: 600; font-size: 15px } .line { stroke: #d1d9e0; stroke-width: 1 } .axis { stroke: #59636e; stroke-width: 1.5 }
    .s0 { fill: #0969da } .s1 { fill: #bc4c00 } .s2 { fill: #1a7f37 } .s3 { fill: #8250df } .s4 { fill: #6e7781 }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117 } text { fill: #f0f6fc } .small { fill: #9198a1 } .line { stroke: #3d444d } .axis { stroke: #9198a1 }
      .s0 { fill: #4493f8 } .s1 { fill: #f0883e } .s2 { fill: #3fb950 } .s3 { fill: #ab7df8 } .s4 { fill: #9198a1 }
    }
"""
RIGHT, TOP, ROW = 60, 84, 24


def table(record, first_header, nth=0):
    """The rows of the nth table of a record whose first cell is so, as dicts by its header."""
    lines = (RECORDS / f"{record}.md").read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if cells(line)[:1] == [first_header] and line.startswith("|")]
    start = starts[nth]
    header, rows = cells(lines[start]), []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(header, cells(line))))
    return rows


def cells(line):
    return [cell.strip().strip("*") for cell in line.strip().strip("|").split("|")]


def number(text):
    found = re.search(r"[\d,]*\.?\d+", text)
    return float(found[0].replace(",", "")) if found else None


def marker(series, x, y):
    """Series differ by shape as well as by colour."""
    c = f'class="s{series}"'
    return [
        f'<circle {c} cx="{x:.1f}" cy="{y:.1f}" r="6"/>',
        f'<rect {c} x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"/>',
        f'<path {c} d="M{x:.1f} {y - 6:.1f}l6 11h-12z"/>',
        f'<path {c} d="M{x:.1f} {y - 7:.1f}l6 7-6 7-6-7z"/>',
    ][series]


def page(name, title, note, width, height, body):
    said = f"{title}. {note}"
    text = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{html.escape(said)}">
  <title>{html.escape(said)}</title>
  <style>{STYLE}  </style>
  <rect class="paper" width="{width}" height="{height}" rx="8"/>
  <text class="title" x="16" y="26">{html.escape(title)}</text>
  <text class="small" x="16" y="45">{html.escape(note)}</text>
  {chr(10).join("  " + part for part in body).strip()}
</svg>
"""
    return IMAGES / f"{name}.svg", text


def ticks(least, most):
    """1, 2 and 5 of each power of ten."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    return [m * 10.0**p for p in powers for m in (1, 2, 5) if least <= m * 10.0**p <= most]


def margin(rows):
    """What the labels on the left need."""
    return 40 + 7.2 * max(len(label) for label, _ in rows)


def plain(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def dots(name, title, note, unit, series, rows, width=820):
    """One line for each row, a mark for each series, on a logarithmic scale."""
    values = [v for _, of in rows for v in of if v]
    least, most = min(values) / 1.25, max(values) * 1.25
    span, left = math.log(most / least), margin(rows)
    at = lambda v: left + (width - left - RIGHT) * math.log(v / least) / span
    bottom, body = TOP + ROW * len(rows), []
    for tick in ticks(least, most):
        body.append(f'<line class="line" x1="{at(tick):.1f}" x2="{at(tick):.1f}" y1="{TOP - 8}" y2="{bottom}"/>')
        body.append(f'<text class="small" text-anchor="middle" x="{at(tick):.1f}" y="{bottom + 16}">{plain(tick)}</text>')
    x = 16
    for i, label in enumerate(series):
        body += [marker(i, x + 6, 61), f'<text x="{x + 18}" y="66">{html.escape(label)}</text>']
        x += 40 + 7.2 * len(label)
    for i, (label, of) in enumerate(rows):
        y = TOP + ROW * (i + 0.5)
        known = [v for v in of if v]
        body.append(f'<line class="axis" x1="{at(min(known)):.1f}" x2="{at(max(known)):.1f}" y1="{y}" y2="{y}"/>')
        body.append(f'<text text-anchor="end" x="{left - 12:.1f}" y="{y + 4.5}">{html.escape(label)}</text>')
        body += [marker(j, at(v), y) for j, v in reversed(list(enumerate(of))) if v]
    body.append(f'<text class="small" text-anchor="end" x="{width - 16}" y="{bottom + 34}">{unit}, less is better; logarithmic</text>')
    return page(name, title, note, width, bottom + 46, body)


def bars(name, title, note, unit, rows, width=820):
    most, left = max(value for _, value in rows), margin(rows)
    bottom, body = TOP - 20 + (ROW + 4) * len(rows), []
    for i, (label, value) in enumerate(rows):
        y = TOP - 20 + (ROW + 4) * i
        long = (width - left - RIGHT - 60) * value / most
        body.append(f'<text text-anchor="end" x="{left - 12:.1f}" y="{y + 17}">{html.escape(label)}</text>')
        body.append(f'<rect class="{"s0" if label.startswith("Basalt") else "s4"}" x="{left:.1f}" y="{y + 3}" width="{long:.1f}" height="{ROW - 4}" rx="2"/>')
        body.append(f'<text x="{left + long + 8:.1f}" y="{y + 17}">{value:g}</text>')
    body.append(f'<text class="small" text-anchor="end" x="{width - 16}" y="{bottom + 14}">{unit}, less is better</text>')
    return page(name, title, note, width, bottom + 26, body)


def read(rows, label, columns):
    return [(row[label], [number(row[column]) for column in columns]) for row in rows]


def plots():
    events = table("2026-11-26-first", "query")
    engines = ["basalt", "duckdb-memory", "chdb-best", "polars"]
    yield dots(
        "events", "Fifteen questions over 100 million events",
        "2026-11-26, AMD EPYC (Zen 4), one thread each, at the caller; DuckDB and Polars in process, Basalt through gRPC",
        "milliseconds", ["Basalt", "DuckDB, in memory", "chDB, best codecs", "Polars"], read(events, "query", engines),
    )
    held = table("2026-11-26-first", "", 0)
    names = {"Parquet, ZSTD(3)": "Parquet, zstd", "basalt": "Basalt", "duckdb": "DuckDB's file",
             "chdb-best": "chDB, best codecs", "polars": "Polars"}
    sizes = {row[""]: number(row["events"]) for row in held}
    yield bars(
        "sizes", "100 million events of seven columns, held", "2026-11-26; everything counted: indexes, tables, headers",
        "megabytes", sorted(((names[key], sizes[key]) for key in names), key=lambda row: row[1]),
    )
    for name, key, title in [("tpch-sql", "tpch 1", "TPC-H by SQL, scale 1"),
                             ("ssb-sql", "ssb 1", "Star Schema Benchmark by plain joins, scale 1")]:
        rows = [row for row in table("2026-11-26-sql-again", key) if re.match(r"q\d", row[key])]
        columns = ["Basalt", "DuckDB", "DataFusion, memory", "DataFusion, Parquet"]
        yield dots(
            name, title,
            "2026-11-26, AMD EPYC (Zen 4), one thread each; Basalt by Flight SQL, the others in process",
            "milliseconds", columns, read(rows, key, columns),
        )
    groups = table("2026-11-26-first", "query", 2)
    yield dots(
        "groups", "H2O's group-by, 10 million rows",
        "2026-11-26, AMD EPYC (Zen 4), one thread each, at the caller",
        "milliseconds", ["Basalt", "DuckDB, in memory", "Polars", "DataFusion"],
        sorted(read(groups, "query", ["basalt", "duckdb-memory", "polars", "datafusion"]), key=lambda row: int(row[0][1:])),
    )


def main():
    wrong = []
    for path, text in plots():
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(str(path.relative_to(ROOT)))
    if wrong:
        sys.exit(f"not what the records say, see docs/plots.py: {', '.join(wrong)}")


main()
