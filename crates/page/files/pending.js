// Pending: the calls that wait for a person, with their arguments beside the schema.
import { block, failure, fill, foreign, h, json, jsonText, labelled, notice } from "./dom.js";
import { ApiError, get, path, post } from "./api.js";

const RELOAD = 1000;
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
    timer = setTimeout(() => void load(), 5 * RELOAD);
  };
  void load();
  return {
    title: "Pending",
    node: h("div", null, h("h1", null, "Pending"), body),
    onEvent: () => {
      clearTimeout(timer);
      timer = setTimeout(() => void load(), RELOAD);
    },
    onClose: () => clearTimeout(timer),
  };
}

/** The runs that are paused, with their pending calls. @returns {Promise<any[]>} */
async function paused() {
  const reply = await get(`/v1/runs?status=paused&limit=${MAX_RUNS}`);
  const runs = /** @type {any[]} */ (Array.isArray(reply) ? reply : reply.runs);
  const waiting = runs.filter((run) => run.status === "paused").slice(0, MAX_RUNS);
  const whole = await Promise.all(waiting.map((run) => (run.pending ? run : get(path("/v1/runs", run.runId)))));
  return whole.filter((run) => run.status === "paused" && run.pending?.length > 0);
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
    run.code ? h("details", null, h("summary", null, "Program"), block(run.code, 20000)) : null,
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

/** @param {any} call */
function pendingCall(call) {
  const before = jsonText(call.arguments ?? {});
  const text = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "code", rows: "8", spellcheck: "false", value: before })
  );
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "500" }));
  const remember = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
  const schema = h("div", null, h("span", { class: "soft" }, "Schema of the arguments"), notice("Loading…"));
  const problem = h("div");
  get(path("/v1/tools", call.backend, call.tool)).then(
    (tool) => fill(schema, h("span", { class: "soft" }, "Schema of the arguments"), json(tool.inputSchema, 8000)),
    () => fill(schema, notice("The schema is not known.")),
  );
  const decided = (/** @type {string} */ decision) => ({
    callId: call.callId,
    decision,
    ...(reason.value === "" ? {} : { reason: reason.value }),
    ...(remember.checked ? { remember: true } : {}),
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
      return void self.onDecide([{ ...decided("edit"), arguments: JSON.parse(text.value) }]);
    } catch (error) {
      return fill(problem, failure(error));
    }
  };
  const approveButton = h("button", { class: "main", type: "button", click: approve }, "Approve");
  text.addEventListener("input", () => fill(approveButton, text.value === before ? "Approve" : "Approve as edited"));
  fill(
    self.node,
    h("h3", null, h("code", null, foreign(`${call.backend}.${call.tool}`, 200))),
    call.reason ? h("p", { class: "warn" }, foreign(call.reason, 500)) : null,
    h("div", { class: "sides" }, labelled("Arguments (JSON); change them to approve other ones", text, "wide"), schema),
    problem,
    h(
      "div",
      { class: "row" },
      labelled("Reason", reason, "wide"),
      h("label", { class: "check" }, remember, "Remember"),
      approveButton,
      h("button", { type: "button", click: () => void self.onDecide([decided("deny")]) }, "Deny"),
      h("button", { type: "button", click: () => void self.onDecide([decided("stop")]) }, "Stop the run"),
    ),
  );
  return self;
}
