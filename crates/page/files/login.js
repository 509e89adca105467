// A login at a backend: a button that begins it and opens the page of the issuer, and that page as a link.
import { failure, fill, foreign, h } from "./dom.js";
import { path, post } from "./api.js";

/** Logins that were begun here, by backend: a list that is drawn again keeps their links until they expire. @type {Map<string, any>} */
const begun = new Map();

/**
 * @param {string} backend
 * @param {string[]} scopes More scopes to ask for.
 * @param {string} command The command that does the same.
 * @returns {HTMLElement}
 */
export function loginButton(backend, scopes, command) {
  const begin = async () => {
    begun.delete(backend);
    show(h("span", { role: "status" }, "Asking the server…"));
    try {
      const reply = await post(path("/v1/backends", backend, "login"), { scopes });
      if (!reply.url) return show(h("span", { role: "status" }, "There is a login already."));
      const login = { ...reply, until: Date.now() + 1000 * reply.expiresInSeconds };
      begun.set(backend, login);
      show(opened(login));
      expire(login);
      // A browser may refuse a window that opens late; the link stays.
      if (isPage(login.url)) window.open(login.url, "_blank", "noopener,noreferrer");
    } catch (error) {
      show(failure(error));
    }
  };
  const button = h("button", { type: "button", title: command, click: () => void begin() }, "Log in");
  const box = h("div");
  const show = (/** @type {import("./dom.js").Child[]} */ ...more) =>
    fill(box, button, " ", ...more, h("span", { class: "soft" }, " or run ", h("code", null, foreign(command, 300))));
  // A link leads nowhere after its time: the port that its page comes back to is closed.
  const expire = (/** @type {any} */ login) => {
    const end = () => {
      if ((begun.get(backend) ?? login) !== login) return;
      begun.delete(backend);
      if (box.isConnected) show(h("span", { role: "status" }, "The login was not finished in time."));
    };
    setTimeout(end, Math.max(0, login.until - Date.now()));
  };
  const known = begun.get(backend);
  show(known ? opened(known) : null);
  if (known) expire(known);
  return box;
}

/** @param {any} login */
function opened(login) {
  if (!isPage(login.url)) return null;
  return h(
    "span",
    null,
    h("a", { href: login.url, target: "_blank", rel: "noopener noreferrer" }, "Open the login page"),
    " of ",
    foreign(login.issuer ?? "", 200),
    ", in a browser on the machine of the service.",
  );
}

/** @param {unknown} url */
function isPage(url) {
  return typeof url === "string" && /^https?:\/\//.test(url);
}

/** The scopes that a command names. @param {string} command @returns {string[]} */
export function scopesOf(command) {
  return [...command.matchAll(/ --scope (?:'([^']*)'|(\S+))/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");
}
