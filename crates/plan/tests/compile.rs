//! What compiled programs mean, found by running them on the engine that will run them.

use rquickjs::{CatchResultExt as _, CaughtError, Context, Function, Promise, Runtime, Value};
use toolgate_plan::{Form, Position, compile};

/// Runs a program and gives its result as JSON, or the error's message and the user's position.
fn run(source: &str) -> Result<String, String> {
    let program = compile(source, Form::Script).map_err(|fault| format!("{fault} {:?}", fault.position))?;
    let runtime = Runtime::new().expect("runtime");
    let context = Context::full(&runtime).expect("context");
    context.with(|ctx| {
        let outcome = (|| {
            let prelude = "globalThis.b = { t: async (x) => x, u: (x) => Promise.resolve(x) };";
            ctx.eval::<(), _>(prelude)?;
            let main: Function<'_> = ctx.eval(program.js.as_bytes())?;
            let promise: Promise<'_> = main.call(())?;
            let value: Value<'_> = promise.finish()?;
            let text = ctx.json_stringify(value)?;
            Ok(text.map_or("undefined".to_owned(), |text| text.to_string().unwrap_or_default()))
        })();
        outcome.catch(&ctx).map_err(|error| match error {
            CaughtError::Exception(exception) => {
                let stack = exception.stack().unwrap_or_default();
                let at = first_place(&stack).and_then(|(line, column)| program.source_position(line, column));
                let at = at.map_or("nowhere".to_owned(), |at| format!("{}:{}", at.line, at.column));
                format!("{} at {at}", exception.message().unwrap_or_default())
            }
            other => format!("{other}\n{}", program.js),
        })
    })
}

fn first_place(stack: &str) -> Option<(u32, u32)> {
    let line = stack.lines().find(|line| line.contains("eval_script"))?;
    let mut numbers = line.trim_end_matches(')').rsplit(':');
    let column = numbers.next()?.parse().ok()?;
    Some((numbers.next()?.parse().ok()?, column))
}

#[track_caller]
fn check(source: &str, expected: &str) {
    let result = run(source);
    assert_eq!(
        result.as_deref(),
        Ok(expected),
        "\n--- source\n{source}\n--- js\n{:?}",
        compile(source, Form::Script).map(|p| p.js)
    );
}

#[track_caller]
fn fails(source: &str, expected: &str) {
    assert_eq!(run(source), Err(expected.to_owned()), "\n{:?}", compile(source, Form::Script).map(|p| p.js));
}

#[track_caller]
fn refused(source: &str, part: &str, position: (u32, u32)) {
    let fault = compile(source, Form::Script).expect_err(source);
    assert!(fault.message.contains(part), "{source}: {}", fault.message);
    assert_eq!(fault.position, Some(Position { line: position.0, column: position.1 }), "{source}: {}", fault.message);
}

#[test]
fn a_script_is_the_body_of_an_async_function() {
    check("return 1+1", "2");
    check("const x = await b.t(3); return x", "3");
    check("", "undefined");
    check("// nothing", "undefined");
    check("if (true) { return 1 } return 2", "1");
    check("return 1 // trailing comment", "1");
    check("return [await b.t(1), await b.u(2)]", "[1,2]");
    check("function f() {} function f() { return 7 } return f()", "7");
    check("return this === undefined || typeof this", "\"object\"");
}

#[test]
fn the_last_expression_is_the_result() {
    check("1+1", "2");
    check("b.t(5)", "5");
    check("await b.t(5);", "5");
    check("const x = 2\nx * 3", "6");
    check("const x = 2; x\n;;", "2");
    check("'hello'", "\"hello\"");
    check("main(); async function main() { return 9 }", "9");
    check("42\ninterface X {}", "42");
    check("const x = 1", "undefined");
    check("if (true) { 5 }", "undefined");
    check("return 1; 2", "1");
    check("(1, 2)", "2");
    check("`a${1}`", "\"a1\"");
    check("x = 3; var x", "undefined");
}

#[test]
fn a_module_runs_its_main_export() {
    check("export default async function main() { return b.t(1) }", "1");
    check("export default async function () { return 2 }", "2");
    check("export default async () => 3", "3");
    check("export default () => 4;", "4");
    check("export default 5", "5");
    check("export default { a: 1 }", "{\"a\":1}");
    check("export async function main() { return 6 }", "6");
    check("export function main() { return 7 }", "7");
    check("export const main = async () => 8", "8");
    check("async function run() { return 9 }\nexport { run as default }", "9");
    check("const main = () => 10; export { main };", "10");
    check("export const x = 1; export default x + 1", "2");
    check("const __main = 1; export default async () => __main", "1");
    check("import type { A } from 'a'; export default (): A => 1", "1");
    check("export interface A {} export type B = A; export const c = 1; c", "1");
    check("export default\n// why\nasync () => 11", "11");
}

#[test]
fn a_bare_function_is_called() {
    check("async () => 1", "1");
    check("async () => { return 2 };", "2");
    check("(async () => 3)", "3");
    check("() => 4", "4");
    check("async function () { return 5 }", "5");
    check("function () { return 6 }", "6");
    check("async function main() { return 7 }", "7");
    check("(async () => 8)()", "8");
    check("// note\nasync () => {\n  return 9\n}\n// end", "9");
    check("type A = number; async (): Promise<A> => 10", "10");
}

#[test]
fn wrapping_of_the_text_is_tolerated() {
    check("```ts\nreturn 1\n```", "1");
    check("~~~\nreturn 1 // c\n~~~\n", "1");
    check("\u{feff}return 1", "1");
    check("#!/usr/bin/env node\nreturn 1", "1");
}

#[test]
fn types_are_erased() {
    check("const x: number = 1; return x", "1");
    check("function f<T>(a: T, b?: number): T { return a } return f<number>(1)", "1");
    check("return ({ a: 1 } as { a: number }).a", "1");
    check("return ({ a: 1 } satisfies object).a", "1");
    check("const x = { a: 1 } as const; return x!.a!", "1");
    check("let x!: number; x = 2; return x", "2");
    check("interface A { a: string }\ntype B = A | null;\ndeclare const c: B; return 1", "1");
    check("declare function f(): void; declare module 'x' { } declare global { var y: number } return 1", "1");
    check(
        "function f(a: string): string; function f(a: number): number; function f(a: any) { return a } return f(1)",
        "1",
    );
    check("const f = (this_: any, ...rest: number[]): number => rest.length; return f(1, 2, 3)", "2");
    check("function f(this: any, a: number) { return a } return f.call(null, 4)", "4");
    check("function f(this: any) { return 5 } return f.call(null)", "5");
    check("return <number>6", "6");
    check("const m = new Map<string, Array<number>>(); return m.size", "0");
    check("try { throw 1 } catch (e: unknown) { return e }", "1");
    check("const { a, b: [c] }: { a: number, b: number[] } = { a: 1, b: [2] }; return a + c", "3");
    check("for (const x of [1] as number[]) return x", "1");
    check("return (<T,>(x: T) => x)(7)", "7");
    check("const f = async <T>(x: T): Promise<T> => x; return f(8)", "8");
    check("let a: any = { b: { c: 9 } }; return a?.b!.c", "9");
    check(
        "const o = { m<T>(this: any, x: T): T { return x }, get g(): number { return 1 } }; return o.m(1) + o.g",
        "2",
    );
    check("const f = b.t<number>; return f(3)", "3");
    check(
        "abstract class A { abstract m(): void; n(): number { return 1 } } class B extends A { m() {} } return new B().n()",
        "1",
    );
    check(
        "function isA(x: unknown): x is string { return typeof x === 'string' } function a(x: any): asserts x {} return isA('')",
        "true",
    );
}

#[test]
fn classes_lose_their_types_only() {
    check(
        "class A<T> implements I, J<T> { private x: number = 1; readonly y?: string; static z: number = 2; declare w: string;\n [key: string]: any; public static async m<T>(a: T): Promise<T> { return a } protected get g(): number { return this.x } }\n return [new A().g, A.z, await A.m(3)]",
        "[1,2,3]",
    );
    check(
        "class P { constructor(private x: number, public readonly y = 2, z?: number) {} } return new P(1, undefined)",
        "{\"x\":1,\"y\":2}",
    );
    check(
        "class P { a = 1 } class Q extends P { constructor(public x: number) { super(); this.a = x } } return new Q(5)",
        "{\"a\":5,\"x\":5}",
    );
    check(
        "class A { constructor(a: string); constructor(a: number); constructor(public a: any) { 'use strict' } } return new A(1)",
        "{\"a\":1}",
    );
    check("class A { m?(): void; x!: number; ['c']?: number } return new A()", "{}");
    check("class A extends Array<number> implements X {} return new A(1, 2)", "[1,2]");
    check("const A = class implements X { a = 1 }; return new A()", "{\"a\":1}");
    check("class A { override m() { return 1 } } return new A().m()", "1");
}

#[test]
fn erasure_does_not_join_statements() {
    check("const a = b\ninterface X {}\n(function () {})()\nreturn 1", "1");
    check("let f = 1 as number\n(2)\nreturn f", "1");
    check("let f = 1 satisfies number\n[2]\nreturn f", "1");
    check("let f = 1 as any\n`t`\nreturn f", "1");
    check("class A { get: number\n foo() { return 1 } }\n return new A().foo()", "1");
    check("class A { static: string\n bar() { return 1 } }\n return new A().bar()", "1");
    check("class A { a = 1\n private ['b'] = 2 }\n return new A()", "{\"a\":1,\"b\":2}");
    check("class A { a = 1 as number\n ['b'] = 2 }\n return new A()", "{\"a\":1,\"b\":2}");
    check("class A { a = 1;\n [k: string]: any\n *g() { yield 1 } }\n return [...new A().g()]", "[1]");
    check("const f = (a: number): {\n x: number\n} => ({ x: a })\nreturn f(1)", "{\"x\":1}");
    check("return <\nnumber\n>\n5", "5");
    check("return <\nT\n>(x: T) => 1", "undefined");
    check("const f = async <\nT\n>(x: T) => x\nreturn f(2)", "2");
    check("let x: number\n(1)\nreturn x", "undefined");
    check("type A = 1\n[1].length", "1");
    check("import type A from 'a'\n;[1].length", "1");
}

#[test]
fn enums_become_objects() {
    check(
        "enum E { A, B, C = 10, D } return E",
        "{\"0\":\"A\",\"1\":\"B\",\"10\":\"C\",\"11\":\"D\",\"A\":0,\"B\":1,\"C\":10,\"D\":11}",
    );
    check("enum E { A = 'a', B = 'b' } return E", "{\"A\":\"a\",\"B\":\"b\"}");
    check("const enum F { R = 1 << 0, W = 1 << 1, RW = R | W, X = F.R | 8 } return F.RW + F.X", "12");
    check("enum E { 'a-b' = 1, default, \"c\" } return [E['a-b'], E.default, E.c]", "[1,2,3]");
    check("enum E { A = 'x'.length, B } return E.B", "2");
    check("export enum E {\n  // one\n  A, // two\n  B = A + 5,\n}\nreturn E.B", "5");
    check("enum E { A } enum E { B = 5 } return [E.A, E.B]", "[0,5]");
    check("{ enum E { A = 3 } b.x = E.A } return b.x", "3");
    check("enum E {} return E", "{}");
    check("declare enum E { A } return 1", "1");
    check("enum E { __enum = 1, B } return E.B", "2");
    refused("enum E {\n A = 'a',\n B }", "initializer", (3, 2));
}

#[test]
fn plain_namespaces_become_objects() {
    check(
        "namespace N { export const a = 1; const b = 2; export function f() { return a + b } } return [N.a, N.f()]",
        "[1,3]",
    );
    check("namespace A.B { export const c = 1 } return A.B.c", "1");
    check("namespace N { export interface I {} } return typeof N", "\"undefined\"");
    check("namespace N { export namespace M { export enum E { A = 4 } } } return N.M.E.A", "4");
    refused("namespace N { export let a = 1 }", "only export constants", (1, 15));
}

#[test]
fn what_cannot_run_is_refused_with_a_position() {
    refused("import fs from 'fs'", "import \"fs\"", (1, 1));
    refused("import 'fs'", "import \"fs\"", (1, 1));
    refused("1;\nexport * from 'x'", "another module", (2, 1));
    refused("@dec class A {}", "Decorators", (1, 1));
    refused("export default class A {}", "not a class", (1, 1));
    refused("return import.meta", "import.meta", (1, 8));
    refused("let a = 1; let a = 2", "`a` has already been declared", (1, 5));
    refused("a <!-- b", "HTML", (1, 3));
    refused("import x = require('y')", "import x", (1, 1));
    refused("class A { accessor x = 1 }", "accessor", (1, 11));
    refused("with (a) {}", "with", (1, 1));
}

#[test]
fn nothing_breaks_out_of_the_wrapper() {
    for source in
        ["})();evil(", "}); evil(); (async () => {", "*/ }", "` }", "return 1 }", "}", ")", "{", "/*", "'", "return (1"]
    {
        assert!(compile(source, Form::Script).is_err(), "{source}");
        assert!(compile(source, Form::Compute).is_err(), "{source}");
    }
    check("return 1 /* })(); */", "1");
    check("return '})();'", "\"})();\"");
}

#[test]
fn positions_of_errors_are_the_users_own() {
    fails("null.x", "cannot read property 'x' of null at 1:1");
    fails("const a = 1;\n  nope()", "nope is not defined at 2:3");
    fails("```ts\n\n  nope()\n```", "nope is not defined at 3:3");
    fails("const s: Array<string> = ['é😀']; nope()", "nope is not defined at 1:34");
    fails("enum E { A, B }\nconst x: E = E.A; nope()", "nope is not defined at 2:19");
    fails("enum E {\n  A = 1,\n  B = nope(),\n}", "nope is not defined at 3:7");
    fails("const f = (a: {\n x: number\n}): {\n y: number } => nope(a)\nf(1)", "nope is not defined at 4:17");
    fails("class P { constructor(private x: number) { nope() } } new P(1)", "nope is not defined at 1:44");
    fails("export default async () => {\n  nope()\n}", "nope is not defined at 2:3");
    fails("\n\n\tnope()", "nope is not defined at 3:2");
    fails("a: {\r\n  break a;\r}\r\nnope()", "nope is not defined at 4:1");
    fails("/* \u{2028} */ const x = '\u{2028}';\nnope()", "nope is not defined at 2:1");
    fails("let x = 1\u{2028}  nope()", "nope is not defined at 1:13");
    fails("const t = `a\\\nb`;\nnope()", "nope is not defined at 3:1");
    fails("const t = 'a\\\nb';\nnope()", "nope is not defined at 3:1");
    fails("const t = `a\nb`; nope()", "nope is not defined at 2:5");
    fails("/* a\n b */ nope()", "nope is not defined at 2:7");
}

#[test]
fn a_program_knows_the_names_that_it_uses_and_does_not_declare() {
    let check = |source: &str, expected: &[&str]| {
        let program = compile(source, Form::Script).expect("a program");
        assert_eq!(program.globals, expected, "{source}");
    };
    check("return exa.search({ query })", &["exa", "query"]);
    check("const exa = 1; return exa", &[]);
    check("interface exa { git: string }\nconst x: exa = await git.log({}); return x as unknown", &["git"]);
    check("{ let git = 1 } return () => [git, '// exa', `${npm}`]", &["git", "npm"]);
}
