// Which words may stand at a place of a statement.

import { objects, quoted } from "./server.js";

const KEYWORDS = `SELECT FROM WHERE GROUP BY HAVING ORDER BY LIMIT OFFSET JOIN LEFT INNER ON USING AS AND OR NOT IN BETWEEN LIKE
  IS NULL DISTINCT COUNT SUM AVG MIN MAX CASE WHEN THEN ELSE END CAST WITH UNION ALL VALUES INSERT INTO UPDATE SET DELETE CREATE
  TABLE VIEW DROP ALTER EXPLAIN ANALYZE DESCRIBE SHOW TABLES DESC ASC OVER PARTITION date_trunc extract median`.split(/\s+/);
const RESERVED = new Set(KEYWORDS.map((word) => word.toLowerCase()));
const MOST = 8;
const MOST_COLUMNS = 20000;

/** After these stands the name of a table; these end a list of tables. */
const BEFORE_TABLE = new Set(["from", "join", "into", "update", "table", "describe", "summarize"]);
const AFTER_TABLES = new Set(["where", "group", "having", "order", "limit", "offset", "union", "on", "using", "set", "values", "select"]);

const TOKEN = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|[\p{L}_][\p{L}\p{N}_$]*|[\p{N}.]*\p{N}[\p{L}\p{N}_.]*|[^\s]/gu;

const isWord = (token) => /^["\p{L}_]/u.test(token);
const bare = (token) => (token.startsWith('"') ? token.slice(1).replace(/"$/, "").replaceAll('""', '"') : token.toLowerCase());
const plain = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : quoted(name));

/** The tables of the server with their columns, as a map of names to lists of names. */
export async function catalog() {
  const tables = new Map();
  for (const { name } of await objects("SELECT name FROM system.tables ORDER BY name")) tables.set(name, []);
  const columns = await objects(`SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = 'public' ORDER BY table_name, ordinal_position LIMIT ${MOST_COLUMNS}`);
  for (const { table_name, column_name } of columns) {
    if (!tables.has(table_name)) tables.set(table_name, []);
    tables.get(table_name).push(column_name);
  }
  return tables;
}

/** The tokens of the statement around a place, those before it, and what is typed there of a word: null inside a text. */
function around(text, place) {
  let tokens = [];
  let before = 0;
  let typed = "";
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    const end = index + token.length;
    if (token === ";") {
      if (index >= place) break;
      tokens = [];
      before = 0;
      continue;
    }
    const inside = index < place && place <= end;
    const open = inside && (place < end || !/^(?:'(?:[^']|'')*'|\/\*[\s\S]*\*\/)$/.test(token));
    if (open && /^(?:'|--|\/\*)/.test(token)) return { typed: null };
    if (inside && isWord(token)) {
      typed = text.slice(index, place);
      continue;
    }
    if (/^(?:'|--|\/\*)/.test(token)) continue;
    if (index < place) before = tokens.length + 1;
    tokens.push(token);
  }
  return { tokens, before, typed };
}

/** The tables that a statement names, by the names that it calls them. */
function namedTables(tokens) {
  const found = new Map();
  const lists = [false];
  let expected = false;
  for (let i = 0; i < tokens.length; i++) {
    const word = tokens[i].toLowerCase();
    if (word === "(") {
      lists.push(false);
      expected = false;
    } else if (word === ")") {
      if (lists.length > 1) lists.pop();
      expected = false;
    } else if (word === ",") {
      expected = lists.at(-1);
    } else if (BEFORE_TABLE.has(word)) {
      if (word === "from") lists[lists.length - 1] = true;
      expected = true;
    } else if (AFTER_TABLES.has(word)) {
      if (word !== "on" && word !== "using") lists[lists.length - 1] = false;
      expected = false;
    } else if (expected && isWord(tokens[i])) {
      while (tokens[i + 1] === "." && isWord(tokens[i + 2] ?? "")) i += 2;
      const name = bare(tokens[i]);
      if (tokens[i + 1]?.toLowerCase() === "as") i += 1;
      const alias = tokens[i + 1] ?? "";
      const called = isWord(alias) && !RESERVED.has(alias.toLowerCase()) ? bare(alias) : name;
      found.set(called, name);
      expected = false;
    }
  }
  return found;
}

/** What can be said of a place: { typed, words, complete }; a complete word needs none of the words. */
export function completions(text, place, tables) {
  const { tokens, before, typed } = around(text, place);
  if (typed === null) return { typed: "", words: [], complete: true };
  const named = namedTables(tokens);
  const ofTables = [...tables.keys()];
  const known = [...named.values()].filter((name) => tables.has(name));
  const ofColumns = (known.length ? known : ofTables).flatMap((name) => tables.get(name));
  const last = tokens[before - 1]?.toLowerCase() ?? "";
  const owner = last === "." ? named.get(bare(tokens[before - 2] ?? "")) : undefined;
  let names;
  let keywords = KEYWORDS;
  if (last === ".") {
    names = tables.get(owner) ?? [];
    keywords = [];
  } else if (BEFORE_TABLE.has(last)) {
    names = ofTables;
  } else {
    const called = [...named.keys()].filter((name) => name !== named.get(name));
    names = [...ofColumns, ...called, ...ofTables];
  }
  const low = typed.toLowerCase();
  const same = (name) => name.toLowerCase() === low;
  const everything = [...ofTables, ...[...tables.values()].flat(), ...named.keys()];
  const complete = typed !== "" && (RESERVED.has(low) || everything.some((name) => same(name) || same(quoted(name))));
  const all = [...names.map(plain), ...keywords];
  const words = complete ? [] : all.filter((word) => word.toLowerCase().startsWith(low) || word.toLowerCase().startsWith(`"${low}`));
  return { typed, words: [...new Set(words)].slice(0, MOST), complete, owned: owner !== undefined };
}
