// Durable runs from the store that all gateways of this user share: also those that an agent's own gateway runs.
import { failure, foreign, h, moment, notice, refill, table } from "./dom.js";
import { ApiError, get, query } from "./api.js";

/** Runs of one look. */
const MAX_RUNS = 50;
/** Another process tells this one of nothing. */
const LOOK_AGAIN = 5000;
const STATES = { running: "soft", paused: "warn", done: "good" };

/** @returns {{node: HTMLElement, look: () => void, close: () => void}} */
export function keptRuns() {
  const body = h("div", null, notice("Loading…"));
  let timer = 0;
  let isClosed = false;
  const load = async () => {
    clearTimeout(timer);
    try {
      const { runs, next } = await get(`/v1/runs${query({ limit: MAX_RUNS })}`);
      const content = () => (runs.length > 0 ? listed(runs, next) : notice("No durable runs are kept."));
      refill(body, JSON.stringify([runs, next]), content);
    } catch (error) {
      const isAbsent = error instanceof ApiError && error.status === 404;
      const content = () => (isAbsent ? notice("This service keeps no durable runs.") : failure(error));
      refill(body, String(error), content);
    }
    if (!isClosed) timer = setTimeout(() => void load(), LOOK_AGAIN);
  };
  void load();
  const node = h(
    "section",
    { class: "card" },
    h("h2", null, "Durable runs"),
    h(
      "p",
      { class: "soft" },
      "Runs that waited for a decision or were begun as durable, of every gateway with this store.",
    ),
    body,
  );
  const close = () => {
    isClosed = true;
    clearTimeout(timer);
  };
  return { node, look: () => void load(), close };
}

/** @param {any[]} runs @param {string | undefined} next */
function listed(runs, next) {
  const rows = runs.map((run) => [
    moment(run.beganAt),
    h("span", { class: STATES[/** @type {keyof typeof STATES} */ (run.status)] ?? "" }, run.status),
    h("a", { href: `#/runs/${encodeURIComponent(run.runId)}` }, foreign(run.runId, 80)),
  ]);
  return [
    table("Durable runs, newest first", ["Began", "Status", "Run"], rows),
    next === undefined ? null : notice(`The newest ${runs.length}; \`toolgate runs\` lists all.`),
  ];
}
