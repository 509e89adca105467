// Runs code in Toolgate's sandbox and lends it functions of this process. Node 22 or later, no dependencies.
//
//   import { run } from "./toolgate.mjs";
//   const report = await run("ws://127.0.0.1:7878", {
//     code: "return addNumbers(1, 2)",
//     functions: { addNumbers: { params: { a: "number", b: "number" }, handler: (a, b) => a + b } },
//   });

/**
 * Runs a program. `functions` maps names to `{ params?, description?, handler }`; the rest is as for POST /v1/run.
 * `onLog(line, stream)` hears lines as they are printed. Aborting `signal` ends the run at once. Gives the report;
 * throws if there was no run.
 */
export function run(base, { functions = {}, onLog = () => {}, signal, key, ...request }) {
  const signatures = Object.fromEntries(
    Object.entries(functions).map(([name, { handler, ...signature }]) => [name, signature]),
  );
  return new Promise((resolve, reject) => {
    const options = key ? { headers: { authorization: `Bearer ${key}` } } : undefined;
    const socket = new WebSocket(new URL("/v1/run/ws", base), options);
    const send = (message) => socket.readyState === WebSocket.OPEN && socket.send(JSON.stringify(message));
    const abort = () => {
      reject(signal.reason);
      socket.close();
    };
    signal?.addEventListener("abort", abort, { once: true });

    socket.onopen = () => send({ ...request, functions: signatures });
    socket.onmessage = async ({ data }) => {
      const message = JSON.parse(data);
      if ("log" in message) return onLog(message.log, message.stream);
      if ("report" in message) return resolve(message.report);
      if ("error" in message) return reject(Object.assign(new Error(message.error.message), message.error));
      send(await answer(functions, message));
    };
    socket.onerror = () => reject(new Error(`no connection to ${base}`));
    socket.onclose = () => {
      signal?.removeEventListener("abort", abort);
      reject(new Error("the socket closed before the report came"));
    };
  });
}

async function answer(functions, { call, fn, args }) {
  try {
    // What has no value in JSON is null there.
    return { call, result: (await functions[fn].handler(...args)) ?? null };
  } catch (error) {
    return { call, error: { message: String(error?.message ?? error), code: error?.code } };
  }
}
