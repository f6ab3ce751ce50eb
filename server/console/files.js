// Answers that are taken elsewhere: copied, or downloaded in a format of the server's.

import { h, plural, problem } from "./page.js";
import * as server from "./server.js";

const FORMATS = [
  { name: "CSV", type: "text/csv", end: "csv" },
  { name: "JSON", type: "application/json", end: "json" },
  { name: "JSON lines", type: "application/x-ndjson", end: "jsonl" },
  { name: "Parquet", type: "application/vnd.apache.parquet", end: "parquet" },
  { name: "Arrow", type: "application/vnd.apache.arrow.stream", end: "arrows" },
];

// A statement that may be run again, since it changes nothing.
const READS = /^(?:\s|--[^\n]*\n|\/\*(?:[^*]|\*(?!\/))*\*\/|\()*(?:select|with|from|values|table|show|describe|explain|summarize)\b/i;

// A value that would end its cell otherwise stands in quotes, as spreadsheets have it.
const cell = (value) => (value === null ? "" : /[\t\n\r"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

/** Puts a text where it is pasted from. */
async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Without TLS, at a name that is not this machine's, a page has no clipboard but this one.
  const area = h("textarea", { class: "hidden", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("this browser does not let the page copy");
}

/** Saves bytes under a name. */
function save(bytes, name) {
  const link = h("a", { href: URL.createObjectURL(bytes), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** What takes an answer elsewhere: `rows` gives those that are here, in the order in which they are shown. */
export function taken(columns, rows, statement) {
  const told = h("span", { class: "caption", role: "status" });
  const copied = h("button", { title: "The rows that are here, with the columns' names, separated by tabs" }, "Copy");
  copied.addEventListener("click", async () => {
    const all = rows();
    try {
      await copy([columns, ...all].map((row) => row.map(cell).join("\t")).join("\n"));
      told.textContent = `${plural(all.length, "row")} copied`;
    } catch (error) {
      told.replaceChildren(problem(error));
    }
  });
  if (!READS.test(statement)) return [copied, told];

  const format = h("select", { "aria-label": "Format of the file" }, FORMATS.map(({ name }, i) => h("option", { value: i }, name)));
  const download = h("button", { title: "All rows of the answer: the statement runs again" }, "Download");
  let running = null;
  download.addEventListener("click", async () => {
    if (running) {
      running.abort();
      return;
    }
    const { type, end } = FORMATS[Number(format.value)];
    running = new AbortController();
    download.textContent = "Stop the download";
    told.textContent = "Downloading…";
    try {
      const bytes = await server.file(statement, type, running.signal);
      save(bytes, `answer.${end}`);
      told.textContent = `answer.${end} is saved`;
    } catch (error) {
      if (error.name === "AbortError") told.textContent = "Cancelled.";
      else told.replaceChildren(problem(error));
    } finally {
      running = null;
      download.textContent = "Download";
    }
  });
  return [copied, format, download, told];
}
