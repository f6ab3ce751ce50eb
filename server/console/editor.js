// An editor of statements that completes words: it offers them below, and leaves what is typed as it is until one is taken.

import { catalog, completions } from "./completion.js";
import { h } from "./page.js";

/** A word is offered after so many of its letters. */
const LETTERS = 2;

// The names of before, until the server has told those of now.
let tables = new Map();

/** Forgets the names of the server's tables. */
export const forgetNames = () => (tables = new Map());

/** What is selected of the text in an area, or all of it. */
export function chosen(text) {
  const selected = text.value.slice(text.selectionStart, text.selectionEnd);
  return selected.trim() ? selected : text.value;
}

/** { text, element, learn }: the area, what is put on the page, and what asks for the names again. */
export function editor({ value, changed, run, cancel }) {
  const text = h("textarea", {
    id: "statement", rows: 6, spellcheck: "false", autocapitalize: "off", autocomplete: "off",
    "aria-describedby": "keys", "aria-controls": "words", "aria-autocomplete": "list", placeholder: "SELECT …",
  });
  text.value = value;
  const words = h("ul", { id: "words", role: "listbox", "aria-label": "Completions", hidden: true });

  // The item that the user has moved to; none, until the user moves.
  let at = -1;
  let learning = null;
  // A Tab that waits for the names: the place of its word.
  let waiting = -1;

  const here = () => completions(text.value, text.selectionStart, tables);
  const close = () => {
    words.hidden = true;
    at = -1;
    text.removeAttribute("aria-activedescendant");
  };
  const put = (word) => {
    const start = text.selectionStart;
    text.setRangeText(word, start - here().typed.length, start, "end");
    close();
    text.focus();
    changed(text.value);
  };
  const offer = (letters) => {
    const { typed, words: found, owned } = here();
    if (found.length === 0 || (typed.length < letters && !owned)) return close();
    close();
    words.replaceChildren(...found.map((word, i) =>
      h("li", { id: `word${i}`, role: "option", "aria-selected": "false", onmousedown: (event) => { event.preventDefault(); put(word); } }, word)));
    words.hidden = false;
  };
  const move = (by) => {
    const all = words.children.length;
    at = at < 0 ? (by > 0 ? 0 : all - 1) : (at + by + all) % all;
    [...words.children].forEach((word, i) => word.setAttribute("aria-selected", String(i === at)));
    text.setAttribute("aria-activedescendant", `word${at}`);
  };
  // Without names there are keywords, and what keeps them from being known is said of the statement, too.
  const learn = () => {
    const own = catalog().then((found) => { tables = found; }, () => {}).then(() => {
      if (learning !== own) return;
      learning = null;
      if (document.activeElement !== text || text.selectionStart !== text.selectionEnd) return;
      const waited = waiting >= 0 && waiting === text.selectionStart;
      waiting = -1;
      const [first] = here().words;
      if (waited && first !== undefined) put(first);
      else if (at < 0 && here().typed !== "") offer(LETTERS);
    });
    learning = own;
  };

  text.addEventListener("input", () => {
    waiting = -1;
    changed(text.value);
    offer(LETTERS);
  });
  text.addEventListener("blur", close);
  text.addEventListener("click", close);
  text.addEventListener("keydown", (event) => {
    const listed = !words.hidden;
    const alone = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      close();
      run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      offer(0);
    } else if (listed && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (listed && alone && (event.key === "Tab" || (event.key === "Enter" && at >= 0))) {
      // No list is open at a complete word.
      event.preventDefault();
      put(words.children[Math.max(0, at)].textContent);
    } else if (event.key === "Tab" && alone && learning && here().typed.length >= LETTERS && !here().complete) {
      event.preventDefault();
      waiting = text.selectionStart;
    } else if (event.key === "Escape") {
      event.preventDefault();
      if (listed) close();
      else cancel();
    } else if (event.key === "Enter" || /^(?:Arrow|Home|End|Page)/.test(event.key)) {
      close();
    }
  });
  learn();
  return { text, element: h("div", { class: "editor" }, text, words), learn };
}
