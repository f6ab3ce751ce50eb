// Pictures of numbers: a line as time goes, and of an answer its bars, its lines, or how its values are spread.

import { count, h, s } from "./page.js";

const HEIGHT = 300;
const TOP = 12;
const RIGHT = 12;
const LINE = 18;
// So far are slanted labels, whose lines are 14 pixels high, from each other.
const SLANTED = 17;
const MOST_LABEL = 130;
const MOST_BARS = 60;
const MOST_LINES = 4;
const MOST_SERIES = 8;

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

// No number that the server tells begins with a zero that says nothing: 00501 is a text.
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?$/i;
const NO_NUMBER = /^(?:NaN|-?inf)$/;
const TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?Z?$/;

/** What the values of a column are: "number", "time" or "text". */
export function kindOf(rows, place) {
  const values = rows.map((row) => row[place]).filter((value) => value !== null);
  if (values.length === 0) return "text";
  if (values.every((value) => NUMBER.test(value) || NO_NUMBER.test(value))) return "number";
  return values.every((value) => TIME.test(value)) ? "time" : "text";
}

/** A number that can be drawn, or null. */
const drawable = (text) => (text === null || !Number.isFinite(Number(text)) ? null : Number(text));

/** Milliseconds of a date or of a timestamp, with the parts of them that a Date has not. */
function instant(text) {
  const [, whole, fraction = ""] = /^(.*?)(\.\d+)?Z?$/.exec(text.replace(" ", "T"));
  return Date.parse(whole.length > 10 ? `${whole}Z` : whole) + 1000 * Number(`0${fraction}`);
}

/** The ways in which an answer can be drawn, the most telling first: { name, draw }. */
export function pictures({ columns, rows }) {
  const kinds = columns.map((_, place) => kindOf(rows, place));
  const numbers = kinds.flatMap((kind, place) => (kind === "number" && rows.some((row) => drawable(row[place]) !== null) ? [place] : []));
  if (rows.length < 2 || numbers.length === 0) return [];
  const repeats = (place) => new Set(rows.map((row) => row[place])).size < rows.length;
  const label = kinds.findIndex((kind) => kind !== "number");
  const time = kinds.indexOf("time");
  // Where texts come again and again at other times, each of them is a line.
  const by = time >= 0 && repeats(label) ? time : label >= 0 ? label : columns.length > 1 ? 0 : -1;
  const values = numbers.filter((place) => place !== by).slice(0, MOST_LINES);
  const ways = [];
  if (by >= 0 && values.length) {
    const texts = kinds.flatMap((kind, place) => (kind === "text" ? [place] : []));
    const each = kinds[by] === "time" && texts.length === 1 && repeats(by) && repeats(texts[0]) ? texts[0] : -1;
    const bar = { name: "Bars", draw: () => (kinds[by] === "time" ? barsInTime : bars)(columns, rows, by, values[0], kinds[by]) };
    const lines = { name: "Lines", draw: () => linesOf(columns, rows, by, kinds[by], values, each) };
    if (kinds[by] === "text") ways.push(bar);
    else if (kinds[by] === "time") ways.push(lines, ...(repeats(by) ? [] : [bar]));
    else ways.push(...(rows.length > MOST_BARS ? [lines, bar] : [bar, lines]));
  }
  for (const place of numbers.slice(0, MOST_LINES)) {
    ways.push({ name: `Spread of ${columns[place]}`, draw: () => histogram(columns[place], rows.map((row) => row[place])) });
  }
  return ways;
}

let pen = null;

/** How many pixels of a picture's line a text takes. */
function widthOf(text) {
  if (pen === null) {
    pen = document.createElement("canvas").getContext("2d");
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  }
  return pen.measureText(text).width;
}

const widest = (texts) => texts.reduce((most, text) => Math.max(most, widthOf(text)), 0);

/** As much of a text as so many pixels have room for. */
function cut(text, room) {
  // Longer ones have no room anywhere.
  if (text.length <= 300 && widthOf(text) <= room) return text;
  const letters = [...text.slice(0, 300)];
  while (letters.length > 1 && widthOf(`${letters.join("")}…`) > room) letters.pop();
  return `${letters.join("")}…`;
}

/** How the value of a label is written: what has no letters is seen, too. */
const named = (value) => (value === null ? "null" : value.trim() === "" ? `'${value}'` : value);

/** Round steps from low to high, about so many. */
function ticks(low, high, most = 5) {
  const raw = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw) ?? power;
  const found = [];
  const first = Math.ceil(low / step);
  // They are counted: to a large number a small step adds nothing.
  for (let i = 0; i <= most + 1 && (first + i) * step <= high + step / 1e6; i++) found.push((first + i) * step);
  return { step, values: found };
}

const UNITS = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]];

/** The texts of round numbers a step apart, all of them in one unit. */
function numbers({ step, values }) {
  const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  let [unit, name] = UNITS.find(([least]) => most >= least) ?? [1, ""];
  if (name === " k") unit = 1000;
  const digits = (one) => Math.max(0, -Math.floor(Math.log10(step / one) + 1e-9));
  if (digits(unit) > 3) [unit, name] = [1, ""];
  if (most >= 1e15 || digits(unit) > 9) return values.map(number);
  return values.map((value) => (Math.abs(value) < step / 1e6 ? "0" : (value / unit).toFixed(digits(unit)) + name));
}

function number(n) {
  const told = Number(n.toPrecision(6));
  return Math.abs(told) >= 1e15 ? told.toExponential().replace("+", "") : String(told);
}

/**
 * A picture that is as wide as its place, and is drawn again when that changes. `draw` is given what it may use: x from
 * `left` to `right`, y of a value, and the `floor` below which its labels stand; it returns its parts, and where the
 * values are that it tells of when they are pointed at: { parts, places: [{ x, told }] }, from left to right. `below`
 * says how high the labels are and how far they reach to the left, for a width that is left.
 */
function frame(title, low, high, draw, { below = () => ({ height: LINE, reach: 0 }), legend = null } = {}) {
  if (low === high) {
    const some = Math.abs(low) / 10 || 1;
    [low, high] = [low - some, high + some];
  }
  const steps = ticks(low, high);
  const texts = numbers(steps);
  const reserved = Math.max(32, widest(texts) + 12);
  const svg = s("svg", { height: HEIGHT, role: "img", "aria-label": title });
  const told = h("p", { class: "told" }, "\u00a0");
  const figure = h("figure", { class: "picture" }, told, svg, legend, h("figcaption", {}, title));
  const cursor = s("line", { class: "cursor" });
  let places = [];
  let drawn = 0;
  const fit = (width) => {
    if (width <= 0 || width === drawn) return;
    drawn = width;
    const { height, reach } = below(width - reserved - RIGHT);
    // What high labels take is not taken from the picture.
    const tall = HEIGHT + Math.max(0, height - 2 * LINE);
    const [left, right, floor] = [Math.max(reserved, reach), width - RIGHT, tall - height - 6];
    const y = (value) => floor - ((value - low) / (high - low)) * (floor - TOP);
    const found = draw({ left, right, floor, y, width });
    places = found.places;
    svg.setAttribute("height", tall);
    svg.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    for (const [name, value] of Object.entries({ x1: -9, x2: -9, y1: TOP, y2: floor })) cursor.setAttribute(name, value);
    svg.replaceChildren(
      ...steps.values.flatMap((value, i) => [
        s("line", { x1: left, x2: right, y1: y(value), y2: y(value), class: "grid" }),
        s("text", { x: left - 8, y: y(value) + 4, class: "end" }, texts[i]),
      ]),
      ...found.parts.flat(Infinity).filter((part) => part !== null),
      cursor);
  };
  const point = (event) => {
    const x = event.clientX - svg.getBoundingClientRect().left;
    const place = nearest(places, x);
    told.textContent = place?.told ?? "\u00a0";
    for (const name of ["x1", "x2"]) cursor.setAttribute(name, place?.x ?? -9);
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  new ResizeObserver(() => fit(Math.floor(svg.getBoundingClientRect().width))).observe(svg);
  return figure;
}

/** The place that is nearest to an x, of places from left to right. */
function nearest(places, x) {
  let [from, to] = [0, places.length];
  while (to - from > 1) {
    const middle = (from + to) >> 1;
    if (places[middle].x <= x) from = middle;
    else to = middle;
  }
  return places[from + 1] && places[from + 1].x - x < x - places[from].x ? places[from + 1] : places[from];
}

/** From 0, or from where the values are. */
const spanOf = (values) => [Math.min(0, ...values), Math.max(0, ...values)];

function bars(columns, rows, by, place, kind) {
  const shown = rows.slice(0, MOST_BARS).map((row) => ({ label: named(row[by]), value: drawable(row[place]), told: row[place] ?? "null" }));
  const [low, high] = spanOf(shown.map((bar) => bar.value ?? 0));
  const rest = rows.length > shown.length ? ` (the first ${shown.length} of ${count(rows.length)})` : "";
  let texts;
  let longest;
  // Labels lie where all of them find room. Else numbers, whose next ones are known, are thinned, and texts are slanted.
  const lies = (width) => kind === "number" || width / shown.length >= longest + 8;
  const below = (width) => {
    texts = shown.map(({ label }) => cut(label, Math.min(MOST_LABEL, width / 3)));
    longest = widest(texts);
    return lies(width)
      ? { height: LINE, reach: 0 }
      : { height: 0.87 * longest + LINE + 4, reach: 0.5 * longest + 14 - width / shown.length / 2 };
  };
  return frame(`${columns[place]} by ${columns[by]}${rest}`, low, high, ({ left, right, floor, y }) => {
    const step = (right - left) / shown.length;
    const flat = lies(right - left);
    const every = Math.max(1, Math.ceil((flat ? longest + 8 : SLANTED) / step));
    const middle = (i) => left + (i + 0.5) * step;
    return {
      parts: shown.map(({ label, value, told }, i) => [
        value === null ? null : box(left + i * step + step * 0.1, step * 0.8, y(0), y(value), `${label}: ${told}`),
        i % every === 0 ? labelAt(middle(i), floor, texts[i], label, flat) : null,
      ]),
      places: shown.map(({ label, told }, i) => ({ x: middle(i), told: `${label} · ${told}` })),
    };
  }, { below });
}

/** A bar from one height to another. */
const box = (x, width, from, to, title) => s("rect", {
  x, width, class: "bar0", y: Math.min(from, to), height: Math.max(0.5, Math.abs(from - to)),
}, s("title", {}, title));

function labelAt(x, floor, text, whole, flat) {
  const title = text === whole ? null : s("title", {}, whole);
  return flat
    ? s("text", { x, y: floor + LINE, class: "middle" }, text, title)
    : s("text", { x: x + 4, y: floor + 14, class: "end", transform: `rotate(-60 ${x + 4} ${floor + 14})` }, text, title);
}

function barsInTime(columns, rows, by, place) {
  const shown = rows.filter((row) => row[by] !== null)
    .map((row) => ({ x: instant(row[by]), label: row[by], value: drawable(row[place]), told: row[place] ?? "null" }))
    .filter(({ x }) => Number.isFinite(x));
  shown.sort((a, b) => a.x - b.x);
  const xs = shown.map(({ x }) => x);
  const apart = usual(xs) || (xs.at(-1) - xs[0]) / Math.max(1, xs.length - 1);
  const axis = timeAxis(xs[0] - apart / 2, xs.at(-1) + apart / 2, shown.map(({ label }) => label));
  const [low, high] = spanOf(shown.map((bar) => bar.value ?? 0));
  return frame(`${columns[place]} by ${columns[by]}`, low, high, ({ left, right, floor, y, width }) => {
    const x = axis.scale(left, right);
    const wide = Math.max(1, 0.8 * (x(apart) - x(0)));
    return {
      parts: [
        shown.map(({ x: at, label, value, told }) => (value === null ? null : box(x(at) - wide / 2, wide, y(0), y(value), `${label}: ${told}`))),
        axis.labels(left, right, floor, width),
      ],
      places: shown.map(({ x: at, label, told }) => ({ x: x(at), told: `${label} · ${told}` })),
    };
  }, { below: () => ({ height: 2 * LINE, reach: 0 }) });
}

/** The lines of an answer: one for each of its numbers, or one for each text of `each`. */
function series(columns, points, places, each) {
  if (each < 0) return { lines: places.map((place) => ({ name: columns[place], place, points })), rest: "" };
  const found = new Map();
  for (const point of points) {
    const name = named(point.row[each]);
    if (!found.has(name)) found.set(name, { name, place: places[0], points: [], sum: 0 });
    const line = found.get(name);
    line.points.push(point);
    line.sum += Math.abs(drawable(point.row[places[0]]) ?? 0);
  }
  const lines = [...found.values()].sort((a, b) => b.sum - a.sum).slice(0, MOST_SERIES);
  const rest = found.size > lines.length ? ` (the ${lines.length} of ${count(found.size)} with the largest sums)` : "";
  return { lines, rest: ` for each ${columns[each]}${rest}` };
}

function linesOf(columns, rows, by, kind, places, each) {
  const at = (text) => (text === null ? NaN : kind === "time" ? instant(text) : Number(text));
  const points = rows.map((row) => ({ x: at(row[by]), row })).filter(({ x }) => Number.isFinite(x));
  points.sort((a, b) => a.x - b.x);
  const { lines, rest } = series(columns, points, places, each);
  const all = lines.flatMap((line) => line.points.map(({ row }) => drawable(row[line.place])).filter((value) => value !== null));
  if (points.length === 0 || all.length === 0) return h("p", {}, "There is nothing to draw.");
  const lowest = all.reduce((a, b) => Math.min(a, b));
  const highest = all.reduce((a, b) => Math.max(a, b));
  const low = lowest > 0 && lowest < highest / 2 ? 0 : lowest;
  const xs = points.map(({ x }) => x);
  const axis = kind === "time" ? timeAxis(xs[0], xs.at(-1), points.map(({ row }) => row[by])) : numberAxis(xs[0], xs.at(-1));
  // What is missing in time is no line, and neither is one instant.
  const most = xs[0] === xs.at(-1) ? -1 : kind === "time" && usual(xs) ? 1.5 * usual(xs) : Infinity;
  const legend = lines.length > 1
    ? h("p", { class: "legend" }, lines.map(({ name }, i) => [h("span", { class: "named" }, h("span", { class: `key bar${i}` }), ` ${cut(name, 240)}`), " "]))
    : null;
  return frame(`${places.slice(0, each < 0 ? undefined : 1).map((place) => columns[place]).join(", ")} by ${columns[by]}${rest}`, low, highest,
    ({ left, right, floor, y, width }) => {
      const x = axis.scale(left, right);
      return {
        parts: [
          lines.map((line, i) => {
            const { way, dots } = trace(line, x, y, most);
            return [s("path", { class: `line${i}`, d: way }, s("title", {}, line.name)), s("path", { class: `dot line${i}`, d: dots })];
          }),
          axis.labels(left, right, floor, width),
        ],
        places: placesOf(points, lines, (point) => x(point.x), (point) => point.row[by]),
      };
    }, { legend, below: () => ({ height: kind === "time" ? 2 * LINE : LINE, reach: 0 }) });
}

/**
 * The way of a line, which ends where there is no value and where the next one is farther than `most`, and the dots of
 * those that stand alone.
 */
function trace({ points, place }, x, y, most) {
  let [way, dots, before, alone] = ["", "", null, null];
  for (const point of points) {
    const value = drawable(point.row[place]);
    const at = value === null ? null : `${x(point.x).toFixed(1)},${y(value).toFixed(1)}`;
    const goesOn = at !== null && before !== null && point.x - before <= most;
    if (!goesOn && alone !== null) dots += `M${alone}h0`;
    if (at !== null) way += (goesOn ? "L" : "M") + at;
    alone = goesOn ? null : at;
    before = at === null ? null : point.x;
  }
  return { way, dots: alone === null ? dots : `${dots}M${alone}h0` };
}

/** What is told of each x: its label, and the values of the lines there. */
function placesOf(points, lines, x, label) {
  const found = new Map(points.map((point) => [point.x, { x: x(point), label: label(point), told: [] }]));
  for (const { name, place, points: own } of lines) {
    for (const point of own) {
      const { told } = found.get(point.x);
      if (told.length < MOST_SERIES) told.push(`${lines.length > 1 ? `${name} ` : ""}${point.row[place] ?? "null"}`);
    }
  }
  return [...found.values()].map(({ x, label, told }) => ({ x, told: [label, ...told].join(" · ") }));
}

const DAY = 86400000;

/** How far values that go up are apart, where most of them are; else 0. */
function usual(xs) {
  const apart = xs.slice(1).map((x, i) => x - xs[i]).filter((d) => d > 0).sort((a, b) => a - b);
  const middle = apart[apart.length >> 1];
  // Months and quarters are not all as long.
  return apart.filter((d) => d > 0.85 * middle && d < 1.15 * middle).length > 0.6 * apart.length ? middle : 0;
}

const scaleOf = (first, last) => (left, right) => (value) => left + (last > first ? (value - first) / (last - first) : 0.5) * (right - left);

/** A label and its mark, where all of it is inside of the picture; else its mark. */
function mark(x, floor, width, text) {
  const half = widthOf(text) / 2;
  return [
    s("line", { x1: x, x2: x, y1: floor, y2: floor + 4, class: "grid" }),
    x - half < 0 || x + half > width ? null : s("text", { x, y: floor + LINE, class: "middle" }, text),
  ];
}

function numberAxis(first, last) {
  const labels = (left, right, floor, width) => {
    if (first === last) return mark((left + right) / 2, floor, width, number(first));
    let most = 10;
    let steps;
    let texts;
    do {
      most -= 1;
      steps = ticks(first, last, most);
      texts = numbers(steps);
    } while (most > 1 && steps.values.length * (widest(texts) + 14) > right - left);
    const x = scaleOf(first, last)(left, right);
    return steps.values.map((value, i) => mark(x(value), floor, width, texts[i]));
  };
  return { scale: scaleOf(first, last), labels };
}

// Steps of time that people count in: milliseconds, and months.
const STEPS = [
  ...[0.001, 0.01, 0.1, 1, 10, 100].flatMap((n) => [n, 2 * n, 5 * n]),
  ...[1, 5, 15, 30].map((n) => n * 1000),
  ...[1, 5, 15, 30].map((n) => n * 60000),
  ...[1, 3, 6, 12].map((n) => n * 3600000),
  ...[1, 2, 7, 14].map((n) => n * DAY),
].map((long) => ({ long, months: 0 })).concat(
  [1, 3, 6, ...[1, 10, 100, 1000].flatMap((n) => [12 * n, 24 * n, 60 * n])].map((months) => ({ long: months * 30.4 * DAY, months })));
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
// Weeks begin on Mondays, as this day was one.
const MONDAY = 4 * DAY;

/** What stands at an instant, and what that is a part of. */
function timeTexts(at, { long, months }) {
  // Microseconds are near to what a number can hold.
  const [date, clock] = new Date(Math.floor(at + 0.0001)).toISOString().slice(0, -1).split(/T/);
  const [, year, month, day] = /^(.*)-(\d\d)-(\d\d)$/.exec(date);
  if (months >= 12) return [year, ""];
  if (months > 0) return [MONTHS[month - 1], year];
  if (long >= DAY) return [`${Number(day)} ${MONTHS[month - 1]}`, year];
  if (long >= 60000) return [clock.slice(0, 5), date];
  if (long >= 1000) return [clock.slice(0, 8), date];
  const fine = long >= 1 ? "" : String(Math.round((at - Math.floor(at + 0.0001)) * 1000)).padStart(3, "0");
  return [clock.slice(6) + fine, `${date} ${clock.slice(0, 5)}`];
}

function* instants(first, last, { long, months }) {
  if (months === 0) {
    const from = long >= 7 * DAY ? MONDAY : 0;
    const begin = Math.ceil((first - from) / long - 1e-9);
    for (let i = begin; i * long + from <= last; i++) yield i * long + from;
    return;
  }
  const date = new Date(first);
  let month = Math.ceil((12 * date.getUTCFullYear() + date.getUTCMonth()) / months) * months;
  for (;;) {
    // Date.UTC takes the years before 100 for others.
    const at = new Date(0).setUTCFullYear(Math.floor(month / 12), month % 12, 1);
    if (at > last) return;
    if (at >= first) yield at;
    month += months;
  }
}

/** Below the labels, what they are parts of, where that is another one than before. */
function wholes(found, floor, width) {
  let free = Infinity;
  const changes = found.filter(([, , whole], i) => whole && whole !== found[i - 1]?.[2]);
  // From the right: of two that have no room the first is known from the other.
  return changes.reverse().map(([at, , whole]) => {
    const half = widthOf(whole) / 2;
    const x = Math.max(half, Math.min(width - half, at));
    if (x + half > free) return null;
    free = x - half - 10;
    return s("text", { x, y: floor + 2 * LINE, class: "middle" }, whole);
  });
}

function timeAxis(first, last, texts) {
  const scale = scaleOf(first, last);
  const days = texts.every((text) => text.length <= 10);
  const labels = (left, right, floor, width) => {
    const x = scale(left, right);
    const step = STEPS.find((one) => {
      if (days && one.long < DAY) return false;
      const room = Math.max(widthOf(timeTexts(first, one)[0]), widthOf(one.long >= DAY ? "30 Sep" : "")) + 14;
      return ((last - first) / one.long) * room <= right - left;
    }) ?? STEPS.at(-1);
    const found = last > first ? [...instants(first, last, step)].map((at) => [x(at), ...timeTexts(at, step)]) : [];
    if (found.length > 1) return [found.map(([at, text]) => mark(at, floor, width, text)), wholes(found, floor, width)];
    if (last === first) return mark(x(first), floor, width, texts[0]);
    const [from, to] = [texts[0], texts.at(-1)].map((text) => cut(text, (right - left) / 2 - 8));
    return [s("text", { x: left, y: floor + LINE, class: "start" }, from), s("text", { x: right, y: floor + LINE, class: "end" }, to)];
  };
  return { scale, labels };
}

function histogram(name, texts) {
  const values = texts.map(drawable).filter((value) => value !== null);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const bins = low < high ? Math.max(1, Math.min(40, Math.ceil(Math.sqrt(values.length)))) : 1;
  const width = (high - low) / bins || 1;
  const counts = new Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - low) / width))] += 1;
  const told = counts.map((n, i) => (low < high ? `${number(low + i * width)} to ${number(low + (i + 1) * width)}: ${n}` : `${number(low)}: ${n}`));
  const title = `How many values of ${name} lie where, of ${count(values.length)}`;
  return frame(title, 0, Math.max(...counts), ({ left, right, floor, y }) => {
    const step = (right - left) / bins;
    const marks = low < high ? [[low, 0, "start"], [(low + high) / 2, 0.5, "middle"], [high, 1, "end"]] : [[low, 0.5, "middle"]];
    return {
      parts: [
        counts.map((n, i) => box(left + i * step, Math.max(1, step - 1), y(0), y(n), told[i])),
        marks.map(([value, at, anchor]) => s("text", { x: left + at * (right - left), y: floor + LINE, class: anchor }, number(value))),
      ],
      places: told.map((text, i) => ({ x: left + (i + 0.5) * step, told: text })),
    };
  });
}
