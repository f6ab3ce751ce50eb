// Pictures of numbers: a line as time goes, and of an answer its bars, its lines, or how its values are spread.

import { count, h, s, short } from "./page.js";

const WIDTH = 720;
const HEIGHT = 280;
const LEFT = 64;
const BOTTOM = 44;
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

function frame(title, low, high, ...inside) {
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low || 1)) * (HEIGHT - BOTTOM - 12);
  return h("figure", { class: "picture" },
    s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title },
      ticks(low, high).map((tick) => [
        s("line", { x1: LEFT, x2: WIDTH - 8, y1: y(tick), y2: y(tick), class: "grid" }),
        s("text", { x: LEFT - 8, y: y(tick) + 4, class: "end" }, number(tick)),
      ]),
      inside.map((draw) => draw(y))),
    h("figcaption", {}, title));
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function bars(columns, rows, by, place) {
  const shown = rows.slice(0, MOST_BARS).map((row) => ({ label: row[by] ?? "null", value: Number(row[place] ?? 0) }));
  const values = shown.map((bar) => bar.value);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const step = (WIDTH - LEFT - 8) / shown.length;
  const every = Math.ceil(shown.length / 12);
  const rest = rows.length > shown.length ? ` (the first ${shown.length} of ${count(rows.length)})` : "";
  return frame(`${columns[place]} by ${columns[by]}${rest}`, low, high, (y) => shown.map((bar, i) => [
    s("rect", {
      x: LEFT + i * step + step * 0.1, width: step * 0.8, class: "bar0",
      y: Math.min(y(0), y(bar.value)), height: Math.max(0.5, Math.abs(y(0) - y(bar.value))),
    }, s("title", {}, `${bar.label}: ${bar.value}`)),
    i % every === 0 ? s("text", { x: LEFT + (i + 0.5) * step, y: HEIGHT - BOTTOM + 16, class: "middle" },
      cut(bar.label, Math.max(3, Math.floor((step * every) / 7)))) : null,
  ]));
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
  const x = (value) => LEFT + ((value - first) / (last - first || 1)) * (WIDTH - LEFT - 16);
  const ends = points.length > 1 ? [points[0], points[points.length >> 1], points.at(-1)] : [points[0]];
  return frame(`${places.map((place) => columns[place]).join(", ")} by ${columns[by]}`, low, high, (y) => [
    places.map((place, i) => s("polyline", {
      class: `line${i}`,
      points: points.filter(({ row }) => row[place] !== null).map((p) => `${x(p.x).toFixed(1)},${y(Number(p.row[place])).toFixed(1)}`).join(" "),
    }, s("title", {}, columns[place]))),
    ends.map((point, i) => s("text", { x: x(point.x), y: HEIGHT - BOTTOM + 16, class: ["start", "middle", "end"][i] }, cut(point.row[by] ?? "", 24))),
    places.length > 1 ? places.map((place, i) => [
      s("rect", { x: LEFT + i * 150, y: HEIGHT - 14, width: 10, height: 10, class: `bar${i}` }),
      s("text", { x: LEFT + i * 150 + 14, y: HEIGHT - 5 }, cut(columns[place], 18)),
    ]) : null,
  ]);
}

function histogram(name, texts) {
  const values = texts.filter((value) => value !== null).map(Number);
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const bins = Math.max(1, Math.min(40, Math.ceil(Math.sqrt(values.length))));
  const width = (high - low) / bins || 1;
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - low) / width))] += 1;
  const step = (WIDTH - LEFT - 8) / bins;
  return frame(`How many values of ${name} lie where, of ${count(values.length)}`, 0, Math.max(...counts), (y) => [
    counts.map((n, i) => s("rect", {
      x: LEFT + i * step, width: Math.max(1, step - 1), y: y(n), height: Math.max(0, y(0) - y(n)), class: "bar0",
    }, s("title", {}, `${number(low + i * width)} to ${number(low + (i + 1) * width)}: ${n}`))),
    [low, (low + high) / 2, high].map((value, i) =>
      s("text", { x: LEFT + (i * (WIDTH - LEFT - 8)) / 2, y: HEIGHT - BOTTOM + 16, class: ["start", "middle", "end"][i] }, number(value))),
  ]);
}
