// Sign-in by key or token. A one-time link is followed before the first view, by app.js.
import { failure, fill, h, labelled } from "./dom.js";
import { keepToken, post } from "./api.js";

/** @param {() => void} done @param {string} [reason] */
export function signIn(done, reason) {
  const key = /** @type {HTMLInputElement} */ (
    h("input", { type: "password", autocomplete: "current-password", required: true })
  );
  const problem = h("div", null, reason ? h("p", { class: "notice error", role: "alert" }, reason) : null);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const reply = await post("/page/session", { key: key.value });
      keepToken(reply.csrf);
      done();
    } catch (error) {
      fill(problem, failure(error));
      key.select();
    }
  };
  const node = h(
    "form",
    { class: "card sign-in", submit },
    h("h1", null, "Sign in"),
    problem,
    h("div", { class: "row" }, labelled("API key, or the token of this machine", key, "wide")),
    h(
      "p",
      { class: "soft" },
      "The token is in the file that `toolgate serve --http` names when it starts. `toolgate ui` needs none.",
    ),
    h("button", { class: "main", type: "submit" }, "Sign in"),
  );
  return { title: "Sign in", node, focus: key };
}
