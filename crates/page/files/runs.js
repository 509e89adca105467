// The list of runs. Only the rows in view are elements, so that ten thousand of them scroll like ten.
import { count, duration, failure, fill, foreign, h, labelled, moment, visible } from "./dom.js";
import { get, query } from "./api.js";
import { keptRuns } from "./kept-runs.js";

const ROW = 36;
const PAGE = 500;
const AROUND = 10;
/** The doors that runs of this list come by: the HTTP API, agent tools, direct mode; durable runs of earlier versions. */
const DOORS = [
  ...["http", "websocket", "rpc", "call_tool_chain", "query_tools", "run_code", "fix_run"],
  ...["compute", "query_result", "direct", "durable"],
];

/** @param {string[]} _ @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function runs(_, context) {
  /** @type {any[]} */
  let rows = [];
  /** @type {number | null} */
  let next = null;
  let total = 0;
  let active = 0;
  let loading = false;
  let generation = 0;

  const search = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "tool or id" }));
  const outcome = choice(["", "ok", "failed", "TIMEOUT", "RUNTIME", "SYNTAX", "INVALID_CODE", "ABORTED"], "any");
  const door = choice(["", ...DOORS], "any");
  const space = h("div", { class: "space" });
  const list = h(
    "div",
    { class: "list", role: "grid", tabindex: "0", "aria-label": "Runs, newest first", "aria-colcount": "6" },
    space,
  );
  const known = h("p", { class: "soft", role: "status" });
  const problem = h("div");

  const draw = () => {
    space.style.height = `${rows.length * ROW}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - AROUND);
    const last = Math.min(rows.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + AROUND);
    fill(space, ...rows.slice(first, last).map((row, at) => line(row, first + at)));
    list.setAttribute("aria-rowcount", String(total));
    if (rows.length > 0) list.setAttribute("aria-activedescendant", `run-${active}`);
    fill(
      known,
      rows.length === total
        ? `${count(total)} runs`
        : `${count(rows.length)} of ${count(total)} runs loaded; scroll for more`,
    );
    if (next !== null && last + AROUND >= rows.length) void more();
  };

  /** @param {any} run @param {number} at */
  const line = (run, at) => {
    const cell = (/** @type {string} */ name, /** @type {import("./dom.js").Child} */ child) =>
      h("span", { role: "gridcell", class: name }, child);
    const item = h(
      "div",
      {
        class: at === active ? "item active" : "item",
        role: "row",
        id: `run-${at}`,
        "aria-rowindex": at + 1,
        click: () => open(at),
      },
      cell("", moment(run.at)),
      cell(run.outcome === "ok" ? "good" : "bad", run.outcome),
      cell("extra soft", run.door),
      cell("extra", duration(run.ms)),
      cell("extra soft", `${count(run.calls)} ${run.calls === 1 ? "call" : "calls"}`),
      cell("", foreign(run.names.length > 0 ? run.names.join(", ") : run.executionId, 160)),
    );
    item.style.top = `${at * ROW}px`;
    return item;
  };

  const more = async () => {
    if (loading) return;
    loading = true;
    const asked = generation;
    try {
      const values = { limit: PAGE, before: next, outcome: outcome.value, door: door.value, search: search.value };
      const page = await get(`/v1/history${query(values)}`);
      if (asked !== generation) return;
      // A run that ended meanwhile was told as an event too; one that the answer does not count is newer than it.
      const known = new Set(rows.map((row) => row.number));
      const newest = Math.max(0, ...page.runs.map((/** @type {any} */ row) => row.number));
      const uncounted = next === null ? rows.filter((row) => row.number > newest).length : 0;
      rows = rows.concat(page.runs.filter((/** @type {any} */ row) => !known.has(row.number)));
      rows.sort((one, other) => other.number - one.number);
      total = page.total + uncounted;
      next = page.next ?? null;
      fill(problem);
      draw();
    } catch (error) {
      next = null;
      fill(problem, failure(error));
    } finally {
      if (asked === generation) loading = false;
    }
  };

  const restart = () => {
    generation += 1;
    rows = [];
    next = null;
    active = 0;
    loading = false;
    list.scrollTop = 0;
    void more();
  };

  const open = (/** @type {number} */ at) => {
    if (rows[at]) context.go(`#/runs/${encodeURIComponent(rows[at].executionId)}`);
  };

  const move = (/** @type {number} */ to) => {
    active = Math.max(0, Math.min(rows.length - 1, to));
    const top = active * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
  };

  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowDown: () => move(active + 1),
      ArrowUp: () => move(active - 1),
      PageDown: () => move(active + page),
      PageUp: () => move(active - page),
      Home: () => move(0),
      End: () => move(rows.length - 1),
      Enter: () => open(active),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  list.addEventListener("scroll", () => requestAnimationFrame(draw));
  let typing = 0;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(restart, 200);
  });
  outcome.addEventListener("change", restart);
  door.addEventListener("change", restart);
  restart();

  const isAsked = (/** @type {any} */ run) => {
    const text = search.value.toLowerCase();
    const byOutcome =
      outcome.value === "" || outcome.value === run.outcome || (outcome.value === "failed" && run.outcome !== "ok");
    const byText =
      run.executionId.includes(text) ||
      run.names.some((/** @type {string} */ name) => name.toLowerCase().includes(text));
    return byOutcome && (door.value === "" || door.value === run.door) && byText;
  };
  const kept = keptRuns();
  const resized = new ResizeObserver(draw);
  resized.observe(list);
  return {
    title: "Runs",
    node: h(
      "div",
      null,
      h("h1", null, "Runs"),
      h(
        "div",
        { class: "row" },
        labelled("Search", search, "wide"),
        labelled("Outcome", outcome),
        labelled("Door", door),
      ),
      problem,
      list,
      known,
      kept.node,
    ),
    onEvent: (kind, data) => {
      if (kind === "lagged") restart();
      if (kind === "pending" || kind === "lagged") kept.look();
      if (kind !== "run" || !isAsked(data) || rows.some((row) => row.number === data.number)) return;
      rows.unshift(data);
      total += 1;
      if (active > 0) active += 1;
      if (list.scrollTop > 0) list.scrollTop += ROW;
      draw();
    },
    onClose: () => {
      generation += 1;
      resized.disconnect();
      kept.close();
    },
  };
}

/** @param {string[]} values @param {string} any */
function choice(values, any) {
  return /** @type {HTMLSelectElement} */ (
    h("select", null, ...values.map((value) => h("option", { value }, visible(value === "" ? any : value))))
  );
}
