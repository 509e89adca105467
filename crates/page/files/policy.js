// Policy: what this caller may use, the rules about its calls, and why a call is allowed, asked about or denied.
import { count, duration, failure, fill, foreign, h, labelled, notice, parseJson, table } from "./dom.js";
import { get, path, post, request } from "./api.js";

/** @param {string[]} parts @returns {import("./app.js").View} */
export function policy(parts) {
  const body = h("div", null, notice("Loading…"));
  const load = () =>
    get("/v1/policy").then(
      (found) => fill(body, ...described(found, parts[0], load)),
      (error) => fill(body, failure(error)),
    );
  void load();
  return { title: "Policy", node: h("div", null, h("h1", null, "Policy"), body) };
}

/** What happens to a call, as a word with its colour. @param {string} action */
export function verdict(action) {
  const colour = /** @type {Record<string, string>} */ ({ allow: "good", ask: "warn", deny: "bad" })[action] ?? "";
  return h("strong", { class: colour }, action);
}

/** @param {string[] | null} patterns */
function patterns(patterns) {
  if (patterns === null) return "all";
  return patterns.length === 0 ? "none" : h("code", null, foreign(patterns.join(", "), 500));
}

/** @param {any} found @param {string | undefined} asked @param {() => void} reload */
function described(found, asked, reload) {
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
    section(
      "Rules",
      found.rules.length > 0
        ? table(
            "Rules in the order in which they decide",
            ["Rule", "Do", "Tools", "Where", "Reason"],
            found.rules.map(rule),
          )
        : notice("There is no rule about your calls."),
      h("p", { class: "soft" }, "Deny wins over ask, and ask over allow. Calls that no rule is about: ", found.default),
    ),
    explainer(asked ?? ""),
    found.remembered.length > 0 ? remembered(found.remembered, reload) : null,
    section("Your rights", table("Rights of the caller", ["Right", "What it covers"], rights)),
    section(
      "Backends",
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

/** @param {string} title @param {...import("./dom.js").Child} children */
function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", null, title), ...children);
}

/** @param {any} it */
function rule(it) {
  const where = [
    ...Object.entries(it.annotations).map(([name, value]) => (value ? name : `not ${name}`)),
    it.callers.length > 0 ? `callers ${it.callers.join(", ")}` : "",
    it.profiles.join(", "),
    it.when ?? "",
    it.limits ?? "",
    it.approvers.length > 0 ? `decided by ${it.approvers.join(", ")}` : "",
  ];
  return [
    h("code", null, foreign(it.rule, 80)),
    verdict(it.do),
    h("code", null, foreign(it.tool, 200)),
    foreign(where.filter((part) => part !== "").join("; "), 500),
    foreign(it.reason ?? "", 300),
  ];
}

/** Says what would happen to a call. @param {string} asked the tool to begin with */
function explainer(asked) {
  const tool = /** @type {HTMLInputElement} */ (
    h("input", { type: "text", maxlength: "500", placeholder: "backend.tool", value: asked })
  );
  const text = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "code", rows: "4", spellcheck: "false", value: "{}" })
  );
  const answer = h("div", { "aria-live": "polite" });
  const explain = async () => {
    try {
      const values = parseJson(text.value || "{}");
      fill(answer, ...explained(await post("/v1/policy/explain", { tool: tool.value.trim(), arguments: values })));
    } catch (error) {
      fill(answer, failure(error));
    }
  };
  tool.addEventListener("keydown", (event) => {
    if (event.key === "Enter") void explain();
  });
  if (asked !== "") void explain();
  return section(
    "What happens to a call",
    h("div", { class: "sides" }, labelled("Tool", tool, "wide"), labelled("Arguments (JSON)", text, "wide")),
    h("div", { class: "row" }, h("button", { class: "main", type: "button", click: () => void explain() }, "Explain")),
    answer,
  );
}

/** @param {any} it */
function explained(it) {
  const rows = it.rules.map((/** @type {any} */ rule) => [
    h("code", null, foreign(rule.rule, 80)),
    verdict(rule.do),
    h("code", null, foreign(rule.tool, 200)),
    foreign(rule.here, 500),
  ]);
  return [
    h(
      "p",
      { class: "notice" },
      verdict(it.do),
      it.rule ? [" by ", h("code", null, foreign(it.rule, 80))] : null,
      ": ",
      foreign(it.reason, 500),
    ),
    h("p", null, h("code", null, foreign(it.tool, 300)), `: ${it.effect}`),
    it.known ? null : notice("There is no such tool now, so that its annotations are not known."),
    rows.length > 0 ? table("Rules about this tool", ["Rule", "Do", "Tools", "Here"], rows) : null,
  ];
}

/** @param {any[]} all @param {() => void} reload */
function remembered(all, reload) {
  const problem = h("div");
  const forget = async (/** @type {string} */ id) => {
    try {
      await request("DELETE", path("/v1/policy/remembered", id));
      reload();
    } catch (error) {
      fill(problem, failure(error));
    }
  };
  const rows = all.map((it) => [
    h("code", null, foreign(it.tool, 200)),
    it.when ? h("code", null, foreign(it.when, 300)) : "",
    it.run ? ["run ", foreign(it.run, 40)] : it.forGood ? "always" : "this session",
    foreign(it.caller, 80),
    h("button", { type: "button", click: () => void forget(it.id) }, "Forget"),
  ]);
  return section(
    "Remembered approvals",
    problem,
    table("Approvals that stand for later calls", ["Tool", "When", "For", "Caller", ""], rows),
  );
}
