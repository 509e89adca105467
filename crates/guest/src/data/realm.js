// Runs once, before any guest code, and captures what serialising needs.
// Everything is reached through captured functions: guest code may redefine
// any global later without changing what these do.
(() => {
  const { apply } = Reflect;
  const { defineProperty, getOwnPropertyDescriptor, getPrototypeOf } = Object;
  const none = [];
  const getter = (owner, name) => getOwnPropertyDescriptor(owner, name).get;

  const { getTime, toISOString } = Date.prototype;
  const mapEntries = Map.prototype.entries;
  const mapNext = getPrototypeOf(new Map().entries()).next;
  const setValues = Set.prototype.values;
  const setNext = getPrototypeOf(new Set().values()).next;
  const booleanValue = Boolean.prototype.valueOf;
  const bigIntValue = BigInt.prototype.valueOf;
  const typedLength = getter(getPrototypeOf(Uint8Array.prototype), "length");
  const Bytes = Uint8Array;
  const viewBuffer = getter(DataView.prototype, "buffer");
  const viewOffset = getter(DataView.prototype, "byteOffset");
  const viewLength = getter(DataView.prototype, "byteLength");

  const drain = (start, next) => (collection) => {
    const steps = apply(start, collection, none);
    const list = [];
    for (let at = 0; ; at++) {
      const step = apply(next, steps, none);
      if (step.done) return list;
      // A plain assignment would find setters that guest code put on Array.prototype.
      defineProperty(list, at, { __proto__: null, value: step.value, writable: true, enumerable: true, configurable: true });
    }
  };

  return {
    objectPrototype: Object.prototype,
    arrayPrototype: Array.prototype,
    isoText: (date) => {
      const time = apply(getTime, date, none);
      return time === time ? apply(toISOString, date, none) : null;
    },
    entries: drain(mapEntries, mapNext),
    values: drain(setValues, setNext),
    // As JSON.stringify unboxes: numbers and strings through their own, possibly redefined, conversions.
    unboxNumber: (boxed) => +boxed,
    unboxString: (boxed) => `${boxed}`,
    unboxBoolean: (boxed) => apply(booleanValue, boxed, none),
    unboxBigInt: (boxed) => apply(bigIntValue, boxed, none),
    toNumber: (value) => +value,
    // The interpreter looks for a reason to stop at every turn of a loop, and not inside a native function.
    spend: (turns) => {
      while (turns-- > 0);
    },
    typedLength: (array) => apply(typedLength, array, none),
    bufferBytes: (buffer) => new Bytes(buffer),
    viewBytes: (view) => new Bytes(apply(viewBuffer, view, none), apply(viewOffset, view, none), apply(viewLength, view, none)),
    // One of each kind of object at least.
    samples: () => ({
      Plain: [{}],
      Array: [[]],
      Number: [Object(1)],
      String: [Object("")],
      Boolean: [Object(true)],
      BigInt: [Object(1n)],
      Date: [new Date(0)],
      RegExp: [/(?:)/],
      Map: [new Map()],
      Set: [new Set()],
      Error: [new Error("")].concat(typeof DOMException === "function" ? [new DOMException("")] : []),
      Typed: [
        Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array,
        BigInt64Array, BigUint64Array, Float16Array, Float32Array, Float64Array,
      ].map((Kind) => new Kind(0)),
      Buffer: [new ArrayBuffer(0)],
      View: [new DataView(new ArrayBuffer(0))],
      Promise: [Promise.resolve()],
      Proxy: [new Proxy({}, {})],
      RawJson: [JSON.rawJSON("0")],
    }),
  };
})()
