// The whole way of a call that a rule asks about: an agent's run pauses, a person decides on the page, the run goes on, and
// the audit log has rule, decision and reviewer. See `run`.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const { TOOLGATE } = process.env;

/** The rules of the story; the agent cannot decide about its own writes. */
export const policy = [
  { tool: "demo.create_note", do: "ask", reason: "a person looks at what is written", approvers: ["ops"] },
  { tool: "demo.delete_note", do: "deny", reason: "notes are kept" },
  { tool: "demo.list_issues", do: "allow" },
];
const ASKS = "policy[0]";
const DENIES = "policy[1]";
const ALLOWS = "policy[2]";

const digest = (value) => `sha256:${createHash("sha256").update(JSON.stringify(value)).digest("hex")}`;

/** Calls a tool of the MCP door as a client does that cannot show forms. */
async function callByMcp({ ask, base, headers }, name, args) {
  const common = { ...headers, accept: "application/json, text/event-stream" };
  const send = (session, body) =>
    ask(base, "POST", "/mcp", {
      headers: { ...common, ...(session ? { "mcp-session-id": session, "mcp-protocol-version": "2025-06-18" } : {}) },
      body: { jsonrpc: "2.0", ...body },
    });
  const clientInfo = { name: "story-agent", version: "1.0" };
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const opened = await send(null, { id: 1, method: "initialize", params });
  assert.equal(opened.status, 200, opened.text);
  const session = opened.headers["mcp-session-id"];
  await send(session, { method: "notifications/initialized" });
  const called = await send(session, { id: 2, method: "tools/call", params: { name, arguments: args } });
  assert.equal(called.status, 200, called.text);
  const data = called.text.includes("data:") ? called.text.split("data:").pop() : called.text;
  return JSON.parse(data).result;
}

/** The lines of the audit log about one run, once its last one is written. */
async function audited(file, run) {
  for (;;) {
    const lines = readFileSync(file, "utf8").split("\n").filter(Boolean).map(JSON.parse);
    const own = lines.filter((line) => line.run === run);
    if (own.some((line) => line.event === "run")) return own;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export async function story({ rule, ask, base, ops, page, view, picture, unharmed, home, file }) {
  const agent = { authorization: "Bearer agent-key" };
  const audit = join(home, "state", "toolgate", "audit.jsonl");
  const ended = async (run) => {
    for (;;) {
      const state = (await ask(base, "GET", `/v1/runs/${run}?wait=20`, { headers: agent })).json();
      if (state.status === "done") return state.report;
    }
  };
  const card = (run) => page.getByRole("region", { name: `Run ${run}` });

  await rule("an agent's write waits, a person approves it on the page, and the audit log says who", async () => {
    const code =
      "const { total } = await demo.list_issues({ limit: 1 });\n" +
      "await demo.create_note({ name: 'story', text: `${total} issues` });\n" +
      "return total";
    const paused = await callByMcp({ ask, base, headers: agent }, "call_tool_chain", { code });
    const run = /[0-9a-f]{32}/.exec(JSON.stringify(paused))?.[0];
    assert.ok(run && JSON.stringify(paused).includes("paused"), JSON.stringify(paused));
    const own = { decisions: [{ callId: 2, decision: "approve" }] };
    const refused = await ask(base, "POST", `/v1/runs/${run}/decisions`, { headers: agent, body: own });
    assert.equal(refused.status, 400, `an agent approves its own write: ${refused.text}`);
    await view("Pending");
    await card(run).getByText("a person looks at what is written").waitFor();
    await card(run).locator("li.marked").filter({ hasText: "create_note" }).waitFor();
    assert.equal(await card(run).locator("li.marked").count(), 1, "the line of the call is marked");
    await picture("pending");
    await unharmed();
    await card(run).getByRole("button", { name: "Approve", exact: true }).click();
    await card(run).waitFor({ state: "detached" });
    const report = await ended(run);
    assert.ok(report.ok, JSON.stringify(report));

    const lines = await audited(audit, run);
    const calls = lines.filter((line) => line.event === "call");
    const known = ({ who, client, call, target, rule, decision, verdict, reviewer, outcome }) => {
      return { who, client, call, target, rule, decision, verdict, reviewer, outcome };
    };
    const common = { who: "agent", client: "story-agent 1.0", outcome: "applied" };
    assert.deepEqual(calls.map(known), [
      {
        ...common,
        call: 1,
        target: "demo.list_issues",
        rule: ALLOWS,
        decision: "allow",
        verdict: null,
        reviewer: null,
      },
      {
        ...common,
        call: 2,
        target: "demo.create_note",
        rule: ASKS,
        decision: "ask",
        verdict: "approved",
        reviewer: "ops",
      },
    ]);
    assert.equal(calls[0].digest, digest({ limit: 1 }));
    assert.equal(calls[1].digest, digest({ name: "story", text: `${report.value} issues` }));
    const verified = spawnSync(TOOLGATE, ["audit", "verify", audit]);
    assert.equal(verified.status, 0, String(verified.stderr));
  });

  await rule("a person denies a call with a reason, and a rule denies without a person", async () => {
    const code =
      "const said = [];\n" +
      "for (const call of [() => demo.create_note({ name: 'n', text: 't' }), () => demo.delete_note({ name: 'story' })])\n" +
      "  try { await call() } catch (error) { said.push(error.code + ': ' + error.message) }\n" +
      "return said";
    const { runId: run } = (await ask(base, "POST", "/v1/runs", { headers: agent, body: { code } })).json();
    await view("Pending");
    await card(run).getByLabel("Reason").fill("not on a Monday");
    await card(run).getByRole("button", { name: "Deny", exact: true }).click();
    await card(run).waitFor({ state: "detached" });
    const report = await ended(run);
    assert.equal(report.value.length, 2, JSON.stringify(report));
    assert.match(report.value[0], /^DENIED: .*not on a Monday/);
    assert.match(report.value[1], /^DENIED: .*notes are kept/);
    const calls = (await audited(audit, run)).filter((line) => line.event === "call");
    assert.deepEqual(
      calls.map(({ rule, decision, verdict, reviewer, outcome }) => [rule, decision, verdict, reviewer, outcome]),
      [
        [ASKS, "ask", "denied", "ops", "not_sent"],
        [DENIES, "deny", null, null, "not_sent"],
      ],
    );
  });

  await rule("a durable run is watched, approved for good, repeated and exported", async () => {
    await view("Playground");
    const area = page.getByRole("combobox");
    await area.fill("return (await demo.create_note({ name: 'again', text: 'x' })).name");
    await page.getByRole("button", { name: "Begin durable" }).click();
    await page.getByRole("heading", { name: "Pending", level: 1 }).waitFor();
    const waiting = page.locator("section.card").filter({ hasText: "again" });
    await waiting.getByLabel("Remember for").selectOption("always");
    await waiting.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("Nothing waits for a decision").waitFor();
    await view("Runs");
    await page.getByLabel("Door").selectOption("http");
    const newest = page.getByRole("row").first().getByText("demo.create_note");
    // A row that is drawn anew at that moment, since the run has just ended, does not get the click.
    const OPEN = /#\/runs\/./;
    for (let tries = 0; tries < 5 && !OPEN.test(page.url()); tries++) {
      await newest.click();
      await page.waitForURL(OPEN, { timeout: 5000 }).catch(() => {});
    }
    assert.match(page.url(), OPEN);
    const call = page.getByRole("row").filter({ hasText: "demo.create_note" });
    await call.getByText("approved").waitFor();
    await call.getByText("ops").waitFor();
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByText("gave the recorded report").waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export as a cassette" }).click(),
    ]);
    assert.match(download.suggestedFilename(), /^run-[0-9a-f]+\.jsonl$/);
    const folder = mkdtempSync(join(tmpdir(), "toolgate-cassette-"));
    const cassette = join(folder, "run.jsonl");
    await download.saveAs(cassette);
    const replayed = spawnSync(TOOLGATE, ["replay", cassette, "--assert"], { encoding: "utf8" });
    assert.equal(replayed.status, 0, replayed.stderr);
    rmSync(folder, { recursive: true });
    await call.getByRole("link", { name: "why" }).click();
    await page.getByText("what happens", { exact: false }).first().waitFor();
  });

  await rule("a person answers the form of a server, and the call is made with it", async () => {
    const code = "return await booking.book({ room: 12 })";
    const { runId: run } = (await ask(base, "POST", "/v1/runs", { headers: ops, body: { code } })).json();
    await view("Pending");
    await card(run).getByText("Who is the <b>guest</b>?").waitFor();
    await card(run).getByLabel("Guest").fill("Ann");
    await card(run).getByLabel("Nights").fill("3");
    await card(run).getByLabel("Bed").selectOption({ label: "<b>double</b>" });
    await card(run).getByLabel("Breakfast").check();
    await picture("form");
    await unharmed();
    await card(run).getByRole("button", { name: "Answer", exact: true }).click();
    await card(run).waitFor({ state: "detached" });
    await page.goto(`${base}/#/runs/${run}`);
    await page.getByText('"breakfast": true').waitFor();
    const report = (await ask(base, "GET", `/v1/runs/${run}`, { headers: ops })).json().report;
    assert.deepEqual(report.value, { room: 12, guest: "Ann", nights: 3, bed: "<b>double</b>", breakfast: true });
    const { runId: second } = (await ask(base, "POST", "/v1/runs", { headers: ops, body: { code } })).json();
    await view("Pending");
    await card(second).getByRole("button", { name: "Decline" }).click();
    await card(second).waitFor({ state: "detached" });
    await page.goto(`${base}/#/runs/${second}`);
    await page.getByText("a person declined").first().waitFor();
  });

  await rule("a durable run is forked: what is kept is not made again", async () => {
    const code =
      "const { title } = await demo.get_issue({ number: 1 });\n" +
      "return (await demo.create_note({ name: 'forked', text: title })).name";
    const approve = async (run) => {
      const body = { decisions: [{ callId: 2, decision: "approve" }] };
      for (let wait = 0; ; wait = 20) {
        const state = (await ask(base, "GET", `/v1/runs/${run}?wait=${wait}`, { headers: ops })).json();
        if (state.pending?.length) break;
      }
      const answer = await ask(base, "POST", `/v1/runs/${run}/decisions`, { headers: ops, body });
      assert.equal(answer.status, 200, answer.text);
    };
    const { runId: run } = (await ask(base, "POST", "/v1/runs", { headers: ops, body: { code } })).json();
    await page.goto(`${base}/#/runs/${run}`);
    await page.getByText("This run is paused").waitFor();
    await approve(run);
    // The page shows the end when it comes.
    const keep = page.getByLabel(/Keep this many/);
    await keep.waitFor();
    assert.equal(await keep.inputValue(), "2");
    await keep.fill("3");
    await page.getByRole("button", { name: "Fork" }).click();
    await page.getByRole("alert").getByText("2 answered calls").waitFor();
    await keep.fill("1");
    await page.getByRole("button", { name: "Fork" }).click();
    await page.getByText("1 effects of this run may be made again").waitFor();
    await page.getByRole("link", { name: "Open the new run" }).click();
    await page.getByText("This run is paused").waitFor();
    const forked = new URL(page.url()).hash.split("/").pop();
    assert.notEqual(forked, run);
    await approve(forked);
    await page.getByRole("heading", { name: "Result" }).waitFor();
    const report = (await ask(base, "GET", `/v1/runs/${forked}`, { headers: ops })).json().report;
    assert.deepEqual(
      report.calls.map((call) => call.name),
      ["demo.get_issue", "demo.create_note"],
    );
  });

  await rule("Policy shows the rules, says why, and takes an approval back", async () => {
    await view("Policy");
    const rules = page.getByRole("region", { name: "Rules in the order" });
    await rules.getByRole("row").filter({ hasText: "demo.delete_note" }).getByText("deny").waitFor();
    await page.getByLabel("Tool", { exact: true }).fill("demo.create_note");
    await page.getByLabel("Arguments (JSON)").fill('{"name": "n", "text": "t"}');
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByText("a person looks at what is written").last().waitFor();
    await picture("policy");
    await unharmed();
    const again = { code: "return (await demo.create_note({ name: 'again', text: 'x' })).name" };
    const begin = async () => (await ask(base, "POST", "/v1/runs", { headers: ops, body: again })).json().runId;
    const status = async (run) => (await ask(base, "GET", `/v1/runs/${run}?wait=20`, { headers: ops })).json();
    const settled = async (run) => {
      for (;;) {
        const state = await status(run);
        if (state.status !== "running") return state;
      }
    };
    const answered = await settled(await begin());
    assert.equal(answered.report?.calls[0].decision.verdict, "remembered", JSON.stringify(answered));
    const listed = spawnSync(TOOLGATE, ["policy", "list", "--config", file, "--json"], {
      encoding: "utf8",
      env: { ...process.env, HOME: home, XDG_STATE_HOME: join(home, "state") },
    });
    assert.equal(JSON.parse(listed.stdout).remembered.length, 1, listed.stdout + listed.stderr);
    await page.getByRole("button", { name: "Forget" }).click();
    await page.getByRole("button", { name: "Forget" }).waitFor({ state: "detached" });
    const asked = await settled(await begin());
    assert.equal(asked.status, "paused");
    await ask(base, "DELETE", `/v1/runs/${asked.runId}`, { headers: ops });
  });
}
