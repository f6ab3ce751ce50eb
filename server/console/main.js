// Which page is shown: the part of the address behind #.

import { cluster } from "./cluster.js";
import { forgetNames } from "./editor.js";
import { forget as forgetFiles } from "./load.js";
import { h, problem } from "./page.js";
import { queries } from "./queries.js";
import { forgetKey, hasKey } from "./server.js";
import { console_ } from "./sql.js";
import { forget as forgetStatement } from "./statements.js";
import { tableOf, tables } from "./tables.js";

const PAGES = {
  tables: { title: "Tables", show: (page, name) => (name ? tableOf(page, name) : tables(page)) },
  sql: { title: "SQL", show: console_ },
  queries: { title: "Queries", show: queries },
  cluster: { title: "Cluster", show: cluster },
};

let leave = null;

async function show() {
  const [, name = "tables", rest] = /^#\/(\w+)(?:\/(.*))?$/.exec(location.hash) ?? [];
  const { title, show: fill } = PAGES[name] ?? PAGES.tables;
  leave?.();
  leave = null;
  const page = h("div", { class: `page ${name}` });
  document.getElementById("page").replaceChildren(page);
  document.title = `${title} · Basalt`;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.getAttribute("href") === `#/${name}`;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    const left = await fill(page, rest === undefined ? undefined : decodeURIComponent(rest));
    if (page.isConnected) leave = left ?? null;
    else left?.();
  } catch (error) {
    page.replaceChildren(problem(error));
  }
  who();
}

function who() {
  const shown = document.getElementById("who");
  const forget = () => {
    forgetKey();
    forgetStatement();
    forgetNames();
    forgetFiles();
    show();
  };
  shown.replaceChildren(...(hasKey() ? [h("button", { class: "quiet", onclick: forget }, "Forget the key")] : []));
}

addEventListener("hashchange", show);
show();
