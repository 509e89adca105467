// Playground: write a program, check it, run it, see what it did.
import { failure, fill, foreign, h, notice } from "./dom.js";
import { get, path, post } from "./api.js";
import { editor } from "./editor.js";
import { shownReport } from "./run.js";

const FIRST =
  "// The body of an async function. Tools are backend.tool({ … }); return what you want to see.\nreturn 6 * 7";

/** @param {string[]} _ @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function playground(_, context) {
  const answer = h("div");
  let running = /** @type {AbortController | null} */ (null);
  const stop = h("button", { type: "button", disabled: true, click: () => running?.abort() }, "Stop");
  const run = async () => {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    Reflect.set(stop, "disabled", false);
    fill(answer, notice("Running…"));
    try {
      const report = await post("/v1/run", { code: area.value }, mine.signal);
      fill(answer, ...shownReport(report, area.value, []));
      context.announce(report.ok ? "the program returned" : `the program failed: ${report.code}`);
    } catch (error) {
      if (running === mine) fill(answer, mine.signal.aborted ? notice("Stopped.") : failure(error));
    } finally {
      if (running === mine) Reflect.set(stop, "disabled", true);
    }
  };
  /** Begins a run that is kept and may wait for decisions. */
  const begin = async () => {
    try {
      const { runId } = await post("/v1/runs", { code: area.value });
      fill(answer, notice("Begun. "));
      let state = await get(path("/v1/runs", runId));
      while (state.status === "running") state = await get(`${path("/v1/runs", runId)}?wait=20`);
      context.go(state.status === "paused" ? "#/pending" : `#/runs/${encodeURIComponent(runId)}`);
    } catch (error) {
      fill(answer, failure(error));
    }
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
