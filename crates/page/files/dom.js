// Builds elements. Text is always text: nothing here or elsewhere parses markup.

/** @typedef {Node | string | number | null | undefined | false | any[]} Child */
/** @typedef {Record<string, unknown>} Props */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element. Functions become listeners, `class` the class, other values attributes; `value` and `checked` are set as
 * properties. Names of attributes come from this page's own code, never from data.
 * @param {string} tag
 * @param {Props | null} [props]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) set(element, name, value);
  append(element, children);
  return element;
}

/**
 * An element of a drawing.
 * @param {string} tag
 * @param {Props} props
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, props, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  for (const [name, value] of Object.entries(props)) set(element, name, value);
  append(element, children);
  return element;
}

/** @param {Element} element @param {string} name @param {unknown} value */
function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") {
    element.addEventListener(name, /** @type {EventListener} */ (value));
  } else if (name === "value" || name === "checked" || name === "disabled") {
    Reflect.set(element, name, value);
  } else {
    element.setAttribute(name, value === true ? "" : asText(value));
  }
}

/**
 * Any value as a text. A number that keeps its digits is an object without a prototype, which has no text of its own.
 * @param {unknown} value
 * @returns {string}
 */
export function asText(value) {
  const isBare = typeof value === "object" && value !== null && Object.getPrototypeOf(value) === null;
  return isBare ? JSON.stringify(value) : String(value);
}

/** @param {Node} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children.flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(asText(child)));
  }
}

/**
 * Replaces what an element holds.
 * @param {Element} parent
 * @param {...Child} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** What can have the focus. */
const FOCUSABLE = "a, button, input, select, textarea, [tabindex]";
/** What `refill` has put into an element. @type {WeakMap<Element, string>} */
const filled = new WeakMap();

/**
 * Replaces what an element holds where something else is to be shown: the focus and the scroll positions of tables stay.
 * @param {HTMLElement} parent
 * @param {string} key the same for the same content
 * @param {() => Child} content
 */
export function refill(parent, key, content) {
  if (filled.get(parent) === key) return;
  const focused = document.activeElement;
  const isInside = focused !== null && focused !== parent && parent.contains(focused);
  const place = isInside ? placeOf(focused) : "";
  const scrolled = new Map(regions(parent).map((region) => [placeOf(region), [region.scrollLeft, region.scrollTop]]));
  fill(parent, content());
  filled.set(parent, key);
  for (const region of regions(parent)) [region.scrollLeft, region.scrollTop] = scrolled.get(placeOf(region)) ?? [0, 0];
  if (!isInside) return;
  const again = [...parent.querySelectorAll(FOCUSABLE)].find((element) => placeOf(element) === place);
  /** @type {HTMLElement | undefined} */ (again)?.focus({ preventScroll: true });
}

/** @param {Element} parent */
function regions(parent) {
  return [...parent.querySelectorAll(".scroll")];
}

/** Where an element is, also after its table was drawn again: the name of its row, and its place there. @param {Element} element */
function placeOf(element) {
  const row = element.closest("tr");
  if (row === null) return `${element.tagName} ${element.getAttribute("aria-label") ?? element.textContent}`;
  const at = [...row.querySelectorAll(FOCUSABLE)].indexOf(element);
  return `row ${row.firstElementChild?.textContent} ${element.getAttribute("href")} ${at}`;
}

// Characters that cannot be seen, reorder text or drive something: shown by their number.
/* eslint-disable no-control-regex, no-misleading-character-class */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/gu;
/* eslint-enable no-control-regex, no-misleading-character-class */
// More than three marks on one letter are drawn over the lines around it.
const MARKS = /(\p{M}{3})\p{M}+/gu;

/**
 * A text in which nothing is hidden, at most `most` characters of it.
 * @param {unknown} value
 * @param {number} [most]
 * @returns {string}
 */
export function visible(value, most = 100000) {
  let text = asText(value);
  const rest = text.length - most;
  if (rest > 0) text = text.slice(0, most);
  text = text.replace(MARKS, "$1…").replace(UNSEEN, (found) => `\\u{${(found.codePointAt(0) ?? 0).toString(16)}}`);
  return rest > 0 ? `${text}… (${rest} more characters)` : text;
}

/**
 * Text of a server or a program.
 * @param {unknown} text
 * @param {number} [most]
 * @returns {HTMLElement}
 */
export function foreign(text, most = 300) {
  return h("span", { class: "foreign", dir: "auto" }, visible(text, most));
}

/**
 * The same as a block that keeps its lines.
 * @param {unknown} text
 * @param {number} [most]
 * @returns {HTMLElement}
 */
export function block(text, most = 50000) {
  return h("pre", { class: "foreign", tabindex: "0" }, visible(text, most));
}

/**
 * JSON text in which nothing is hidden: it means the same, with such characters escaped as JSON escapes them.
 * @param {unknown} value
 * @returns {string}
 */
export function jsonText(value) {
  const escaped = (/** @type {string} */ found) =>
    [...Array(found.length).keys()].map((at) => `\\u${found.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
  return (JSON.stringify(value, null, 2) ?? "undefined").replace(UNSEEN, escaped);
}

/** Whether this browser reads JSON numbers as they are written. */
export const keepsDigits = "rawJSON" in JSON;

/**
 * A value of JSON text in which integers keep their digits: those that are no exact number here stay text that `jsonText`
 * and requests write as it was. A person sees, and sends back, what will be sent.
 * @param {string} text
 * @returns {any}
 */
export function parseJson(text) {
  if (!keepsDigits) return JSON.parse(text);
  const { rawJSON } = /** @type {any} */ (JSON);
  const exact = (/** @type {string} */ _, /** @type {unknown} */ value, /** @type {{source?: string}} */ context) => {
    const isRounded = typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context.source ?? "");
    return isRounded ? rawJSON(context.source) : value;
  };
  return JSON.parse(text, /** @type {any} */ (exact));
}

/**
 * JSON as people read it.
 * @param {unknown} value
 * @param {number} [most]
 */
export function json(value, most = 50000) {
  return block(jsonText(value), most);
}

/**
 * A table with a caption for screen readers.
 * @param {string} caption
 * @param {string[]} heads
 * @param {Child[][]} rows
 */
export function table(caption, heads, rows) {
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, ...heads.map((head) => h("th", { scope: "col" }, head)))),
      h("tbody", null, ...rows.map((row) => h("tr", null, ...row.map((cell) => h("td", null, cell))))),
    ),
  );
}

/** @param {string} text @param {Child[]} rest */
export function notice(text, ...rest) {
  return h("p", { class: "notice" }, text, ...rest);
}

/** @param {unknown} error */
export function failure(error) {
  const text = error instanceof Error ? error.message : String(error);
  return h("p", { class: "notice error", role: "alert" }, visible(text, 1000));
}

let labels = 0;

/**
 * A field with its label.
 * @param {string} label
 * @param {HTMLElement} field
 * @param {string} [name]
 */
export function labelled(label, field, name = "") {
  labels += 1;
  field.id = `field-${labels}`;
  return h("div", { class: name }, h("label", { for: field.id }, label), field);
}

/** @param {number} bytes */
export function bytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
  return `${(ms / 1000).toFixed(2)} s`;
}

/** @param {number} ms */
export function time(ms) {
  return new Date(ms).toLocaleTimeString(undefined, { hour12: false });
}

/** A time, with its date where it is not of today. @param {number} ms */
export function moment(ms) {
  const at = new Date(ms);
  if (at.toDateString() === new Date().toDateString()) return time(ms);
  const day = [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, "0"));
  return `${day.join("-")} ${time(ms)}`;
}

/** @param {number} number */
export function count(number) {
  return number.toLocaleString("en");
}
