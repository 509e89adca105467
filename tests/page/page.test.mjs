// See `run`. Each case is a rule; the first that does not hold ends the suite with its reason. No case waits for a time:
// they wait for what the page shows.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { attention } from "./attention.mjs";
import { loginServer } from "./login-server.mjs";
import { policy, story } from "./story.mjs";

const { CHROMIUM, PLAYWRIGHT, SCREENSHOTS, TOOLGATE } = process.env;
const { chromium } = await import(PLAYWRIGHT);
const here = dirname(fileURLToPath(import.meta.url));
/** A loaded machine is slow; nothing here is expected to take a part of this. */
const PATIENCE = 60_000;
const RUNS = 10_000;

const home = mkdtempSync(join(tmpdir(), "toolgate-page-"));
const children = [];
const hash = (key) => `sha256:${createHash("sha256").update(key).digest("hex")}`;
const config = {
  mcpServers: {
    demo: { command: TOOLGATE, args: ["demo"] },
    hostile: { command: process.execPath, args: [join(here, "hostile-server.mjs"), join(home, "changed")] },
    booking: { command: process.execPath, args: [join(here, "asking-server.mjs")] },
    broken: { command: join(home, "no-such-program") },
    unset: { command: "x", env: { KEY: "${TOOLGATE_PAGE_TEST_UNSET}" } },
  },
  toolgate: {
    http: {
      keys: [
        { name: "ops", hash: hash("ops-key") },
        { name: "guest", hash: hash("guest-key"), backends: ["demo"] },
        { name: "agent", hash: hash("agent-key") },
      ],
    },
    policy,
    audit: { enabled: true },
  },
};

/** Starts a command, and resolves with its first line that has this pattern. */
function start(args, pattern) {
  const env = {
    ...process.env,
    HOME: home,
    XDG_STATE_HOME: join(home, "state"),
    XDG_CACHE_HOME: join(home, "cache"),
    BROWSER: "",
  };
  const child = spawn(TOOLGATE, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return new Promise((resolve, reject) => {
    const seen = [];
    const look = (line) => {
      seen.push(line);
      const found = pattern.exec(line);
      if (found) resolve({ child, found });
    };
    createInterface({ input: child.stdout }).on("line", look);
    createInterface({ input: child.stderr }).on("line", look);
    child.on("exit", () => reject(new Error(`${args.join(" ")} ended:\n${seen.join("\n")}`)));
  });
}

const agent = new http.Agent({ keepAlive: true, maxSockets: 16 });
/** A request without a browser. */
function ask(base, method, path, { headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const request = http.request(
      `${base}${path}`,
      { method, agent, headers: { ...(text ? { "content-type": "application/json" } : {}), ...headers } },
      (response) => {
        let received = "";
        response.setEncoding("utf8");
        response.on("data", (part) => (received += part));
        response.on("end", () =>
          resolve({
            status: response.statusCode,
            headers: response.headers,
            text: received,
            json: () => JSON.parse(received),
          }),
        );
      },
    );
    request.on("error", reject);
    request.end(text);
  });
}

let step = "start";
const rule = async (name, check) => {
  step = name;
  const since = Date.now();
  await check();
  console.log(`page: ${name} ... ok (${Date.now() - since} ms)`);
};

async function main() {
  const file = join(home, "toolgate.json");
  writeFileSync(file, JSON.stringify(config));
  const { found } = await start(
    ["serve", "--config", file, "--http", "127.0.0.1:0"],
    /listening at (http:\/\/[\d.:]+), .*the page at \//,
  );
  const base = found[1];
  const ops = { authorization: "Bearer ops-key" };
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  children.push({ kill: () => void browser.close().catch(() => {}) });
  const context = await browser.newContext({
    viewport: { width: 1200, height: 800 },
    colorScheme: "light",
    reducedMotion: "reduce",
  });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const violations = [];
  const watch = (opened) => {
    // What the service refuses is an error to the console, and tested as an answer.
    const isRefusal = (line) => line.text().startsWith("Failed to load resource");
    opened.on("console", (line) => line.type() === "error" && !isRefusal(line) && violations.push(line.text()));
    opened.on("pageerror", (error) => violations.push(String(error)));
    opened.on("dialog", (dialog) => {
      violations.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
  };
  watch(page);
  const heading = (text) => page.getByRole("heading", { name: text, level: 1 }).waitFor();
  const view = async (name) => {
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name, exact: true }).click();
    await heading(name);
  };
  const picture = async (name) => {
    if (SCREENSHOTS) {
      mkdirSync(SCREENSHOTS, { recursive: true });
      await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
    }
  };
  /** No text of a server has become script, markup or layout. */
  const unharmed = async () => {
    const state = await page.evaluate(() => ({
      pwned: Reflect.get(window, "pwned"),
      foreign: document.querySelectorAll(
        "main img, main iframe, main script, main style, main b, main a[href^=javascript]",
      ).length,
      header: document.querySelector("header")?.getBoundingClientRect().toJSON(),
      overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      hidden: document.body.innerText.includes("\u202e"),
    }));
    assert.equal(state.pwned, undefined);
    assert.equal(state.foreign, 0, "markup of a server became elements");
    assert.ok(
      state.header.top <= 0 && state.header.height > 20 && state.header.width > 300,
      "the head of the page was covered",
    );
    assert.ok(state.overflow <= 0, `the page is ${state.overflow} pixels too wide`);
    assert.equal(state.hidden, false, "a character that reorders text is on the page");
  };

  await rule("browsers get the page, programs get JSON", async () => {
    const json = await ask(base, "GET", "/", { headers: { accept: "application/json" } });
    assert.equal(json.json().service, "toolgate");
    const html = await ask(base, "GET", "/", { headers: { accept: "text/html,*/*;q=0.8" } });
    assert.match(html.headers["content-type"], /^text\/html/);
    const policy = html.headers["content-security-policy"];
    for (const part of [
      "default-src 'none'",
      "script-src 'self'",
      "frame-ancestors 'none'",
      "require-trusted-types-for 'script'",
    ])
      assert.ok(policy.includes(part), policy);
    assert.ok(!policy.includes("unsafe"), policy);
    const again = await ask(base, "GET", "/page/app.js", {
      headers: { "if-none-match": (await ask(base, "GET", "/page/app.js")).headers.etag },
    });
    assert.equal(again.status, 304);
    assert.equal((await ask(base, "GET", "/page/..%2f..%2fsrc%2flib.rs")).status, 404);
  });

  await rule("a name that leads elsewhere is refused (DNS rebinding)", async () => {
    for (const path of ["/", "/page/app.js", "/page/session", "/v1/backends", "/v1/events"]) {
      assert.equal((await ask(base, "GET", path, { headers: { ...ops, host: "evil.example" } })).status, 403, path);
    }
    const foreign = { headers: { origin: "http://evil.example" }, body: { key: "ops-key" } };
    assert.equal((await ask(base, "POST", "/page/session", foreign)).status, 403);
  });

  await rule("a wrong key is refused, and a key signs in", async () => {
    await page.goto(base);
    const key = page.getByLabel("API key");
    await key.fill("wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("not authorised").waitFor();
    await key.fill("ops-key");
    await key.press("Enter");
    await heading("Overview");
    const [cookie] = await context.cookies();
    assert.ok(
      cookie.httpOnly && cookie.sameSite === "Strict" && cookie.name === `toolgate-session-${new URL(base).port}`,
      JSON.stringify(cookie),
    );
    assert.equal(await page.evaluate(() => document.cookie), "", "a script can read the cookie");
    await page.locator("html[data-live=yes]").waitFor();
  });

  await rule("Overview shows the backends and what helps", async () => {
    const row = (name) => page.getByRole("row").filter({ hasText: name });
    await row("demo").getByText("ready").waitFor();
    await row("hostile").getByText("ready").waitFor();
    await row("broken").getByRole("button", { name: "Restart" }).waitFor();
    await row("unset").getByText("TOOLGATE_PAGE_TEST_UNSET").first().waitFor();
    await row("broken").getByRole("button", { name: "Restart" }).click();
    await unharmed();
  });

  await rule("a tool that changes what it says is shown", async () => {
    writeFileSync(join(home, "changed"), "");
    const { status } = await ask(base, "POST", "/v1/backends/hostile/restart", { headers: ops });
    assert.equal(status, 202);
    const row = page.getByRole("row").filter({ hasText: "hostile" });
    await row.getByText("markup changed its description").first().waitFor();
    await unharmed();
  });

  await rule("a session's request without its token is refused, also a read", async () => {
    const direct = await page.evaluate(async () => {
      const send = (method, path, headers) =>
        fetch(path, {
          method,
          headers,
          body: method === "POST" ? JSON.stringify({ code: "return 1" }) : undefined,
        }).then((it) => it.status);
      const token = { "x-toolgate-csrf": localStorage.getItem("toolgate-csrf") };
      const json = { "content-type": "application/json" };
      return [
        await send("POST", "/v1/run", json),
        await send("POST", "/v1/run", { ...json, "x-toolgate-csrf": "0".repeat(32) }),
        await send("GET", "/v1/backends", {}),
        await send("DELETE", "/page/session", {}),
        await send("POST", "/v1/run", { ...json, ...token }),
      ];
    });
    assert.deepEqual(direct, [403, 403, 403, 403, 200]);
  });

  await rule("a page of another origin can do nothing with the session", async () => {
    const total = async () => (await ask(base, "GET", "/v1/history?limit=1", { headers: ops })).json().total;
    const before = await total();
    const other = http.createServer((_, response) =>
      response.setHeader("content-type", "text/html").end("<!doctype html><title>other</title>"),
    );
    await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
    const foreign = await context.newPage();
    await foreign.goto(`http://127.0.0.1:${other.address().port}/`);
    const results = await foreign.evaluate(async (target) => {
      const attempt = (path, options) =>
        fetch(target + path, { credentials: "include", ...options }).then(
          (it) => `${it.type} ${it.status}`,
          () => "blocked",
        );
      const body = JSON.stringify({ code: "return 1" });
      return [
        await attempt("/v1/run", { method: "POST", headers: { "content-type": "application/json" }, body }),
        await attempt("/v1/run", { method: "POST", mode: "no-cors", body }),
        await attempt("/v1/backends", {}),
        await attempt("/v1/backends/demo/restart", { method: "POST", mode: "no-cors" }),
      ];
    }, base);
    assert.deepEqual(results, ["blocked", "opaque 0", "blocked", "opaque 0"]);
    const framed = await foreign.evaluate((target) => {
      const frame = document.createElement("iframe");
      frame.src = target;
      document.body.append(frame);
      return new Promise((resolve) => (frame.onload = () => resolve(frame.contentDocument === null)));
    }, base);
    assert.ok(framed);
    assert.ok(!foreign.frames().some((frame) => frame.url() === `${base}/`), "the page can be framed");
    await foreign.close();
    other.close();
    assert.equal(await total(), before, "a forged request ran a program");
  });

  await rule("Tools are searched as the model searches, and can be called", async () => {
    await view("Tools");
    await page.getByLabel("Search as the model does").fill("list the open issues");
    await page.getByText("best of").waitFor();
    await page.getByRole("link", { name: "demo.list_issues" }).click();
    await page.getByRole("heading", { name: "Try a call" }).waitFor();
    await page.getByLabel("Arguments (JSON)").fill('{"limit": 2}');
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("heading", { name: "Result" }).waitFor();
    await picture("tools");
    await page.getByText('"number": 1').first().waitFor();
  });

  await rule("a hostile description and a hostile result are text", async () => {
    for (const name of ["markup", "layout"]) {
      await page.goto(`${base}/#/tools/hostile/${name}`);
      await page.getByRole("heading", { name: "Try a call" }).waitFor();
      await unharmed();
      await page.getByRole("button", { name: "Call", exact: true }).click();
      await page.getByRole("heading", { name: "Calls", exact: true }).waitFor();
      await unharmed();
    }
    assert.ok(await page.getByText("\\u{202e}").first().isVisible(), "a hidden character is shown by its number");
    await page.goto(`${base}/#/tools/hostile/${encodeURIComponent('"><img src=x onerror=pwned=1>')}`);
    await page.getByRole("heading", { name: "Try a call" }).waitFor();
    await unharmed();
    await page.goto(`${base}/#/tools/hostile/${encodeURIComponent("../..")}`);
    await page.getByRole("heading", { name: "Try a call" }).waitFor();
    await page.goto(`${base}/#/runs/${encodeURIComponent("../../<img src=x onerror=pwned=1>")}`);
    await page.getByText("no such run").waitFor();
    await unharmed();
    await view("Tools");
    await page.getByText("tools").first().waitFor();
    await unharmed();
  });

  await rule("Playground completes, checks and runs a program", async () => {
    await view("Playground");
    const area = page.getByRole("combobox");
    await area.fill("");
    await area.pressSequentially("return await demo.");
    await page.getByRole("option").first().waitFor();
    await area.pressSequentially("get_i");
    await page.getByRole("option", { name: /demo\.get_issue/ }).waitFor();
    await area.press("Enter");
    assert.match(await area.inputValue(), /^return await demo\.get_issue\(/);
    await area.fill("return await demo.no_such_tool({})");
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("This would not run").waitFor();
    await area.fill(
      "const all = await Promise.all([1, 2, 3].map(number => demo.get_issue({ number })));\nconsole.log('<img src=x onerror=pwned=1>');\nreturn all.map(it => it.title)",
    );
    await page.getByRole("button", { name: "Check" }).click();
    await page.getByText("Nothing is certain to fail").waitFor();
    await area.press("Control+Enter");
    await page.getByRole("heading", { name: "Result" }).waitFor();
    await page.getByRole("heading", { name: "Console" }).waitFor();
    await picture("playground");
    await unharmed();
    await area.fill("const a = 1;\nreturn (await hostile.markup({})) + a.b.c");
    await page.getByRole("button", { name: "Run" }).click();
    await page.locator("li.marked").waitFor();
    await area.fill("throw new Error('</pre><script>pwned=2</script>')");
    await page.getByRole("button", { name: "Run" }).click();
    await page.getByText("<script>pwned=2</script>").first().waitFor();
    await unharmed();
  });

  await rule("Runs shows them live, and a run as a time line", async () => {
    await view("Runs");
    const grid = page.getByRole("grid");
    await page.getByRole("row").first().waitFor();
    await ask(base, "POST", "/v1/run", {
      headers: ops,
      body: {
        code: "const a = demo.get_issue({number: 1}), b = demo.list_issues({}); await a; await b; return (await demo.get_issue({number: 2})).title",
      },
    });
    await page.getByRole("row").first().getByText("demo.list_issues").waitFor();
    await grid.focus();
    await grid.press("Home");
    await grid.press("Enter");
    await page.getByRole("heading", { name: "Program" }).waitFor();
    assert.equal(await page.locator(".lanes .bar").count(), 3);
    await picture("run");
    await page.getByRole("button", { name: "Open in the playground" }).click();
    await heading("Playground");
    assert.match(await page.getByRole("combobox").inputValue(), /^const a = demo/);
  });

  await rule(`${RUNS} runs are in the list, and a few of them are elements`, async () => {
    await page.goto("about:blank");
    const refused = { headers: ops, body: { code: "return (" } };
    let left = RUNS;
    const work = async () => {
      while (left-- > 0) assert.equal((await ask(base, "POST", "/v1/run", refused)).status, 200);
    };
    await Promise.all(Array.from({ length: 16 }, work));
    await page.goto(`${base}/#/runs`);
    await page.getByText(`of 10,000 runs loaded`).waitFor();
    const grid = page.getByRole("grid");
    await grid.focus();
    for (let loaded = false; !loaded; loaded = await page.getByText("10,000 runs", { exact: true }).isVisible())
      await grid.press("End");
    assert.equal(await grid.getAttribute("aria-rowcount"), "10000");
    await grid.press("End");
    await page.locator('[aria-rowindex="10000"]').waitFor();
    assert.ok((await page.getByRole("row").count()) < 100, "all rows are elements");
    await ask(base, "POST", "/v1/run", {
      headers: ops,
      body: { code: "return (await demo.list_issues({ limit: 3 })).total" },
    });
    await page.getByLabel("Outcome").selectOption("ok");
    await page.getByRole("row").first().getByText("ok", { exact: true }).waitFor();
    await page.getByLabel("Outcome").selectOption("");
    await page.getByText("of 10,000 runs loaded").waitFor();
    await picture("runs");
    await unharmed();
  });

  await rule("Overview has charts of runs, failures and tokens saved", async () => {
    await view("Overview");
    for (const name of [
      /^Runs a minute: [\d,]+ in the last hour; at most \d+ a minute/,
      /^Failures: [\d,]+ in the last hour; at most \d+ a minute/,
      /^Tokens saved: about [\d,]+ since the start/,
    ]) {
      const chart = page.getByRole("img", { name });
      await chart.waitFor();
      assert.ok((await chart.locator("rect").count()) > 0, `${name} has no bars`);
    }
  });

  await rule("Tools shows the schema of the arguments, and what was learned of results", async () => {
    await page.goto(`${base}/#/tools/hostile/markup`);
    await page.getByText("Schema of the arguments").waitFor();
    await page
      .getByText(/Promise<string> \/\/ learned from \d+ result/)
      .first()
      .waitFor();
    await unharmed();
  });

  await rule("Policy and Doctor show rights and layers", async () => {
    await view("Policy");
    await page.getByRole("row").filter({ hasText: "Caller" }).getByText("ops").waitFor();
    await view("Doctor");
    await page.getByText("Programs run in a sealed process").waitFor();
    await page.getByRole("row").filter({ hasText: "seccomp" }).waitFor();
  });

  await pendingRule({ rule, page, view, unharmed });
  await questionsRule({ rule, page, view, unharmed });
  await story({ rule, ask, base, ops, page, view, picture, unharmed, home, file });
  await attention({ rule, ask, base, ops, page, view, heading, unharmed, browser, watch });

  await rule("every control has a name, and the keyboard reaches all of it", async () => {
    for (const name of ["Overview", "Pending", "Runs", "Tools", "Playground", "Policy", "Doctor"]) {
      await view(name);
      const unnamed = await page.evaluate(() => {
        const named = (control) => control.labels?.length > 0 || control.ariaLabel || control.textContent.trim();
        return [...document.querySelectorAll("button, a, input, select, textarea")]
          .filter((control) => !named(control))
          .map((control) => control.outerHTML);
      });
      assert.deepEqual(unnamed, [], name);
      assert.equal(await page.locator("h1").count(), 1);
    }
    await page.goto(`${base}/#/overview`);
    await page.reload();
    await heading("Overview");
    await page.evaluate(() => document.activeElement?.blur?.());
    await page.keyboard.press("Tab");
    const reached = new Set();
    for (let key = 0; key < 12; key += 1) {
      reached.add(await page.evaluate(() => document.activeElement?.textContent));
      await page.keyboard.press("Shift+Tab");
    }
    assert.ok(reached.size > 3, [...reached].join());
  });

  await rule("it fits a phone, in light and dark", async () => {
    const colour = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await colour();
    await page.emulateMedia({ colorScheme: "dark" });
    assert.notEqual(await colour(), light);
    await page.setViewportSize({ width: 360, height: 740 });
    for (const name of ["Overview", "Pending", "Runs", "Tools", "Playground", "Policy", "Doctor"]) {
      await view(name);
      await unharmed();
    }
    await page.setViewportSize({ width: 1200, height: 800 });
    await view("Overview");
    await page.getByRole("row").filter({ hasText: "demo" }).waitFor();
    await picture("overview-dark");
    await page.emulateMedia({ colorScheme: "light" });
    await picture("overview");
  });

  await rule("a link signs in once, as its caller and with no more rights", async () => {
    const { url } = (
      await ask(base, "POST", "/v1/page/links", { headers: { authorization: "Bearer guest-key" } })
    ).json();
    const guest = await browser.newContext();
    guest.setDefaultTimeout(PATIENCE);
    const second = await guest.newPage();
    watch(second);
    await second.goto(url);
    await second.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    assert.ok(!second.url().includes("link"), "the link stays in the address");
    await second.getByRole("row").filter({ hasText: "demo" }).waitFor();
    assert.equal(await second.getByText("hostile").count(), 0, "a caller sees a backend that is not its own");
    await second.goto(`${base}/#/runs`);
    await second.getByText("0 runs").waitFor();
    const third = await (await browser.newContext()).newPage();
    await third.goto(url);
    await third.getByText("This link was used before").waitFor({ timeout: PATIENCE });
    await third.context().close();
    await guest.close();
  });

  await rule("signing out ends the session", async () => {
    assert.deepEqual(violations, [], "errors in the browser");
    const token = await page.evaluate(() => localStorage.getItem("toolgate-csrf"));
    const [cookie] = await context.cookies();
    const session = { headers: { cookie: `${cookie.name}=${cookie.value}`, "x-toolgate-csrf": token } };
    assert.equal((await ask(base, "GET", "/v1/backends", session)).status, 200);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    assert.equal((await ask(base, "GET", "/v1/backends", session)).status, 401);
    assert.equal((await context.cookies()).length, 0);
  });

  await rule("toolgate ui prints a link for this machine, whatever keys there are", async () => {
    const { found } = await start(
      ["ui", "--config", file, "--no-open"],
      /^(http:\/\/127\.0\.0\.1:\d+\/#link=[0-9a-f]+)$/,
    );
    const local = await (await browser.newContext()).newPage();
    await local.goto(found[1]);
    await local.getByText("this machine").waitFor({ timeout: PATIENCE });
    await local.context().close();
  });
  await loginRule(rule, browser);
  await incompleteRule(rule, browser);
  await browser.close();
}

/** A server behind OAuth: its login is begun on the page, and what waits for it goes on. */
async function loginRule(rule, browser) {
  await rule("Overview and Pending begin a login, and the call that waits for it goes on", async () => {
    const server = await loginServer();
    const file = join(home, "login.json");
    writeFileSync(file, JSON.stringify({ mcpServers: { locked: { url: server.url } } }));
    const { found } = await start(
      ["ui", "--config", file, "--no-open"],
      /^(http:\/\/127\.0\.0\.1:\d+\/#link=[0-9a-f]+)$/,
    );
    const context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    await page.goto(found[1]);
    const row = page.getByRole("row", { name: /locked/ });
    await row.getByText("needs login").waitFor();
    assert.equal(await row.locator(".warn").innerText(), "needs login");
    await row.getByRole("button", { name: "Log in" }).waitFor();
    // A login that is not finished in time takes its link with it.
    const late = { url: `${server.url}/late`, issuer: "late", expiresInSeconds: 2 };
    await page.route("**/v1/backends/locked/login", (route) => route.fulfill({ status: 201, json: late }));
    const closed = context.waitForEvent("page");
    await row.getByRole("button", { name: "Log in" }).click();
    await (await closed).close();
    await row.getByRole("link", { name: "Open the login page" }).waitFor({ state: "detached" });
    await page.unroute("**/v1/backends/locked/login");
    const begun = await page.evaluate(async () => {
      const headers = {
        "content-type": "application/json",
        "x-toolgate-csrf": localStorage.getItem("toolgate-csrf") ?? "",
      };
      const body = JSON.stringify({ code: "return await locked.read({})" });
      return (await fetch("/v1/runs", { method: "POST", headers, body })).status;
    });
    assert.ok(begun >= 200 && begun < 300, `a durable run: ${begun}`);
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Pending", exact: true }).click();
    await page.getByText("The call goes on by itself after a login.").waitFor();
    const opened = context.waitForEvent("page");
    await page.getByRole("button", { name: "Log in" }).click();
    await (await opened).getByText("Toolgate has received the answer").waitFor();
    await page.getByText("Nothing waits for a decision.").waitFor();
    await page.getByRole("navigation", { name: "Views" }).getByRole("link", { name: "Overview", exact: true }).click();
    await row.getByText("ready", { exact: true }).waitFor();
    await context.close();
    server.close();
  });
}

/** A server whose variable is not set: the page says what is missing and what to do, and the other servers are there. */
async function incompleteRule(rule, browser) {
  await rule("Overview shows a server that needs configuration, with its variable and what helps", async () => {
    const file = join(home, "incomplete.json");
    const demo = { command: TOOLGATE, args: ["demo"] };
    const half = { ...demo, env: { TOKEN: "${PAGE_TEST_UNSET}" } };
    writeFileSync(file, JSON.stringify({ mcpServers: { half, whole: demo } }));
    const { found } = await start(
      ["ui", "--config", file, "--no-open"],
      /^(http:\/\/127\.0\.0\.1:\d+\/#link=[0-9a-f]+)$/,
    );
    const context = await browser.newContext();
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    await page.goto(found[1]);
    const row = page.getByRole("row", { name: /half/ });
    await row.getByText("needs configuration", { exact: true }).waitFor();
    await row.getByText("PAGE_TEST_UNSET").first().waitFor();
    assert.equal(await row.getByRole("cell").last().innerText(), "set PAGE_TEST_UNSET");
    await page.getByRole("row", { name: /whole/ }).waitFor();
    await context.close();
  });
}

/** The view of pending calls against the documented form of `/v1/pending`, with hostile texts. */
async function pendingRule({ rule, page, view, unharmed }) {
  await rule("Pending shows calls beside their schema, and sends what a person decides", async () => {
    const decided = [];
    let waiting = [
      {
        callId: 1,
        backend: "demo",
        tool: "create_note",
        arguments: { title: "</textarea><img src=x onerror=pwned=3>", text: "\u202eolleh" },
        reason: "writes",
      },
      {
        callId: 2,
        backend: "demo",
        tool: "create_note",
        arguments: { title: "second", text: "x" },
        reason: "<b>writes</b>",
      },
      {
        callId: 3,
        backend: "demo",
        tool: "create_note",
        arguments: { title: "third", text: "x" },
        reason: "writes",
      },
    ];
    const code = "</pre><img src=x onerror=pwned=4>\nreturn await demo.create_note({})";
    const run = () => ({ runId: "run-1", caller: "<b>x</b>", beganAt: 0, code, pending: waiting });
    const routes = /\/v1\/(pending|runs\/.*)(\?.*)?$/;
    await page.route(routes, async (route) => {
      const request = route.request();
      if (request.method() === "POST") {
        assert.ok(request.headers()["x-toolgate-csrf"], "a write without the token");
        const { decisions } = request.postDataJSON();
        decided.push(...decisions);
        waiting = waiting.filter((call) => !decisions.some((decision) => decision.callId === call.callId));
        return route.fulfill({ json: { runId: "run-1", decisions } });
      }
      return route.fulfill({ json: { runs: waiting.length > 0 ? [run()] : [] } });
    });
    await view("Pending");
    const calls = page
      .locator("section.card > div")
      .filter({ has: page.getByRole("button", { name: "Deny", exact: true }) });
    await calls.first().getByText('"properties"').first().waitFor();
    assert.match(
      await calls
        .first()
        .getByLabel(/Arguments/)
        .inputValue(),
      /\\u202eolleh/,
      "a character that reorders text is hidden from who decides",
    );
    await unharmed();
    await calls.first().getByLabel("Reason").fill("not now");
    await calls.first().getByRole("button", { name: "Deny", exact: true }).click();
    await page.getByRole("button", { name: "Approve all 2" }).waitFor();
    await calls
      .first()
      .getByLabel(/Arguments/)
      .fill('{"title": "edited", "text": "y"}');
    await calls.first().getByLabel("Remember for").selectOption("run");
    await calls.first().getByRole("button", { name: "Approve as edited" }).click();
    await calls.nth(1).waitFor({ state: "detached" });
    await calls.first().getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByText("Nothing waits for a decision").waitFor();
    assert.deepEqual(decided, [
      { callId: 1, decision: "deny", reason: "not now" },
      { callId: 2, decision: "edit", remember: "run", arguments: { title: "edited", text: "y" } },
      { callId: 3, decision: "approve" },
    ]);
    await page.unroute(routes);
  });
}

/** Questions that no rule asks, each with the decisions that the service takes for it; numbers keep their digits. */
async function questionsRule({ rule, page, view, unharmed }) {
  await rule("Pending has a form, a call of unknown effect, a changed tool and a line of a review", async () => {
    const decided = [];
    const [big, proposed] = ["90071992547409931", "90071992547409933"];
    const call = (callId, about, more = {}) => ({
      callId,
      backend: "demo",
      tool: "create_note",
      arguments: { name: "n", text: "t" },
      reason: "<b>why</b>",
      expiresAt: 4102444800000,
      about,
      ...more,
    });
    const form = {
      type: "object",
      properties: {
        who: { type: "string", title: "<img src=x onerror=pwned=6>", description: "\u202eolleh" },
        many: { type: "integer", title: "How many", default: "MANY" },
        size: { type: "string", title: "Size", enum: ["</option><b>s</b>", "l"] },
        sure: { type: "boolean", title: "Sure", default: true },
        more: { type: "string", title: "More" },
        __proto__x: { type: "number", title: "Share", default: 0.5 },
      },
      required: ["who", "many", "size"],
    };
    const staged = { substitutions: [{ at: "/<b>id</b>", line: 1, value: "" }], commitPoint: "<i>x</i>" };
    let waiting = [
      call(1, { kind: "form", message: "<b>who?</b>", schema: form }),
      call(2, { kind: "unknownEffect", call: 2, sentAt: 0 }),
      call(3, { kind: "changedSchema", schema: "abc" }),
      call(4, undefined, { staged, arguments: "BIG" }),
    ];
    const routes = /\/v1\/(pending|runs\/.*)(\?.*)?$/;
    await page.route(routes, async (route) => {
      const request = route.request();
      if (request.method() === "POST") {
        const { decisions } = JSON.parse(request.postData().replaceAll(big, `"${big}"`));
        decided.push(...decisions);
        waiting = waiting.filter((call) => !decisions.some((decision) => decision.callId === call.callId));
        return route.fulfill({ json: { runId: "run-2", decisions } });
      }
      const run = { runId: "run-2", caller: "", beganAt: 0, code: "return 1", pending: waiting };
      const text = JSON.stringify({ runs: waiting.length > 0 ? [run] : [] });
      const body = text.replace('"BIG"', `{"id":${big}}`).replace('"MANY"', proposed);
      return route.fulfill({ contentType: "application/json", body });
    });
    await view("Pending");
    const card = page.getByRole("region", { name: "Run run-2" });
    const question = (name) => card.locator(":scope > div").filter({ has: page.getByRole("button", { name }) });
    await card.getByRole("button", { name: "Answer", exact: true }).waitFor();
    assert.equal(await card.getByRole("button", { name: /^Approve all/ }).count(), 0, "a form is not approved unseen");
    await unharmed();
    await card.getByText("is filled in with the answer of line 1").waitFor();
    await card.getByText("What follows depends on").waitFor();

    const asked = question("Answer").first();
    await asked.getByRole("button", { name: "Answer", exact: true }).click();
    await asked.getByRole("alert").getByText("fill this in").waitFor();
    assert.equal(decided.length, 0, "a form that is not filled in was sent");
    await asked.getByLabel(/onerror/).fill('Ann "<b>');
    assert.equal(await asked.getByLabel("How many").inputValue(), proposed);
    await asked.getByLabel("How many").fill(big);
    await asked.getByLabel("Size").selectOption({ index: 1 });
    await asked.getByLabel("Sure").uncheck();
    await asked.getByRole("button", { name: "Answer", exact: true }).click();
    await card.getByRole("button", { name: "Answer", exact: true }).waitFor({ state: "detached" });

    const sent = question("Send again");
    await sent.getByLabel(/What the program gets/).fill('{"id": ');
    await sent.getByRole("button", { name: "It was done: answer" }).click();
    await sent.getByRole("alert").waitFor();
    await sent.getByLabel(/What the program gets/).fill('{"id": 7}');
    await sent.getByRole("button", { name: "It was done: answer" }).click();
    await sent.waitFor({ state: "detached" });
    await card.getByRole("button", { name: "Go on with the changed tool" }).click();
    await card.getByRole("button", { name: "Go on with the changed tool" }).waitFor({ state: "detached" });
    const text = card.getByLabel(/Arguments/);
    assert.match(await text.inputValue(), new RegExp(big), "a person is shown another number than is sent");
    await text.fill(`{"id": ${big}, "more": 1}`);
    await card.getByRole("button", { name: "Approve as edited" }).click();
    await page.getByText("Nothing waits for a decision").waitFor();
    assert.deepEqual(decided, [
      {
        callId: 1,
        decision: "answer",
        arguments: { who: 'Ann "<b>', many: big, size: "</option><b>s</b>", sure: false, __proto__x: 0.5 },
      },
      { callId: 2, decision: "answer", arguments: { id: 7 } },
      { callId: 3, decision: "approve" },
      { callId: 4, decision: "edit", arguments: { id: big, more: 1 } },
    ]);
    await page.unroute(routes);
  });
}

let code = 0;
try {
  await main();
} catch (error) {
  console.error(`page: ${step} ... FAILED\n${error.stack}`);
  code = 1;
} finally {
  for (const child of children) child.kill("SIGTERM");
  rmSync(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
}
process.exit(code);
