// Policy: what this caller may use, and what the configuration lets through.
import { count, duration, failure, fill, foreign, h, notice, table } from "./dom.js";
import { get } from "./api.js";

/** @returns {import("./app.js").View} */
export function policy() {
  const body = h("div", null, notice("Loading…"));
  get("/v1/policy").then(
    (found) => fill(body, ...described(found)),
    (error) => fill(body, failure(error)),
  );
  return { title: "Policy", node: h("div", null, h("h1", null, "Policy"), body) };
}

/** @param {string[] | null} patterns */
function patterns(patterns) {
  if (patterns === null) return "all";
  return patterns.length === 0 ? "none" : h("code", null, foreign(patterns.join(", "), 500));
}

/** @param {any} found */
function described(found) {
  const { caller } = found;
  const rights = [
    ["Caller", caller.name === "" ? "the user of this machine" : foreign(caller.name, 100)],
    ["Backends", patterns(caller.backends)],
    ["Tools", patterns(caller.tools)],
    ["Functions", patterns(caller.functions)],
    ["Calls a minute", caller.callsPerMinute === null ? "no limit" : count(caller.callsPerMinute)],
  ];
  const rows = found.backends.map((/** @type {any} */ it) => [
    h("strong", null, foreign(it.name, 80)),
    patterns(it.allow),
    patterns(it.deny),
    duration(it.timeoutMs),
    count(it.maxConcurrentCalls),
  ]);
  return [
    h(
      "section",
      { class: "card" },
      h("h2", null, "Your rights"),
      table("Rights of the caller", ["Right", "What it covers"], rights),
    ),
    h(
      "section",
      { class: "card" },
      h("h2", null, "Backends"),
      rows.length > 0
        ? table(
            "What the configuration lets through",
            ["Backend", "Shown tools", "Hidden tools", "Time of a call", "Calls at once"],
            rows,
          )
        : notice("No backend is configured."),
    ),
  ];
}
