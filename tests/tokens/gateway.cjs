// What a model reads of the gateway itself: the list of its tools, its instructions, errors. Prints them as one JSON object of texts.
// Argument: the binary.
const { spawn } = require("node:child_process");
const readline = require("node:readline");

const ERRORS = {
  "a misspelt field": "const page = await demo.list_issues({ limit: 3 });\nreturn page.isues.map((it) => it.title);",
  "a misspelt tool": "return await demo.list_isues({});",
  "a failing tool": 'return await demo.always_fails({ message: "no" });',
};

const child = spawn(process.argv[2], ["serve", "--demo"], { stdio: ["pipe", "pipe", "ignore"] });
const waiting = new Map();
readline.createInterface({ input: child.stdout }).on("line", (line) => {
  const message = JSON.parse(line);
  waiting.get(message.id)?.(message.result ?? message.error);
});
let asked = 0;
const ask = (method, params) =>
  new Promise((answered) => {
    waiting.set(++asked, answered);
    child.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: asked, method, params }) + "\n");
  });

(async () => {
  const client = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "tokens", version: "1" } };
  const { instructions } = await ask("initialize", client);
  child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  // `_meta` is for clients: no model reads it.
  const tools = (await ask("tools/list", {})).tools.map(({ _meta, ...tool }) => tool);
  const texts = { instructions, "tools/list": JSON.stringify(tools) };
  for (const { name, ...rest } of tools) texts[`tool ${name}`] = JSON.stringify({ name, ...rest });
  for (const [name, code] of Object.entries(ERRORS)) {
    const { content } = await ask("tools/call", { name: "call_tool_chain", arguments: { code } });
    texts[`error: ${name}`] = content.map((block) => block.text).join("\n");
  }
  process.stdout.write(JSON.stringify(texts));
  child.stdin.end();
})();
