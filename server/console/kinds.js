// What files are that a user has chosen: by the ends of their names, by what they begin with, and what a table of them is called.

import { Csv } from "./server.js";

const CSV = { name: "CSV", type: "text/csv", text: true };
const LINES = { name: "JSON lines", type: "application/x-ndjson", text: true };
const PARQUET = { name: "Parquet", type: "application/vnd.apache.parquet" };
const ARROW = { name: "Arrow", type: "application/vnd.apache.arrow.stream", isArrow: true };
const KINDS = { csv: CSV, json: LINES, jsonl: LINES, ndjson: LINES, parquet: PARQUET, arrow: ARROW, arrows: ARROW, ipc: ARROW, feather: ARROW };

// So much of a CSV is looked at.
const PEEKED = 64 << 10;
// A line that is shown begins within so many bytes.
const SEARCHED = 4 << 20;
// Of an Arrow file: what it begins and ends with, and the padding behind the first and the length before the last.
const MAGIC = "ARROW1";
const HEAD = 8;
const TAIL = 10;

/** More files than so many at once are nothing for a page. */
export const MOST = 10000;

const endOf = (path) => /\.([^./]+)$/.exec(path)?.[1].toLowerCase() ?? "";

/** What a file is by its name: { kind }, or { reason } where it is not loaded. */
export function kindOf(path) {
  const end = endOf(path);
  if (KINDS[end]) return { kind: KINDS[end] };
  if (["gz", "zst", "zip", "bz2", "xz"].includes(end)) return { reason: "compressed; unpack it, or use basalt load" };
  if (["tsv", "txt", "tab"].includes(end)) return { reason: "only commas separate here; basalt load finds other separators" };
  return { reason: end ? `.${end} is none of .csv, .json, .jsonl, .ndjson, .parquet, .arrow, .arrows, .ipc` : "its name says no format" };
}

/** A plain name for a table of a file, or of the folder that it is in. */
export function nameFor(path) {
  const from = path.includes("/") ? path.slice(0, path.indexOf("/")) : path.replace(/(.)\.[^.]+$/, "$1");
  const plain = from.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase().replace(/[^a-z0-9]+/g, "_")
    .slice(0, 60).replace(/^_+|_+$/g, "");
  return plain === "" ? "files" : /^\d/.test(plain) ? `t_${plain}` : plain;
}

/** What the beginning of a CSV says: the names of its columns, those of them with cells that are NA, and a separator that is no comma. */
export async function peek(file) {
  const begin = await file.slice(0, PEEKED).text();
  const parser = new Csv(null);
  parser.take(begin.replace(/^\uFEFF/, ""));
  // The last row of a part may be a part of a row.
  if (file.size <= PEEKED) parser.end();
  const [columns = [], ...rows] = parser.rows;
  const has = columns.map((_, i) => rows.some((row) => row[i] === "NA"));
  const separator = columns.length === 1 ? [";", "\t", "|"].find((mark) => columns[0].includes(mark)) : undefined;
  return { columns, na: columns.filter((_, i) => has[i]), separator };
}

/** The stream in a file of Arrow, which has a frame around it; a file that is a stream is it. */
export async function streamOf(file) {
  const magic = await file.slice(0, MAGIC.length).text();
  if (magic !== MAGIC || file.size < HEAD + TAIL) return file;
  const tail = new DataView(await file.slice(file.size - TAIL).arrayBuffer());
  const end = file.size - TAIL - tail.getInt32(0, true);
  return end > HEAD && end <= file.size - TAIL ? file.slice(HEAD, end) : file;
}

/** A line of a text file, or null where it is far behind its beginning. */
export async function lineOf(file, number) {
  const lines = (await file.slice(0, SEARCHED).text()).split("\n");
  const isWhole = number < lines.length || (number === lines.length && file.size <= SEARCHED);
  return isWhole && number > 0 ? lines[number - 1].replace(/\r$/, "") : null;
}

/** What an input of files has: { file, path } for each. */
export const chosenIn = (input) => [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name }));

const fileOf = (entry) => new Promise((resolve, reject) => entry.file(resolve, reject));

/** What a folder has; a browser gives it in parts. */
async function entriesOf(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** What was dropped, and what is in folders of it: { file, path } for each. */
export async function droppedIn(transfer) {
  // These are gone once this waits.
  const waiting = [...transfer.items].filter(({ kind }) => kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  const found = [];
  while (waiting.length > 0 && found.length <= MOST) {
    const next = waiting.shift();
    if (next instanceof File) found.push({ file: next, path: next.name });
    else if (next.isDirectory) waiting.push(...await entriesOf(next));
    else found.push({ file: await fileOf(next), path: next.fullPath.replace(/^\//, "") });
  }
  return found;
}
