// Backends as objects, host functions as functions, introspection.
//
// Nothing is known in advance: a backend's tools are asked for when it is first touched, so a run
// costs the same with ten tools or ten thousand.
(function ({ native, p, methods, define }, { call }) {
  const objectPrototype = p.Object.prototype;

  class ToolError extends Error {
    constructor(message, fields) {
      super(message);
      for (const key of p.keys(fields ?? {})) {
        p.defineProperty(this, key, { value: fields[key], writable: true, enumerable: true, configurable: true });
      }
    }
  }
  methods(ToolError.prototype, { name: "ToolError" });

  const failure = ({ message, ...fields }) => new ToolError(message, fields);

  const callTool = (invoke, backend, tool, args) => {
    if (args.length > 1) {
      return refuse(`${backend}.${tool} takes one argument object, got ${args.length} arguments`);
    }
    const given = args[0] === undefined ? {} : args[0];
    if (given === null || typeof given !== "object" || p.isArray(given)) {
      return refuse(`${backend}.${tool} takes one argument object, as in ${tool}({ key: value })`);
    }
    let json;
    try {
      json = native.stringify(given, "arguments");
    } catch (error) {
      return p.Promise.reject(error);
    }
    return call(invoke, backend, tool, json, failure);
  };

  // There may be hundreds of these: the literal names the function, and it captures as little as it can.
  const toolFunction = (backend, tool) => {
    const { [tool]: invoke } = { [tool]: (...args) => callTool(invoke, backend, tool, args) };
    return invoke;
  };

  const refuse = (message) => p.Promise.reject(new p.TypeError(message));

  // {name, tools: [{name, id}]} as the host lists it, as a null-prototype object of functions. A tool whose
  // identifier is its name is listed by that alone.
  const backendObject = ({ name, tools }) => {
    const object = p.create(null);
    const renamed = [];
    for (let i = 0; i < tools.length; i++) {
      const tool = tools[i];
      if (typeof tool === "string") {
        object[tool] = toolFunction(name, tool);
      } else {
        object[tool.id] = toolFunction(name, tool.name);
        p.push(renamed, tool);
      }
    }
    for (let i = 0; i < renamed.length; i++) {
      const { id, name: original } = renamed[i];
      if (!p.hasOwn(object, original)) p.defineProperty(object, original, { value: object[id], enumerable: false });
    }
    return p.freeze(object);
  };

  const [BACKEND, INTERFACE, BACKENDS, GLOBAL] = [0, 1, 2, 3];

  // One object a backend, whatever it is called by.
  const objects = new p.Map();
  const look = (question, spelling) => {
    // No name holds half a character, and no message can carry one.
    if (!p.isWellFormed(spelling)) return undefined;
    const answer = native.ask(question, spelling);
    if (answer === undefined) return undefined;
    const info = p.parseJson(answer);
    if (!p.mapHas(objects, info.name)) p.mapSet(objects, info.name, backendObject(info));
    return p.mapGet(objects, info.name);
  };
  const lookOnce = (question) => {
    const known = new p.Map();
    return (spelling) => {
      if (!p.mapHas(known, spelling)) p.mapSet(known, spelling, look(question, spelling));
      return p.mapGet(known, spelling);
    };
  };
  const backend = lookOnce(BACKEND);
  const globalBackend = lookOnce(GLOBAL);

  let names;
  const backendNames = () => (names ??= p.parseJson(native.ask(BACKENDS, "")));

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

  const toolInterface = (name) => {
    const answer = native.ask(INTERFACE, p.toWellFormed(`${name}`));
    return answer === undefined ? null : p.parseJson(answer);
  };

  const interfacesOf = (spelling) => {
    const object = backend(spelling);
    if (object === undefined) return undefined;
    const read = (tool) => (p.hasOwn(object, tool) ? (toolInterface(p.join([spelling, tool], "\u0000")) ?? undefined) : undefined);
    return lazy(read, () => p.keys(object));
  };

  const interfaces = new p.Map();
  const interfacesCached = (spelling) => {
    if (!p.mapHas(interfaces, spelling)) p.mapSet(interfaces, spelling, interfacesOf(spelling));
    return p.mapGet(interfaces, spelling);
  };

  const backends = lazy(backend, identifiers);
  const toolGlobals = {
    ToolError,
    tools: backends,
    __backends: backends,
    __interfaces: lazy(interfacesCached, identifiers),
    __getToolInterface: (name) => toolInterface(name),
  };
  const resolveGlobal = (name) => (p.hasOwn(objectPrototype, name) ? undefined : globalBackend(name));
  const nameBackends = () => native.resolveGlobals(resolveGlobal);

  // Host functions take positional arguments; `api.fetch` is `fetch` under `api`.
  const hostFunction = (name) => {
    const invoke = (...args) => {
      let json;
      try {
        json = native.stringify(args, "arguments");
      } catch (error) {
        return p.Promise.reject(error);
      }
      return call(invoke, null, name, json, failure);
    };
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
      if (name === undefined) define(group, invoke);
      under(name === undefined ? "api" : group)[name ?? group] = invoke;
    }
  };

  return { toolGlobals, nameBackends, installFunctions };
})
