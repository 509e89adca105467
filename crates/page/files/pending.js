// Pending: the runs that wait for a person, each with its program and its questions.
import { failure, fill, foreign, h, notice, time } from "./dom.js";
import { ApiError, get, path, post, query } from "./api.js";
import { question } from "./question.js";
import { source } from "./run.js";

/** Several changes are one reload. */
const RELOAD = 200;
/** Another replica tells this one of nothing. */
const LOOK_AGAIN = 5000;
/** Runs that are shown at one time. */
const MAX_RUNS = 50;

/** @param {string[]} _ @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function pending(_, context) {
  const body = h("div", null, notice("Loading…"));
  /** What is shown, so that a reload does not take away what a person is typing. @type {string} */
  let shown = "";
  let timer = 0;
  const load = async () => {
    clearTimeout(timer);
    try {
      const runs = await paused();
      // Whole questions: a call that was approved may ask something else under the same number.
      const now = JSON.stringify(runs.map((run) => [run.runId, run.pending]));
      if (now !== shown) {
        shown = now;
        const cards = runs.map((run) => cardOrFailure(run, context, load));
        fill(body, ...(cards.length > 0 ? cards : [notice("Nothing waits for a decision.")]));
        context.announce(`${runs.length} runs wait for a decision`);
      }
    } catch (error) {
      shown = "";
      const isAbsent = error instanceof ApiError && error.status === 404;
      fill(body, isAbsent ? notice("This service keeps no runs that wait for decisions.") : failure(error));
    }
    timer = setTimeout(() => void load(), LOOK_AGAIN);
  };
  void load();
  return {
    title: "Pending",
    node: h("div", null, h("h1", null, "Pending"), body),
    onEvent: (kind) => {
      if (kind !== "pending" && kind !== "lagged") return;
      clearTimeout(timer);
      timer = setTimeout(() => void load(), RELOAD);
    },
    onClose: () => clearTimeout(timer),
  };
}

/** The runs with calls that wait for a decision of this caller. @returns {Promise<any[]>} */
async function paused() {
  /** @type {any[]} */
  const runs = [];
  let before;
  do {
    // A page may be empty although there is a next one.
    const page = await get(`/v1/pending${query({ limit: MAX_RUNS - runs.length, before })}`);
    runs.push(...page.runs);
    before = page.next;
  } while (before !== undefined && runs.length < MAX_RUNS);
  return runs;
}

/** A run that cannot be shown hides no other. @param {any} run @param {import("./app.js").Context} context @param {() => Promise<void>} reload */
function cardOrFailure(run, context, reload) {
  try {
    return card(run, context, reload);
  } catch (error) {
    return failure(error);
  }
}

/** @param {any} run @param {import("./app.js").Context} context @param {() => Promise<void>} reload */
function card(run, context, reload) {
  const problem = h("div");
  const calls = run.pending.map((/** @type {any} */ call) => question(call));
  const decide = async (/** @type {any[]} */ decisions) => {
    try {
      await post(path("/v1/runs", run.runId, "decisions"), { decisions });
      context.announce("decided");
      await reload();
    } catch (error) {
      fill(problem, failure(error));
    }
  };
  for (const call of calls) call.onDecide = decide;
  const plain = calls.filter((/** @type {any} */ call) => call.isPlain);
  const all = (/** @type {string} */ decision) => () =>
    void decide(plain.map((/** @type {any} */ call) => call.decided(decision)));
  return h(
    "section",
    { class: "card", "aria-label": `Run ${String(run.runId).slice(0, 40)}` },
    h("h2", null, "Run ", foreign(run.runId, 80)),
    h(
      "p",
      { class: "soft" },
      "of ",
      run.caller ? foreign(run.caller, 80) : "the user of this machine",
      ` since ${time(run.beganAt)}`,
    ),
    run.code ? program(run) : null,
    problem,
    ...calls.map((/** @type {any} */ call) => call.node),
    plain.length > 1
      ? h(
          "div",
          { class: "row" },
          h("button", { type: "button", click: all("approve") }, `Approve all ${plain.length}`),
          h("button", { type: "button", click: all("deny") }, `Deny all ${plain.length}`),
        )
      : null,
  );
}

/** The program, with the lines marked that call what waits. @param {any} run */
function program(run) {
  const box = h("div", null, source(run.code, []));
  const plain = (/** @type {string} */ name) => name.toLowerCase().replace(/[^a-z0-9]/g, "");
  const waiting = new Set(run.pending.map((/** @type {any} */ call) => plain(`${call.backend ?? ""}${call.tool}`)));
  post("/v1/check", { code: run.code }).then(
    (found) => {
      const calls = found.calls.filter((/** @type {any} */ call) => call.line && waiting.has(plain(call.name)));
      const lines = calls.map((/** @type {any} */ call) => call.line);
      if (lines.length > 0) fill(box, source(run.code, lines));
    },
    () => {},
  );
  return h("details", { open: run.code.length < 2000 }, h("summary", null, "Program"), box);
}
