// Statements: an editor that completes names, and their answers as tables and pictures.

import { kindOf, pictures } from "./chart.js";
import { count, duration, grid, h, plural, problem } from "./page.js";
import { picture } from "./plan.js";
import { objects, quoted, sql } from "./server.js";

const SHOWN = 1000;
const HISTORY = "basalt-statements";
const KEYWORDS = `SELECT FROM WHERE GROUP BY HAVING ORDER BY LIMIT OFFSET JOIN LEFT INNER ON USING AS AND OR NOT IN BETWEEN LIKE
  IS NULL DISTINCT COUNT SUM AVG MIN MAX CASE WHEN THEN ELSE END CAST WITH UNION ALL VALUES INSERT INTO UPDATE SET DELETE CREATE
  TABLE VIEW DROP ALTER EXPLAIN ANALYZE DESCRIBE SHOW TABLES DESC ASC OVER PARTITION date_trunc extract median`.split(/\s+/);

const history = () => JSON.parse(sessionStorage.getItem(HISTORY) ?? "[]");

function remember(statement) {
  const all = [statement, ...history().filter((one) => one !== statement)].slice(0, 50);
  sessionStorage.setItem(HISTORY, JSON.stringify(all));
}

/** The words that may stand where the cursor is, by what was typed of one. */
function fitting(typed, names) {
  const low = typed.toLowerCase();
  const found = [...names, ...KEYWORDS].filter((name) => name.toLowerCase().startsWith(low) && name !== typed);
  return [...new Set(found)].slice(0, 8);
}

const plain = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : quoted(name));

export function console_(page, given) {
  const names = new Set();
  const known = (async () => {
    for (const table of await objects("SELECT name FROM system.tables ORDER BY name")) names.add(plain(table.name));
    const columns = "SELECT DISTINCT column_name FROM information_schema.columns WHERE table_schema = 'public' LIMIT 2000";
    for (const column of await objects(columns)) names.add(plain(column.column_name));
  })();

  const text = h("textarea", {
    id: "statement", rows: 6, spellcheck: "false", autocapitalize: "off", autocomplete: "off",
    "aria-describedby": "keys", "aria-controls": "words", placeholder: "SELECT …",
  });
  text.value = given ?? history()[0] ?? "SELECT * FROM system.tables";
  const words = h("ul", { id: "words", role: "listbox", "aria-label": "Completions", hidden: true });
  const run = h("button", { class: "main" }, "Run");
  const explain = h("button", {}, "Explain and time");
  const stop = h("button", { disabled: true }, "Cancel");
  const earlier = h("select", { "aria-label": "Earlier statements" });
  const answer = h("section", { class: "answer", "aria-live": "polite", "aria-label": "Answer" });
  page.replaceChildren(
    h("h1", {}, "SQL"),
    h("label", { for: "statement", class: "hidden" }, "Statement"),
    h("div", { class: "editor" }, text, words),
    h("p", { id: "keys", class: "caption" }, "Ctrl+Enter runs it, Ctrl+Space completes a word, Esc leaves the list or cancels."),
    h("p", { class: "buttons" }, run, explain, stop, earlier),
    answer);

  const tellEarlier = () => {
    earlier.replaceChildren(h("option", { value: "" }, "Earlier statements"),
      ...history().map((one) => h("option", { value: one }, one.replace(/\s+/g, " ").slice(0, 80))));
    earlier.hidden = history().length === 0;
  };
  earlier.addEventListener("change", () => {
    if (earlier.value) text.value = earlier.value;
    earlier.value = "";
    text.focus();
  });
  tellEarlier();

  let at = 0;
  const typed = () => /[\w"]*$/.exec(text.value.slice(0, text.selectionStart))[0];
  const close = () => {
    words.hidden = true;
    text.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    [...words.children].forEach((word, i) => word.setAttribute("aria-selected", String(i === at)));
    text.setAttribute("aria-activedescendant", `word${at}`);
  };
  const put = (word) => {
    const [start, part] = [text.selectionStart, typed()];
    text.setRangeText(word, start - part.length, start, "end");
    close();
    text.focus();
  };
  const complete = (always) => {
    const part = typed();
    const found = part.length >= (always ? 0 : 2) ? fitting(part, names) : [];
    if (found.length === 0) return close();
    at = 0;
    words.replaceChildren(...found.map((word, i) =>
      h("li", { id: `word${i}`, role: "option", onmousedown: (event) => { event.preventDefault(); put(word); } }, word)));
    words.hidden = false;
    mark();
  };
  // Names may come when a word is half typed. Without them there are keywords, and what keeps them from being known is said
  // of the statement, too.
  known.then(() => document.activeElement === text && complete(false), () => {});
  text.addEventListener("input", () => complete(false));
  text.addEventListener("blur", close);
  text.addEventListener("keydown", (event) => {
    const listed = !words.hidden;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      close();
      start(text.value);
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      complete(true);
    } else if (listed && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      at = (at + (event.key === "ArrowDown" ? 1 : words.children.length - 1)) % words.children.length;
      mark();
    } else if (listed && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      put(words.children[at].textContent);
    } else if (event.key === "Escape") {
      if (listed) close();
      else under?.abort();
    }
  });

  let under = null;
  const start = async (statement) => {
    statement = statement.trim().replace(/;$/, "");
    if (!statement) return;
    under?.abort();
    const own = new AbortController();
    under = own;
    [run.disabled, explain.disabled, stop.disabled] = [true, true, false];
    answer.replaceChildren(h("p", { class: "busy" }, "Running…"));
    try {
      const found = await sql(statement, { most: SHOWN, signal: own.signal });
      remember(text.value.trim());
      tellEarlier();
      answer.replaceChildren(...shown(found, statement));
    } catch (error) {
      const cancelled = own.signal.aborted;
      answer.replaceChildren(cancelled ? h("p", { role: "status" }, "Cancelled.") : problem(error));
    } finally {
      if (under === own) {
        under = null;
        [run.disabled, explain.disabled, stop.disabled] = [false, false, true];
      }
    }
  };
  run.addEventListener("click", () => start(text.value));
  explain.addEventListener("click", () => start(`EXPLAIN ANALYZE ${text.value.trim().replace(/^explain\s+(analyze\s+)?/i, "")}`));
  stop.addEventListener("click", () => under?.abort());
  if (given) start(given);
  text.focus();
  return () => under?.abort();
}

/** An answer: what it is, and the ways to look at it. */
function shown(found, statement) {
  const { columns, rows, more, ms } = found;
  const plan = /^\s*explain\s+analyze\b/i.test(statement);
  const told = more
    ? `the first ${count(rows.length)} rows; there are more · ${duration(ms)}`
    : `${plural(rows.length, "row")} · ${duration(ms)}`;
  const table = () => grid(columns.map((name, i) => ({ name, number: kindOf(rows, i) === "number" })), rows, "Answer");
  const ways = [
    ...(plan ? [{ name: "Picture", draw: () => picture(rows) }] : []),
    plan
      ? { name: "Text", draw: () => h("pre", {}, rows.map((row) => row[1] ?? row[0]).join("\n")) }
      : { name: "Table", draw: table },
    ...(plan ? [] : pictures(found)),
  ];
  const view = h("div", {});
  const buttons = ways.map(({ name, draw }, i) => {
    const button = h("button", { role: "tab", "aria-selected": String(i === 0) }, name);
    button.addEventListener("click", () => {
      buttons.forEach((other) => other.setAttribute("aria-selected", String(other === button)));
      view.replaceChildren(draw());
    });
    return button;
  });
  view.replaceChildren(ways[0].draw());
  return [
    h("p", { class: "caption", role: "status" }, told),
    ways.length > 1 ? h("div", { class: "tabs", role: "tablist", "aria-label": "How the answer is shown" }, buttons) : "",
    view,
  ];
}
