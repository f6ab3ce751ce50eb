// Statements: an editor, and their answers as tables and pictures.

import { kindOf, pictures } from "./chart.js";
import { editor } from "./editor.js";
import { count, duration, grid, h, plural, problem } from "./page.js";
import { picture } from "./plan.js";
import * as statements from "./statements.js";

const FIRST = "SELECT * FROM system.tables";

/** `given` comes with the address, so it is not run: anybody's link may have it. */
export function console_(page, given) {
  if (given !== undefined) {
    statements.replace(given);
    // Who comes back finds what was typed since.
    history.replaceState(null, "", "#/sql");
  }
  const start = (statement) => {
    statements.remember(text.value);
    tellEarlier();
    statements.run(statement);
  };
  const { text, element, learn } = editor({
    value: statements.written() ?? statements.earlier()[0] ?? FIRST,
    changed: statements.write,
    run: () => start(text.value),
    cancel: statements.cancel,
  });
  const run = h("button", { class: "main" }, "Run");
  const explain = h("button", {}, "Explain and time");
  const stop = h("button", {}, "Cancel");
  const earlier = h("select", { "aria-label": "Earlier statements" });
  const answer = h("section", { class: "answer", "aria-live": "polite", "aria-label": "Answer" });
  page.replaceChildren(
    h("h1", {}, "SQL"),
    h("label", { for: "statement", class: "hidden" }, "Statement"),
    element,
    h("p", { id: "keys", class: "caption" },
      "Ctrl+Enter runs it. Tab takes the first word of the list, the arrows and Enter another one; Ctrl+Space opens the list, Esc leaves it or cancels."),
    h("p", { class: "buttons" }, run, explain, stop, earlier),
    answer);

  const tellEarlier = () => {
    const all = statements.earlier();
    earlier.replaceChildren(h("option", { value: "" }, "Earlier statements"),
      ...all.map((one) => h("option", { value: one }, one.replace(/\s+/g, " ").slice(0, 80))));
    earlier.hidden = all.length === 0;
  };
  earlier.addEventListener("change", () => {
    if (earlier.value) {
      statements.replace(earlier.value);
      text.value = statements.written();
    }
    tellEarlier();
    text.focus();
  });
  tellEarlier();

  const tell = () => {
    const last = statements.current();
    const running = statements.isRunning(last);
    [run.disabled, explain.disabled, stop.disabled] = [running, running, !running];
    if (last === null) answer.replaceChildren();
    else if (running) answer.replaceChildren(h("p", { class: "busy" }, "Running…"));
    else if (last.cancelled) answer.replaceChildren(h("p", { role: "status" }, "Cancelled."));
    else if (last.error) answer.replaceChildren(problem(last.error, last.statement));
    else answer.replaceChildren(...shown(last.found, last.statement));
    // It may have made a table, or dropped one.
    if (last?.found && !/^\s*(?:select|with|show|explain|describe)\b/i.test(last.statement)) learn();
  };
  run.addEventListener("click", () => start(text.value));
  explain.addEventListener("click", () => start(`EXPLAIN ANALYZE ${text.value.trim().replace(/^explain\s+(analyze\s+)?/i, "")}`));
  stop.addEventListener("click", statements.cancel);
  tell();
  text.focus();
  return statements.watch(tell);
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
