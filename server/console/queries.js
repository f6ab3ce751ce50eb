// What runs now, with a button that ends it.

import { count, duration, grid, h, live, plural, problem, refill } from "./page.js";
import { objects, sql, text } from "./server.js";

// This page's own is not shown.
const OWN = "SELECT id, state, text, method, caller, elapsed_ms, rows FROM system.queries ORDER BY started -- the console";

export function queries(page) {
  const told = h("div", { role: "status" });
  const list = h("div", {});
  page.replaceChildren(h("h1", {}, "Queries that run"), told, list);
  const cancel = async (id, button) => {
    button.disabled = true;
    try {
      await sql(`CANCEL QUERY ${text(id)}`);
      told.replaceChildren(h("p", {}, `Cancelled ${id}.`));
    } catch (error) {
      told.replaceChildren(problem(error));
    }
  };
  return live(list, 1000, async () => {
    const running = (await objects(OWN)).filter((query) => query.text !== OWN);
    const rows = running.map((query) => {
      const button = h("button", { "data-id": query.id, "aria-label": `Cancel ${query.id}` }, "Cancel");
      button.addEventListener("click", () => cancel(query.id, button));
      button.disabled = query.state === "cancelling";
      return [
        button, h("code", { class: "statement" }, query.text), duration(Number(query.elapsed_ms)), query.state,
        count(query.rows), query.caller, query.method,
      ];
    });
    refill(list,
      h("p", {}, running.length ? `${plural(running.length, "query").replace(/ys$/, "ies")} at this node` : "No query runs at this node."),
      ...(running.length ? [grid([
        { name: "" }, { name: "query" }, { name: "for", number: true }, { name: "state" }, { name: "rows", number: true },
        { name: "caller" }, { name: "by" },
      ], rows, "Queries that run")] : []));
  });
}
