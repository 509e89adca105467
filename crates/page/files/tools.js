// Tools: searched as a model searches them; one of them with its schema and types, and a call to try.
import { block, count, failure, fill, foreign, h, json, labelled, notice, parseJson } from "./dom.js";
import { get, path, post, query } from "./api.js";
import { shownReport } from "./run.js";

/** @param {string[]} parts @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function tools(parts, context) {
  return parts.length >= 2 ? tool(parts[0], parts[1], context) : list();
}

/** @returns {import("./app.js").View} */
function list() {
  const input = /** @type {HTMLInputElement} */ (
    h("input", { type: "search", placeholder: "what you want to do, in plain words" })
  );
  const found = h("ul", { class: "plain" });
  const status = h("p", { class: "soft", role: "status" });
  const rest = h("div");
  let asked = 0;
  const load = async (/** @type {string | null} */ after) => {
    asked += 1;
    const mine = asked;
    try {
      const page = await get(
        `/v1/tools${query({ query: input.value.trim(), limit: input.value.trim() ? 20 : 100, after })}`,
      );
      if (mine !== asked) return;
      const rows = page.tools.map(row);
      if (after === null) fill(found, ...rows);
      else found.append(...rows);
      fill(
        status,
        input.value.trim()
          ? `${count(page.tools.length)} best of ${count(page.total)} tools`
          : `${count(page.total)} tools`,
      );
      fill(rest, page.next ? h("button", { type: "button", click: () => void load(page.next) }, "More") : null);
    } catch (error) {
      if (mine === asked) fill(status, failure(error));
    }
  };
  let typing = 0;
  input.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => void load(null), 150);
  });
  void load(null);
  return {
    title: "Tools",
    node: h(
      "div",
      null,
      h("h1", null, "Tools"),
      h("div", { class: "row" }, labelled("Search as the model does", input, "wide")),
      status,
      found,
      rest,
    ),
    onEvent: (kind) => {
      if ((kind === "tools" || kind === "lagged") && input.value === "") void load(null);
    },
    onClose: () => {
      asked += 1;
    },
  };
}

/** @param {any} it */
function row(it) {
  return h(
    "li",
    null,
    h(
      "a",
      { href: `#/tools/${encodeURIComponent(it.backend)}/${encodeURIComponent(it.tool)}` },
      h("strong", null, foreign(it.spelling, 200)),
    ),
    h("div", { class: "clip" }, foreign(it.description, 400)),
    h("div", { class: "clip" }, h("code", { class: "foreign soft" }, foreign(it.signature, 600))),
  );
}

/** @param {string} backend @param {string} name @param {import("./app.js").Context} context @returns {import("./app.js").View} */
function tool(backend, name, context) {
  const body = h("div", null, notice("Loading…"));
  get(path("/v1/tools", backend, name)).then(
    (found) => fill(body, ...described(found, context)),
    (error) => fill(body, failure(error)),
  );
  return {
    title: "Tool",
    node: h(
      "div",
      null,
      h("p", null, h("a", { href: "#/tools" }, "All tools")),
      h("h1", null, foreign(`${backend}.${name}`, 200)),
      body,
    ),
  };
}

/** @param {any} it @param {import("./app.js").Context} context */
function described(it, context) {
  const argumentsText = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "code", rows: "6", spellcheck: "false", value: example(it.inputSchema) })
  );
  const answer = h("div", { "aria-live": "polite" });
  const call = async () => {
    let values;
    try {
      values = parseJson(argumentsText.value || "{}");
    } catch (error) {
      return fill(answer, failure(error));
    }
    fill(answer, notice("Calling…"));
    try {
      const report = await post("/v1/run", {
        code: JSON.stringify({ tool: `${it.backend}.${it.tool}`, arguments: values }),
      });
      fill(answer, ...shownReport(report, null, []));
    } catch (error) {
      fill(answer, failure(error));
    }
  };
  const open = () => {
    sessionStorage.setItem("toolgate-program", `return ${it.call}`);
    context.go("#/playground");
  };
  return [
    h(
      "section",
      { class: "card" },
      h("h2", null, "Description"),
      block(it.fullDescription, 20000),
      h("h2", null, "Signature"),
      block(it.signature),
      it.note ? h("p", { class: "notice" }, it.note) : null,
    ),
    h(
      "section",
      { class: "card" },
      h("h2", null, "Try a call"),
      h(
        "div",
        { class: "sides" },
        labelled("Arguments (JSON)", argumentsText, "wide"),
        h("div", null, h("span", { class: "soft" }, "Schema of the arguments"), json(it.inputSchema, 8000)),
      ),
      h(
        "div",
        { class: "row" },
        h("button", { class: "main", type: "button", click: () => void call() }, "Call"),
        h("button", { type: "button", click: open }, "Open in the playground"),
      ),
      answer,
    ),
    h(
      "details",
      { class: "card" },
      h("summary", null, "Types, result schema, annotations"),
      block(it.types),
      json(it.outputSchema),
      json(it.annotations),
    ),
  ];
}

/** Arguments to begin with: the required ones, empty. @param {any} schema */
function example(schema) {
  /** @type {Record<string, unknown>} */
  const values = {};
  for (const name of Array.isArray(schema?.required) ? schema.required : []) {
    const kind = schema.properties?.[name]?.type;
    values[name] = { number: 0, integer: 0, boolean: false, array: [], object: {} }[/** @type {string} */ (kind)] ?? "";
  }
  return JSON.stringify(values, null, 2);
}
