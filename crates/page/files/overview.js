// Overview: the backends with what helps, and the last hour.
import { count, duration, failure, foreign, h, notice, refill, table } from "./dom.js";
import { get, path, post } from "./api.js";
import { minutesChart } from "./charts.js";
import { loginButton } from "./login.js";

/** The least time between two reloads, in milliseconds. */
const RELOAD = 1000;
/** Notices of one backend that are shown. */
const MAX_NOTICES = 5;
const STATES = {
  ready: "good",
  idle: "soft",
  starting: "soft",
  restarting: "warn",
  failed: "bad",
  "needs-login": "warn",
  "needs-configuration": "warn",
  disabled: "soft",
  stopped: "soft",
};

/** @param {string[]} _ @param {import("./app.js").Context} context @returns {import("./app.js").View} */
export function overview(_, context) {
  const charts = h("div", { class: "grid" });
  const backends = h("div");
  const node = h(
    "div",
    null,
    h("h1", null, "Overview"),
    charts,
    h("section", { class: "card" }, h("h2", null, "Backends"), backends),
  );
  let timer = 0;
  let last = 0;
  const load = async () => {
    last = Date.now();
    try {
      const [stats, known] = await Promise.all([get("/v1/stats"), get("/v1/backends")]);
      refill(charts, JSON.stringify(stats), () => drawn(stats));
      refill(backends, JSON.stringify(known), () => listed(known.backends, context, later));
    } catch (error) {
      refill(backends, String(error), () => failure(error));
    }
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void load(), Math.max(0, last + RELOAD - Date.now()));
  };
  void load();
  const pulse = setInterval(later, 15000);
  return {
    title: "Overview",
    node,
    onEvent: later,
    onClose: () => {
      clearTimeout(timer);
      clearInterval(pulse);
    },
  };
}

/** @param {any} stats */
function drawn(stats) {
  const minutes = /** @type {any[]} */ (stats.minutes);
  const tokens = (/** @type {any} */ minute) => minute.bytesSaved / 4;
  const sum = (/** @type {(minute: any) => number} */ of) => minutes.reduce((all, minute) => all + of(minute), 0);
  return [
    minutesChart(
      "Runs a minute",
      `${count(sum((it) => it.runs))} in the last hour`,
      minutes.map((it) => ({ at: it.at, value: it.runs, part: it.failed })),
    ),
    minutesChart(
      "Failures",
      `${count(sum((it) => it.failed))} in the last hour`,
      minutes.map((it) => ({ at: it.at, value: it.failed })),
    ),
    minutesChart(
      "Tokens saved",
      `about ${count(stats.estimatedTokensSaved)} since the start`,
      minutes.map((it) => ({ at: it.at, value: tokens(it) })),
    ),
  ];
}

/** @param {any[]} backends @param {import("./app.js").Context} context @param {() => void} reload */
function listed(backends, context, reload) {
  if (backends.length === 0) {
    return notice(
      "No backend is configured: `toolgate add NAME -- COMMAND` adds one, `toolgate import` takes over those of your clients.",
    );
  }
  const rows = backends.map((backend) => [
    h("strong", null, foreign(backend.name, 80)),
    h(
      "span",
      { class: STATES[/** @type {keyof typeof STATES} */ (backend.state)] ?? "" },
      backend.state.replace("-", " "),
    ),
    h("a", { href: "#/tools" }, count(backend.tools)),
    backend.meanMs === undefined ? "-" : duration(backend.meanMs),
    count(backend.calls),
    h(
      "div",
      { class: "clip" },
      backend.lastError ? foreign(backend.lastError) : h("span", { class: "soft" }, foreign(backend.server ?? "")),
      ...notices(backend),
    ),
    action(backend, context, reload),
  ]);
  return table("Backends", ["Name", "State", "Tools", "Latency", "Calls", "Last error, or server", "What helps"], rows);
}

/** What a person should know about the tools of a backend, such as that one changed what it says. @param {any} backend */
function notices(backend) {
  const all = /** @type {string[]} */ (backend.notices ?? []);
  const more =
    all.length > MAX_NOTICES ? [h("div", { class: "warn" }, `and ${count(all.length - MAX_NOTICES)} more`)] : [];
  return [...all.slice(0, MAX_NOTICES).map((it) => h("div", { class: "warn" }, foreign(it, 300))), ...more];
}

/** @param {any} backend @param {import("./app.js").Context} context @param {() => void} reload */
function action(backend, context, reload) {
  switch (backend.action) {
    case "log-in":
      return loginButton(backend.name, [], `toolgate login ${backend.name}`);
    case "set-variable":
      return h("span", null, "set ", h("code", null, foreign(backend.variables.join(", "), 200)));
    case "restart": {
      const click = async () => {
        try {
          await post(path("/v1/backends", backend.name, "restart"));
          context.announce("restarting");
        } catch (error) {
          context.announce(error instanceof Error ? error.message : "failed");
        }
        reload();
      };
      return h("button", { type: "button", click: () => void click() }, "Restart");
    }
    default:
      return "";
  }
}
