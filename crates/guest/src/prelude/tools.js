// Backends as objects, host functions as functions, introspection.
//
// Tools are looked up on first use, so a run costs the same with ten of them or ten thousand.
(function ({ native, p, define }, { call, ToolError }) {
  const objectPrototype = p.Object.prototype;

  const callTool = (invoke, backend, tool, args) => {
    if (args.length > 1) {
      return refuse(`${backend}.${tool} takes one argument object, got ${args.length} arguments`);
    }
    const given = args[0] === undefined ? {} : args[0];
    if (given === null || typeof given !== "object" || p.isArray(given)) {
      return refuse(`${backend}.${tool} takes one argument object, as in ${tool}({ key: value })`);
    }
    return call(invoke, backend, tool, given);
  };

  // There may be hundreds of these, so each captures little; the literal gives the function its name.
  const toolFunction = (backend, tool) => {
    const { [tool]: invoke } = { [tool]: (...args) => callTool(invoke, backend, tool, args) };
    return invoke;
  };

  const refuse = (message) => p.Promise.reject(new p.TypeError(message));

  // A name that is no known tool is a function too: its call is a rejected promise with the host's reason (the backend is
  // not ready, it failed to start, it has no such tool), which `catch` and `Promise.allSettled` can handle. The names that
  // the language itself reads from any object are left out: with a `then`, `await backend` would never end.
  const notTools = { __proto__: null };
  const read = ["toJSON", "prototype", "inspect", "nodeType", "$$typeof", "asymmetricMatch"];
  for (const names of [read, ...[objectPrototype, p.Promise.prototype, p.prototypeOf(callTool)].map(p.ownKeys)]) {
    for (const name of names) notTools[name] = true;
  }
  const isToolName = (name) => name !== "" && !notTools[name] && p.toWellFormed(name) === name;
  const missingTool = (backend, name) => (isToolName(name) ? toolFunction(backend, name) : undefined);

  // A backend is a frozen object of its functions. A function is made when its property is first read, since a program uses
  // a few of hundreds; all are made for every other operation, such as listing the keys. The handler of the Proxy is `this`:
  // `named` has the functions by the tools' names, `spelled` by what the program wrote. `named` is a Map: two objects that get
  // the same keys in turn share their shape, and copy it for every key.
  const functionOf = (kept, tool) => {
    const known = p.mapGet(kept.named, tool);
    if (known !== undefined) return known;
    const made = toolFunction(kept.backend, tool);
    p.mapSet(kept.named, tool, made);
    kept.isUnused = false;
    return made;
  };
  const fill = (kept) => {
    if (kept.isFilled) return;
    const { backend, object } = kept;
    const listed = native.tools(backend);
    const ids = listed[0];
    const names = listed[1] ?? ids;
    if (names === ids && kept.isUnused) {
      for (let i = 0; i < ids.length; i++) object[ids[i]] ??= toolFunction(backend, ids[i]);
    } else {
      for (let i = 0; i < ids.length; i++) object[ids[i]] ??= functionOf(kept, names[i]);
      // A tool is found by its own name too, where no other is called so.
      for (let i = 0; i < names.length; i++) {
        const name = names[i];
        if (!p.hasOwn(object, name)) p.defineProperty(object, name, { __proto__: null, value: functionOf(kept, name) });
      }
    }
    p.freeze(object);
    kept.isFilled = true;
    p.setPrototypeOf(kept, filledHandler);
  };
  // Looking for one of these traps fills the object, and finds none: the interpreter then goes on with the object itself. A
  // function there would have its result compared with the frozen object, key by key for each of the keys.
  const filledFirst = {
    __proto__: null,
    get() {
      fill(this);
    },
    configurable: false,
    enumerable: false,
  };
  const backendHandler = {
    __proto__: null,
    get(object, key) {
      if (typeof key !== "string") return undefined;
      const known = this.spelled[key] ?? (this.isFilled ? object[key] : undefined);
      if (known !== undefined) return known;
      const tool = native.toolNamed(this.backend, key);
      return tool === undefined ? missingTool(this.backend, key) : (this.spelled[key] = functionOf(this, tool));
    },
  };
  for (const trap of [
    "has", "set", "ownKeys", "isExtensible", "defineProperty", "deleteProperty", "preventExtensions",
    "getOwnPropertyDescriptor", "setPrototypeOf",
  ]) p.defineProperty(backendHandler, trap, filledFirst);
  // Without the getters, which the interpreter would call for every key.
  const filledHandler = { __proto__: null, get: backendHandler.get };
  const backendObject = (backend) => {
    const object = p.create(null);
    const kept = {
      __proto__: backendHandler, backend, object, isFilled: false, isUnused: true, named: new p.Map(),
      spelled: { __proto__: null },
    };
    return new p.Proxy(object, kept);
  };

  const { ASK_BACKEND, ASK_INTERFACE_OF, ASK_BACKENDS, ASK_GLOBAL, ASK_INTERFACE } = native.constants.tags;

  // One object for each backend, whichever spelling it is found by.
  const objects = { __proto__: null };
  const lookOnce = (question) => {
    const known = { __proto__: null };
    const look = (spelling) => {
      const name = native.backend(question, spelling);
      return name === undefined ? false : (objects[name] ??= backendObject(name));
    };
    return (spelling) => (known[spelling] ??= look(spelling)) || undefined;
  };
  const backend = lookOnce(ASK_BACKEND);
  const globalBackend = lookOnce(ASK_GLOBAL);

  let names;
  const backendNames = () => (names ??= native.ask(ASK_BACKENDS, ""));

  // An object whose properties are looked up when they are read.
  const lazy = (read, list) =>
    new p.Proxy(p.create(null), {
      get: (_, key) => (typeof key === "string" ? read(key) : undefined),
      has: (_, key) => typeof key === "string" && read(key) !== undefined,
      ownKeys: () => list(),
      getOwnPropertyDescriptor: (_, key) => {
        const value = typeof key === "string" ? read(key) : undefined;
        return value === undefined ? undefined : { value, enumerable: true, configurable: true, writable: false };
      },
      set: () => false,
      defineProperty: () => false,
      deleteProperty: () => false,
      preventExtensions: () => false,
    });

  const identifiers = () => {
    const list = [];
    const all = backendNames();
    for (let i = 0; i < all.length; i++) p.push(list, all[i].id);
    return list;
  };

  const toolInterface = (name) => native.ask(ASK_INTERFACE_OF, p.toWellFormed(`${name}`)) ?? null;

  // Host functions by their first name: of one without a group `true`, of a group its names.
  const functions = { __proto__: null };
  const functionInterface = (name) => native.ask(ASK_INTERFACE, "", name) ?? undefined;
  const functionInterfaces = (first) => {
    const known = functions[first];
    if (known === undefined || known === true) return known && functionInterface(first);
    const read = (name) => (p.hasOwn(known, name) ? functionInterface(`${first}.${name}`) : undefined);
    return lazy(read, () => p.keys(known));
  };

  const interfacesOf = (spelling) => {
    const object = backend(spelling);
    if (object === undefined) return functionInterfaces(spelling);
    const read = (tool) => (p.hasOwn(object, tool) ? (native.ask(ASK_INTERFACE, spelling, tool) ?? undefined) : undefined);
    return lazy(read, () => p.keys(object));
  };

  const interfaces = new p.Map();
  const interfacesCached = (spelling) => {
    if (!p.mapHas(interfaces, spelling)) p.mapSet(interfaces, spelling, interfacesOf(spelling));
    return p.mapGet(interfaces, spelling);
  };

  const interfaceNames = () => {
    const list = identifiers();
    const firsts = p.keys(functions);
    for (let i = 0; i < firsts.length; i++) if (backend(firsts[i]) === undefined) p.push(list, firsts[i]);
    return list;
  };

  const backends = lazy(backend, identifiers);
  const toolGlobals = {
    ToolError,
    tools: backends,
    __backends: backends,
    __interfaces: lazy(interfacesCached, interfaceNames),
    __getToolInterface: (name) => toolInterface(name),
  };
  const resolveGlobal = (name) => (p.hasOwn(objectPrototype, name) ? undefined : globalBackend(name));
  const nameBackends = () => native.resolveGlobals(resolveGlobal);

  // Looks a tool up once, before there is a program. Only the natives know this backend, and they drop it afterwards.
  const warmUpTool = (spelling, tool) => backendObject(native.backend(ASK_GLOBAL, spelling))[tool];

  // Host functions take positional arguments; `api.fetch` is `fetch` under `api`.
  const hostFunction = (name) => {
    const invoke = (...args) => call(invoke, null, name, args);
    p.defineProperty(invoke, "name", { value: name, configurable: true });
    return invoke;
  };

  const installFunctions = (list) => {
    if (list.length === 0) return;
    const groups = new p.Map();
    const under = (group) => {
      if (!p.mapHas(groups, group)) {
        const object = p.create(null);
        p.mapSet(groups, group, object);
        define(group, object);
      }
      return p.mapGet(groups, group);
    };
    define("ToolError", ToolError);
    for (let i = 0; i < list.length; i++) {
      const [group, name] = p.split(list[i], ".");
      const invoke = hostFunction(list[i]);
      if (name === undefined) {
        define(group, invoke);
        functions[group] = true;
      } else {
        (functions[group] ??= { __proto__: null })[name] = true;
      }
      under(name === undefined ? "api" : group)[name ?? group] = invoke;
    }
  };

  return { toolGlobals, nameBackends, installFunctions, warmUpTool };
})
