// Sets the stage for one run and tells how it failed.
(function ({ p, define }, { show }, { settle, fire, installTimers }, { installTools, installFunctions }, { installWeb }) {
  const errorToString = Error.prototype.toString;
  const deepFreeze = (value) => {
    if (value === null || typeof value !== "object") return value;
    const keys = p.ownKeys(value);
    for (let i = 0; i < keys.length; i++) deepFreeze(value[keys[i]]);
    return p.freeze(value);
  };

  const begin = (profile, functions, tools, data) => {
    if (profile === "compute") {
      delete globalThis.queueMicrotask;
      return;
    }
    installTimers();
    installWeb();
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
