// What the JavaScript of workers finds around it and TypeScript's own library does not declare.

declare const Deno: any;
declare var DOMException: any;
declare function queueMicrotask(callback: () => void): void;
declare var URL: any;
declare var URLSearchParams: any;

declare module "node:v8";
declare module "node:vm";

// `{ __proto__: null, … }` is how a descriptor is kept from inheriting what a program put on Object.prototype.
interface PropertyDescriptor {
  __proto__?: null;
}
interface ProxyHandler<T extends object> {
  __proto__?: null;
}
interface JSON {
  isRawJSON(value: unknown): boolean;
  rawJSON(text: string): unknown;
}
interface ErrorConstructor {
  captureStackTrace(target: object, above?: Function): void;
}
