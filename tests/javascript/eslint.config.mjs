// Rules for the JavaScript that runs in workers. The files are single expressions, so no file sees another's names.
import js from "@eslint/js";

const rules = {
  "prefer-const": "error",
  "no-var": "error",
  eqeqeq: "error",
  // `while (receive() !== null) {}` waits.
  "no-empty": "off",
};

export default [
  js.configs.recommended,
  {
    files: ["**/*.js"],
    languageOptions: {
      ecmaVersion: "latest",
      sourceType: "script",
      globals: { DOMException: "readonly", queueMicrotask: "readonly" },
    },
    rules,
  },
  {
    // The page: modules in a browser.
    files: ["**/page/files/*.js"],
    languageOptions: {
      sourceType: "module",
      globals: Object.fromEntries(
        [
          ...[
            "AbortController",
            "Blob",
            "Event",
            "Node",
            "ResizeObserver",
            "TextDecoderStream",
            "URL",
            "URLSearchParams",
          ],
          ...["addEventListener", "clearInterval", "clearTimeout", "document", "fetch", "history", "localStorage"],
          ...["location", "requestAnimationFrame", "sessionStorage", "setInterval", "setTimeout", "window"],
        ].map((name) => [name, "readonly"]),
      ),
    },
  },
  {
    // Deno's own realm, the only module.
    files: ["**/outer.js"],
    languageOptions: { sourceType: "module", globals: { Deno: "readonly" } },
  },
];
