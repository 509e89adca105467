// Pending: the calls that wait for a person, with their arguments beside the schema.
import { failure, fill, foreign, h, json, jsonText, labelled, notice, time } from "./dom.js";
import { ApiError, get, path, post, query } from "./api.js";
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
      const now = JSON.stringify(
        runs.map((run) => [run.runId, run.pending.map((/** @type {any} */ call) => call.callId)]),
      );
      if (now !== shown) {
        shown = now;
        const cards = runs.map((run) => card(run, context, load));
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
  return (await get(`/v1/pending${query({ limit: MAX_RUNS })}`)).runs;
}

/** @param {any} run @param {import("./app.js").Context} context @param {() => Promise<void>} reload */
function card(run, context, reload) {
  const problem = h("div");
  const calls = run.pending.map((/** @type {any} */ call) => pendingCall(call));
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
  const all = (/** @type {string} */ decision) => () =>
    void decide(calls.map((/** @type {any} */ call) => call.decided(decision)));
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
    calls.length > 1
      ? h(
          "div",
          { class: "row" },
          h("button", { type: "button", click: all("approve") }, `Approve all ${calls.length}`),
          h("button", { type: "button", click: all("deny") }, `Deny all ${calls.length}`),
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

/** For how long an approval stands, as decisions say it. */
const REMEMBER = [
  ["", "only this call"],
  ["run", "this run"],
  ["session", "this session"],
  ["always", "always, with these arguments"],
];

/** @param {any} call */
function pendingCall(call) {
  const name = call.backend === undefined ? call.tool : `${call.backend}.${call.tool}`;
  const before = jsonText(call.arguments ?? {});
  const text = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "code", rows: "8", spellcheck: "false", value: before })
  );
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "500" }));
  const remember = /** @type {HTMLSelectElement} */ (
    h("select", null, ...REMEMBER.map(([value, text]) => h("option", { value }, text)))
  );
  const schema = h("div", null, h("span", { class: "soft" }, "Schema of the arguments"), notice("Loading…"));
  const problem = h("div");
  const unknown = () => fill(schema, notice("The schema is not known."));
  if (call.backend === undefined) unknown();
  else
    get(path("/v1/tools", call.backend, call.tool)).then(
      (tool) => fill(schema, h("span", { class: "soft" }, "Schema of the arguments"), json(tool.inputSchema, 8000)),
      unknown,
    );
  const decided = (/** @type {string} */ decision) => ({
    callId: call.callId,
    decision,
    ...(reason.value === "" ? {} : { reason: reason.value }),
    ...(remember.value !== "" && decision === "approve" ? { remember: remember.value } : {}),
  });
  const self = {
    node: h("div"),
    decided,
    /** @type {(decisions: any[]) => Promise<void>} */
    onDecide: async () => {},
  };
  const approve = () => {
    if (text.value === before) return void self.onDecide([decided("approve")]);
    try {
      return void self.onDecide([{ ...decided("approve"), decision: "edit", arguments: JSON.parse(text.value) }]);
    } catch (error) {
      return fill(problem, failure(error));
    }
  };
  const approveButton = h("button", { class: "main", type: "button", click: approve }, "Approve");
  text.addEventListener("input", () => fill(approveButton, text.value === before ? "Approve" : "Approve as edited"));
  fill(
    self.node,
    h("h3", null, h("code", null, foreign(name, 200))),
    call.login ? notice("The call goes on by itself after a login: ", h("code", null, foreign(call.login, 300))) : null,
    h(
      "p",
      { class: "warn" },
      call.rule ? [h("code", null, foreign(call.rule, 80)), ": "] : null,
      foreign(call.reason ?? "", 500),
    ),
    h("div", { class: "sides" }, labelled("Arguments (JSON); change them to approve other ones", text, "wide"), schema),
    problem,
    h(
      "div",
      { class: "row" },
      labelled("Reason", reason, "wide"),
      labelled("Remember for", remember),
      approveButton,
      h("button", { type: "button", click: () => void self.onDecide([decided("deny")]) }, "Deny"),
      h("button", { type: "button", click: () => void self.onDecide([decided("stop")]) }, "Stop the run"),
    ),
  );
  return self;
}
