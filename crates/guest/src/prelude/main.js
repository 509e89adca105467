// Installs the globals of one run and describes what it threw.
(function ({ p, define }, { show }, { settleWithout, fire, timers }, { toolGlobals, nameBackends, installFunctions, warmUpTool }, { web }) {
  const errorToString = Error.prototype.toString;

  // Most runs are chains with tools: everything is installed before the fork, and deleted for runs without it.
  // Deleted values stay referenced here, since freeing them takes longer.
  const install = (globals) => {
    const names = p.keys(globals);
    for (let i = 0; i < names.length; i++) define(names[i], globals[names[i]]);
    return { names, globals };
  };
  const remove = ({ names }) => {
    for (let i = 0; i < names.length; i++) delete globalThis[names[i]];
  };
  const beyondCompute = install({ queueMicrotask, ...timers, ...web });
  const ofTools = install(toolGlobals);

  // The data is deeply frozen already, except that of a computation.
  const begin = (profile, functions, tools, data) => {
    if (!tools || profile === "compute") remove(ofTools);
    else nameBackends();
    if (profile === "compute") return remove(beyondCompute);
    installFunctions(functions);
    if (data !== undefined) {
      p.defineProperty(globalThis, "context", { value: data, writable: false, enumerable: false, configurable: false });
    }
  };

  // The class of an error by its prototype; the names are those of ErrorClass in Rust.
  const referenceError = ReferenceError.prototype;
  const typeError = TypeError.prototype;
  const classOf = (error) => {
    const prototype = p.prototypeOf(error);
    if (prototype === referenceError) return "reference";
    return prototype === typeError ? "type" : "other";
  };

  // What was thrown, as [message, stack, class]. The value may be anything, and may throw when it is read.
  const describe = (thrown) => {
    try {
      if (!p.isError(thrown)) return [`thrown: ${p.slice(p.toWellFormed(show(thrown)), 0, 4000)}`, "", ""];
      const message = `${p.apply(errorToString, thrown, [])}`;
      return [p.slice(p.toWellFormed(message), 0, 4000), p.toWellFormed(p.stackOf(thrown)), classOf(thrown)];
    } catch {
      return ["an error that throws when it is read", "", ""];
    }
  };

  const syntaxError = SyntaxError.prototype;
  const isSyntaxError = (thrown) => p.isError(thrown) && p.prototypeOf(thrown) === syntaxError;

  return { begin, settleWithout, fire, describe, isSyntaxError, warmUpTool };
})
