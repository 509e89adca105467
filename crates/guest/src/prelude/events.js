// Timers and host calls: promises here, messages to the host there.
(function ({ native, p, define }) {
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

  // A repeating timer keeps the number it was given, whatever the host calls its next round.
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

  // Where the program stood when it asked: the failure of a call belongs to that line.
  const call = (backend, name, args, failure) =>
    new p.Promise((resolve, reject) => {
      const site = new p.Error();
      const id = native.call(backend, name, args);
      p.mapSet(calls, id, { resolve, reject, failure, stack: p.stackOf(site) });
    });

  const settle = (id, ok, value) => {
    const pending = p.mapGet(calls, id);
    if (pending === undefined) return;
    p.mapDelete(calls, id);
    if (ok) return pending.resolve(value);
    const error = pending.failure(value);
    p.defineProperty(error, "stack", { value: pending.stack, writable: true, configurable: true });
    pending.reject(error);
  };

  const installTimers = () => {
    for (const name of p.keys(timerGlobals)) define(name, timerGlobals[name]);
  };

  return { call, settle, fire, installTimers };
})
