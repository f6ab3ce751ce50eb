// Links from one page to another.

import { h } from "./page.js";
import { remember, replace, run } from "./statements.js";

/** To a table's page. */
export const toTable = (name, words = name) => h("a", { href: `#/tables/${encodeURIComponent(name)}` }, words);

/** Goes to the editor with a statement, and runs it: an address alone would not run it. */
export const ask = (statement, words = "Ask it") => h("a", {
  href: `#/sql/${encodeURIComponent(statement)}`,
  onclick: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    replace(statement);
    remember(statement);
    run(statement);
  },
}, words);
