// An editor for programs: a text area with completion of backends and tools, for keyboard and screen reader.
import { fill, foreign, h } from "./dom.js";
import { get, query } from "./api.js";

/** Tools that completion knows; search knows them all. */
const MAX_TOOLS = 2000;
const MAX_OPTIONS = 12;

/** @typedef {{label: string, insert: string, detail: string}} Option */

/** @param {string} text @param {() => void} run */
export function editor(text, run) {
  const area = /** @type {HTMLTextAreaElement} */ (
    h("textarea", {
      class: "code",
      spellcheck: "false",
      autocapitalize: "off",
      autocomplete: "off",
      value: text,
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": "completions",
      "aria-autocomplete": "list",
      "aria-label": "Program. Control and Enter runs it; control and space completes a name.",
    })
  );
  const options = h("ul", {
    class: "options",
    id: "completions",
    role: "listbox",
    "aria-label": "Completions",
    hidden: true,
  });
  const node = h("div", { class: "editor" }, area, options);
  /** @type {any[]} */
  let tools = [];
  /** @type {Option[]} */
  let offered = [];
  let chosen = 0;
  void load().then((found) => {
    tools = found;
  });

  const close = () => {
    offered = [];
    options.hidden = true;
    area.setAttribute("aria-expanded", "false");
    area.removeAttribute("aria-activedescendant");
  };
  const draw = () => {
    fill(
      options,
      ...offered.map((option, at) =>
        h(
          "li",
          {
            role: "option",
            id: `completion-${at}`,
            "aria-selected": String(at === chosen),
            mousedown: (/** @type {Event} */ event) => {
              event.preventDefault();
              chosen = at;
              accept();
            },
          },
          h("code", null, foreign(option.label, 120)),
          " ",
          h("span", { class: "soft" }, foreign(option.detail, 120)),
        ),
      ),
    );
    options.hidden = offered.length === 0;
    area.setAttribute("aria-expanded", String(offered.length > 0));
    area.setAttribute("aria-activedescendant", `completion-${chosen}`);
  };
  /** The name before the cursor. */
  const typed = () => /[A-Za-z_$][\w$]*(?:\.[\w$]*)?$/.exec(area.value.slice(0, area.selectionStart))?.[0] ?? "";
  const complete = () => {
    offered = matching(tools, typed());
    chosen = 0;
    if (offered.length === 0) close();
    else draw();
  };
  const accept = () => {
    const [option, before] = [offered[chosen], typed()];
    if (!option) return;
    area.setRangeText(option.insert, area.selectionStart - before.length, area.selectionStart, "end");
    // A text that a script sets is told to no listener.
    area.dispatchEvent(new Event("input"));
    close();
    area.focus();
  };

  area.addEventListener("keydown", (event) => {
    const isOpen = offered.length > 0;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      close();
      run();
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      complete();
    } else if (isOpen && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + offered.length) % offered.length;
      draw();
    } else if (isOpen && event.key === "Enter") {
      event.preventDefault();
      accept();
    } else if (isOpen && event.key === "Escape") {
      event.preventDefault();
      close();
    }
  });
  area.addEventListener("input", () => {
    if (offered.length > 0 || typed().endsWith(".")) complete();
  });
  area.addEventListener("blur", close);
  return { node, area };
}

async function load() {
  /** @type {any[]} */
  let all = [];
  /** @type {string | null} */
  let after = null;
  try {
    do {
      /** @type {any} */
      const page = await get(`/v1/tools${query({ limit: 500, after })}`);
      all = all.concat(page.tools);
      after = page.next ?? null;
    } while (after !== null && all.length < MAX_TOOLS);
  } catch {
    // Without tools there is nothing to complete.
  }
  return all;
}

/** @param {any[]} tools @param {string} typed @returns {Option[]} */
function matching(tools, typed) {
  const wanted = typed.toLowerCase();
  if (!typed.includes(".")) {
    const names = [...new Set(tools.map((tool) => tool.spelling.split(".")[0]))];
    const backends = names.filter((name) => name.toLowerCase().startsWith(wanted));
    return backends.slice(0, MAX_OPTIONS).map((name) => ({ label: name, insert: `${name}.`, detail: "backend" }));
  }
  const found = tools.filter((tool) => tool.spelling.toLowerCase().startsWith(wanted)).slice(0, MAX_OPTIONS);
  return found.map((tool) => ({
    label: tool.spelling,
    insert: tool.call.replace(/^await /, ""),
    detail: tool.signature,
  }));
}
