// A plan with what each of its steps took, as EXPLAIN ANALYZE tells it.

import { bytes, duration, h, meter } from "./page.js";

const UNITS = { ns: 1e-6, "µs": 1e-3, us: 1e-3, ms: 1, s: 1000, m: 60000 };
const SIZES = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 };

/** The steps of a plan, in turn: { depth, name, what, metrics }. */
export function steps(text) {
  const found = [];
  for (const line of text.split("\n")) {
    if (!line.trim()) continue;
    const depth = (line.length - line.trimStart().length) / 2;
    let rest = line.trim();
    const metrics = {};
    const at = rest.lastIndexOf(", metrics=[");
    if (at >= 0) {
      for (const part of rest.slice(at + 11).replace(/\]$/, "").split(", ")) {
        const [name, value] = part.split("=");
        if (value !== undefined) metrics[name] = value;
      }
      rest = rest.slice(0, at);
    }
    const colon = rest.indexOf(":");
    found.push({
      depth, name: colon < 0 ? rest : rest.slice(0, colon), what: colon < 0 ? "" : rest.slice(colon + 1).trim(), metrics,
    });
  }
  const least = found.reduce((a, step) => Math.min(a, step.depth), Infinity);
  return found.map((step) => ({ ...step, depth: step.depth - least }));
}

function of(text, units) {
  const match = /^([\d.]+) ?(\D*)$/.exec(text ?? "");
  return match && units[match[2]] !== undefined ? Number(match[1]) * units[match[2]] : null;
}

/** Its picture: a row for each step, with bars for its time and for the bytes that it gives. */
export function picture(rows) {
  const text = rows.filter(([kind]) => kind !== null && !kind.startsWith("logical")).map((row) => row[1] ?? row[0]).join("\n");
  const all = steps(text).map((step) => ({
    ...step,
    ms: of(step.metrics.elapsed_compute, UNITS),
    bytes: of(step.metrics.output_bytes, SIZES),
  }));
  const mostMs = Math.max(1e-6, ...all.map((step) => step.ms ?? 0));
  const mostBytes = Math.max(1, ...all.map((step) => step.bytes ?? 0));
  const bar = (value, most, kind, told) => (value === null ? "" : [meter([{ value, kind, title: told }], most, told), h("small", {}, ` ${told}`)]);
  return h("ol", { class: "plan", "aria-label": "Steps of the plan, each fed by those below it" }, all.map((step) =>
    h("li", { class: `depth${Math.min(12, step.depth)}` },
      h("details", {}, h("summary", {}, h("strong", {}, step.name), " ", h("span", { class: "what" }, step.what)),
        h("dl", {}, Object.entries(step.metrics).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
      h("div", { class: "took" },
        h("span", {}, bar(step.ms, mostMs, "heat", step.ms === null ? "" : duration(step.ms))),
        h("span", {}, bar(step.bytes, mostBytes, "held", step.bytes === null ? "" : bytes(step.bytes))),
        h("span", { class: "number" }, step.metrics.output_rows ? `${step.metrics.output_rows} rows` : "")))));
}
