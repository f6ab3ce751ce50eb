// What all pages are made of: elements, numbers as people read them, tables, problems.

const SVG = "http://www.w3.org/2000/svg";

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of HTML, or of SVG. Children that are texts stay texts: no answer becomes markup. */
export const h = (name, attributes, ...children) => made(document.createElement(name), attributes, children);
export const s = (name, attributes, ...children) => made(document.createElementNS(SVG, name), attributes, children);

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(Number(n));

function scaled(n, steps, step) {
  let at = 0;
  while (n >= step && at < steps.length - 1) {
    n /= step;
    at += 1;
  }
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toPrecision(3)} ${steps[at]}`.trim();
}

export const bytes = (n) => scaled(Number(n), ["B", "kB", "MB", "GB", "TB"], 1000);
export const short = (n) => scaled(Number(n), ["", "k", "M", "G"], 1000);

export function duration(ms) {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toPrecision(2) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} m ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} m` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const plural = (n, one) => `${count(n)} ${one}${Number(n) === 1 ? "" : "s"}`;

// Letters of code are less wide than this.
const LETTER = 9;

/** The line of a statement that a place names, with a caret under it; null where the place is none of a statement. */
function excerpt(statement, place) {
  const [, line, column] = /^line (\d+), column (\d+)$/.exec(place ?? "") ?? [];
  // Columns count characters, not halves of them.
  const told = [...(statement?.split("\n")[line - 1] ?? "")];
  if (told.length === 0 || column > told.length + 1) return null;
  const at = column - 1;
  // As much of it as the page has room for, so that the caret is seen.
  const room = Math.max(30, Math.min(120, Math.floor(innerWidth / LETTER) - 8));
  const from = Math.max(0, Math.min(at - (room >> 1), told.length - room));
  const to = Math.min(told.length, from + room);
  const before = (from > 0 ? "…" : "") + told.slice(from, at).join("");
  // The same text, unseen, moves the caret: tabs and wide characters have their width.
  return h("pre", { class: "excerpt" },
    `${before}${told.slice(at, to).join("")}${to < told.length ? "…" : ""}\n`,
    h("span", { "aria-hidden": "true" }, h("span", { class: "unseen" }, before), h("span", { class: "caret" }, "^")));
}

/** What went wrong, with its reason and its place, which is shown where there is a statement. */
export function problem(error, statement) {
  const told = error.reason ? [h("strong", {}, error.reason), " "] : [];
  // Other places are those of requests that nobody sees.
  const place = /^line \d/.test(error.place ?? "") ? [" ", h("code", {}, error.place)] : [];
  // Where the server failed, its log says more of the request.
  const request = error.status === 500 && error.request ? h("small", {}, ` request ${error.request}`) : null;
  const words = [told, error.message ?? String(error), place, request];
  const shown = excerpt(statement, error.place);
  if (!shown) return h("p", { class: "problem", role: "alert" }, words);
  return h("div", { class: "problem", role: "alert" }, h("p", {}, words), shown);
}

// A text that is longer, or has lines, may be cut in a cell.
const CELL = 40;
// What is pointed at tells so much of it.
const TITLE = 2000;
// More of one text than so many letters, and a page would be busy with it for long.
const LETTERS = 10000;

/** Whether a cell shows less than all of a text. */
export const isLong = (cell) => typeof cell === "string" && (cell.length > CELL || cell.includes("\n"));

function shownOf(cell) {
  if (cell === null) return h("span", { class: "null" }, "null");
  if (typeof cell !== "string" || cell.length <= LETTERS) return cell;
  return [cell.slice(0, LETTERS), h("small", {}, `… the first ${count(LETTERS)} letters of ${count(cell.length)}`)];
}

/** The rows of a table. */
export function rowsOf(columns, rows) {
  const kind = columns.map((column) => (column.number ? "number" : null));
  return rows.map((row) => h("tr", {}, row.map((cell, i) =>
    h("td", { class: kind[i], title: isLong(cell) ? cell.slice(0, TITLE) : null }, shownOf(cell)))));
}

/** A table that scrolls in its box, below its names: columns are { name, number, sort }, cells are texts, elements, or null. A
 * name with `sort` is a button that calls it. */
export function grid(columns, rows, caption) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map(({ name, number, sort }) =>
        h("th", { scope: "col", class: number ? "number" : null, title: isLong(name) ? name : null },
          sort ? h("button", { class: "sort", onclick: sort }, name) : name)))),
      h("tbody", {}, rowsOf(columns, rows))));
}

/** Fills a place anew, where what has the focus keeps it, and boxes stay as far scrolled; not while a text of it is selected. */
export function refill(place, ...children) {
  const selection = getSelection();
  if (selection && !selection.isCollapsed && place.contains(selection.anchorNode)) return;
  const reached = () => [...place.querySelectorAll("a, button, [tabindex]")];
  const nameOf = (element) => element.dataset.id ?? element.textContent;
  const focused = reached().find((element) => element === document.activeElement);
  const at = [...place.querySelectorAll(".scroll, .statement")].map((box) => [box.scrollLeft, box.scrollTop]);
  place.replaceChildren(...children);
  [...place.querySelectorAll(".scroll, .statement")].forEach((box, i) => {
    [box.scrollLeft, box.scrollTop] = at[i] ?? [0, 0];
  });
  const same = (element) => element.tagName === focused.tagName && nameOf(element) === nameOf(focused);
  if (focused) reached().find(same)?.focus({ preventScroll: true });
}

/** A bar for each part of a whole, with what it says to those who do not see it. */
export function meter(parts, most, label) {
  const width = (value) => (most > 0 ? Math.min(100, (100 * value) / most) : 0);
  let at = 0;
  const bars = parts.map(({ value, kind, title }) => {
    const bar = s("rect", { x: `${at}%`, y: 0, width: `${width(value)}%`, height: "100%", class: kind }, s("title", {}, title));
    at += width(value);
    return bar;
  });
  return s("svg", { class: "meter", role: "img", "aria-label": label }, bars);
}

/** Fills a page again and again while it is shown and seen; `fill` may throw. */
export function live(page, every, fill) {
  let timer;
  const turn = async () => {
    if (!page.isConnected) return;
    if (!document.hidden) {
      try {
        await fill();
      } catch (error) {
        // What is told already is not told again.
        const told = problem(error);
        if (page.textContent !== told.textContent) page.replaceChildren(told);
        // Who may not see this is not asked again.
        if (error.status === 401 || error.status === 403) return;
      }
    }
    timer = setTimeout(turn, every);
  };
  turn();
  return () => clearTimeout(timer);
}
