// The trusted part of every sandbox, evaluated once before any guest code exists.
//
// It captures the built-ins that it needs, so that what a program later does to Array.prototype or JSON affects the program
// only. Nothing here is a security boundary; that is the process around it.
(function (native) {
  const { call: callMethod, bind } = Function.prototype;
  const uncurry = bind.bind(callMethod);
  const { apply } = Reflect;
  const { getOwnPropertyDescriptor } = Object;
  const { isError } = Error;
  const domMessage = getOwnPropertyDescriptor(DOMException.prototype, "message").get;
  const isDomException = (value) => {
    try {
      apply(domMessage, value, []);
      return true;
    } catch {
      return false;
    }
  };
  // The interpreter keeps an error's stack behind an accessor of the prototype or of the error itself; an own property of that
  // name shadows it.
  const accessor = getOwnPropertyDescriptor(Error.prototype, "stack") ?? getOwnPropertyDescriptor(new Error(), "stack");
  const stackGetter = accessor?.get;
  const stackOf = (error) => {
    const own = getOwnPropertyDescriptor(error, "stack");
    const kept = stackGetter !== undefined && (own === undefined || own.get === stackGetter);
    const stack = kept ? apply(stackGetter, error, []) : own?.value;
    return typeof stack === "string" ? stack : "";
  };
  const p = {
    Array, Error, Map, Number, Object, Promise, Proxy, RangeError, Reflect, Set, String, Symbol, TypeError,
    isArray: Array.isArray,
    create: Object.create,
    defineProperty: Object.defineProperty,
    descriptor: getOwnPropertyDescriptor,
    freeze: Object.freeze,
    keys: Object.keys,
    ownKeys: Reflect.ownKeys,
    apply,
    uncurry,
    construct: Reflect.construct,
    prototypeOf: Object.getPrototypeOf,
    set: Reflect.set,
    setPrototypeOf: Object.setPrototypeOf,
    isError: (value) => isError(value) || isDomException(value),
    stackOf,
    captureStackTrace: Error.captureStackTrace,
    toWellFormed: uncurry(String.prototype.toWellFormed),
    slice: uncurry(String.prototype.slice),
    split: uncurry(String.prototype.split),
    indexOf: uncurry(String.prototype.indexOf),
    charCodeAt: uncurry(String.prototype.charCodeAt),
    replaceAll: uncurry(String.prototype.replaceAll),
    push: uncurry(Array.prototype.push),
    shift: uncurry(Array.prototype.shift),
    join: uncurry(Array.prototype.join),
    mapGet: uncurry(Map.prototype.get),
    mapSet: uncurry(Map.prototype.set),
    mapHas: uncurry(Map.prototype.has),
    mapDelete: uncurry(Map.prototype.delete),
    hasOwn: Object.hasOwn,
    then: uncurry(Promise.prototype.then),
    parseJson: native.parse,
  };
  const methods = (object, extra) => {
    for (const key of p.keys(extra)) {
      p.defineProperty(object, key, { value: extra[key], writable: true, enumerable: false, configurable: true });
    }
    return object;
  };
  const define = (name, value) =>
    p.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });

  // No profile has these. SharedArrayBuffer with Atomics gives a precise clock, as does performance.
  for (const name of ["performance", "SharedArrayBuffer", "Atomics", "WebAssembly", "navigator"]) {
    delete globalThis[name];
  }

  // Without its setter no program gets call sites: `getFunction` of one is a function of this prelude, which takes names and
  // arguments unchecked. On V8 the property is fixed, and stays.
  p.Reflect.deleteProperty(Error, "prepareStackTrace");

  // The clock changes only with messages from the host, and random numbers come from the run's seed.
  const HostDate = Date;
  const FixedDate = function Date(...parts) {
    if (new.target === undefined) return new HostDate(native.now()).toString();
    const given = parts.length === 0 ? [native.now()] : parts;
    return p.construct(HostDate, given, new.target === FixedDate ? HostDate : new.target);
  };
  p.defineProperty(FixedDate, "length", { value: 7, configurable: true });
  methods(FixedDate, { now: native.now, parse: HostDate.parse, UTC: HostDate.UTC });
  p.defineProperty(FixedDate, "prototype", { value: HostDate.prototype, writable: false });
  methods(HostDate.prototype, { constructor: FixedDate });
  define("Date", FixedDate);
  methods(Math, { random: native.random });

  return { native, p, methods, define };
})
