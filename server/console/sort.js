// Rows in the order of one of their columns.

const DIGITS = /^-?\d+(?:\.\d+)?$/;

/** Of a number with all of its digits, the whole number that it is with so many behind the point. */
function scaled(text, to) {
  const [whole, fraction = ""] = text.split(".");
  return BigInt(whole + fraction.padEnd(to, "0"));
}

const places = (text) => (text.includes(".") ? text.length - 1 - text.indexOf(".") : 0);

/** Numbers as texts, by what they are: NaN is above all, and digits that a float does not have count. */
function numbers(a, b) {
  const [x, y] = [Number(a), Number(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return word(a) - word(b);
  if (x !== y) return x < y ? -1 : 1;
  if (!DIGITS.test(a) || !DIGITS.test(b)) return 0;
  const to = Math.max(places(a), places(b));
  const [m, n] = [scaled(a, to), scaled(b, to)];
  return m < n ? -1 : m > n ? 1 : 0;
}

// How the server writes what is no finite number.
const word = (text) => ({ "-inf": -1, inf: 1, NaN: 2 })[text] ?? 0;

const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

/** Of a timestamp without what ends it: a fraction is behind no fraction, and a point stands before a Z. */
const key = (text) => (MOMENT.test(text) ? text.slice(0, -1) : text);

/** Texts by their characters, and timestamps by when they are. */
function texts(a, b) {
  const [x, y] = [key(a), key(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/**
 * What sorts rows: `by` a column, ascending, then descending, then as they came; it says which of these. What is null is last,
 * and rows with the same value stay in their order.
 */
export function sorter(came, isNumber) {
  let rows = came;
  let [column, way] = [null, null];
  const by = (i) => {
    way = column !== i || way === null ? "ascending" : way === "ascending" ? "descending" : null;
    column = i;
    const order = isNumber[i] ? numbers : texts;
    const turn = way === "descending" ? -1 : 1;
    const compare = (a, b) => {
      if (a[i] === null || b[i] === null) return (a[i] === null) - (b[i] === null);
      return turn * order(a[i], b[i]);
    };
    rows = way === null ? came : came.toSorted(compare);
    return way;
  };
  return { by, rows: () => rows };
}
