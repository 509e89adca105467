// The structured clone algorithm of the HTML standard for what this realm has.
// Made once, before guest code; reaches everything through captured functions. `copyPlain`, where there is one, copies plain
// data natively, or gives undefined.
(kindOf, copyPlain) => {
  const { apply } = Reflect;
  const { create, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, hasOwn, keys } = Object;
  const none = [];
  const getter = (owner, name) => getOwnPropertyDescriptor(owner, name).get;

  const { get: mapGet, set: mapSet, entries: mapEntries } = Map.prototype;
  const mapNext = getPrototypeOf(new Map().entries()).next;
  const { add: setAdd, values: setValues } = Set.prototype;
  const setNext = getPrototypeOf(new Set().values()).next;
  const Typed = getPrototypeOf(Uint8Array);
  const typedTag = getter(Typed.prototype, Symbol.toStringTag);
  const typedBuffer = getter(Typed.prototype, "buffer");
  const typedOffset = getter(Typed.prototype, "byteOffset");
  const typedLength = getter(Typed.prototype, "length");
  const viewBuffer = getter(DataView.prototype, "buffer");
  const viewOffset = getter(DataView.prototype, "byteOffset");
  const viewLength = getter(DataView.prototype, "byteLength");
  const { getTime } = Date.prototype;
  const bufferSlice = ArrayBuffer.prototype.slice;
  const regexpSource = getter(RegExp.prototype, "source");
  const regexpFlags = getter(RegExp.prototype, "flags");
  const numberValue = Number.prototype.valueOf;
  const stringValue = String.prototype.valueOf;
  const booleanValue = Boolean.prototype.valueOf;
  const bigIntValue = BigInt.prototype.valueOf;
  const realm = {
    __proto__: null,
    Array, ArrayBuffer, BigInt, Boolean, DataView, Date, Error, Map, Number, Object, RegExp, Set, String, TypeError,
    DOMException: globalThis.DOMException,
    errors: {
      __proto__: null,
      Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError,
    },
    typed: {
      __proto__: null,
      Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
      BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array,
    },
  };

  const refuse = (what) => {
    const message = `${what} could not be cloned.`;
    if (realm.DOMException) throw new realm.DOMException(message, "DataCloneError");
    const error = new realm.Error(message);
    defineProperty(error, "name", { __proto__: null, value: "DataCloneError", configurable: true, writable: true });
    throw error;
  };
  const put = (target, key, value) =>
    defineProperty(target, key, { __proto__: null, value, writable: true, enumerable: true, configurable: true });
  const drain = (start, next, collection) => {
    const steps = apply(start, collection, none);
    const list = create(null);
    let length = 0;
    for (let step; !(step = apply(next, steps, none)).done; ) list[length++] = step.value;
    return { __proto__: null, list, length };
  };

  const copyProperties = (from, to, seen) => {
    const names = keys(from);
    for (let at = 0; at < names.length; at++) {
      const name = names[at];
      if (hasOwn(from, name)) put(to, name, clone(from[name], seen));
    }
    return to;
  };
  const remember = (seen, from, to) => {
    apply(mapSet, seen, [from, to]);
    return to;
  };

  const cloneError = (error, seen) => {
    const name = error.name;
    const known = name === undefined ? "Error" : `${name}`;
    const Kind = realm.errors[known] ?? realm.Error;
    const copy = remember(seen, error, new Kind());
    const take = (key, convert) => {
      const own = getOwnPropertyDescriptor(error, key);
      if (!own || !hasOwn(own, "value")) return;
      const value = convert(own.value);
      defineProperty(copy, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
    };
    take("message", (text) => `${text}`);
    take("stack", (text) => `${text}`);
    take("cause", (cause) => clone(cause, seen));
    return copy;
  };
  const cloneTyped = (array, seen) => {
    const Kind = realm.typed[apply(typedTag, array, none)];
    const offset = apply(typedOffset, array, none);
    const length = apply(typedLength, array, none);
    return remember(seen, array, new Kind(clone(apply(typedBuffer, array, none), seen), offset, length));
  };
  const cloneView = (view, seen) => {
    const offset = apply(viewOffset, view, none);
    const length = apply(viewLength, view, none);
    return remember(seen, view, new realm.DataView(clone(apply(viewBuffer, view, none), seen), offset, length));
  };
  const cloneMap = (map, seen) => {
    const copy = remember(seen, map, new realm.Map());
    const { list, length } = drain(mapEntries, mapNext, map);
    for (let at = 0; at < length; at++) apply(mapSet, copy, [clone(list[at][0], seen), clone(list[at][1], seen)]);
    return copy;
  };
  const cloneSet = (set, seen) => {
    const copy = remember(seen, set, new realm.Set());
    const { list, length } = drain(setValues, setNext, set);
    for (let at = 0; at < length; at++) apply(setAdd, copy, [clone(list[at], seen)]);
    return copy;
  };
  const cloneArray = (array, seen) => {
    const copy = remember(seen, array, new realm.Array(array.length));
    return copyProperties(array, copy, seen);
  };

  const clone = (value, seen) => {
    if (typeof value === "symbol") refuse("A symbol");
    if (typeof value === "function") refuse(`The function ${value.name || "(anonymous)"}`);
    if (typeof value !== "object" || value === null) return value;
    const known = apply(mapGet, seen, [value]);
    if (known !== undefined) return known;
    switch (kindOf(value)) {
      case "Plain": return copyProperties(value, remember(seen, value, {}), seen);
      case "Array": return cloneArray(value, seen);
      case "Date": return remember(seen, value, new realm.Date(apply(getTime, value, none)));
      case "RegExp": return remember(seen, value, new realm.RegExp(apply(regexpSource, value, none), apply(regexpFlags, value, none)));
      case "Number": return remember(seen, value, new realm.Number(apply(numberValue, value, none)));
      case "String": return remember(seen, value, new realm.String(apply(stringValue, value, none)));
      case "Boolean": return remember(seen, value, new realm.Boolean(apply(booleanValue, value, none)));
      case "BigInt": return remember(seen, value, realm.Object(apply(bigIntValue, value, none)));
      case "Map": return cloneMap(value, seen);
      case "Set": return cloneSet(value, seen);
      case "Error": return cloneError(value, seen);
      case "Buffer": return remember(seen, value, apply(bufferSlice, value, none));
      case "Typed": return cloneTyped(value, seen);
      case "View": return cloneView(value, seen);
      default: return refuse("An object of this kind");
    }
  };

  return {
    structuredClone(value) {
      if (arguments.length === 0) throw new realm.TypeError("structuredClone needs a value");
      if (copyPlain !== undefined && typeof value === "object" && value !== null) {
        const copy = copyPlain(value);
        if (copy !== undefined) return copy;
      }
      return clone(value, new realm.Map());
    },
  }.structuredClone;
}
