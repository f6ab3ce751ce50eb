// Statements: an editor, and their answers as tables and pictures.

import { kindOf, pictures } from "./chart.js";
import { chosen, editor } from "./editor.js";
import { taken } from "./files.js";
import { count, duration, grid, h, isLong, plural, problem, rowsOf } from "./page.js";
import { picture } from "./plan.js";
import { sorter } from "./sort.js";
import * as statements from "./statements.js";

const FIRST = "SELECT * FROM system.tables";

// So many rows of an answer are shown at first, and fewer where they have many columns.
const ROWS = 1000;
const CELLS = 50000;

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
    run: () => start(chosen(text)),
    cancel: statements.cancel,
  });
  const run = h("button", { class: "main" }, "Run");
  const explain = h("button", {}, "Explain and time");
  const stop = h("button", {}, "Cancel");
  const earlier = h("select", { "aria-label": "Earlier statements" });
  const clock = h("span", { class: "caption", "aria-hidden": "true" });
  // What it says is read aloud, and not all of an answer.
  const told = h("p", { class: "caption", role: "status" });
  const view = h("div", {});
  const answer = h("section", { class: "answer", "aria-label": "Answer" }, told, view);
  page.replaceChildren(
    h("h1", {}, "SQL"),
    h("label", { for: "statement", class: "hidden" }, "Statement"),
    element,
    h("p", { id: "keys", class: "caption" },
      "Ctrl+Enter runs it, or what is selected of it. Tab takes the first word of the list, the arrows and Enter another one; ",
      "Ctrl+Space opens the list, Esc leaves it or cancels."),
    h("p", { class: "buttons" }, run, explain, stop, earlier, clock),
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

  const tick = () => {
    const last = statements.current();
    const ms = statements.isRunning(last) ? performance.now() - last.began : 0;
    clock.textContent = ms >= 1000 ? `for ${duration(Math.floor(ms / 1000) * 1000)}` : "";
  };
  const tell = () => {
    const last = statements.current();
    const running = statements.isRunning(last);
    [run.disabled, explain.disabled, stop.disabled] = [running, running, !running];
    told.textContent = last === null || last.error ? "" : running ? "Running…" : last.cancelled ? "Cancelled." : summary(last.found, last.statement);
    view.replaceChildren(...(last?.error ? [problem(last.error, last.statement)] : last?.found ? shown(last.found, last.statement) : []));
    tick();
    // It may have made a table, or dropped one.
    if (last?.found && !/^\s*(?:select|with|from|values|show|explain|describe|summarize)\b/i.test(last.statement)) learn();
  };
  run.addEventListener("click", () => start(chosen(text)));
  explain.addEventListener("click", () => start(`EXPLAIN ANALYZE ${chosen(text).trim().replace(/^explain\s+(analyze\s+)?/i, "")}`));
  stop.addEventListener("click", statements.cancel);
  tell();
  text.focus();
  const timer = setInterval(tick, 1000);
  const unwatch = statements.watch(tell);
  // Wherever the focus is: a button that was clicked has it no longer.
  const escape = (event) => {
    if (event.key === "Escape" && !event.defaultPrevented) statements.cancel();
  };
  addEventListener("keydown", escape);
  return () => {
    removeEventListener("keydown", escape);
    clearInterval(timer);
    unwatch();
  };
}

const CHANGES = /^\s*(?:insert|update|delete|copy|create|drop|alter|truncate)\b/i;

/** How many rows an answer has, or a change was of. */
const summary = ({ columns, rows, more, ms }, statement) => CHANGES.test(statement) && columns.join() === "rows"
  ? `${Number(rows[0][0]) ? `${plural(Number(rows[0][0]), "row")} changed` : "done"} · ${duration(ms)}`
  : (more ? `the first ${count(rows.length)} rows; there are more` : plural(rows.length, "row")) + ` · ${duration(ms)}`;

/** The rows of an answer, as many as a page bears at once, in the order of a column that is clicked, and the ways to see more
 * of them and to take them elsewhere. */
function table({ columns, rows: came, more }, statement) {
  const numbers = columns.map((_, i) => kindOf(came, i) === "number");
  const sorted = sorter(came, numbers);
  let rows = came;
  const sort = (i) => () => {
    const way = sorted.by(i);
    rows = sorted.rows();
    [...box.querySelectorAll("th")].forEach((th, at) => {
      if (at === i && way) th.setAttribute("aria-sort", way);
      else th.removeAttribute("aria-sort");
    });
    box.querySelector("tbody").replaceChildren(...rowsOf(named, rows.slice(0, seen)));
    order.textContent = (way ? `sorted by ${columns[i]}, ${way}` : "in the order of the answer") +
      (more ? `; only the first ${count(rows.length)} rows are here to be sorted` : "");
  };
  const named = columns.map((name, i) => ({ name, number: numbers[i], sort: came.length > 1 ? sort(i) : null }));
  const step = Math.max(50, Math.min(ROWS, Math.floor(CELLS / columns.length)));
  const box = grid(named, rows.slice(0, step), "Answer");
  let seen = Math.min(step, rows.length);
  const order = h("span", { class: "caption", role: "status" });
  const told = h("span", { class: "caption", role: "status" });
  const next = h("button", {});
  const tell = () => {
    told.textContent = `${count(seen)} of these rows are shown`;
    next.textContent = `Show ${count(Math.min(step, rows.length - seen))} more`;
    next.hidden = seen === rows.length;
  };
  next.addEventListener("click", () => {
    box.querySelector("tbody").append(...rowsOf(named, rows.slice(seen, seen + step)));
    seen = Math.min(seen + step, rows.length);
    tell();
  });
  tell();
  const whole = h("button", { "aria-pressed": "false" }, "Whole texts");
  whole.addEventListener("click", () => whole.setAttribute("aria-pressed", String(box.classList.toggle("whole"))));
  return [
    h("p", { class: "buttons" }, rows.some((row) => row.some(isLong)) ? whole : "", taken(columns, () => rows, statement), order),
    box,
    seen < rows.length ? h("p", { class: "buttons" }, next, told) : "",
  ];
}

/** The ways to look at an answer. */
function shown(found, statement) {
  const { columns, rows } = found;
  const plan = columns.join() === "plan_type,plan" && /\bexplain\b/i.test(statement);
  const timed = plan && rows[0]?.[0] === "Plan with Metrics";
  const steps = () => rows.filter(([, text]) => text !== "SAME TEXT AS ABOVE").map(([kind, text]) => [
    timed ? "" : h("h2", {}, kind.replaceAll("_", " ")), h("pre", { tabindex: "0", role: "region", "aria-label": kind }, text),
  ]);
  const ways = [
    ...(timed ? [{ name: "Picture", draw: () => picture(rows) }] : []),
    ...(plan ? [{ name: "Text", draw: steps }] : []),
    ...(timed ? [] : [{ name: "Table", draw: () => table(found, statement) }]),
    ...(plan ? [] : pictures(found)),
  ];
  const view = h("div", { role: ways.length > 1 ? "tabpanel" : null, "aria-label": ways.length > 1 ? ways[0].name : null });
  const choose = (at) => {
    buttons.forEach((button, i) => {
      button.setAttribute("aria-selected", String(i === at));
      button.tabIndex = i === at ? 0 : -1;
    });
    view.replaceChildren(...[ways[at].draw()].flat(Infinity));
    if (ways.length > 1) view.setAttribute("aria-label", ways[at].name);
  };
  const buttons = ways.map(({ name }, i) => h("button", {
    role: "tab",
    onclick: () => choose(i),
    onkeydown: (event) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: ways.length - 1 }[event.key];
      if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      choose((to + ways.length) % ways.length);
      buttons[(to + ways.length) % ways.length].focus();
    },
  }, name));
  choose(0);
  return [ways.length > 1 ? h("div", { class: "tabs", role: "tablist", "aria-label": "How the answer is shown" }, buttons) : "", view];
}
