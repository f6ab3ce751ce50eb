"""What was measured, as Markdown."""

import datetime
import math
import os
import pathlib
import platform

import answers


def machine():
    """Processor, memory and system."""
    info = pathlib.Path("/proc/cpuinfo")
    models = [line.split(":", 1)[1].strip() for line in lines(info) if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "date": datetime.date.today().isoformat(),
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def head(about, runs):
    return f"""# Basalt beside others, {about["date"]}

{about["processor"]}, {about["cores"]} cores, {about["memory"]}, {about["system"]}; load before the run {about["load"]}.
One thread each, one engine after the other, each in a process of its own. Times are the best of {runs} after one
to warm up, measured at the caller in Python; for Basalt that includes gRPC. Every answer is fetched as Arrow.
Processor time is that of all threads of the process that holds the data: it shows who used more than one, and
other load on the machine hardly changes it.
"""


def section(title, tables, questions, results, different):
    """One data set."""
    there = [result for result in results if result.tables]
    parts = [f"## {title}\n", versions(there)]
    parts += [bytes_table(tables, there), columns_table(tables, there)]
    questions = losses_first(questions, there)
    parts += ["### Milliseconds\n", times(questions, there, "seconds")]
    parts += ["### Milliseconds of processor time\n", times(questions, there, "processor_seconds")]
    parts += [summary(questions, there), agreement(there, different)]
    parts += [f"**{result.name} failed**: {result.error}\n" for result in results if result.error]
    for result in there:
        parts += [f"**{result.name}** does not answer {title!r}: {why}\n" for title, why in result.refused.items()]
    return "\n".join(part for part in parts if part)


def table(header, rows):
    """A Markdown table; all columns but the first to the right."""
    rule = ["---"] + ["--:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [header, rule, *rows]) + "\n"


def versions(results):
    rows = []
    for result in results:
        loaded = list(result.tables.values())
        seconds = sum(held.load_seconds for held in loaded)
        rate = f"{sum(held.rows for held in loaded) / seconds / 1e6:.2f}"
        about = [result.name, result.title, result.version]
        rows.append([*about, f"{seconds:.1f}", rate, megabytes(result.resident_bytes)])
    header = ["engine", "", "version", "loading, s", "M rows/s", "process, MB"]
    return table(header, rows)


def bytes_table(tables, results):
    rows = [["Parquet, ZSTD(3)", *(megabytes(table.path.stat().st_size) for table in tables)]]
    for result in results:
        held = [result.tables.get(table.name) for table in tables]
        rows.append([result.name, *(megabytes(h.bytes) if h else "" for h in held)])
    return "### Megabytes\n\n" + table(["", *(f"{t.name}" for t in tables)], rows)


def columns_table(tables, results):
    """Bits a row of every column, where an engine says."""
    saying = [r for r in results if any(held.columns for held in r.tables.values())]
    rows = []
    for held_table in tables:
        parquet = held_table.column_bytes()
        for name in parquet:
            row = [name, bits(parquet[name], held_table.rows)]
            encodings = ""
            for result in saying:
                held = result.tables.get(held_table.name)
                row.append(bits(held.columns[name], held.rows) if held and held.columns else "")
                if held and held.encodings:
                    encodings = held.encodings[name]
            rows.append([*row, encodings])
    return "### Bits a row\n\n" + table(["column", "Parquet", *(r.name for r in saying), "Basalt's encoding"], rows)


def losses_first(questions, results):
    """The questions, those before the others in which Basalt is furthest behind the best other engine."""

    def lead(title):
        seconds = {result.name: result.queries[title].seconds for result in results if title in result.queries}
        ours = seconds.pop("basalt", None)
        if not seconds:
            return math.inf
        return min(seconds.values()) / ours if ours else 0

    return sorted(questions, key=lead)


def times(questions, results, kind):
    """The times of one `kind`, a field of `Timing`; the best of a row is bold."""
    rows = []
    for title in questions:
        timings = {result.name: result.queries.get(title) for result in results}
        seconds = {name: getattr(timing, kind) for name, timing in timings.items() if timing}
        best = min(seconds.values(), default=0)
        row = [milliseconds(seconds[name], best) if name in seconds else "" for name in timings]
        if kind == "seconds" and "basalt" in timings:
            at = list(timings).index("basalt") + 1
            row.insert(at, milliseconds(timings["basalt"].server_seconds) if timings["basalt"] else "")
        ours = seconds.pop("basalt", None)
        rows.append([title, *row, f"{min(seconds.values()) / ours:.2f}x" if ours and seconds else ""])
    names = [result.name for result in results]
    if kind == "seconds" and "basalt" in names:
        names.insert(names.index("basalt") + 1, "(server)")
    return table(["query", *names, "best other / Basalt"], rows)


def summary(questions, results):
    """In how many queries Basalt is the fastest."""
    if len(results) < 2 or not any(result.name == "basalt" for result in results):
        return ""

    def fastest(kind):
        asked = ({r.name: getattr(r.queries[q], kind) for r in results if q in r.queries} for q in questions)
        return sum(bool(seconds) and min(seconds, key=seconds.get) == "basalt" for seconds in asked)

    wins, lean = fastest("seconds"), fastest("processor_seconds")
    return f"Basalt is the fastest in {wins} of {len(questions)} queries, by processor time in {lean}.\n"


def agreement(results, different):
    if not different:
        names = [result.name for result in results if result.queries]
        if len(names) < 2:
            return ""
        return (
            f"All answers agree ({', '.join(names)}): integers, decimals, texts and times exactly, "
            f"floats within {answers.RELATIVE_TOLERANCE:g} of one another.\n"
        )
    parts = ["**Answers differ:**\n"]
    for title, name, answer, first, expected in different:
        parts.append(f"- {title}: {name} says {str(answer[:3])[:200]}, {first} says {str(expected[:3])[:200]}")
    return "\n".join(parts) + "\n"


def megabytes(size):
    return f"{size / 1e6:,.1f}"


def bits(size, rows):
    return f"{size * 8 / rows:.3f}"


def milliseconds(seconds, best=None):
    text = f"{seconds * 1e3:.2f}"
    return f"**{text}**" if seconds == best else text
