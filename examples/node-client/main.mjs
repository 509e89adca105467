// node main.mjs [ws://127.0.0.1:7878]; TOOLGATE_TOKEN is a key of the service, or the token of its file
import { run } from "./toolgate.mjs";

const stock = new Map([
  ["tea", 3],
  ["coffee", 0],
]);

const report = await run(process.argv[2] ?? "ws://127.0.0.1:7878", {
  key: process.env.TOOLGATE_TOKEN,
  code: `
    const counts: Record<string, number> = {};
    for (const item of context.items) {
      counts[item] = await countOf(item).catch((error: Error) => { console.error(error.message); return -1 });
    }
    console.log("counted", context.items.length, "items");
    return { counts, total: await addNumbers(...Object.values(counts)) };
  `,
  context: { items: ["tea", "coffee", "cocoa"] },
  functions: {
    countOf: {
      description: "How many of an item are in stock.",
      params: { item: "string" },
      handler: async (item) => {
        if (!stock.has(item)) throw new Error(`no ${item} here`);
        return stock.get(item);
      },
    },
    addNumbers: {
      params: [{ name: "numbers", schema: "number", rest: true }],
      handler: (...numbers) => numbers.reduce((sum, n) => sum + n, 0),
    },
  },
  onLog: (line, stream) => console.log(`${stream}: ${line}`),
});

console.log(JSON.stringify(report.ok ? report.result : { code: report.code, error: report.error }));
process.exitCode = report.ok ? 0 : 1;
