// The tables, and how the columns of one are held.

import { kindOf } from "./chart.js";
import { ask, toTable } from "./links.js";
import { panel, watch } from "./load.js";
import { bytes, count, grid, h, meter, plural, problem, refill, s } from "./page.js";
import { heldTable, objects, quoted, schemaOf, sql } from "./server.js";

/** How a table is made, for a server that has none. */
function firstSteps() {
  return h("section", { class: "first", "aria-label": "First steps" },
    h("h2", {}, "There is no table yet"),
    h("p", {}, "A file becomes one here, or in a terminal, be it CSV, JSON lines, Parquet or Arrow:"),
    h("pre", { tabindex: "0", role: "region", "aria-label": "A command that loads a table" }, "basalt load flights flights.csv"),
    h("p", {}, "Where the server is not at 127.0.0.1:7700, ", h("code", {}, "--server URL"), " says where. ",
      h("a", { href: "#/sql" }, "SQL"), " makes tables, too:"),
    h("pre", { tabindex: "0", role: "region", "aria-label": "A statement that makes a table" },
      "CREATE TABLE airlines (carrier TEXT NOT NULL, name TEXT)"));
}

export async function tables(page) {
  const list = h("div", {}, h("p", { class: "busy" }, "Loading…"));
  const files = panel();
  page.replaceChildren(h("div", { class: "title" }, h("h1", {}, "Tables"), files.button), files.element, list);
  let timer;
  // How many there are; null while nobody knows, for the server is away or starts.
  let found = null;
  const look = async () => {
    try {
      found = await fill(list);
    } catch (error) {
      // What is told already is not told again.
      const told = problem(error);
      if (list.textContent !== told.textContent) list.replaceChildren(told);
      // Who may not see them is not asked for a key again and again.
      if (error.status === 401 || error.status === 403) clearInterval(timer);
      else found = null;
    }
  };
  const unwatch = watch(look);
  // The first one is shown when it is there.
  timer = setInterval(async () => {
    if (found || document.hidden || !page.isConnected) return;
    if (found === null || (await objects("SELECT name FROM system.tables LIMIT 1").catch(() => [])).length) await look();
  }, 3000);
  await look();
  if (found === 0) files.open();
  return () => {
    clearInterval(timer);
    unwatch();
  };
}

/** Fills the list of tables, and says how many there are. */
async function fill(list) {
  const found = await objects("SELECT * FROM system.tables ORDER BY name");
  if (found.length === 0) {
    refill(list, firstSteps());
    return 0;
  }
  const most = Math.max(...found.map((table) => Number(table.bytes ?? 0)));
  const rows = found.map((table) => table.problem === null
    ? [
      toTable(table.name), count(table.rows), table.columns, table.fragments, bytes(table.bytes),
      meter([{ value: Number(table.bytes), kind: "held", title: bytes(table.bytes) }], most, bytes(table.bytes)),
      table.version,
    ]
    : [h("span", {}, table.name, problem({ reason: "not served", message: table.problem })), "–", "–", "–", "–", "", "–"]);
  const all = found.reduce((sum, table) => sum + Number(table.bytes ?? 0), 0);
  refill(list,
    h("p", {}, `${plural(found.length, "table")}, ${bytes(all)} held`),
    grid([
      { name: "table" }, { name: "rows", number: true }, { name: "columns", number: true }, { name: "fragments", number: true },
      { name: "held", number: true }, { name: "" }, { name: "version", number: true },
    ], rows, "Tables"));
  return found.length;
}

/** Bits a value: what is held, beside entropy and beside plain arrays. */
function bits(column, rows, most) {
  const held = (8 * column.bytes) / rows;
  const plain = (8 * column.plain_bytes) / rows;
  const entropy = column.entropy_bits;
  const x = (value) => `${(100 * value) / most}%`;
  const label = `${held.toFixed(2)} bits a value; entropy ${entropy === null ? "not known" : entropy.toFixed(2)}; plain ${plain.toFixed(2)}`;
  return s("svg", { class: "bits", role: "img", "aria-label": label },
    s("title", {}, label),
    s("rect", { x: 0, y: 0, width: x(plain), height: "100%", class: "plain" }),
    s("rect", { x: 0, y: "25%", width: x(held), height: "50%", class: "held" }),
    entropy === null ? null : s("line", { x1: x(entropy), x2: x(entropy), y1: 0, y2: "100%", class: "entropy" }));
}

const heat = (value, hottest) => meter(
  [{ value, kind: "heat", title: `read ${value.toFixed(1)} times lately` }], hottest, `read ${value.toFixed(1)} times lately`);

export async function tableOf(page, name) {
  const head = [h("p", { class: "back" }, h("a", { href: "#/tables" }, "Tables")), h("h1", {}, name)];
  page.replaceChildren(...head, h("p", { class: "busy" }, "Loading…"));
  let table;
  try {
    table = await schemaOf(name);
  } catch (error) {
    page.replaceChildren(...head, problem(error));
    return;
  }
  const summary = h("p", {}, `${plural(table.rows, "row")}, version ${count(table.version)}. `, ask(`SELECT * FROM ${quoted(name)} LIMIT 100`));
  const columns = h("section", {},
    grid([{ name: "column" }, { name: "type" }], table.columns.map(nameAndType), `Columns of ${name}`),
    h("p", { class: "busy" }, "Reading all of its columns…"));
  const sample = h("section", {}, h("h2", {}, "First rows"), h("p", { class: "busy" }, "Loading…"));
  page.replaceChildren(...head, summary, columns, sample);
  await firstRows(sample, name);
  // Of a large table this takes long: what is known at once is there before, and stays where this fails.
  try {
    showHeld(await heldTable(name), summary, columns);
  } catch (error) {
    columns.lastChild.replaceWith(problem(error));
  }
}

const nameAndType = (column) => [
  h("span", {}, column.name, column.references ? h("small", {}, ` → ${column.references}`) : null),
  column.type + (column.nullable ? "" : " not null"),
];

/** How a table's columns are held. */
function showHeld({ name, rows, version, columns }, summary, place) {
  const held = columns.reduce((sum, column) => sum + column.bytes, 0);
  const plain = columns.reduce((sum, column) => sum + column.plain_bytes, 0);
  const most = Math.max(1, ...columns.map((column) => (8 * column.plain_bytes) / Math.max(1, rows)));
  const hottest = Math.max(1, ...columns.map((column) => column.heat));
  const forms = (of) => of.map((form) => form.encoding).join(", ");
  const shown = columns.map((column) => [
    ...nameAndType(column),
    rows > 0 ? bits(column, rows, most) : "",
    rows > 0 ? ((8 * column.bytes) / rows).toFixed(2) : "",
    column.entropy_bits === null || rows === 0 ? "" : column.entropy_bits.toFixed(2),
    h("span", {}, forms(column.forms), column.faster.length ? h("small", {}, ` + ${forms(column.faster)}`) : null),
    heat(column.heat, hottest),
    bytes(column.bytes),
  ]);
  summary.replaceChildren(
    `${plural(rows, "row")}, version ${count(version)}, ${bytes(held)} held`,
    rows >= 1000 ? `: ${(plain / held).toFixed(1)} times smaller than plain arrays` : "", ". ",
    ask(`SELECT * FROM ${quoted(name)} LIMIT 100`));
  place.replaceChildren(
    h("p", { class: "legend" },
      h("span", { class: "key held" }), " held ", h("span", { class: "key plain" }), " as plain arrays ",
      h("span", { class: "key entropy" }), " entropy of the values, order 0"),
    grid([
      { name: "column" }, { name: "type" }, { name: "bits a value" }, { name: "held", number: true },
      { name: "entropy", number: true }, { name: "form" }, { name: "heat" }, { name: "bytes", number: true },
    ], shown, `Columns of ${name}`));
}

async function firstRows(sample, name) {
  try {
    const first = await sql(`SELECT * FROM ${quoted(name)} LIMIT 10`);
    const columns = first.columns.map((name, i) => ({ name, number: kindOf(first.rows, i) === "number" }));
    sample.replaceChildren(h("h2", {}, "First rows"), grid(columns, first.rows, "First rows"));
  } catch (error) {
    sample.replaceChildren(h("h2", {}, "First rows"), problem(error));
  }
}
