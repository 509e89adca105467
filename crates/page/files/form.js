// A form that a server asks for: controls for the flat schema of its answer, and the answer as it is sent.
import { asText, foreign, h, labelled, parseJson, visible } from "./dom.js";

/** @typedef {{name: string, node: HTMLElement, read: () => unknown}} Field */

let hints = 0;

/**
 * The controls, and what a person filled in; the answer throws where something is missing.
 * @param {any} schema an object of texts, numbers and truth values
 * @returns {{node: HTMLElement, answer: () => Record<string, unknown>}}
 */
export function form(schema) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, field]) =>
    control(name, /** @type {any} */ (field), required.has(name)),
  );
  return {
    node: h("div", { class: "form" }, ...fields.map((field) => field.node)),
    answer: () => {
      const filled = fields.map((field) => [field.name, field.read()]);
      return Object.fromEntries(filled.filter(([, value]) => value !== undefined));
    },
  };
}

/** @param {string} name @param {any} field @param {boolean} isRequired @returns {Field} */
function control(name, field, isRequired) {
  const title = visible(field.title ?? name, 200);
  const { element, read } = input(field);
  const value = () => {
    const found = read();
    if (found === undefined && isRequired) {
      element.focus();
      throw new Error(`${title}: fill this in`);
    }
    return found;
  };
  if (isRequired && field.type !== "boolean") element.setAttribute("aria-required", "true");
  const label = isRequired ? `${title} (required)` : title;
  const node = labelled(label, element, field.type === "boolean" ? "check" : "wide");
  if (!field.description) return { name, node, read: value };
  hints += 1;
  const id = `hint-${hints}`;
  element.setAttribute("aria-describedby", id);
  return {
    name,
    node: h("div", null, node, h("p", { class: "soft", id }, foreign(field.description, 300))),
    read: value,
  };
}

/** The control of a field, and its value; undefined where nothing was filled in. @param {any} field */
function input(field) {
  if (field.type === "boolean") {
    const element = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: field.default === true }));
    return { element, read: () => element.checked };
  }
  if (Array.isArray(field.enum)) {
    const choices = /** @type {string[]} */ (field.enum);
    const option = (/** @type {string} */ choice, /** @type {number} */ at) =>
      h("option", { value: String(at) }, visible(choice, 200));
    const element = /** @type {HTMLSelectElement} */ (
      h("select", null, h("option", { value: "" }, "choose"), ...choices.map(option))
    );
    const chosen = choices.indexOf(field.default);
    element.value = chosen < 0 ? "" : String(chosen);
    return { element, read: () => (element.value === "" ? undefined : choices[Number(element.value)]) };
  }
  const isText = field.type === "string";
  const before = field.default === undefined ? "" : asText(field.default);
  const element = /** @type {HTMLInputElement} */ (
    h("input", {
      type: isText ? "text" : "number",
      step: isText ? null : field.type === "integer" ? "1" : "any",
      value: before,
    })
  );
  // What is typed into a number's control and is no number reads as nothing; a long one keeps its digits.
  const number = (/** @type {string} */ text) => (/^-?\d+$/.test(text) ? parseJson(text) : Number(text));
  return { element, read: () => (element.value === "" ? undefined : isText ? element.value : number(element.value)) };
}
