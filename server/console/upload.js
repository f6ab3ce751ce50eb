// One file that is loaded: its line of the list, with how much of it has left, and what has become of it.

import { lineOf } from "./kinds.js";
import { bytes, duration, h, plural, problem } from "./page.js";

const NAMES = { ";": "semicolons", "\t": "tabs", "|": "bars" };
// So much of a line is shown.
const LETTERS = 300;

/** The line of text that an error names, or null. */
async function excerptOf({ file, path, kind }, error) {
  const [, number] = /^line (\d+)\b/.exec(error.place ?? "") ?? /^line (\d+)\b/.exec(error.message ?? "") ?? [];
  const found = number && kind.text ? await lineOf(file, Number(number)).catch(() => null) : null;
  if (!found) return null;
  return h("pre", { class: "excerpt", tabindex: "0", role: "region", "aria-label": `Line ${number} of ${path}` },
    found.length > LETTERS ? `${found.slice(0, LETTERS)}…` : found);
}

/** Why no answer came: where the file is gone, or another one now, a browser says as little as where the server is. */
async function reasonOf(error, file, isWhole) {
  if (error.reason !== "UNREACHABLE") return error;
  try {
    await file.slice(0, 1).arrayBuffer();
  } catch {
    return { reason: "FILE_CHANGED", message: "the file cannot be read any more as it was chosen; choose it again" };
  }
  return { reason: "UNREACHABLE", message: isWhole ? "no answer came" : "the connection broke off before all of it had left; is the server running?" };
}

/** Of a file { file, path, kind }: its element, and what is told of it. `cancel` and `leave` are what its buttons do. */
export function line(one, { cancel, leave }) {
  const { file, path, kind } = one;
  const bar = h("progress", { max: 1, value: 0, "aria-label": `Sent of ${path}` });
  const so = h("small", {});
  const state = h("div", { class: "fate" });
  const stop = h("button", { type: "button", "aria-label": `Cancel ${path}`, onclick: cancel }, "Cancel");
  const out = h("button", { type: "button", class: "quiet", "aria-label": `Leave out ${path}`, onclick: () => leave(own) }, "Leave out");
  const note = h("small", { class: "note" });
  const element = h("li", {},
    h("div", {}, h("span", { class: "path" }, path), " ", h("small", {}, `${kind.name}, ${bytes(file.size)}`), note),
    state, h("div", { class: "number" }, stop, out));
  let sending = false;
  let size = file.size;
  let isWhole = false;
  let failure = null;
  let cancelled = false;

  const isUnknown = () => isWhole && (cancelled || ["UNREACHABLE", "INCOMPLETE"].includes(failure?.reason));
  const outcome = () => (isUnknown()
    ? "was sent, and no answer came: whether its rows are there is not known"
    : `is ${cancelled ? "cancelled" : "not loaded"}: none of its rows are there`);
  const tell = (...children) => state.replaceChildren(...children);
  const own = {
    ...one, element, answer: null, peeked: null, outcome,
    draw() {
      stop.hidden = !sending;
      out.hidden = sending || own.answer !== null;
      const separator = own.peeked?.separator;
      note.textContent = separator ? `Its columns are separated by ${NAMES[separator]}; only commas separate here. basalt load finds others.` : "";
    },
    /** It waits again, whatever became of it before. */
    wait() {
      if (own.answer) return;
      [failure, cancelled, isWhole] = [null, false, false];
      tell(h("small", {}, "waits"));
    },
    begin(of) {
      [sending, size] = [true, of];
      bar.max = Math.max(1, of);
      tell(bar, so);
      own.draw();
    },
    sent(now) {
      isWhole = now >= size;
      bar.value = isWhole ? bar.max : now;
      so.textContent = isWhole ? `${bytes(size)} are sent and being written` : `${bytes(now)} of ${bytes(size)} are sent`;
    },
    async fail(error, isCancelled) {
      cancelled = isCancelled;
      if (cancelled) return tell(h("p", {}, "Cancelled"));
      failure = await reasonOf(error, file, isWhole);
      const excerpt = await excerptOf(own, failure);
      tell(problem(failure), excerpt ?? "");
    },
    end() {
      const focused = document.activeElement === stop;
      sending = false;
      if (own.answer) tell(`${plural(own.answer.rows, "row")} `, h("small", {}, `in ${duration(own.ms)}${own.answer.created ? ", a new table" : ""}`));
      own.draw();
      if (focused) element.closest("form")?.querySelector("button.main").focus();
    },
  };
  return own;
}
