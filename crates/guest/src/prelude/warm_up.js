// A typical program, run before the real one: its page faults and lazy initialisation are paid ahead.
(async () => {
  const records = [1, 2, 3].map((x) => ({ x }));
  let sum = 0;
  for (const { x } of records) sum += typeof x === "number" && x > 1 ? x * 2 : `${x}`.length;
  await Promise.all(records.map(async ({ x }) => x));
  const text = JSON.stringify(records.filter(({ x }) => x !== sum));
  /** @type {any} */
  const proxy = new Proxy({}, { get: () => new Map([[sum, records]]).get(sum) });
  const looked = proxy.any;
  return JSON.parse(text).concat(looked, new Date(0).toString()).join();
})
