// Files that become rows: chosen or dropped, and sent one after the other. What is chosen, and what is being sent, outlives
// the page that shows it.

import { MOST, chosenIn, droppedIn, kindOf, nameFor, peek, streamOf } from "./kinds.js";
import { ask, toTable } from "./links.js";
import { count, duration, h, plural, problem } from "./page.js";
import { load, objects, quoted, text } from "./server.js";
import { line } from "./upload.js";

// So many files are looked into for cells that are NA, and so many that are left out, and names of columns, are named.
const PEEKED = 50;
const NAMED = 8;

let shown = null;
let changed = () => {};

/** { button, element, open }: what opens the panel, the panel, and a function that does. */
export const panel = () => (shown ??= make());

/** Calls `change` when a table has other rows; for one page at a time. */
export function watch(change) {
  changed = change;
  return () => {
    if (changed === change) changed = () => {};
  };
}

/** Ends the load that runs, and forgets the files. */
export function forget() {
  shown?.forget();
  shown = null;
}

const listOf = (value) => value.split(",").map((part) => part.trim()).filter(Boolean);
const some = (names) => names.slice(0, NAMED).join(", ") + (names.length > NAMED ? ` and ${count(names.length - NAMED)} more` : "");
const inOrder = new Intl.Collator("en", { numeric: true });
// Who leaves while files are sent is asked.
const hold = (event) => event.preventDefault();

/** A text that is asked for, with what is said of it. */
function field(id, label, attributes) {
  const told = h("small", { id: `${id}-told`, role: "status" });
  const input = h("input", {
    id, "aria-describedby": `${id}-told`, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes,
  });
  return { input, told, element: h("div", {}, h("label", { for: id }, label), input, told) };
}

function make() {
  const name = field("load-table", "Table", { required: true, maxlength: 128 });
  const keys = field("load-keys", "Key columns (optional)", { placeholder: "none" });
  const nulls = field("load-nulls", "Null texts (optional)", { placeholder: "none" });
  const several = h("input", { type: "file", multiple: true, hidden: true, "aria-label": "Files" });
  const folder = h("input", { type: "file", webkitdirectory: true, hidden: true, "aria-label": "A folder" });
  const choose = h("button", { type: "button", onclick: () => several.click() }, "Choose files");
  const chooseFolder = h("button", { type: "button", onclick: () => folder.click() }, "Choose a folder");
  const leftOut = h("div", { role: "status" });
  const list = h("ul", {});
  const box = h("div", { class: "files", tabindex: "0", role: "region", "aria-label": "Files" }, list);
  const start = h("button", { class: "main" });
  const clear = h("button", { type: "button", class: "quiet" }, "Clear the list");
  const told = h("p", { role: "status" });
  const links = h("p", { class: "buttons links" });
  const fields = h("fieldset", {}, h("legend", { class: "hidden" }, "Where the rows go"), name.element, keys.element, nulls.element);
  const form = h("form", {}, fields, box, h("p", { class: "buttons" }, start, clear), told, links);
  const element = h("section", { class: "load", id: "load", "aria-label": "Load files", hidden: true },
    h("p", { class: "buttons" }, choose, chooseFolder, h("span", { class: "drop" }, "or drop them on this page")),
    h("p", { class: "caption" }, "CSV, JSON lines, Parquet and Arrow. All rows of a file are loaded, or none."),
    several, folder, leftOut, form);
  const button = h("button", { "aria-expanded": "false", "aria-controls": "load" }, "Load files");

  let files = [];
  // What ends the load that runs.
  let stop = null;
  let began = 0;
  // What the user has typed is not proposed anew.
  let typed = { name: false, nulls: false };
  // How long loads of this list have taken.
  let took = 0;
  let table = null;

  const open = (opened = true) => {
    element.hidden = !opened;
    button.setAttribute("aria-expanded", String(opened));
  };
  const loaded = () => files.filter((one) => one.answer);
  const waiting = () => files.filter((one) => !one.answer);
  const rows = () => loaded().reduce((sum, one) => sum + one.answer.rows, 0);

  const show = () => {
    const open = waiting().length;
    form.hidden = files.length === 0;
    fields.disabled = stop !== null;
    fields.hidden = start.hidden = !stop && open === 0;
    [choose.disabled, chooseFolder.disabled] = [stop !== null, stop !== null];
    // Files of one list go to one table.
    name.input.readOnly = loaded().length > 0;
    nulls.element.hidden = !files.some((one) => one.kind.name === "CSV");
    start.textContent = stop ? "Cancel" : `Load ${plural(open, loaded().length ? "more file" : "file")}`;
    clear.hidden = stop !== null;
    files.forEach((one) => one.draw());
  };

  /** What the table is now, beside what the files would do to it. */
  const tellTable = () => {
    const names = listOf(keys.input.value);
    const columns = files.find((one) => one.peeked)?.peeked.columns ?? [];
    keys.told.textContent = "Rows take the place of those with the same key." + (columns.length ? ` Columns: ${some(columns)}.` : "");
    const does = names.length ? `Rows with the same ${names.join(", ")} are replaced, others are appended.` : "The rows are appended.";
    if (table === null || table.name !== name.input.value.trim()) name.told.textContent = "";
    else if (table.rows === undefined) name.told.textContent = "A new table, with the columns and types of the first file.";
    else name.told.textContent = `It is there${table.rows === null ? "" : `, with ${plural(table.rows, "row")}`}. ${does}`;
  };
  const lookForTable = async () => {
    const asked = name.input.value.trim();
    try {
      const [found] = asked ? await objects(`SELECT rows FROM system.tables WHERE name = ${text(asked)}`) : [];
      if (name.input.value.trim() === asked) table = asked ? { name: asked, rows: found?.rows } : null;
    } catch {
      // The load says it, too.
      table = null;
    }
    tellTable();
  };
  const propose = () => {
    const open = waiting();
    if (!typed.name && loaded().length === 0 && open.length) name.input.value = nameFor(open[0].path);
    const [first] = files.filter((one) => one.peeked?.na.length);
    if (!typed.nulls && !stop) nulls.input.value = first ? "NA" : "";
    nulls.told.textContent = (first ? `NA is proposed: ${first.path} has cells that are NA, in ${some(first.peeked.na)}. ` : "") +
      "The empty text is null, too; commas separate several.";
  };

  const leave = (one) => {
    files = files.filter((other) => other !== one);
    one.element.remove();
    show();
    propose();
    tellTable();
    (start.hidden ? choose : start).focus();
  };
  const add = async (given) => {
    if (stop || given.length === 0) return;
    if (waiting().length === 0) reset();
    open();
    const here = new Set(files.map((one) => one.path));
    // Files that a system keeps beside those of the user are none of them.
    const seen = given.filter(({ path }) => !here.has(path) && !/(?:^|\/)\./.test(path)).sort((a, b) => inOrder.compare(a.path, b.path));
    const others = [];
    const taken = [];
    for (const { file, path } of seen.slice(0, MOST)) {
      const { kind, reason } = kindOf(path);
      if (kind) taken.push(line({ file, path, kind }, { cancel: () => stop?.abort(), leave }));
      else others.push(`${path} (${reason})`);
    }
    files.push(...taken);
    list.append(...taken.map((one) => one.element));
    leftOut.replaceChildren(...(others.length ? [
      h("p", {}, `Left out: ${plural(others.length, "file")}`),
      h("ul", { class: "caption" }, others.slice(0, NAMED).map((one) => h("li", {}, one)),
        others.length > NAMED ? h("li", {}, `and ${count(others.length - NAMED)} more`) : null),
    ] : []), seen.length > MOST ? h("p", {}, `Only the first ${count(MOST)} files are here.`) : "");
    show();
    propose();
    lookForTable();
    for (const one of taken.filter(({ kind }) => kind.name === "CSV").slice(0, PEEKED)) {
      // A file that cannot be read says so when it is sent.
      one.peeked = await peek(one.file).catch(() => null);
      one.draw();
      propose();
    }
    tellTable();
  };

  const reset = () => {
    files = [];
    list.replaceChildren();
    leftOut.replaceChildren();
    links.replaceChildren();
    told.textContent = "";
    took = 0;
    typed = { name: false, nulls: false };
    keys.input.value = "";
  };

  /** Sends one file. */
  const send = async (one, signal) => {
    const names = listOf(keys.input.value).join();
    const none = one.kind.name === "CSV" ? listOf(nulls.input.value).join() : "";
    const options = {
      ...(loaded().length === 0 && { create: true }), ...(none && { null: none }), ...(names && { replace_by: names }),
    };
    const began = performance.now();
    try {
      const body = one.kind.isArrow ? await streamOf(one.file) : one.file;
      one.begin(body.size);
      one.answer = await load(name.input.value.trim(), body, one.kind.type, { options, sent: one.sent, signal });
    } catch (error) {
      await one.fail(error, signal.aborted);
    }
    one.ms = performance.now() - began;
    took += one.ms;
    one.end();
  };

  const summary = (failed) => {
    const there = loaded();
    const all = `${plural(there.length, "file")}, ${plural(rows(), "row")} in ${duration(took)}`;
    if (!failed) return `Loaded: ${all}.`;
    const stay = there.length ? ` What was loaded before stays: ${all}.` : "";
    const left = waiting().length - 1;
    return `${failed.path} ${failed.outcome()}.${stay}${left ? ` ${plural(left, "file")} behind it ${left === 1 ? "waits" : "wait"}.` : ""}`;
  };

  const run = async () => {
    const own = new AbortController();
    stop = own;
    began = performance.now();
    files.forEach((one) => one.wait());
    show();
    links.replaceChildren();
    addEventListener("beforeunload", hold);
    let failed = null;
    for (let one; !failed && (one = waiting()[0]);) {
      told.textContent = `File ${count(loaded().length + 1)} of ${count(files.length)}: ${one.path}`;
      box.scrollTop += one.element.getBoundingClientRect().top - box.getBoundingClientRect().top;
      await send(one, own.signal);
      if (!one.answer) failed = one;
    }
    removeEventListener("beforeunload", hold);
    stop = null;
    const of = name.input.value.trim();
    const focused = document.activeElement === start;
    show();
    told.textContent = summary(failed);
    if (loaded().length) {
      links.replaceChildren(toTable(of, `The table ${of}`), ask(`SELECT * FROM ${quoted(of)} LIMIT 100`, "Its first rows in the editor"));
    }
    if (focused && start.hidden) links.querySelector("a").focus();
    lookForTable();
    if (shown?.element === element) changed();
  };

  const take = (input) => {
    add(chosenIn(input));
    // The same may be chosen again.
    input.value = "";
  };
  several.addEventListener("change", () => take(several));
  folder.addEventListener("change", () => take(folder));
  button.addEventListener("click", () => open(element.hidden));
  clear.addEventListener("click", () => {
    reset();
    show();
    choose.focus();
  });
  let soon;
  name.input.addEventListener("input", () => {
    typed.name = true;
    tellTable();
    clearTimeout(soon);
    soon = setTimeout(lookForTable, 300);
  });
  keys.input.addEventListener("input", tellTable);
  nulls.input.addEventListener("input", () => { typed.nulls = true; });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!stop) run();
    // The second click of two is none on what the first has made of the button.
    else if (performance.now() - began > 500) stop.abort();
  });
  show();
  return {
    button, element, open,
    drop: async (transfer) => {
      try {
        await add(await droppedIn(transfer));
      } catch (error) {
        open();
        leftOut.replaceChildren(problem(error));
      }
    },
    forget: () => stop?.abort(),
  };
}

/** Whether files are over the page that has the panel. */
const isOver = (event) => shown?.element.isConnected && event.dataTransfer?.types.includes("Files");

document.addEventListener("dragover", (event) => {
  if (!isOver(event)) return;
  event.preventDefault();
  shown.open();
  shown.element.classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (event.relatedTarget === null) shown?.element.classList.remove("over");
});
document.addEventListener("drop", (event) => {
  if (!isOver(event)) return;
  event.preventDefault();
  shown.element.classList.remove("over");
  shown.drop(event.dataTransfer);
});
