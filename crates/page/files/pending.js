// Pending: the runs that wait for a person, each with its program and its questions.
import { failure, fill, foreign, h, moment, notice, refill } from "./dom.js";
import { ApiError, get, path, post, query } from "./api.js";
import { question } from "./question.js";
import { source } from "./run.js";

/** Several changes are one reload. */
const RELOAD = 200;
/** Another replica tells this one of nothing. */
const LOOK_AGAIN = 5000;
/** Runs that are shown at one time. */
const MAX_RUNS = 50;
/** For how long buttons that have moved get no click. */
const HOLD = 500;

/** @typedef {{node: HTMLElement, update: (run: any) => boolean}} Card `update` says whether something has changed. */

/** @param {string[]} _ @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function pending(_, context) {
  const problem = h("div");
  const list = h("div");
  const rest = h("div", null, notice("Loading…"));
  /** By run: what a person is typing stays, and so does the place of what has not changed. @type {Map<string, Card>} */
  const cards = new Map();
  let timer = 0;
  let loads = 0;
  let isClosed = false;
  const load = async () => {
    loads += 1;
    const mine = loads;
    try {
      const { runs, isCut } = await paused();
      if (mine !== loads || isClosed) return;
      fill(problem);
      if (update(cards, list, runs, (run) => cardOrFailure(run, context, load)))
        context.announce(`${runs.length} runs wait for a decision`);
      fill(rest, remark(runs.length, isCut));
    } catch (error) {
      if (mine !== loads || isClosed) return;
      const isAbsent = error instanceof ApiError && error.status === 404;
      fill(problem, isAbsent ? notice("This service keeps no runs that wait for decisions.") : failure(error));
      fill(rest);
    }
    look(LOOK_AGAIN);
  };
  const look = (/** @type {number} */ wait) => {
    clearTimeout(timer);
    timer = setTimeout(() => void load(), wait);
  };
  void load();
  const moved = new ResizeObserver(() => hold(list));
  moved.observe(list);
  return {
    title: "Pending",
    node: h("div", null, h("h1", null, "Pending"), problem, list, rest),
    onEvent: (kind) => {
      if (kind === "pending" || kind === "lagged") look(RELOAD);
    },
    onClose: () => {
      isClosed = true;
      clearTimeout(timer);
      moved.disconnect();
    },
  };
}

/**
 * Shows these runs: cards of others go, those that are there stay in their places, new ones follow at the end. Says whether something has changed.
 * @param {Map<string, Card>} cards
 * @param {HTMLElement} list
 * @param {any[]} runs
 * @param {(run: any) => Card} made
 */
function update(cards, list, runs, made) {
  const waiting = new Set(runs.map((run) => run.runId));
  const gone = [...cards].filter(([id]) => !waiting.has(id));
  for (const [id, card] of gone) {
    card.node.remove();
    cards.delete(id);
  }
  let hasChanged = gone.length > 0;
  if (hasChanged) hold(list);
  for (const run of runs) {
    const known = cards.get(run.runId);
    if (known) {
      hasChanged = known.update(run) || hasChanged;
    } else {
      const card = made(run);
      cards.set(run.runId, card);
      list.append(card.node);
      hasChanged = true;
    }
  }
  return hasChanged;
}

/** Buttons that have moved get no click until a person could see that they did: it was meant for another one. @param {HTMLElement} list */
function hold(list) {
  list.classList.add("moved");
  clearTimeout(holds.get(list));
  holds.set(
    list,
    setTimeout(() => list.classList.remove("moved"), HOLD),
  );
}

/** @type {WeakMap<HTMLElement, number>} */
const holds = new WeakMap();

/** @param {number} runs @param {boolean} isCut */
function remark(runs, isCut) {
  if (isCut) return notice(`The first ${runs} runs that wait; \`toolgate pending\` lists all.`);
  return runs === 0 ? notice("Nothing waits for a decision.") : null;
}

/** The runs with calls that wait for a decision of this caller, and whether there are more. @returns {Promise<{runs: any[], isCut: boolean}>} */
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
  return { runs, isCut: before !== undefined };
}

/** A run that cannot be shown hides no other. @param {any} run @param {import("./app.js").Context} context @param {() => Promise<void>} reload @returns {Card} */
function cardOrFailure(run, context, reload) {
  try {
    return card(run, context, reload);
  } catch (error) {
    return { node: failure(error), update: () => false };
  }
}

/** @param {any} run @param {import("./app.js").Context} context @param {() => Promise<void>} reload @returns {Card} */
function card(run, context, reload) {
  const problem = h("div");
  const together = h("div", { class: "row" });
  const code = run.code ? program(run) : null;
  const node = h(
    "section",
    { class: "card", "aria-label": `Run ${String(run.runId).slice(0, 40)}` },
    h("h2", null, "Run ", foreign(run.runId, 80)),
    h(
      "p",
      { class: "soft" },
      "of ",
      run.caller ? foreign(run.caller, 80) : "the user of this machine",
      ` since ${moment(run.beganAt)}`,
    ),
    code?.node,
    problem,
    together,
  );
  const decide = async (/** @type {any[]} */ decisions) => {
    try {
      await post(path("/v1/runs", run.runId, "decisions"), { decisions });
      context.announce("decided");
      await reload();
    } catch (error) {
      fill(problem, failure(error));
    }
  };
  /** By the whole question: a call that was approved may ask something else under the same number. @type {Map<string, import("./question.js").Question>} */
  const questions = new Map();
  const update = (/** @type {any} */ now) => {
    const asked = new Map(now.pending.map((/** @type {any} */ call) => [JSON.stringify(call), call]));
    const gone = [...questions].filter(([key]) => !asked.has(key));
    const added = [...asked].filter(([key]) => !questions.has(key));
    if (gone.length + added.length === 0) return false;
    for (const [key, { node }] of gone) {
      node.remove();
      questions.delete(key);
    }
    for (const [key, call] of added) {
      const made = questionOrFailure(call);
      made.onDecide = decide;
      questions.set(key, made);
      node.insertBefore(made.node, together);
    }
    const plain = [...questions.values()].filter((call) => call.isPlain);
    fill(together, ...(plain.length > 1 ? all(plain, decide) : []));
    code?.mark(now.pending);
    return true;
  };
  update(run);
  return { node, update };
}

/** A question that cannot be shown hides no other. @param {any} call @returns {import("./question.js").Question} */
function questionOrFailure(call) {
  try {
    return question(call);
  } catch (error) {
    const none = () => undefined;
    return { node: failure(error), isPlain: false, decided: none, read: none, onDecide: async () => {} };
  }
}

/** Decides about several calls at once, each with what was filled in for it. @param {import("./question.js").Question[]} calls @param {(decisions: any[]) => Promise<void>} decide */
function all(calls, decide) {
  const button = (/** @type {string} */ text, /** @type {string} */ decision) => {
    const click = () => {
      const decisions = calls.map((call) => call.read(decision));
      if (!decisions.includes(undefined)) void decide(decisions);
    };
    return h("button", { type: "button", click }, `${text} all ${calls.length}`);
  };
  return [button("Approve", "approve"), button("Deny", "deny")];
}

/** The program, in which `mark` marks the lines that call what waits. @param {any} run */
function program(run) {
  const box = h("div", null, source(run.code, []));
  const plain = (/** @type {string} */ name) => name.toLowerCase().replace(/[^a-z0-9]/g, "");
  const checked = post("/v1/check", { code: run.code });
  const mark = (/** @type {any[]} */ pending) => {
    const waiting = new Set(pending.map((call) => plain(`${call.backend ?? ""}${call.tool}`)));
    checked.then(
      (found) => {
        const calls = found.calls.filter((/** @type {any} */ call) => call.line && waiting.has(plain(call.name)));
        const lines = calls.map((/** @type {any} */ call) => call.line);
        refill(box, JSON.stringify(lines), () => source(run.code, lines));
      },
      () => {},
    );
  };
  return { node: h("details", { open: run.code.length < 2000 }, h("summary", null, "Program"), box), mark };
}
