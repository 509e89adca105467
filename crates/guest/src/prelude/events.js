// Timers and host calls: promises here, messages to the host there.
(function ({ native, p }, { isStaged, placeholder }) {
  const timers = new p.Map();
  const calls = new p.Map();

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
  const stackAbove = (below) => {
    const limit = p.Error.stackTraceLimit;
    const site = {};
    // Where `Error` is frozen, the limit stays as it is.
    p.set(p.Error, "stackTraceLimit", MAX_FRAMES);
    p.captureStackTrace(site, below);
    p.set(p.Error, "stackTraceLimit", limit);
    return site;
  };

  // `made` is the function that the program called.
  const call = (made, backend, name, args, failure) =>
    new p.Promise((resolve, reject) => {
      const site = stackAbove(made);
      const id = native.call(backend, name, args);
      p.mapSet(calls, id, { resolve, reject, failure, site });
    });

  const settle = (id, ok, value) => {
    const pending = p.mapGet(calls, id);
    if (pending === undefined) return;
    p.mapDelete(calls, id);
    if (ok) return pending.resolve(value);
    if (isStaged(value)) return pending.resolve(placeholder(value));
    const error = pending.failure(value);
    p.defineProperty(error, "stack", { value: p.stackOf(pending.site), writable: true, configurable: true });
    pending.reject(error);
  };

  return { call, settle, fire, timers: timerGlobals };
})
