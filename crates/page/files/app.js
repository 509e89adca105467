// The page: who is signed in, which view is shown, what happens live.
import { fill, h, failure, visible } from "./dom.js";
import { events, get, keepToken, onSignedOut, onTokenChange, post, request } from "./api.js";
import { signIn } from "./sign-in.js";
import { overview } from "./overview.js";
import { pending } from "./pending.js";
import { runs } from "./runs.js";
import { run } from "./run.js";
import { tools } from "./tools.js";
import { playground } from "./playground.js";
import { policy } from "./policy.js";
import { doctor } from "./doctor.js";

/** @typedef {{title: string, node: HTMLElement, onEvent?: (kind: string, data: any) => void, onClose?: () => void, focus?: HTMLElement}} View */
/** @typedef {{announce: (text: string) => void, go: (hash: string) => void}} Context */

/** @type {[string, string, (parts: string[], context: Context) => View][]} */
const VIEWS = [
  ["overview", "Overview", overview],
  ["pending", "Pending", pending],
  ["runs", "Runs", (parts, context) => (parts.length > 0 ? run(parts, context) : runs(parts, context))],
  ["tools", "Tools", tools],
  ["playground", "Playground", playground],
  ["policy", "Policy", policy],
  ["doctor", "Doctor", doctor],
];

const element = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
const [main, nav, session, live] = ["main", "nav", "session", "live"].map(element);

/** @type {View | null} */
let shown = null;
let isSignedIn = false;
/** @type {AbortController | null} */
let listening = null;

/** @type {Context} */
const context = {
  announce: (text) => fill(live, text),
  go: (hash) => {
    location.hash = hash;
  },
};

/** @param {View} view */
function show(view) {
  shown?.onClose?.();
  shown = view;
  document.title = `${view.title} - Toolgate`;
  fill(main, view.node);
  (view.focus ?? main).focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function route() {
  if (!isSignedIn) return;
  const parts = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const [name, , view] = VIEWS.find(([known]) => known === parts[0]) ?? VIEWS[0];
  for (const link of nav.querySelectorAll("a")) {
    if (link.getAttribute("href") === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    show(view(parts[0] === name ? parts.slice(1) : [], context));
  } catch (error) {
    show({ title: "Error", node: failure(error) });
  }
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @param {string} [reason] */
function askToSignIn(reason) {
  isSignedIn = false;
  listening?.abort();
  fill(nav);
  fill(session);
  show(signIn(() => void begin(), reason));
}

async function signOut() {
  await request("DELETE", "/page/session").catch(() => {});
  keepToken(null);
  askToSignIn();
}

/** Follows a one-time link, whose token is behind the `#` and so was sent to no server. */
async function followLink() {
  const link = /^#link=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (!link) return undefined;
  history.replaceState(null, "", "/#/overview");
  try {
    keepToken((await post("/page/session", { link })).csrf);
    return undefined;
  } catch {
    return "This link was used before, or is too old.";
  }
}

async function begin() {
  const problem = await followLink();
  let who;
  try {
    who = await get("/page/session");
  } catch (error) {
    return show({ title: "Error", node: failure(error) });
  }
  if (who.caller === undefined) return askToSignIn(problem);
  isSignedIn = true;
  fill(nav, ...VIEWS.map(([name, title]) => h("a", { href: `#/${name}` }, title)));
  fill(
    session,
    h("span", null, visible(who.caller === "" ? "this machine" : who.caller, 60)),
    who.required ? h("button", { type: "button", click: () => void signOut() }, "Sign out") : null,
  );
  listening?.abort();
  listening = new AbortController();
  void events((kind, data) => {
    document.documentElement.dataset.live = "yes";
    if (kind === "tool-changed") {
      const what = `${visible(data.backend, 80)}.${visible(data.tool, 120)} changed its ${data.parts.join(" and ")}`;
      context.announce(`${what}: read what it says now before you rely on it`);
    }
    // A stream has no events from before it began, so a view that depends on them loads its data again.
    shown?.onEvent?.(kind === "begin" ? "lagged" : kind, data);
  }, listening.signal);
  route();
}

onSignedOut(() => {
  if (isSignedIn) askToSignIn("The session has ended.");
});
// The views are behind the hash, so that the link would leave the one that is shown.
element("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// Another tab has signed in or out: this one acts for the same caller from now on, and says so.
onTokenChange(() => void begin());
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#link=")) void begin();
  else route();
});
void begin();
