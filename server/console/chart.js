// Pictures of numbers: a line as time goes, and of an answer its bars, its lines, or how its values are spread.

import { count, h, s, short } from "./page.js";

const HEIGHT = 300;
const TOP = 12;
const RIGHT = 12;
// Letters are 12 pixels high at any width, and about so wide.
const LETTER = 6.8;
const WIDE = 8.4;
const LINE = 18;
const SLANTED = 14;
const MOST_LABEL = 18;
const MOST_BARS = 60;
const MOST_LINES = 4;

/** A small line of the last values, with the newest as a number. */
export function line(title, values, shown, most) {
  const last = values.at(-1);
  const top = Math.max(1e-9, ...values);
  const points = values.map((value, i) => `${(i * 300) / Math.max(1, most - 1)},${58 - (56 * value) / top}`).join(" ");
  const told = last === undefined ? "waiting for values" : `${shown(last)}, at most ${shown(top)}`;
  return h("figure", { class: "spark" },
    h("figcaption", {}, title, h("strong", {}, last === undefined ? "" : ` ${shown(last)}`)),
    s("svg", { viewBox: "0 0 300 60", preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${told}` },
      s("polyline", { points, class: "line0" })));
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const TIME = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?Z?$/;

/** What the values of a column are: "number", "time" or "text". */
export function kindOf(rows, place) {
  const values = rows.map((row) => row[place]).filter((value) => value !== null);
  if (values.length === 0) return "text";
  if (values.every((value) => NUMBER.test(value))) return "number";
  return values.every((value) => TIME.test(value)) ? "time" : "text";
}

/** The ways in which an answer can be drawn, the most telling first: { name, draw }. */
export function pictures({ columns, rows }) {
  const kinds = columns.map((_, place) => kindOf(rows, place));
  const numbers = kinds.flatMap((kind, place) => (kind === "number" ? [place] : []));
  if (rows.length < 2 || numbers.length === 0) return [];
  const label = kinds.findIndex((kind) => kind !== "number");
  const by = label >= 0 ? label : columns.length > 1 ? 0 : -1;
  const values = numbers.filter((place) => place !== by).slice(0, MOST_LINES);
  const ways = [];
  if (by >= 0 && values.length) {
    const bar = { name: "Bars", draw: () => bars(columns, rows, by, values[0]) };
    const lines = { name: "Lines", draw: () => linesOf(columns, rows, by, kinds[by], values) };
    ways.push(...(kinds[by] === "text" ? [bar] : kinds[by] === "time" || rows.length > MOST_BARS ? [lines, bar] : [bar, lines]));
  }
  for (const place of numbers.slice(0, MOST_LINES)) {
    ways.push({ name: `Spread of ${columns[place]}`, draw: () => histogram(columns[place], rows.map((row) => row[place])) });
  }
  return ways;
}

/** Round steps from low to high. */
function ticks(low, high) {
  const raw = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? power;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(at);
  return found;
}

const number = (n) => (Math.abs(n) >= 10000 ? (n < 0 ? "-" : "") + short(Math.abs(n)) : String(Number(n.toPrecision(6))));

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/**
 * A picture that is as wide as its place, and is drawn again when that changes. `draw` is given what it may use: x from
 * `left` to `right`, y of a value, and the `floor` below which its labels stand. `below` says how high these are and
 * how far they reach to the left, for a width that is left.
 */
function frame(title, low, high, draw, { below = () => ({ height: LINE, reach: 0 }), legend = null } = {}) {
  const marks = ticks(low, high).map((value) => ({ value, text: number(value) }));
  const widest = LETTER * Math.max(3, ...marks.map(({ text }) => text.length)) + 12;
  const svg = s("svg", { height: HEIGHT, role: "img", "aria-label": title });
  const figure = h("figure", { class: "picture" }, svg, legend, h("figcaption", {}, title));
  let drawn = 0;
  const fit = (width) => {
    if (width <= 0 || width === drawn) return;
    drawn = width;
    const { height, reach } = below(width - widest - RIGHT);
    const [left, right, floor] = [Math.max(widest, reach), width - RIGHT, HEIGHT - height - 6];
    const y = (value) => floor - ((value - low) / (high - low || 1)) * (floor - TOP);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.replaceChildren(
      ...marks.flatMap(({ value, text }) => [
        s("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }),
        s("text", { x: left - 8, y: y(value) + 4, class: "end" }, text),
      ]),
      ...draw({ left, right, floor, y }).flat(Infinity).filter((part) => part !== null));
  };
  new ResizeObserver(() => fit(Math.floor(svg.getBoundingClientRect().width))).observe(svg);
  return figure;
}

function bars(columns, rows, by, place) {
  const shown = rows.slice(0, MOST_BARS).map((row) => ({ label: row[by] ?? "null", value: Number(row[place] ?? 0) }));
  const values = shown.map((bar) => bar.value);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const longest = Math.min(MOST_LABEL, Math.max(...shown.map(({ label }) => label.length)));
  const rest = rows.length > shown.length ? ` (the first ${shown.length} of ${count(rows.length)})` : "";
  // Labels lie where all of them find room, and else are slanted, each as long as before.
  const lies = (step) => step >= longest * WIDE + 4;
  const below = (width) => lies(width / shown.length)
    ? { height: LINE, reach: 0 }
    : { height: 0.77 * longest * LETTER + LINE, reach: 0.64 * longest * LETTER + 4 - width / shown.length / 2 };
  return frame(`${columns[place]} by ${columns[by]}${rest}`, low, high, ({ left, right, floor, y }) => {
    const step = (right - left) / shown.length;
    const flat = lies(step);
    const every = flat ? 1 : Math.ceil(SLANTED / step);
    return shown.map((bar, i) => [
      s("rect", {
        x: left + i * step + step * 0.1, width: step * 0.8, class: "bar0",
        y: Math.min(y(0), y(bar.value)), height: Math.max(0.5, Math.abs(y(0) - y(bar.value))),
      }, s("title", {}, `${bar.label}: ${bar.value}`)),
      i % every === 0 ? label(left + (i + 0.5) * step, floor, cut(bar.label, MOST_LABEL), flat) : null,
    ]);
  }, { below });
}

function label(x, floor, text, flat) {
  return flat
    ? s("text", { x, y: floor + LINE, class: "middle" }, text)
    : s("text", { x: x + 4, y: floor + 14, class: "end", transform: `rotate(-50 ${x + 4} ${floor + 14})` }, text);
}

function linesOf(columns, rows, by, kind, places) {
  const at = (text) => (kind === "time" ? Date.parse(text.length > 10 ? `${text.replace(" ", "T").replace(/Z?$/, "Z")}` : text) : Number(text));
  const points = rows.map((row, i) => ({ x: kind === "text" ? i : at(row[by] ?? ""), row })).filter(({ x }) => Number.isFinite(x));
  points.sort((a, b) => a.x - b.x);
  const all = places.flatMap((place) => points.map(({ row }) => row[place]).filter((v) => v !== null).map(Number));
  if (points.length === 0 || all.length === 0) return h("p", {}, "There is nothing to draw.");
  const lowest = all.reduce((a, b) => Math.min(a, b));
  const highest = all.reduce((a, b) => Math.max(a, b));
  const [low, high] = [lowest > 0 && lowest < highest / 2 ? 0 : lowest, highest];
  const [first, last] = [points[0].x, points.at(-1).x];
  const longest = Math.min(24, Math.max(...points.map(({ row }) => (row[by] ?? "").length)));
  const legend = places.length > 1
    ? h("p", { class: "legend" }, places.map((place, i) => [h("span", { class: `key bar${i}` }), ` ${columns[place]} `]))
    : null;
  return frame(`${places.map((place) => columns[place]).join(", ")} by ${columns[by]}`, low, high, ({ left, right, floor, y }) => {
    const x = (value) => left + ((value - first) / (last - first || 1)) * (right - left);
    return [
      places.map((place, i) => s("polyline", {
        class: `line${i}`,
        points: points.filter(({ row }) => row[place] !== null).map((p) => `${x(p.x).toFixed(1)},${y(Number(p.row[place])).toFixed(1)}`).join(" "),
      }, s("title", {}, columns[place]))),
      apart(points.map((point) => x(point.x)), longest * LETTER + 16).map(([i, anchor]) =>
        s("text", { x: x(points[i].x), y: floor + LINE, class: anchor }, cut(points[i].row[by] ?? "", 24))),
    ];
  }, { legend });
}

/** Which places of a row have labels: the ends, and between them those that have room; [place, anchor]. */
function apart(xs, width) {
  const end = xs.length - 1;
  if (end === 0 || xs[end] - xs[0] < 2 * width) return end === 0 ? [[0, "start"]] : [[0, "start"], [end, "end"]];
  const found = [[0, "start"]];
  let taken = xs[0] + width;
  for (let i = 1; i < end; i++) {
    if (xs[i] - width / 2 < taken || xs[i] + width / 2 > xs[end] - width) continue;
    found.push([i, "middle"]);
    // Not more than about eight.
    taken = xs[i] + Math.max(width / 2, (xs[end] - xs[0]) / 8 - width / 2);
  }
  return [...found, [end, "end"]];
}

function histogram(name, texts) {
  const values = texts.filter((value) => value !== null).map(Number);
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const bins = Math.max(1, Math.min(40, Math.ceil(Math.sqrt(values.length))));
  const width = (high - low) / bins || 1;
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - low) / width))] += 1;
  return frame(`How many values of ${name} lie where, of ${count(values.length)}`, 0, Math.max(...counts), ({ left, right, floor, y }) => {
    const step = (right - left) / bins;
    return [
      counts.map((n, i) => s("rect", {
        x: left + i * step, width: Math.max(1, step - 1), y: y(n), height: Math.max(0, y(0) - y(n)), class: "bar0",
      }, s("title", {}, `${number(low + i * width)} to ${number(low + (i + 1) * width)}: ${n}`))),
      [low, (low + high) / 2, high].map((value, i) =>
        s("text", { x: left + (i * (right - left)) / 2, y: floor + LINE, class: ["start", "middle", "end"][i] }, number(value))),
    ];
  });
}
