// What the pages ask of the server: statements, and tables as they are held.

const KEY = "basalt-key";

// Where not all rows are asked for, those that come after so many letters are left out, too: a tab holds no more.
const MOST_LETTERS = 64 << 20;

/** An error that the server has told. */
export class ServerError extends Error {
  constructor(status, told) {
    super(told.message);
    this.status = status;
    this.reason = told.reason;
    this.place = told.place;
    this.request = told.request_id;
  }
}

let asking = null;

/** Asks the user for a key, once for all who wait for one. */
function askForKey(problem) {
  asking ??= new Promise((resolve, reject) => {
    const dialog = document.getElementById("key");
    const text = document.getElementById("key-text");
    const shown = document.getElementById("key-problem");
    shown.hidden = !problem;
    shown.textContent = problem ?? "";
    text.value = "";
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      asking = null;
      if (dialog.returnValue === "use" && text.value.trim()) {
        sessionStorage.setItem(KEY, text.value.trim());
        resolve();
      } else {
        reject(new ServerError(401, { reason: "UNAUTHENTICATED", message: "without a key the server shows nothing" }));
      }
      text.value = "";
    }, { once: true });
    // No button of the form: the first of those is what Enter presses.
    document.getElementById("key-cancel").onclick = () => dialog.close();
    dialog.showModal();
  });
  return asking;
}

/** Whether there is a key, and how it is forgotten. */
export const hasKey = () => sessionStorage.getItem(KEY) !== null;
export const forgetKey = () => sessionStorage.removeItem(KEY);

/**
 * Sends a request, with a key where the server wants one; the answer is there when this returns, or an error is thrown. `send`
 * does what fetch does.
 */
async function ask(path, options = {}, send = fetch) {
  for (;;) {
    const headers = { ...options.headers };
    const key = sessionStorage.getItem(KEY);
    if (key) headers.authorization = `Bearer ${key}`;
    let response;
    try {
      response = await send(path, { ...options, headers, cache: "no-store", credentials: "omit" });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ServerError(0, { reason: "UNREACHABLE", message: "the server does not answer; is it running?" });
    }
    if (response.ok) return response;
    const body = await response.json().catch(() => null);
    const told = body?.error ?? { reason: `HTTP ${response.status}`, message: response.statusText };
    if (response.status === 401) {
      const now = sessionStorage.getItem(KEY);
      if (now === key) {
        forgetKey();
        await askForKey(key ? told.message : "");
      }
      continue;
    }
    throw new ServerError(response.status, told);
  }
}

/** A table: its columns, its rows. */
export async function schemaOf(name) {
  return (await ask(`/v1/tables/${encodeURIComponent(name)}`)).json();
}

/** The same with how its columns are held. */
export async function heldTable(name) {
  return (await ask(`/v1/tables/${encodeURIComponent(name)}?view=full`)).json();
}

/** The server's metrics: for each name, samples with their labels. */
export async function metrics() {
  const text = await (await ask("/metrics")).text();
  const found = new Map();
  for (const line of text.split("\n")) {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((m) => [m[1], m[2]]));
    if (!found.has(match[1])) found.set(match[1], []);
    found.get(match[1]).push({ labels, value: Number(match[3]) });
  }
  return found;
}

/**
 * Runs a statement and takes up to `most` rows: { columns, rows, more, ms }. A value is a text, or null. Answers come as
 * CSV, which has the columns also where there are no rows, and numbers with all of their digits.
 */
export async function sql(statement, { most = Infinity, signal, parameters } = {}) {
  const began = performance.now();
  // A text that no value has.
  const none = `null-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;
  const options = new URLSearchParams({ null: none });
  if (parameters) options.set("parameters", JSON.stringify(parameters));
  const stop = new AbortController();
  const given = () => stop.abort();
  signal?.addEventListener("abort", given);
  try {
    const response = await ask(`/v1/sql?${options}`, {
      method: "POST",
      headers: { accept: "text/csv", "content-type": "application/sql" },
      body: statement,
      signal: stop.signal,
    });
    const parser = new Csv(none);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let more = false;
    let letters = 0;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        parser.take(value);
        letters += value.length;
        if (parser.rows.length - 1 > most || (most < Infinity && letters > MOST_LETTERS && parser.rows.length > 1)) {
          more = true;
          stop.abort();
          break;
        }
      }
    } catch (error) {
      if (signal?.aborted || error instanceof ServerError) throw error;
      throw new ServerError(0, { reason: "INCOMPLETE", message: "the answer broke off, so none of it is shown" });
    }
    // A row that is not all there is none.
    if (!more) parser.end();
    const [columns = [], ...rows] = parser.rows;
    return { columns, rows: rows.slice(0, Math.min(most, rows.length)), more, ms: performance.now() - began };
  } finally {
    signal?.removeEventListener("abort", given);
  }
}

/** Runs a statement and takes all of its answer as a file of a media type. */
export async function file(statement, type, signal) {
  const response = await ask("/v1/sql", {
    method: "POST",
    headers: { accept: type, "content-type": "application/sql" },
    body: statement,
    signal,
  });
  try {
    return await response.blob();
  } catch (error) {
    if (signal.aborted) throw error;
    throw new ServerError(0, { reason: "INCOMPLETE", message: "the answer broke off, so there is no file of it" });
  }
}

/** Like fetch, of which no browser tells how much of a body has left: `sent` is told. */
const telling = (sent) => (path, { method, headers, body, signal }) => new Promise((resolve, reject) => {
  signal.throwIfAborted();
  const request = new XMLHttpRequest();
  const stop = () => request.abort();
  request.open(method, path);
  for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
  request.upload.onprogress = (event) => sent(event.loaded);
  request.upload.onload = () => sent(body.size);
  request.onload = () => resolve({
    ok: request.status >= 200 && request.status < 300,
    status: request.status,
    statusText: request.statusText,
    json: async () => JSON.parse(request.responseText),
  });
  request.onerror = () => reject(new TypeError("no answer came"));
  request.onabort = () => reject(signal.reason);
  request.onloadend = () => signal.removeEventListener("abort", stop);
  signal.addEventListener("abort", stop);
  sent(0);
  request.send(body);
});

/** Sends bytes of a media type as rows for a table: { rows, version, created }; `sent` is told how many bytes have left. */
export async function load(table, body, type, { options, sent, signal }) {
  const path = `/v1/tables/${encodeURIComponent(table)}?${new URLSearchParams(options)}`;
  const response = await ask(path, { method: "POST", headers: { "content-type": type }, body, signal }, telling(sent));
  try {
    return await response.json();
  } catch {
    throw new ServerError(0, { reason: "INCOMPLETE", message: "the answer broke off" });
  }
}

/** Objects of a statement's rows. */
export async function objects(statement, options) {
  const { columns, rows } = await sql(statement, options);
  return rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]])));
}

/** A name as SQL has it quoted, and a text. */
export const quoted = (name) => `"${name.replaceAll('"', '""')}"`;
export const text = (value) => `'${value.replaceAll("'", "''")}'`;

// As much of a value as stands there as it is.
const PLAIN = /[^,\r\n]+/y;

/** Reads CSV as it comes (RFC 4180), where one text stands for null. */
export class Csv {
  rows = [];
  #none;
  #row = [];
  #value = "";
  #inside = false;
  #closing = false;

  constructor(none) {
    this.#none = none;
  }

  take(piece) {
    for (let i = 0; i < piece.length; i++) {
      const c = piece[i];
      if (this.#inside) {
        if (this.#closing) {
          this.#closing = false;
          if (c === '"') {
            this.#value += '"';
            continue;
          }
          this.#inside = false;
        } else {
          if (c === '"') {
            this.#closing = true;
          } else {
            let end = piece.indexOf('"', i);
            if (end < 0) end = piece.length;
            this.#value += piece.slice(i, end);
            i = end - 1;
          }
          continue;
        }
      }
      if (c === '"' && this.#value === "") {
        this.#inside = true;
      } else if (c === ",") {
        this.#end();
      } else if (c === "\n") {
        this.#end();
        this.rows.push(this.#row);
        this.#row = [];
      } else if (c !== "\r") {
        PLAIN.lastIndex = i;
        const [run] = PLAIN.exec(piece);
        this.#value += run;
        i += run.length - 1;
      }
    }
  }

  #end() {
    this.#row.push(this.#value === this.#none ? null : this.#value);
    this.#value = "";
  }

  end() {
    this.#inside = this.#closing = false;
    if (this.#row.length || this.#value !== "") {
      this.#end();
      this.rows.push(this.#row);
      this.#row = [];
    }
  }
}
