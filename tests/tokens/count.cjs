// Counts tokens and compares them with what is wanted. Arguments: the files of formats, of hits, of the gateway's own texts.
const { readFileSync } = require("node:fs");
const { Tiktoken } = require("js-tiktoken/lite");
const encoding = new Tiktoken(require("js-tiktoken/ranks/o200k_base"));
const tokens = (text) => encoding.encode(text).length;
const read = (file) => JSON.parse(readFileSync(file, "utf8"));
const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];

// The most tokens for what a model always reads, and for an error.
const LIMITS = { instructions: 300, "tools/list": 2500, error: 120 };
const [formats, hits, gateway] = process.argv.slice(2).map(read);
const counted = Object.fromEntries(Object.entries(formats).map(([name, text]) => [name, tokens(text)]));
const share = counted.auto / counted.pretty;
console.log("50 records:", JSON.stringify(counted), `auto is ${(100 * share).toFixed(1)}% of pretty`);
const rows = median(hits.map((answer) => tokens(answer.rows)));
const lines = hits.map((answer) => tokens(answer.lines));
const learned = hits.map((answer) => tokens(answer.learned));
console.log(`10 hits, median of ${hits.length} searches: rows ${rows}, lines ${median(lines)}, at most ${Math.max(...lines)}`);
console.log(`the same with learned results: lines ${median(learned)}, at most ${Math.max(...learned)}`);
let wordy = false;
for (const [name, text] of Object.entries(gateway)) {
  const [count, limit] = [tokens(text), LIMITS[name.split(":")[0]]];
  console.log(`${name}: ${count}${limit ? `, at most ${limit}` : ""}`);
  wordy ||= count === 0 || count > limit;
}
if (share > 0.55 || Math.max(...lines, ...learned) > 900 || wordy) {
  console.error("more tokens than wanted");
  process.exit(1);
}
