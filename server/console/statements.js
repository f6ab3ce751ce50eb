// The statement in the editor, those of before, and the one that runs: they outlive the page that shows them.

import { sql } from "./server.js";

const KEPT = 10000;
const TEXT = "basalt-statement";
const HISTORY = "basalt-statements";

function keep(name, value) {
  try {
    sessionStorage.setItem(name, value);
  } catch {
    // There is no room for it: it is not kept when the page is loaded again.
  }
}

let text = sessionStorage.getItem(TEXT);
let before = JSON.parse(sessionStorage.getItem(HISTORY) ?? "[]");

/** What the editor holds, or null where nothing was typed yet. */
export const written = () => text;

export function write(now) {
  text = now;
  keep(TEXT, now);
}

/** The statements of before, the last one first, whether they succeeded or not. */
export const earlier = () => before;

export function remember(statement) {
  if (!statement.trim()) return;
  before = [statement.trim(), ...before.filter((one) => one !== statement.trim())].slice(0, 50);
  keep(HISTORY, JSON.stringify(before));
}

/** Puts another text into the editor; the one that was there is found among those of before. */
export function replace(now) {
  if (text !== null && text !== now) remember(text);
  write(now);
}

// The statement that runs or the last one that did: { statement, began, stop, found, error, cancelled }.
let last = null;
let tell = () => {};

export const current = () => last;
export const isRunning = (one) => one !== null && !one.found && !one.error && !one.cancelled;

/** Calls `change` when another statement is the last one, or that one has ended; for one page at a time. */
export function watch(change) {
  tell = change;
  return () => {
    if (tell === change) tell = () => {};
  };
}

export function cancel() {
  if (isRunning(last)) last.stop.abort();
}

/** Cancels what runs, and forgets what was answered. */
export function forget() {
  cancel();
  last = null;
  tell();
}

/** Runs a statement instead of the one that runs. */
export async function run(statement) {
  statement = statement.trimEnd().replace(/;$/, "");
  if (!statement.trim()) return;
  cancel();
  const own = { statement, began: performance.now(), stop: new AbortController(), found: null, error: null, cancelled: false };
  last = own;
  tell();
  try {
    own.found = await sql(statement, { most: KEPT, signal: own.stop.signal });
  } catch (error) {
    if (own.stop.signal.aborted) own.cancelled = true;
    else own.error = error;
  }
  // Another one may run by now, of which this says nothing.
  if (last === own) tell();
}
