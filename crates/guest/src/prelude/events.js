// Timers and host calls: promises here, messages to the host there.
(function ({ native, p, methods }, { isStaged, placeholder }) {
  const timers = new p.Map();

  const arm = (callback, delay, args, every) => {
    if (typeof callback !== "function") throw new p.TypeError("a timer needs a function to call");
    const ms = p.Number(delay);
    const wait = ms > 0 ? ms : 0;
    const id = native.timer(wait);
    p.mapSet(timers, id, { callback, args, wait, every, id });
    return id;
  };

  // The host numbers each round of a repeating timer; the program keeps the first number.
  const disarm = (id) => {
    const timer = p.mapGet(timers, id);
    if (timer === undefined) return;
    p.mapDelete(timers, id);
    native.cancel(timer.round ?? id);
    p.mapDelete(rounds, timer.round);
  };
  const rounds = new p.Map();

  const fire = (round) => {
    const id = p.mapGet(rounds, round) ?? round;
    p.mapDelete(rounds, round);
    const timer = p.mapGet(timers, id);
    if (timer === undefined) return;
    if (timer.every) {
      timer.round = native.timer(timer.wait);
      p.mapSet(rounds, timer.round, id);
    } else {
      p.mapDelete(timers, id);
    }
    p.apply(timer.callback, undefined, timer.args);
  };

  const sleep = (ms) => new p.Promise((resolve) => arm(resolve, ms, [], false));

  const timerGlobals = {
    setTimeout(callback, delay, ...args) { return arm(callback, delay, args, false); },
    setInterval(callback, delay, ...args) { return arm(callback, delay, args, true); },
    clearTimeout(id) { disarm(id); },
    clearInterval(id) { disarm(id); },
    sleep,
  };

  // The stack of the program's call of `below`, for the error that the call may fail with.
  // Formatting frames is a large part of what a call costs, so there are only a few.
  const MAX_FRAMES = 4;
  const { Error, set, captureStackTrace } = p;
  const stackAbove = (below) => {
    const limit = Error.stackTraceLimit;
    const site = {};
    // Where `Error` is frozen, the limit stays as it is.
    set(Error, "stackTraceLimit", MAX_FRAMES);
    captureStackTrace(site, below);
    set(Error, "stackTraceLimit", limit);
    return site;
  };

  // The promise of an answer; the natives keep what settles it. `made` is the function that the program called.
  const { callHost } = native;
  const call = (made, backend, name, args) => callHost(backend, name, args, stackAbove(made));

  class ToolError extends Error {
    constructor(message, fields) {
      super(message);
      for (const key of p.keys(fields ?? {})) {
        p.defineProperty(this, key, { value: fields[key], writable: true, enumerable: true, configurable: true });
      }
    }
  }
  methods(ToolError.prototype, { name: "ToolError" });

  // Settles a call without an answer: it failed, or it waits for a review. An answer only resolves the promise, for which the
  // natives need nothing from here.
  const settleWithout = (resolve, reject, reply, site) => {
    if (isStaged(reply)) return resolve(placeholder(reply));
    const { message, ...fields } = reply;
    const error = new ToolError(message, fields);
    p.defineProperty(error, "stack", { value: p.stackOf(site), writable: true, configurable: true });
    reject(error);
  };

  return { call, settleWithout, fire, ToolError, timers: timerGlobals };
})
