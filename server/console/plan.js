// A plan with what each of its steps took, and what each node of a cluster did for it, as EXPLAIN ANALYZE tells it.

import { bytes, count, duration, h, meter, plural } from "./page.js";

const UNITS = { ns: 1e-6, "µs": 1e-3, us: 1e-3, ms: 1, s: 1000, m: 60000 };
const SIZES = { B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 };

function of(text, units) {
  const match = /^([\d.]+) ?(\D*)$/.exec(text ?? "");
  return match && units[match[2]] !== undefined ? Number(match[1]) * units[match[2]] : null;
}

/** Names and values of `a=1, b=2`. */
function named(text) {
  return Object.fromEntries(text.split(", ").map((part) => part.split("=")).filter((pair) => pair.length === 2));
}

/** What the nodes did, of `node: fragments=1, ...; node: ...`. */
function hopsOf(text) {
  return text.split("; ").flatMap((one) => {
    const [, node, rest] = /^(\S+): (.+)$/.exec(one) ?? [];
    if (!node) return [];
    const told = named(rest);
    const number = (name) => Number(told[name] ?? 0);
    return [{
      node, for: told.for ?? "", fragments: number("fragments"), loaded: number("loaded"), rows: number("rows"),
      sent: number("sent_bytes"), sets: number("set_bytes"), received: number("received_bytes"),
      ms: of(told.elapsed, UNITS) ?? 0, executing: of(told.executing, UNITS) ?? 0,
    }];
  });
}

/** A line without the frame of the stage that it is in, and how deep it is: { depth, rest }; null where it is all frame. */
function unframed(line) {
  const [, outer, head, framed] = /^( *)(?:┌─+ (.*)|│ (.*)|└─*)$/.exec(line) ?? [];
  if (outer === undefined) return { depth: (line.length - line.trimStart().length) / 2, rest: line.trim() };
  if (head !== undefined) {
    // What is known of its tasks, but for the times of a clock.
    const [name, told = ""] = head.split(" ── ");
    return { depth: outer.length / 2, rest: `${name}: ${told.replace(/,? ?\bplan_.*$/, "")}` };
  }
  if (framed === undefined) return null;
  const rest = framed.trim().replace(/^t\d+: /, "").replace(/^(\[Stage \d+\]) => (\w+): /, "$2: $1 ");
  return { depth: (outer.length + framed.length - framed.trimStart().length) / 2 + 1, rest };
}

/** The steps of a plan, in turn: { depth, name, what, metrics, hops }. */
export function steps(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const inner = line.trim() ? unframed(line) : null;
    if (!inner) continue;
    const { depth } = inner;
    let { rest } = inner;
    let metrics = {};
    const at = rest.lastIndexOf(", metrics=[");
    if (at >= 0) {
      metrics = named(rest.slice(at + 11).replace(/\]$/, ""));
      rest = rest.slice(0, at);
    }
    let hops = [];
    const places = rest.lastIndexOf(", hops=[");
    if (places >= 0 && rest.endsWith("]")) {
      hops = hopsOf(rest.slice(places + 8, -1));
      rest = rest.slice(0, places);
    }
    const colon = rest.indexOf(":");
    found.push({
      depth, name: colon < 0 ? rest : rest.slice(0, colon), what: colon < 0 ? "" : rest.slice(colon + 1).trim(), metrics, hops,
    });
  }
  const least = found.reduce((a, step) => Math.min(a, step.depth), Infinity);
  return found.map((step) => ({ ...step, depth: step.depth - least }));
}

/** What each node did for a step: its time, and the bytes that went there and came back. */
function nodesOf(step, mostMs, mostBytes) {
  const table = /^[^,]*/.exec(step.what)[0];
  const hop = (one) => {
    const who = `${one.node}${one.for ? `, for ${one.for}` : ""}`;
    const time = `${duration(one.ms)}, ${duration(one.executing)} of it executing`;
    const there = one.sent ? `${bytes(one.sent)} there${one.sets ? `, ${bytes(one.sets)} of it sets` : ""}` : "nothing there: it was asked itself";
    const back = one.sent ? `${bytes(one.received)} back` : "";
    const read = [plural(one.fragments, "fragment"), plural(one.rows, "row"), ...(one.loaded ? [`${count(one.loaded)} loaded`] : [])].join(", ");
    return h("li", {},
      h("span", { class: "who" }, h("strong", {}, one.node), one.for ? h("small", {}, ` keys of ${one.for}`) : null, h("small", {}, ` ${read}`)),
      h("span", {}, meter([
        { value: one.executing, kind: "heat", title: `${duration(one.executing)} executing` },
        { value: Math.max(0, one.ms - one.executing), kind: "waited", title: `${duration(Math.max(0, one.ms - one.executing))} on the way, or waiting` },
      ], mostMs, `${who}: ${time}`), h("small", {}, ` ${duration(one.ms)}`)),
      h("span", {}, one.sent ? [meter([
        { value: one.sets, kind: "sets", title: `${bytes(one.sets)} of sets there` },
        { value: one.sent - one.sets, kind: "waited", title: `${bytes(one.sent - one.sets)} of the question there` },
        { value: one.received, kind: "held", title: `${bytes(one.received)} back` },
      ], mostBytes, `${who}: ${there}, ${back}`), h("small", { "aria-hidden": "true" }, ` → ${bytes(one.sent)}${one.sets ? ` (${bytes(one.sets)} sets)` : ""} ← ${bytes(one.received)}`)]
        : h("small", {}, "asked itself")));
  };
  return h("ol", { class: "hops", "aria-label": `What each node did for ${table}` }, step.hops.map(hop));
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
  const hops = all.flatMap((step) => step.hops);
  const mostHop = Math.max(1e-6, ...hops.map((hop) => hop.ms));
  const mostShipped = Math.max(1, ...hops.map((hop) => hop.sent + hop.received));
  const bar = (value, most, kind, told) => (value === null ? "" : [meter([{ value, kind, title: told }], most, told), h("small", {}, ` ${told}`)]);
  return [
    hops.length ? shipped(hops) : "",
    h("ol", { class: "plan", "aria-label": "Steps of the plan, each fed by those below it" }, all.map((step) =>
      h("li", { class: `depth${Math.min(12, step.depth)}` },
        h("details", {}, h("summary", {}, h("strong", {}, step.name), " ", h("span", { class: "what" }, step.what)),
          h("dl", {}, Object.entries(step.metrics).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
        h("div", { class: "took" },
          h("span", {}, bar(step.ms, mostMs, "heat", step.ms === null ? "" : duration(step.ms))),
          h("span", {}, bar(step.bytes, mostBytes, "held", step.bytes === null ? "" : bytes(step.bytes))),
          h("span", { class: "number" }, step.metrics.output_rows ? `${step.metrics.output_rows} rows` : "")),
        step.hops.length ? nodesOf(step, mostHop, mostShipped) : null))),
  ];
}

/** What went between the nodes in all, and what the colours of their bars are. */
function shipped(hops) {
  const sum = (name) => hops.reduce((all, hop) => all + hop[name], 0);
  const nodes = new Set(hops.map((hop) => hop.node)).size;
  const key = (kind, name) => h("span", { class: "named" }, h("span", { class: `key ${kind}`, "aria-hidden": "true" }), ` ${name}`);
  return h("p", { class: "caption legend" },
    `${plural(nodes, "node")}: ${bytes(sum("sent"))} there, ${bytes(sum("sets"))} of it sets, ${bytes(sum("received"))} back. `,
    key("heat", "executing"), key("waited", "waiting, or the question"), key("sets", "sets"), key("held", "answers"));
}
