// The nodes, what each holds, and what this one is doing.

import { line } from "./chart.js";
import { bytes, count, duration, h, live, meter, plural, refill, short } from "./page.js";
import { metrics, objects } from "./server.js";

const EVERY_MS = 2000;
const KEPT = 90;

const sum = (samples) => (samples ?? []).reduce((all, { value }) => all + value, 0);

/** One node as a card: how it is, its memory, and the fragments of each table that it has. */
function card(node, tables, mostBytes) {
  const name = node.name ?? "this server";
  const limit = Number(node.memory_limit_bytes ?? 0);
  const used = Number(node.memory_bytes ?? 0);
  const memory = `${bytes(used)} of ${bytes(limit)} memory`;
  return h("article", { class: `node ${node.state}` },
    h("h2", {}, name, node.own === "true" ? h("small", {}, " answers you") : null),
    h("p", {}, h("span", { class: `state ${node.state}` }, node.state.replace("_", " ")),
      node.version ? ` ${node.version}, up ${duration(Number(node.uptime_ms))}` : "",
      Number(node.silent_ms) > 2000 ? `, silent for ${duration(Number(node.silent_ms))}` : ""),
    limit > 0 ? [h("p", { class: "caption" }, memory), meter([{ value: used, kind: "held", title: memory }], limit, memory)] : null,
    tables.map((table) => {
      const label = `${table.table_name}: ${plural(table.rows, "row")}, ${bytes(table.bytes)}`;
      const behind = Number(table.lag) > 0 ? `, ${count(table.lag)} versions behind` : "";
      const none = Number(table.fragments) === 0;
      return [
        h("p", { class: "caption" }, h("a", { href: `#/tables/${encodeURIComponent(table.table_name)}` }, table.table_name),
          none ? " nothing of it" : ` ${plural(table.fragments, "fragment")}, ${plural(table.rows, "row")}`, behind ? h("strong", {}, behind) : null),
        none ? null : meter([{ value: Number(table.bytes), kind: "owned", title: label }], mostBytes, label),
      ];
    }));
}

export function cluster(page) {
  const nodes = h("div", { class: "nodes" });
  const charts = h("div", { class: "charts" });
  page.replaceChildren(h("h1", {}, "Cluster"), nodes, h("h2", {}, "This node now"), charts);
  const seen = { requests: [], rows: [], memory: [], sips: [] };
  let before = null;
  const stopNodes = live(nodes, EVERY_MS, async () => {
    const [all, held] = await Promise.all([
      objects("SELECT * FROM system.nodes ORDER BY name"),
      objects("SELECT * FROM system.node_tables ORDER BY table_name"),
    ]);
    const most = Math.max(1, ...held.map((table) => Number(table.bytes)));
    refill(nodes, ...all.map((node) =>
      card(node, held.filter((table) => table.node === node.name), most)));
  });
  const stopCharts = live(charts, EVERY_MS, async () => {
    const found = await metrics();
    const now = {
      at: performance.now(),
      requests: sum(found.get("basalt_requests_total")),
      rows: sum(found.get("basalt_rows_total")),
      sips: sum(found.get("basalt_sip_shipped_bytes_total")),
    };
    const memory = sum(found.get("basalt_memory_bytes"));
    if (before) {
      const seconds = (now.at - before.at) / 1000;
      for (const of of ["requests", "rows", "sips"]) seen[of].push(Math.max(0, (now[of] - before[of]) / seconds));
      seen.memory.push(memory);
      for (const values of Object.values(seen)) if (values.length > KEPT) values.shift();
    }
    before = now;
    charts.replaceChildren(
      line("Requests a second", seen.requests, short, KEPT),
      line("Rows answered or written a second", seen.rows, short, KEPT),
      line("Memory", seen.memory, bytes, KEPT),
      line("Bytes of SIPs sent to other nodes a second", seen.sips, bytes, KEPT));
  });
  return () => {
    stopNodes();
    stopCharts();
  };
}
