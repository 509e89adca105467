// What a person types, looks at and means: the page neither loses it nor sends something else. See `run`.
import assert from "node:assert/strict";

const PENDING = /\/v1\/(pending|runs\/.*)(\?.*)?$/;

/** A call that waits, as `/v1/pending` has it. */
const call = (callId, title) => ({
  callId,
  backend: "demo",
  tool: "create_note",
  arguments: { title },
  reason: "writes",
});

export async function attention({ rule, ask, base, ops, page, view, heading, unharmed, browser, watch }) {
  const card = (run) => page.getByRole("region", { name: `Run ${run}` });
  /** Answers requests about pending runs from `state`, and keeps the decisions. */
  const pendingFrom = async (state) => {
    await page.route(PENDING, async (route) => {
      const request = route.request();
      if (request.method() === "POST") {
        const { decisions } = request.postDataJSON();
        state.decided.push(...decisions);
        state.runs = [];
        return route.fulfill({ json: { runId: "x", decisions } });
      }
      state.asked = (state.asked ?? 0) + 1;
      if (state.fails) return route.fulfill({ status: 503, json: { error: { message: "no store today" } } });
      const runs = state.runs.map((run) => ({ caller: "", beganAt: 0, code: "return 1", ...run }));
      return route.fulfill({ json: { runs, next: state.next } });
    });
  };
  /** The page looks again, as when another tab has decided something. */
  const changed = async () => {
    const body = { code: "return await demo.create_note({ name: 'wake', text: 'x' })" };
    const { runId } = (await ask(base, "POST", "/v1/runs", { headers: ops, body })).json();
    await ask(base, "DELETE", `/v1/runs/${runId}`, { headers: ops });
  };

  await rule("Approve all sends the arguments that are shown, and nothing while some are not JSON", async () => {
    const state = {
      decided: [],
      runs: [{ runId: "batch", pending: [call(1, "one"), call(2, "two"), call(3, "three")] }],
    };
    await pendingFrom(state);
    await view("Pending");
    const texts = card("batch").getByLabel(/Arguments/);
    await texts.nth(2).waitFor();
    await texts.nth(1).fill('{"title": ');
    await card("batch").getByRole("button", { name: "Approve all 3" }).click();
    await card("batch").getByRole("alert").waitFor();
    assert.deepEqual(state.decided, [], "a batch with an argument that is not JSON was sent");
    await texts.nth(1).fill('{"title": "edited"}');
    await card("batch").getByLabel("Remember for").nth(2).selectOption("run");
    await card("batch").getByRole("button", { name: "Approve all 3" }).click();
    await page.getByText("Nothing waits for a decision").waitFor();
    assert.deepEqual(state.decided, [
      { callId: 1, decision: "approve" },
      { callId: 2, decision: "edit", arguments: { title: "edited" } },
      { callId: 3, decision: "approve", remember: "run" },
    ]);
    await page.unroute(PENDING);
  });

  await rule("a change of the list keeps what a person types, and the places of what has not changed", async () => {
    const [first, second] = [
      { runId: "first", pending: [call(1, "one"), call(2, "two")] },
      { runId: "second", pending: [call(1, "other")] },
    ];
    const state = { decided: [], runs: [first, second] };
    await pendingFrom(state);
    await view("Pending");
    const reason = card("second").getByLabel("Reason");
    await reason.fill("I am still");
    await card("first").getByLabel("Reason").nth(1).fill("about the second call");
    // A newer run comes first in the answer, and another person has decided one of two calls.
    state.runs = [{ runId: "newer", pending: [call(1, "new")] }, { ...first, pending: [call(2, "two")] }, second];
    await reason.focus();
    await changed();
    await card("newer").waitFor();
    assert.deepEqual(
      await page.locator("section.card").evaluateAll((all) => all.map((it) => it.getAttribute("aria-label"))),
      ["Run first", "Run second", "Run newer"],
    );
    await page.keyboard.type(" typing");
    assert.equal(await reason.inputValue(), "I am still typing");
    assert.equal(await card("first").getByLabel("Reason").inputValue(), "about the second call");
    // A look that fails is told of beside the cards.
    state.fails = true;
    await changed();
    await page.getByRole("alert").getByText("no store today").waitFor();
    assert.equal(await reason.inputValue(), "I am still typing");
    state.fails = false;
    state.next = "more";
    state.runs = Array.from({ length: 50 }, (_, at) => ({ runId: `run-${at}`, pending: [call(1, "x")] }));
    await changed();
    await page.getByText("The first 50 runs that wait").waitFor();
    // Another view asks for nothing that waits, whenever an answer comes.
    await view("Doctor");
    await page.unroute(PENDING);
    const late = page.waitForRequest(/\/v1\/pending/, { timeout: 6000 }).then(
      () => true,
      () => false,
    );
    assert.equal(await late, false, "a closed view still asks");
  });

  await rule("a call that waits for a decision says so where it was made", async () => {
    const program = "return await demo.create_note({ name: 'asked', text: 'x' })";
    const paused = async () => {
      await page.getByText("The run is paused: 1 call waits for a decision.").waitFor();
      assert.equal(await page.getByText("undefined").count(), 0);
      await page.getByRole("link", { name: "Decide in Pending" }).click();
      await heading("Pending");
      await page.getByRole("button", { name: "Deny", exact: true }).first().click();
      await page.getByText("Nothing waits for a decision").waitFor();
    };
    await view("Playground");
    await page.getByRole("combobox").fill(program);
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await paused();
    await page.goto(`${base}/#/tools/demo/create_note`);
    await page.getByLabel("Arguments (JSON)").fill('{"name": "asked", "text": "x"}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await paused();
    await unharmed();
  });

  await rule("the link that skips the navigation stays in its view", async () => {
    await view("Doctor");
    await page.locator("#skip").focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement?.id), "main");
    assert.match(page.url(), /#\/doctor$/);
    await heading("Doctor");
  });

  await rule("Overview keeps the focus while it is drawn again", async () => {
    await view("Overview");
    const link = page.getByRole("row").filter({ hasText: "demo" }).getByRole("link").first();
    await link.focus();
    const calls = page.getByRole("row").filter({ hasText: "demo" }).getByRole("cell").nth(4);
    const before = await calls.innerText();
    await link.evaluate((element) => Reflect.set(window, "drawnBefore", element));
    await ask(base, "POST", "/v1/run", { headers: ops, body: { code: "return await demo.get_issue({ number: 1 })" } });
    await page.waitForFunction(() => !Reflect.get(window, "drawnBefore").isConnected);
    assert.notEqual(await calls.innerText(), before);
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("href")), "#/tools");
  });

  await rule("a run that ends while the list is loaded is in it once, and none is missed", async () => {
    const [history, stream] = [/\/v1\/history\?/, /\/v1\/events$/];
    const failed = async () => {
      const answer = await ask(base, "POST", "/v1/run", { headers: ops, body: { code: "throw new Error('x')" } });
      return answer.json().executionId;
    };
    const rows = page.getByRole("grid").getByRole("row");
    const before = await failed();
    let release = () => {};
    const held = new Promise((resolve) => (release = resolve));
    await page.route(history, async (route) => {
      await held;
      await route.continue();
    });
    await view("Runs");
    await page.getByLabel("Outcome").selectOption("RUNTIME");
    const meanwhile = await failed();
    await rows.getByText(meanwhile).waitFor();
    release();
    await rows.getByText(before).waitFor();
    assert.equal(await rows.getByText(meanwhile).count(), 1);
    await page.unroute(history);
    // A stream that tells of nothing and ends: when the next one begins, the list is read again.
    const empty = { contentType: "text/event-stream", body: "event: begin\ndata: {}\n\n" };
    await page.route(stream, (route) => route.fulfill(empty));
    await page.reload();
    await rows.getByText(meanwhile).waitFor();
    await rows.getByText(await failed()).waitFor();
    await page.unroute(stream);
    await page.reload();
    await page.locator("html[data-live=yes]").waitFor();
  });

  await rule("Playground keeps a completed name, and leaves a durable run alone that it no longer shows", async () => {
    await view("Playground");
    const area = page.getByRole("combobox");
    await area.fill("");
    await area.pressSequentially("return await demo.get_i");
    await page.getByRole("option", { name: /demo\.get_issue/ }).waitFor();
    await area.press("Enter");
    const completed = await area.inputValue();
    await view("Doctor");
    await view("Playground");
    assert.equal(await area.inputValue(), completed);
    await area.fill("return await demo.slow_task({ seconds: 1.5 })");
    const begun = page.waitForResponse((it) => it.url().endsWith("/v1/runs") && it.request().method() === "POST");
    await page.getByRole("button", { name: "Begin durable" }).click();
    const { runId } = await (await begun).json();
    assert.ok(await page.getByRole("button", { name: "Stop" }).isEnabled(), "a durable run can be stopped");
    await view("Doctor");
    for (let state = {}; state.status !== "done";)
      state = (await ask(base, "GET", `/v1/runs/${runId}?wait=20`, { headers: ops })).json();
    await page.getByRole("heading", { name: "Doctor", level: 1 }).waitFor();
    assert.match(page.url(), /#\/doctor$/, "the page has left the view");
  });

  await rule("a tab says for whom it acts when another one signs in", async () => {
    const context = await browser.newContext();
    const [one, two] = [await context.newPage(), await context.newPage()];
    [one, two].forEach(watch);
    const signIn = async (tab, key) => {
      await tab.getByLabel("API key").fill(key);
      await tab.getByRole("button", { name: "Sign in" }).click();
      await tab.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    };
    await one.goto(base);
    await signIn(one, "ops-key");
    await two.goto(base);
    await two.getByRole("button", { name: "Sign out" }).click();
    await one.getByRole("heading", { name: "Sign in", level: 1 }).waitFor();
    await signIn(two, "guest-key");
    await one.locator("#session").getByText("guest").waitFor();
    await context.close();
  });
}
