// One question of a run that waits: a call that a rule asks about, a line of a review, a form of a server, a call whose effect
// is not known, or a tool that has changed. Each has the decisions that the service takes for it.
import { failure, fill, foreign, h, json, jsonText, keepsDigits, labelled, moment, notice, parseJson } from "./dom.js";
import { get, path } from "./api.js";
import { form } from "./form.js";
import { loginButton, scopesOf } from "./login.js";

/**
 * @typedef {{node: HTMLElement, isPlain: boolean, decided: (decision: string) => any, read: (decision: string) => any, onDecide: (decisions: any[]) => Promise<void>}} Question
 * `decided` is the decision with all that was filled in, and throws where that is wrong; `read` shows what is wrong instead.
 */

/** For how long an approval stands, as decisions say it. */
const REMEMBER = [
  ["", "only this call"],
  ["run", "this run"],
  ["session", "this session"],
  ["always", "always, with these arguments"],
];

/** @param {any} call @returns {Question} */
export function question(call) {
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", maxlength: "500" }));
  /** @type {Question} */
  const self = {
    node: h("div"),
    // What can be decided together with others, without looking at anything but the call.
    isPlain: (call.about?.kind ?? "rule") === "rule",
    decided: (decision) => ({
      callId: call.callId,
      decision,
      ...(reason.value === "" ? {} : { reason: reason.value }),
    }),
    read: (decision) => read(() => self.decided(decision)),
    onDecide: async () => {},
  };
  const problem = h("div");
  /** The decision; what is wrong with what was filled in is shown instead. @param {() => any} decision */
  const read = (decision) => {
    try {
      fill(problem);
      return decision();
    } catch (error) {
      fill(problem, failure(error));
      return undefined;
    }
  };
  const send = (/** @type {() => any} */ decision) => () => {
    const made = read(decision);
    if (made !== undefined) void self.onDecide([made]);
  };
  const button = (/** @type {string} */ text, /** @type {() => any} */ decision, name = "") =>
    h("button", { class: name, type: "button", click: send(decision) }, text);
  const kinds = { rule, form: asked, unknownEffect, changedSchema };
  const kind = /** @type {keyof typeof kinds} */ (call.about?.kind ?? "rule");
  const { parts, controls } = (kinds[kind] ?? rule)(call, self, button);
  const name = call.backend === undefined ? call.tool : `${call.backend}.${call.tool}`;
  fill(
    self.node,
    h("h3", null, h("code", null, foreign(name, 200))),
    call.login ? h("div", { class: "notice" }, "The call goes on by itself after a login. ", login(call)) : null,
    h(
      "p",
      { class: "warn" },
      call.rule ? [h("code", null, foreign(call.rule, 80)), ": "] : null,
      foreign(call.reason ?? "", 500),
    ),
    call.staged ? review(call.staged) : null,
    ...parts,
    problem,
    h(
      "div",
      { class: "row" },
      labelled("Reason", reason, "wide"),
      ...controls,
      button("Stop the run", () => self.decided("stop")),
    ),
    call.expiresAt ? h("p", { class: "soft" }, `The question stands until ${moment(call.expiresAt)}.`) : null,
  );
  return self;
}

/** @typedef {(text: string, decision: () => any, name?: string) => HTMLElement} Button */
/** @typedef {{parts: import("./dom.js").Child[], controls: import("./dom.js").Child[]}} Shown */

/** A call that was not sent: a person approves it, with these arguments or others. @param {any} call @param {Question} self @param {Button} button @returns {Shown} */
function rule(call, self, button) {
  const before = jsonText(call.arguments ?? {});
  const text = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "code", rows: "8", spellcheck: "false", value: before })
  );
  const remember = /** @type {HTMLSelectElement} */ (
    h("select", null, ...REMEMBER.map(([value, text]) => h("option", { value }, text)))
  );
  const { decided } = self;
  // Whichever button approves, alone or with other calls: what is sent are the arguments that are shown.
  self.decided = (decision) => {
    if (decision !== "approve") return decided(decision);
    const edit = text.value === before ? {} : { decision: "edit", arguments: parseJson(text.value) };
    return { ...decided(decision), ...(remember.value === "" ? {} : { remember: remember.value }), ...edit };
  };
  const approveButton = button("Approve", () => self.decided("approve"), "main");
  text.addEventListener("input", () => fill(approveButton, text.value === before ? "Approve" : "Approve as edited"));
  const isRounded = !keepsDigits && /\d{16}/.test(before);
  return {
    parts: [
      isRounded ? notice("This browser rounds long integers: the call has other digits than are shown here.") : null,
      h(
        "div",
        { class: "sides" },
        labelled("Arguments (JSON); change them to approve other ones", text, "wide"),
        schemaOf(call),
      ),
    ],
    controls: [labelled("Remember for", remember), approveButton, button("Deny", () => self.decided("deny"))],
  };
}

/** What a server asks before it carries the call out. @param {any} call @param {Question} self @param {Button} button @returns {Shown} */
function asked(call, self, button) {
  const fields = form(call.about.schema);
  const answer = () => ({ ...self.decided("answer"), arguments: fields.answer() });
  return {
    parts: [fields.node, sent(call)],
    controls: [button("Answer", answer, "main"), button("Decline", () => self.decided("deny"))],
  };
}

/** A call that was sent and not answered. @param {any} call @param {Question} self @param {Button} button @returns {Shown} */
function unknownEffect(call, self, button) {
  const found = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { class: "code", rows: "3", spellcheck: "false", value: "null" })
  );
  const answer = () => ({ ...self.decided("answer"), arguments: parseJson(found.value) });
  return {
    parts: [
      notice(
        "It is not known whether this call took effect. Look at its server first: if it did, write what the program should get; if not, send it again.",
      ),
      sent(call),
      labelled("What the program gets as the answer (JSON)", found, "wide"),
    ],
    controls: [
      button("Send again", () => self.decided("approve")),
      button("It was done: answer", answer),
      button("Deny", () => self.decided("deny")),
    ],
  };
}

/** A tool that the run has called and that is another one now. @param {any} call @param {Question} self @param {Button} button @returns {Shown} */
function changedSchema(call, self, button) {
  return {
    parts: [schemaOf(call)],
    controls: [
      button("Go on with the changed tool", () => self.decided("approve"), "main"),
      button("End the run", () => self.decided("deny")),
    ],
  };
}

/** @param {any} call */
function login(call) {
  if (call.backend === undefined) return h("code", null, foreign(call.login, 300));
  return loginButton(call.backend, scopesOf(String(call.login)), String(call.login));
}

/** The arguments as they are, where they cannot be changed. @param {any} call */
function sent(call) {
  return h("details", null, h("summary", null, "Arguments of the call"), json(call.arguments ?? {}, 8000));
}

/** @param {any} call */
function schemaOf(call) {
  const title = h("span", { class: "soft" }, "Schema of the arguments");
  const box = h("div", null, title, notice("Loading…"));
  const unknown = () => fill(box, notice("The schema is not known."));
  if (call.backend === undefined) unknown();
  else
    get(path("/v1/tools", call.backend, call.tool)).then(
      (tool) => fill(box, title, json(tool.inputSchema, 8000)),
      unknown,
    );
  return box;
}

/** What else a person should know about a line of the review of a staged run. @param {any} staged */
function review(staged) {
  const filled = staged.substitutions.map((/** @type {any} */ it) => {
    const value = it.value === "" ? "the answer" : it.value;
    return h("li", null, foreign(`${it.at} is filled in with ${value} of line ${it.line}`, 300));
  });
  return h(
    "div",
    { class: "soft" },
    filled.length > 0 ? h("ul", null, ...filled) : null,
    staged.commitPoint
      ? h("p", null, "What follows depends on ", foreign(staged.commitPoint, 300), ", which is not there before.")
      : null,
  );
}
