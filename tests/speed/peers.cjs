// The rows of `toolgate bench` in other sandboxes: Node's vm, Bun's vm and isolated-vm.
//
//   node peers.cjs vm|isolated-vm ROW…     one JSON object a line, in the form of `toolgate bench --json`
//
// Every sandbox gets what the row gives to Toolgate: a fresh global object for each run, a host function that takes and gives
// JSON, data that crosses as text. Every answer is checked.

const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const RUNS = { default: 200, "data-10000": 60, "data-100000": 12, nbody: 8, natural: 12 };
const REST_MS = 3;
const TEXT = 1000;
const RECORD = JSON.stringify({ id: 1, text: "x".repeat(TEXT) });

const SUM = "return 1+1";
const CALLS = `let length = 0;
for (let i = 0; i < 20; i++) {
  const record = await api.record(i);
  length += record.text.length;
}
return length;`;
const PARALLEL = `const records = await Promise.all(Array.from({ length: 100 }, (_, i) => api.record(i)));
return records.reduce((length, record) => length + record.text.length, 0);`;
const NAMES = "return typeof backend_7.tool_3 === 'function' ? 1+1 : 0";
const FILTER = "return (data => data.filter(d => d.risk > 90).map(d => d.name))(JSON.parse(__data))";
const NBODY = `const bodies = Array.from({ length: 5 }, (_, i) => ({ x: i, y: i * 2, z: i * 3, vx: 0, vy: 0, vz: 0, m: 1 + i }));
for (let step = 0; step < 1500000; step++) {
  for (let i = 0; i < 5; i++) {
    const p = bodies[i];
    for (let j = i + 1; j < 5; j++) {
      const q = bodies[j];
      const dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z;
      const squared = dx * dx + dy * dy + dz * dz + 0.01;
      const pull = 0.001 / (squared * Math.sqrt(squared));
      p.vx -= dx * q.m * pull; p.vy -= dy * q.m * pull; p.vz -= dz * q.m * pull;
      q.vx += dx * p.m * pull; q.vy += dy * p.m * pull; q.vz += dz * p.m * pull;
    }
  }
  for (const p of bodies) { p.x += 0.001 * p.vx; p.y += 0.001 * p.vy; p.z += 0.001 * p.vz; }
}
return bodies.length;`;

/** What a tool's function is in a sandbox, and 50 backends of 20 of them. */
const TOOLS = `for (let b = 0; b < 50; b++) {
  const backend = globalThis["backend_" + b] = {};
  for (let t = 0; t < 20; t++) backend["tool_" + t] = (input) => __ask("backend_" + b + ".tool_" + t, input);
}`;

function customers(records) {
  const lines = [];
  const names = [];
  for (let n = 0; n < records; n++) {
    const risk = Math.floor((Math.imul(n, 2654435761) >>> 0) / 7) % 100;
    const digits = String(n).padStart(6, "0");
    const name = `Customer ${digits}`;
    lines.push(
      `{"id":${n},"name":"${name}","email":"customer.${digits}@example.com","risk":${risk},"country":"NO","balance":${n % 10000}.25,"active":${n % 3 === 0},"tags":["a","b"]}`,
    );
    if (risk > 90) names.push(name);
  }
  return { data: `[${lines.join(",")}]`, expected: JSON.stringify(names) };
}

/** The programs of the rows `natural-*`, by name, as the bench has them: `natural!("filter", FILTER, …)` and its `code`. */
function naturalPrograms() {
  const source = (file) => readFileSync(join(__dirname, "../../crates/bench/src", file), "utf8");
  const codes = new Map();
  const constant = /const (\w+): Program =\s+Program \{\s*code: (?:r#"([^]*?)"#|r?"([^]*?)"),\s*expected/g;
  for (const [, name, hashed, quoted] of source("natural.rs").matchAll(constant)) codes.set(name, hashed ?? quoted);
  const programs = {};
  for (const [, row, name] of source("workloads.rs").matchAll(/^ {4}natural!\("([\w-]+)", (\w+),/gm)) {
    if (!codes.has(name)) throw new Error(`there is no program ${name}`);
    programs[`natural-${row}`] = codes.get(name);
  }
  return programs;
}

/** The records of the rows `natural-*`. */
function people(records) {
  const PLACES = [
    ["Berlin", "DE"],
    ["Paris", "FR"],
    ["Roma", "IT"],
    ["Madrid", "ES"],
    ["Wien", "AT"],
  ];
  const WORDS = ["late", "order", "paid", "refund", "call", "again", "open", "invoice"];
  const digits = (number, length) => String(number).padStart(length, "0");
  return Array.from({ length: records }, (_, id) => {
    const number = Math.imul(id, 2654435761) >>> 7;
    const [city, country] = PLACES[number % 5];
    const word = (shift) => WORDS[(number >>> shift) % WORDS.length];
    return {
      id,
      name: `Customer ${digits(id, 6)}`,
      email: `user${id}@example.com`,
      city,
      country,
      amount: (number % 40000) / 4,
      risk: number % 100,
      active: number % 3 === 0,
      created: `2025-${digits((number % 12) + 1, 2)}-${digits((number % 28) + 1, 2)}T10:00:00Z`,
      tags: [`a${number % 7}`, `b${number % 11}`, "c"],
      address: { street: `Street ${number % 200}`, zip: digits(number % 90000, 5) },
      note: `${word(0)} ${word(3)} ${word(6)} ${word(9)}`,
      source: "imported from the old system",
    };
  });
}

/** A program over records; the answer is what it gives without any sandbox. */
function natural(program) {
  const data = JSON.stringify(people(10000));
  const code = `return (${program})(JSON.parse(__data))`;
  return { data, code, expected: JSON.stringify(new Function("__data", code)(data)), ahead: false };
}

/** Runs in a new context of the same interpreter: no limit of memory, no process of its own. */
function vmSandbox() {
  const vm = require("node:vm");
  const prelude =
    new vm.Script(`const __ask = async (name, input) => JSON.parse(await __call(name, JSON.stringify(input)));
const api = { record: (n) => __ask("record", n) };`);
  const tools = new vm.Script(TOOLS);
  return {
    prepare({ names, data }) {
      const context = vm.createContext({ __call: async () => RECORD, ...(data === undefined ? {} : { __data: data }) });
      prelude.runInContext(context);
      if (names) tools.runInContext(context);
      return context;
    },
    run: (context, code) =>
      vm.runInContext(
        `(async () => { const value = await (async () => { ${code} })(); return JSON.stringify(value) })()`,
        context,
      ),
    drop() {},
  };
}

/** Runs in an isolate of its own with a limit of memory, in the same process. */
function isolateSandbox() {
  const ivm = require("isolated-vm");
  const prelude = `const __ask = async (name, input) => JSON.parse(await __call.apply(undefined, [name, JSON.stringify(input)],
  { arguments: { copy: true }, result: { copy: true, promise: true } }));
const api = { record: (n) => __ask("record", n) };`;
  return {
    prepare({ names, data }) {
      const isolate = new ivm.Isolate({ memoryLimit: data === undefined ? 50 : 512 });
      const context = isolate.createContextSync();
      context.global.setSync("__call", new ivm.Reference(async () => RECORD));
      if (data !== undefined) context.global.setSync("__data", data);
      context.evalSync(prelude);
      if (names) context.evalSync(TOOLS);
      return { isolate, context };
    },
    run: ({ context }, code) =>
      context.eval(
        `(async () => { const value = await (async () => { ${code} })(); return JSON.stringify(value) })()`,
        {
          promise: true,
          copy: true,
        },
      ),
    drop: ({ isolate }) => isolate.dispose(),
  };
}

const ROWS = {
  cold: { code: SUM, expected: "2", ahead: false },
  warm: { code: SUM, expected: "2" },
  calls: { code: CALLS, expected: String(20 * TEXT) },
  parallel: { code: PARALLEL, expected: String(100 * TEXT) },
  names: { code: NAMES, expected: "2", names: true, ahead: false },
  "data-1000": { code: FILTER, records: 1000, ahead: false },
  "data-10000": { code: FILTER, records: 10000, ahead: false },
  "data-100000": { code: FILTER, records: 100000, ahead: false },
  nbody: { code: NBODY, expected: "5" },
};

const rest = () => new Promise((resolve) => setTimeout(resolve, REST_MS));
const now = () => Number(process.hrtime.bigint()) / 1000;

/** One run, in microseconds; without `ahead` the sandbox is made within it. */
async function sample(sandbox, row) {
  let made = row.ahead === false ? undefined : sandbox.prepare(row);
  await rest();
  const since = now();
  made ??= sandbox.prepare(row);
  const value = await sandbox.run(made, row.code);
  const took = now() - since;
  sandbox.drop(made);
  if (value !== row.expected) throw new Error(`a wrong answer: ${String(value).slice(0, 100)}`);
  return took;
}

/** Runs of `calls` a second in one process; start one process a core. */
async function throughput(sandbox) {
  const row = ROWS.calls;
  const rates = [];
  for (let batch = 0; batch < 11; batch++) {
    const since = now();
    let left = 100;
    const lane = async () => {
      while (left-- > 0) {
        const made = sandbox.prepare(row);
        if ((await sandbox.run(made, row.code)) !== row.expected) throw new Error("a wrong answer");
        sandbox.drop(made);
      }
    };
    await Promise.all(Array.from({ length: 4 }, lane));
    if (batch > 0) rates.push(100 / ((now() - since) / 1e6));
  }
  return rates;
}

function print(workload, values, unit) {
  values.sort((a, b) => a - b);
  const at = (share) => Math.round(values[Math.min(values.length - 1, Math.floor(values.length * share))]);
  const mean = Math.round(values.reduce((sum, value) => sum + value, 0) / values.length);
  console.log(JSON.stringify({ workload, n: values.length, p50: at(0.5), p99: at(0.99), mean, unit }));
}

async function main() {
  const [kind, ...rows] = process.argv.slice(2);
  const kinds = { vm: vmSandbox, "isolated-vm": isolateSandbox };
  if (!Object.hasOwn(kinds, kind ?? "")) throw new Error("say which sandbox: vm or isolated-vm");
  const sandbox = kinds[kind]();
  const programs = naturalPrograms();
  for (const name of rows.length > 0 ? rows : Object.keys(ROWS)) {
    if (name === "throughput") {
      print(name, await throughput(sandbox), "per_s");
      continue;
    }
    const isNatural = Object.hasOwn(programs, name);
    if (!isNatural && !Object.hasOwn(ROWS, name))
      throw new Error(
        `there is no row ${name}; there are ${Object.keys({ ...ROWS, ...programs }).join(", ")} and throughput`,
      );
    const given = ROWS[name]?.records === undefined ? {} : customers(ROWS[name].records);
    const row = isNatural ? natural(programs[name]) : { ...ROWS[name], ...given };
    const runs = isNatural ? RUNS.natural : (RUNS[name] ?? RUNS.default);
    const values = [];
    for (let n = 0; n < runs * 1.1; n++) {
      const took = await sample(sandbox, row);
      if (n >= runs * 0.1) values.push(took);
    }
    print(name, values, "us");
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
