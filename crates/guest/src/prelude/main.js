// Sets the stage for one run and tells how it failed.
(function ({ p, define }, { show }, { settle, fire, timers }, { installTools, installFunctions }, { web }) {
  const errorToString = Error.prototype.toString;
  const deepFreeze = (value) => {
    if (value === null || typeof value !== "object") return value;
    const keys = p.ownKeys(value);
    for (let i = 0; i < keys.length; i++) deepFreeze(value[keys[i]]);
    return p.freeze(value);
  };

  // Most runs are chains: what a computation lacks is there from the start, and taken away from it.
  const beyondCompute = ["queueMicrotask"];
  for (const globals of [timers, web]) {
    for (const name of p.keys(globals)) {
      define(name, globals[name]);
      p.push(beyondCompute, name);
    }
  }

  const begin = (profile, functions, tools, data) => {
    if (profile === "compute") {
      for (let i = 0; i < beyondCompute.length; i++) delete globalThis[beyondCompute[i]];
      return;
    }
    if (tools) installTools();
    installFunctions(functions);
    if (data !== undefined) {
      p.defineProperty(globalThis, "context", { value: deepFreeze(data), writable: false, enumerable: false, configurable: false });
    }
  };

  // What was thrown, as [message, stack]. The value may be anything and may fight back.
  const describe = (thrown) => {
    try {
      if (!p.isError(thrown)) return [`thrown: ${p.slice(p.toWellFormed(show(thrown)), 0, 4000)}`, ""];
      const message = `${p.apply(errorToString, thrown, [])}`;
      return [p.slice(p.toWellFormed(message), 0, 4000), p.toWellFormed(p.stackOf(thrown))];
    } catch {
      return ["an error that throws when it is read", ""];
    }
  };

  return { begin, settle, fire, describe };
})
