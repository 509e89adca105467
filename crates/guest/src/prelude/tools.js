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

  // A backend's functions, made when they are first used: a program uses a few of hundreds. The object is filled
  // as soon as somebody looks at more of it than one function.
  //
  // A tool is listed by its name, or as {name, id} where its identifier is another.
  const lists = new p.Map();
  const functionOf = (list, tool) => {
    if (!p.mapHas(list.functions, tool)) p.mapSet(list.functions, tool, toolFunction(list.backend, tool));
    return p.mapGet(list.functions, tool);
  };
  const toolNamed = ({ tools }, key) => {
    if (p.includes(tools, key)) return key;
    let original;
    for (let i = 0; i < tools.length; i++) {
      const tool = tools[i];
      if (typeof tool === "string") continue;
      if (tool.id === key) return tool.name;
      if (tool.name === key) original = key;
    }
    return original;
  };
  const fill = (object) => {
    const list = p.mapGet(lists, object);
    if (list === undefined) return object;
    const { tools } = list;
    for (let i = 0; i < tools.length; i++) {
      const { id, name } = typeof tools[i] === "string" ? { id: tools[i], name: tools[i] } : tools[i];
      object[id] = functionOf(list, name);
    }
    for (let i = 0; i < tools.length; i++) {
      const { name } = tools[i];
      if (typeof tools[i] === "string" || p.hasOwn(object, name)) continue;
      p.defineProperty(object, name, { value: functionOf(list, name), enumerable: false });
    }
    p.mapDelete(lists, object);
    return p.freeze(object);
  };
  const { Reflect } = p;
  const filledFirst = (operation) => (...args) => {
    fill(args[0]);
    return p.apply(operation, undefined, args);
  };
  const unfolding = {
    __proto__: null,
    get(object, key) {
      const list = p.mapGet(lists, object);
      if (list === undefined) return object[key];
      const tool = toolNamed(list, key);
      return tool === undefined ? undefined : functionOf(list, tool);
    },
    has: filledFirst(Reflect.has),
    set: filledFirst(Reflect.set),
    ownKeys: filledFirst(Reflect.ownKeys),
    isExtensible: filledFirst(Reflect.isExtensible),
    defineProperty: filledFirst(Reflect.defineProperty),
    deleteProperty: filledFirst(Reflect.deleteProperty),
    preventExtensions: filledFirst(Reflect.preventExtensions),
    getOwnPropertyDescriptor: filledFirst(Reflect.getOwnPropertyDescriptor),
    setPrototypeOf: filledFirst(Reflect.setPrototypeOf),
  };
  const backendObject = ({ name: backend, tools }) => {
    const object = p.create(null);
    p.mapSet(lists, object, { backend, tools, functions: new p.Map() });
    return new p.Proxy(object, unfolding);
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
