// Playground: write a program, check it, run it, see what it did.
import { failure, fill, foreign, h, notice } from "./dom.js";
import { get, path, post, request } from "./api.js";
import { editor } from "./editor.js";
import { shownReport } from "./run.js";

const FIRST =
  "// The body of an async function. Tools are backend.tool({ … }); return what you want to see.\nreturn 6 * 7";

/** @param {string[]} _ @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function playground(_, context) {
  const answer = h("div");
  let running = /** @type {AbortController | null} */ (null);
  /** The durable run that is followed. @type {string | null} */
  let durable = null;
  const stop = h("button", { type: "button", disabled: true, click: () => end() }, "Stop");
  /** Takes the place of what runs, until `work` has ended or is stopped. @param {string} text @param {(signal: AbortSignal) => Promise<void>} work */
  const start = async (text, work) => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    Reflect.set(stop, "disabled", false);
    fill(answer, notice(text));
    try {
      await work(mine.signal);
    } catch (error) {
      if (running === mine) fill(answer, mine.signal.aborted ? notice("Stopped.") : failure(error));
    } finally {
      if (running === mine) Reflect.set(stop, "disabled", true);
    }
  };
  const run = () =>
    start("Running…", async (signal) => {
      const report = await post("/v1/run", { code: area.value }, signal);
      fill(answer, ...shownReport(report, area.value, []));
      if (report.paused) context.announce("the program waits for a decision");
      else context.announce(report.ok ? "the program returned" : `the program failed: ${report.code}`);
    });
  /** Begins a run that is kept and may wait for decisions. It goes on when this view is left, which then no longer follows it. */
  const begin = () =>
    start("Beginning…", async (signal) => {
      const { runId } = await post("/v1/runs", { code: area.value }, signal);
      durable = runId;
      try {
        const link = h("a", { href: `#/runs/${encodeURIComponent(runId)}` }, "Open the run");
        fill(answer, notice("Begun; the page opens the run when it has ended or waits. ", link));
        let state = await get(path("/v1/runs", runId), signal);
        while (state.status === "running") state = await get(`${path("/v1/runs", runId)}?wait=20`, signal);
        context.go(state.status === "paused" ? "#/pending" : `#/runs/${encodeURIComponent(runId)}`);
      } finally {
        if (durable === runId) durable = null;
      }
    });
  /** A durable run does not end with its request. */
  const end = () => {
    if (durable !== null) request("DELETE", path("/v1/runs", durable)).catch((error) => fill(answer, failure(error)));
    running?.abort();
  };
  const check = async () => {
    try {
      fill(answer, ...checked(await post("/v1/check", { code: area.value })));
    } catch (error) {
      fill(answer, failure(error));
    }
  };
  const { node, area } = editor(sessionStorage.getItem("toolgate-program") ?? FIRST, () => void run());
  area.addEventListener("input", () => sessionStorage.setItem("toolgate-program", area.value));
  return {
    title: "Playground",
    node: h(
      "div",
      null,
      h("h1", null, "Playground"),
      node,
      h(
        "div",
        { class: "row" },
        h("button", { class: "main", type: "button", click: () => void run() }, "Run"),
        h("button", { type: "button", click: () => void check() }, "Check"),
        h("button", { type: "button", click: () => void begin() }, "Begin durable"),
        stop,
      ),
      answer,
    ),
    onClose: () => running?.abort(),
  };
}

/** @param {any} reply */
function checked(reply) {
  const line = (/** @type {string} */ kind) => (/** @type {any} */ problem) =>
    h(
      "li",
      null,
      h("strong", { class: kind }, problem.code),
      problem.line ? ` line ${problem.line}, column ${problem.column}: ` : ": ",
      foreign(problem.message, 1000),
      problem.suggestion ? [" ", foreign(problem.suggestion, 1000)] : null,
    );
  const calls = reply.calls.map((/** @type {any} */ call) =>
    h("li", null, h("code", null, foreign(call.name, 200)), call.line ? ` at line ${call.line}` : ""),
  );
  return [
    h(
      "p",
      { class: reply.ok ? "notice" : "notice error", role: "status" },
      reply.ok ? "Nothing is certain to fail. " : "This would not run. ",
      `Route: ${reply.path}.`,
    ),
    reply.typesNotChecked
      ? h(
          "p",
          { class: "notice" },
          "The types of the program were not checked: ",
          foreign(reply.typesNotChecked, 300),
          ".",
        )
      : null,
    h("ul", null, ...reply.errors.map(line("bad")), ...reply.warnings.map(line("warn"))),
    calls.length > 0
      ? h("section", { class: "card" }, h("h2", null, "Calls in the program"), h("ul", null, ...calls))
      : null,
  ];
}
