// What runs now at any node, with a button that ends it.

import { count, duration, grid, h, live, plural, problem, refill } from "./page.js";
import { objects, sql, text } from "./server.js";

// This page's own is not shown, nor are those of others who look.
const OWN = "SELECT id, node, state, text, method, caller, elapsed_ms, rows, problem FROM system.queries ORDER BY started -- the console";

/** Those that run, the nodes that do not tell of theirs, and whether there are several nodes. */
async function running() {
  const all = await objects(OWN);
  const silent = all.filter((one) => one.problem !== null);
  // This page's own is always among them.
  return { found: all.filter((one) => one.problem === null && one.text !== OWN), silent, nodes: all.some((one) => one.node !== null) };
}

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
    const { found, silent, nodes } = await running();
    const rows = found.map((query) => {
      const button = h("button", { "data-id": query.id, "aria-label": `Cancel ${query.id}` }, "Cancel");
      button.addEventListener("click", () => cancel(query.id, button));
      button.disabled = query.state === "cancelling";
      return [
        button, h("code", { class: "statement" }, query.text), duration(Number(query.elapsed_ms)), query.state,
        count(query.rows), ...(nodes ? [query.node] : []), query.caller, query.method,
      ];
    });
    const where = nodes ? "in the cluster" : "at this server";
    refill(list,
      h("p", {}, found.length ? `${plural(found.length, "query").replace(/ys$/, "ies")} ${where}` : `No query runs ${where}${silent.length ? ", as far as is known" : ""}.`),
      ...silent.map((one) => h("p", { class: "problem" }, `Of ${one.node} nothing is known: ${one.problem}.`)),
      ...(found.length ? [grid([
        { name: "" }, { name: "query" }, { name: "for", number: true }, { name: "state" }, { name: "rows", number: true },
        ...(nodes ? [{ name: "node" }] : []), { name: "caller" }, { name: "by" },
      ], rows, "Queries that run")] : []));
  });
}
