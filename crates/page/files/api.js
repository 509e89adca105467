// Requests to the HTTP API, as any other client makes them. The session's cookie is out of reach for scripts; its token is
// sent as a header with every request.
import { parseJson } from "./dom.js";

const TOKEN = "toolgate-csrf";
/** The most text of an event that is held until its end has come. */
const MAX_EVENT = 1 << 20;

/** A request that was refused. */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** @type {() => void} */
let signedOut = () => {};

/** @param {() => void} listener */
export function onSignedOut(listener) {
  signedOut = listener;
}

/** @returns {Record<string, string>} */
function tokenHeader() {
  const token = localStorage.getItem(TOKEN);
  return token ? { "x-toolgate-csrf": token } : {};
}

/** @param {string | null | undefined} token */
export function keepToken(token) {
  if (token) localStorage.setItem(TOKEN, token);
  else localStorage.removeItem(TOKEN);
}

/** Another tab has kept or removed the token, or has cleared all that is stored. @param {() => void} listener */
export function onTokenChange(listener) {
  addEventListener("storage", (event) => {
    if (event.key === TOKEN || event.key === null) listener();
  });
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function request(method, path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { accept: "application/json", ...tokenHeader() };
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    redirect: "error",
    cache: "no-store",
    signal,
  });
  const text = await response.text();
  /** @type {any} */
  let value = null;
  try {
    value = text === "" ? null : parseJson(text);
  } catch {
    value = null;
  }
  if (response.ok) return value;
  const error = value?.error ?? {};
  const isSession =
    response.status === 401 || (response.status === 403 && String(error.message).includes("x-toolgate-csrf"));
  if (isSession && path !== "/page/session") signedOut();
  throw new ApiError(response.status, String(error.code ?? ""), String(error.message ?? `status ${response.status}`));
}

/** A file, as it is sent. @param {string} path @returns {Promise<Blob>} */
export async function fetchFile(path) {
  const response = await fetch(path, { headers: tokenHeader(), credentials: "same-origin", redirect: "error" });
  if (response.ok) return response.blob();
  const error = (await response.json().catch(() => null))?.error ?? {};
  throw new ApiError(response.status, String(error.code ?? ""), String(error.message ?? `status ${response.status}`));
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => request("GET", path, undefined, signal);
/** @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] */
export const post = (path, body, signal) => request("POST", path, body, signal);

/**
 * A path of encoded parts: an id or a name of a server cannot leave its place.
 * @param {string} base
 * @param {...string} parts
 */
export function path(base, ...parts) {
  // Browsers resolve `.` and `..` in a path, also encoded: no such name can be asked for.
  if (parts.some((part) => /^\.{0,2}$/.test(part))) throw new ApiError(404, "NOT_FOUND", "no such name");
  return [base, ...parts.map(encodeURIComponent)].join("/");
}

/**
 * A query without its empty parameters.
 * @param {Record<string, string | number | null | undefined>} values
 */
export function query(values) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
}

/**
 * Listens to server-sent events until the signal is aborted, and connects again when the stream ends. Not an EventSource,
 * which can send no header.
 * @param {(kind: string, data: any) => void} listener
 * @param {AbortSignal} signal
 */
export async function events(listener, signal) {
  let wait = 500;
  while (!signal.aborted) {
    try {
      const response = await fetch("/v1/events", {
        headers: { accept: "text/event-stream", ...tokenHeader() },
        signal,
        cache: "no-store",
      });
      if (response.status === 401 || response.status === 403) return signedOut();
      if (response.ok && response.body) {
        wait = 500;
        await read(response.body, listener);
      }
    } catch {
      if (signal.aborted) return;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 15000);
  }
}

/** @param {ReadableStream<Uint8Array>} body @param {(kind: string, data: any) => void} listener */
async function read(body, listener) {
  const reader = body.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    waiting += value;
    const parts = waiting.split("\n\n");
    waiting = parts.pop() ?? "";
    if (waiting.length > MAX_EVENT) return void reader.cancel();
    for (const part of parts) {
      const lines = part.split("\n");
      const field = (/** @type {string} */ name) =>
        lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trim());
      const kind = field("event")[0];
      if (kind) {
        try {
          listener(kind, JSON.parse(field("data").join("\n") || "{}"));
        } catch {
          // An event that is not JSON is none of ours.
        }
      }
    }
  }
}
