// One run: its calls on a time line, what it printed, its text with the place of its failure, its result and report.
import {
  block,
  bytes,
  count,
  duration,
  failure,
  fill,
  foreign,
  h,
  json,
  labelled,
  moment,
  notice,
  table,
  visible,
} from "./dom.js";
import { ApiError, fetchFile, get, path, post } from "./api.js";
import { verdict } from "./policy.js";

const LANE = 22;
/** Calls that the time line draws. */
const MAX_BARS = 500;

/** @param {string[]} parts @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function run(parts, context) {
  const id = parts[0];
  const body = h("div", null, notice("Loading…"));
  const node = h(
    "div",
    null,
    h("p", null, h("a", { href: "#/runs" }, "All runs")),
    h("h1", null, "Run ", foreign(id, 80)),
    body,
  );
  /** How much is shown: a run that has not ended, its report, or all that this process saw. @type {"open" | "report" | "all"} */
  let shown = "open";
  /** What a person typed into it stays when the page learns more of the run. @type {HTMLElement | undefined} */
  let recorded;
  const recordingOnce = (/** @type {any} */ report) => (recorded ??= recording(id, report));
  const stateOf = async () => get(path("/v1/runs", id));
  const load = async () => {
    try {
      fill(body, ...described(await get(path("/v1/history", id)), context, recordingOnce));
      shown = "all";
    } catch (error) {
      const isAbsent = error instanceof ApiError && error.status === 404;
      if (!isAbsent) return fill(body, failure(error));
      const state = await stateOf().catch(() => null);
      shown = state?.status === "done" ? "report" : "open";
      fill(body, ...(state === null ? [failure(error)] : kept(state, recordingOnce)));
    }
  };
  void load();
  const onEvent = (/** @type {string} */ kind, /** @type {any} */ data) => {
    const isEnd = kind === "run" && data.executionId === id && shown !== "all";
    const mayHaveChanged = (kind === "pending" || kind === "lagged") && shown === "open";
    if (isEnd || mayHaveChanged) void load();
  };
  return { title: "Run", node, onEvent };
}

/** A durable run that this process did not see to its end. @param {any} state @param {(report: any) => HTMLElement} recorded */
function kept(state, recorded) {
  if (state.status !== "done")
    return [notice(`This run is ${state.status}. `), h("p", null, h("a", { href: "#/pending" }, "What waits"))];
  return [recorded(state.report), ...(state.report ? shownReport(state.report, null, []) : [])];
}

/** What a durable run offers beside its report: its cassette, the run again, and a new run from its beginning. @param {string} id @param {any} report */
function recording(id, report) {
  const answer = h("div", { "aria-live": "polite" });
  const save = async () => {
    try {
      const file = await fetchFile(path("/v1/runs", id, "cassette"));
      const link = /** @type {HTMLAnchorElement} */ (h("a", { download: `run-${id.replace(/[^\w-]/g, "")}.jsonl` }));
      link.href = URL.createObjectURL(file);
      link.click();
      URL.revokeObjectURL(link.href);
      fill(answer, notice("`toolgate replay FILE` repeats it anywhere, without its servers."));
    } catch (error) {
      fill(answer, failure(error));
    }
  };
  const replay = async () => {
    fill(answer, notice("Repeating…"));
    try {
      const found = await post(path("/v1/runs", id, "replay"));
      const { difference } = found;
      fill(
        answer,
        found.same
          ? notice("The repetition gave the recorded report. No tool was called.")
          : h("p", { class: "notice error" }, "The repetition differs: ", foreign(difference, 1000)),
      );
    } catch (error) {
      fill(answer, failure(error));
    }
  };
  return h(
    "div",
    null,
    h(
      "div",
      { class: "row" },
      h("button", { type: "button", click: () => void replay() }, "Replay"),
      h("button", { type: "button", click: () => void save() }, "Export as a cassette"),
    ),
    fork(id, report?.calls?.length ?? 0, answer),
    answer,
  );
}

/** A new run that keeps the first answered calls of this one and makes the rest. @param {string} id @param {number} calls @param {HTMLElement} answer */
function fork(id, calls, answer) {
  const from = /** @type {HTMLInputElement} */ (
    h("input", { type: "number", min: "0", max: String(calls), step: "1", value: String(calls) })
  );
  const begin = async () => {
    fill(answer, notice("Forking…"));
    try {
      const begun = await post(path("/v1/runs", id, "fork"), { from: Number(from.value) });
      const link = h("a", { href: `#/runs/${encodeURIComponent(begun.runId)}` }, "Open the new run");
      const again = begun.leftOut > 0 ? `${count(begun.leftOut)} effects of this run may be made again by it. ` : "";
      fill(answer, notice(`A new run goes on from here. ${again}`, link));
    } catch (error) {
      fill(answer, failure(error));
    }
  };
  return h(
    "div",
    { class: "row" },
    labelled("Keep this many answered calls; the program makes the others again", from),
    h("button", { type: "button", click: () => void begin() }, "Fork"),
  );
}

/** @param {any} found @param {import("./app.js").Context} context @param {(report: any) => HTMLElement} recorded */
function described(found, context, recorded) {
  const report = found.report;
  /** @type {import("./dom.js").Child[]} */
  const parts = [
    h(
      "p",
      null,
      h("strong", { class: found.outcome === "ok" ? "good" : "bad" }, found.outcome),
      ` at ${moment(found.at)} in ${duration(found.ms)}, by ${found.door}, route ${found.path}, ${count(found.calls)} calls`,
    ),
  ];
  if (found.code !== null) {
    const open = () => {
      sessionStorage.setItem("toolgate-program", found.code);
      context.go("#/playground");
    };
    parts.push(
      h(
        "div",
        { class: "row" },
        h("button", { type: "button", click: open }, "Open in the playground"),
        download(found),
      ),
    );
  }
  // Only durable runs are recorded.
  if (found.durable) parts.push(recorded(report));
  if (report === null) return [...parts, notice("The report was too large to be kept.")];
  parts.push(...shownReport(report, found.code, found.callStarts));
  return parts;
}

/**
 * The parts of a report, also for the playground.
 * @param {any} report
 * @param {string | null} code
 * @param {number[]} starts
 */
export function shownReport(report, code, starts) {
  /** @type {import("./dom.js").Child[]} */
  const parts = [];
  if (report.paused) {
    parts.push(waiting(report.paused));
  } else if (!report.ok) {
    const place = report.line ? ` at line ${report.line}, column ${report.column}` : "";
    parts.push(
      h("p", { class: "notice error" }, h("strong", null, report.code), `${place}: `, foreign(report.error, 2000)),
      report.hint ? notice("Hint: ", foreign(report.hint, 2000)) : null,
    );
  } else {
    const value =
      "value" in report
        ? json(report.value)
        : notice(`The value has ${bytes(report.valueBytes ?? 0)} and was not kept here.`);
    parts.push(section("Result", value));
  }
  if (report.calls.length > 0) {
    parts.push(
      section(
        "Calls",
        starts.length === report.calls.length ? timeLine(report.calls, starts) : null,
        ledger(report.calls),
      ),
    );
  }
  const lines = [...report.logs.stdout, ...report.logs.stderr];
  if (lines.length > 0) parts.push(section("Console", block(lines.join("\n"))));
  if (report.warnings.length > 0)
    parts.push(
      section(
        "Warnings",
        ...report.warnings.map((/** @type {string} */ it) => h("p", { class: "warn" }, foreign(it, 1000))),
      ),
    );
  if (code !== null) parts.push(section("Program", source(code, report.line ? [report.line] : [])));
  const rest = Object.fromEntries(
    Object.entries(report).filter(([name]) => !["value", "result", "calls", "logs"].includes(name)),
  );
  parts.push(h("details", { class: "card" }, h("summary", null, "Report"), json(rest)));
  return parts;
}

/** A run that has no outcome yet, since it waits for a person. @param {any} paused */
function waiting(paused) {
  const { length } = paused.pending;
  const waits = length === 1 ? "1 call waits" : `${count(length)} calls wait`;
  return h(
    "p",
    { class: "notice", role: "status" },
    `The run is paused: ${waits} for a decision. `,
    h("a", { href: "#/pending" }, "Decide in Pending"),
    " or ",
    h("a", { href: `#/runs/${encodeURIComponent(paused.runId)}` }, "watch the run"),
    ".",
  );
}

/** @param {string} title @param {...import("./dom.js").Child} children */
function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", null, title), ...children);
}

/** Calls as bars; those that overlap are below each other. @param {any[]} calls @param {number[]} starts */
function timeLine(calls, starts) {
  const ends = calls.map((call, at) => starts[at] + call.ms);
  const whole = Math.max(1, ...ends.slice(0, MAX_BARS));
  /** @type {number[]} */
  const lanes = [];
  const bars = calls.slice(0, MAX_BARS).map((call, at) => {
    let lane = lanes.findIndex((end) => end <= starts[at]);
    if (lane < 0) lane = lanes.length;
    lanes[lane] = ends[at];
    const text = `${visible(call.name, 100)}: ${call.state} in ${duration(call.ms)}, from ${duration(starts[at])}`;
    const bar = h(
      "div",
      { class: call.state === "applied" ? "bar" : "bar failed", title: text },
      visible(call.tool ?? call.name, 40),
    );
    bar.style.left = `${(starts[at] / whole) * 100}%`;
    bar.style.width = `${(call.ms / whole) * 100}%`;
    bar.style.top = `${lane * LANE + 2}px`;
    return bar;
  });
  const box = h(
    "div",
    { class: "lanes", role: "img", "aria-label": `Time line of ${calls.length} calls; the table below has the same` },
    ...bars,
  );
  box.style.height = `${lanes.length * LANE}px`;
  return box;
}

/** @param {any[]} calls */
function ledger(calls) {
  const rows = calls
    .slice(0, 1000)
    .map((call) => [
      h("code", null, foreign(call.name, 200)),
      h("span", { class: call.state === "applied" ? "good" : "bad" }, call.state),
      duration(call.ms),
      `${bytes(call.requestBytes)} → ${bytes(call.replyBytes)}`,
      call.readOnly ? "reads" : "",
      decided(call),
      call.error ? foreign(call.error, 500) : "",
    ]);
  return table("Calls of the run", ["Call", "State", "Time", "Bytes", "Effect", "Policy", "Error"], rows);
}

/** Which rule decided about a call, how, and who answered. @param {any} call */
function decided(call) {
  const { decision } = call;
  if (!decision) return "";
  const answer = decision.verdict ? `, ${decision.verdict}` : "";
  return [
    verdict(decision.do),
    decision.rule ? [" by ", h("code", null, foreign(decision.rule, 80))] : null,
    answer,
    decision.reviewer ? [" by ", foreign(decision.reviewer, 80)] : null,
    " ",
    h("a", { href: `#/policy/${encodeURIComponent(call.name)}` }, "why"),
  ];
}

/** @param {string} code @param {number[]} marked */
export function source(code, marked) {
  const lines = code.split("\n").slice(0, 5000);
  return h(
    "pre",
    { tabindex: "0" },
    h(
      "ol",
      { class: "source" },
      ...lines.map((line, at) => h("li", { class: marked.includes(at + 1) ? "marked" : "" }, visible(line, 5000))),
    ),
  );
}

/** @param {any} found */
function download(found) {
  const click = () => {
    const link = /** @type {HTMLAnchorElement} */ (h("a", { download: "run.json" }));
    link.href = URL.createObjectURL(new Blob([JSON.stringify(found, null, 2)], { type: "application/json" }));
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return h("button", { type: "button", click }, "Download as JSON");
}
