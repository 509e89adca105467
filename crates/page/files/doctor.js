// Doctor: the layers that confine programs here.
import { failure, fill, foreign, h, notice, table } from "./dom.js";
import { get } from "./api.js";

/** @returns {import("./app.js").View} */
export function doctor() {
  const body = h("div", null, notice("Running a program…"));
  get("/v1/doctor").then(
    (found) => fill(body, ...described(found)),
    (error) => fill(body, failure(error)),
  );
  return { title: "Doctor", node: h("div", null, h("h1", null, "Doctor"), body) };
}

/** @param {any} found */
function described(found) {
  const rows = found.layers.map((/** @type {any} */ layer) => [
    h("strong", null, layer.name),
    h("span", { class: layer.active ? "good" : layer.required ? "bad" : "warn" }, layer.active ? "on" : "off"),
    layer.note,
  ]);
  return [
    h(
      "p",
      { class: found.ok ? "notice" : "notice error" },
      found.ok ? "Programs run in a sealed process." : "No program is run in a sealed process.",
      ` Toolgate ${found.version} on ${found.system}.`,
    ),
    found.error ? failure(found.error) : null,
    h("section", { class: "card" }, table("Layers", ["Layer", "State", "What it does"], rows)),
    found.problems.length > 0
      ? h(
          "section",
          { class: "card" },
          h("h2", null, "Configuration"),
          h(
            "ul",
            null,
            ...found.problems.map((/** @type {string} */ it) => h("li", { class: "warn" }, foreign(it, 1000))),
          ),
        )
      : null,
  ];
}
