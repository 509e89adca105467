//! The erasure of types against an independent one: the transformer that comes with the parser.

use oxc::{
    allocator::Allocator,
    codegen::Codegen,
    parser::{ParseOptions, Parser},
    semantic::SemanticBuilder,
    span::SourceType,
    transformer::{TransformOptions, Transformer},
};
use proptest::prelude::*;
use std::path::Path;
use toolgate_plan::{Form, compile, plan, preflight, validate_code};

mod support;

/// Prints code in one style, without empty statements; `None` if it does not parse.
fn normal(code: &str, source_type: SourceType, erase: bool) -> Option<String> {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let mut parsed = Parser::new(&allocator, code, source_type).with_options(options).parse();
    if parsed.panicked || parsed.diagnostics.has_errors() {
        return None;
    }
    if erase {
        let scoping = SemanticBuilder::new().with_enum_eval(true).build(&parsed.program).semantic.into_scoping();
        let options = TransformOptions::default();
        Transformer::new(&allocator, Path::new("a.ts"), &options).build_with_scoping(scoping, &mut parsed.program);
    }
    parsed.program.comments.clear();
    let printed = Codegen::new().build(&parsed.program).code;
    Some(
        printed.lines().filter(|line| line.trim() != ";" && line.trim() != "export {};").collect::<Vec<_>>().join("\n"),
    )
}

/// The user's part of what `compile` makes of a program that ends with a `return`.
fn ours(source: &str) -> Option<String> {
    let js = compile(source, Form::Script).ok()?.js;
    let body = js.strip_prefix("(async () => {\"use strict\";")?.strip_suffix("\n;\n})")?;
    Some(normal(body, SourceType::mjs(), false).unwrap_or_else(|| panic!("does not parse:\n{js}")))
}

/// Statements whose types say nothing at run time. No semicolons at their ends: the separators see to that.
const STATEMENTS: [&str; 70] = [
    "let a1: number = 1",
    "const a2 = b as string",
    "const a3 = b satisfies X",
    "const a4 = <T,>(x: T): T => x",
    "const a5 = async <T extends {\n a: 1 }>(x: T): Promise<{\n y: T\n}> => x",
    "let a6: string | undefined",
    "let a7!: Map<string, Array<number>>",
    "var a8 = b!",
    "a.b!.c![0]!()",
    "f<string>(x)",
    "new F<A, B<C>>(x)",
    "new F<A>",
    "f<string>`t`",
    "interface I<T> extends J, K<T> { a?: string; readonly [k: string]: any; m(): void; (x: number): string }",
    "type A<T> = T extends (infer U)[] ? U : never",
    "type B = {\n [K in keyof T]?: T[K]\n}",
    "declare const c1: number",
    "declare function c2(x: number): void",
    "declare class C3 { x: number }",
    "declare module 'm' { export const x: number }",
    "declare global { interface Window {} }",
    "declare enum E { A }",
    "declare namespace N { const x: number }",
    "function d1(this: Window, a?: number, ...r: any[]): asserts a is number {}",
    "function d2(this: void) {}",
    "function d3(x: string): string\nfunction d3(x: any) { return x }",
    "async function d4<T>({ a, b }: { a: T; b?: T } = {} as any): Promise<void> {}",
    "function* d5(): Generator<number> { yield <number>1 }",
    "abstract class E1<T> extends Base<T> implements I, J<T> { abstract m(): void; abstract x: string; m2?(): void; private p = 1; static readonly q: number = 2; declare r: string; s!: string; t?: number; [k: string]: any; constructor(a: string); constructor(a: any) { super(a as any) } protected async *g<T>(): AsyncGenerator<T> {} override get v(): number { return 1 } set v(x: number) {} static { let z: number = 1 } #h: string = '' }",
    "class E2 { get: number\n set: string\n static: boolean\n async: any\n foo() {} }",
    "class E3 { a = 1 as number\n ['b'] = 2\n private ['c'] = 3\n public *d() {} }",
    "const e4 = class<T> implements I {}",
    "const e5 = class Foo extends (x as any) {}",
    "enumerate(x as const)",
    "for (const x of xs as number[]) { (x as any)() }",
    "for (let i: number = 0; i < (n as number); i++) {}",
    "for (const k in o as {}) {}",
    "if (x as boolean) { y } else { z! }",
    "while (x!) { break }",
    "switch (x as number) { case <number>1: let q: string = '' }",
    "try { x } catch (e: unknown) { throw e as Error }",
    "try { x } catch { }",
    "(x as any).y = 1",
    "x! = 2",
    "x!++",
    "(x satisfies any)++",
    "[a, b] = c as [number, number]",
    "({ a, b: c as any } = d)",
    "const { f1, ...f2 }: Rest = g as any",
    "const [h1, [h2] = [1] as number[]]: any[] = i",
    "import type J1 from 'x'",
    "import type { J2 } from 'x'",
    "import { type J3 } from 'x'",
    "import type * as J4 from 'x'",
    "export type { K1 }",
    "export interface K2 {}",
    "export type K3 = 1",
    "label: for (;;) { continue label }",
    "const l1 = (x): x is string => true",
    "const l2 = function <T>(this: any, x?: T) {}",
    "const l3 = { m<T>(x: T): void {}, get a(): number { return 1 }, async *['b'](x?: any) {}, c: <T>(x: T) => x }",
    "const l4 = x ? (y) : (z): any => z",
    "const l5 = a < b && c > (d as number)",
    "const l6 = `${x as string}${`${y!}`}`",
    "const l7 = x?.y!.z?.[0]!",
    "const l8 = (await p as any).q",
    "const l9 = typeof (x as any) === 'string'",
    "const m1 = f<string>, m2 = g<\nnumber\n>",
    "namespace OnlyTypes { export interface A {} type B = 1 }",
    "const m3 = <const T,>(x: T) => x as T satisfies T",
];

/// What may come next after a statement without a semicolon and change its meaning.
const CONTINUATIONS: [&str; 8] = ["(z1)", "[z2].z", "`z3`", "+z4", "-z5", "/z6/.z", "z7", "++z8"];

#[track_caller]
fn agree(source: &str) {
    let source = format!("{source}\nreturn 0");
    if let Some(ours) = ours(&source) {
        assert_eq!(Some(ours), normal(&source, SourceType::ts().with_module(true), true), "\n--- source\n{source}");
    }
}

#[test]
fn every_statement_is_erased_as_the_transformer_does() {
    for statement in STATEMENTS {
        let source = format!("{statement};\nreturn 0");
        assert!(ours(&source).is_some(), "{statement}: {:?}", compile(&source, Form::Script).err());
        agree(&format!("{statement};"));
    }
}

#[test]
fn no_two_statements_grow_together() {
    for statement in STATEMENTS {
        for next in CONTINUATIONS {
            agree(&format!("{statement}\n{next}"));
            agree(&format!("x0\n{statement}\n{next};"));
            if !["import", "export", "declare"].iter().any(|word| statement.starts_with(word)) {
                agree(&format!("{{ {statement}\n{next} }}"));
            }
        }
    }
}

const TOKENS: [&str; 74] = [
    "a",
    "b",
    "exa",
    "db",
    ".find",
    ".web_search",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    ":",
    "?",
    "?.",
    ".",
    "=",
    "=>",
    "==",
    "+",
    "-",
    "*",
    "/",
    "!",
    "&&",
    "...",
    "`",
    "${",
    "'",
    "\"",
    "\\",
    "\n",
    "\r",
    "\u{2028}",
    " ",
    "//",
    "/*",
    "*/",
    "#",
    "@",
    "1",
    "0x",
    "1n",
    "async ",
    "await ",
    "function ",
    "class ",
    "return ",
    "export ",
    "default ",
    "import ",
    "type ",
    "interface ",
    "enum ",
    "namespace ",
    "declare ",
    "abstract ",
    "private ",
    "as ",
    "satisfies ",
    "const ",
    "let ",
    "for ",
    "if ",
    "else ",
    "yield ",
    "new ",
    "é",
    "😀",
    "\u{feff}",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(TOKENS.as_slice()), 0..60).prop_map(|tokens| tokens.concat())
}

fn statements() -> impl Strategy<Value = String> {
    let separator = prop::sample::select(vec![";", "\n", ";\n", "\r\n", " ; "]);
    let statement = prop_oneof![
        4 => prop::sample::select(STATEMENTS.as_slice()),
        1 => prop::sample::select(CONTINUATIONS.as_slice()),
    ];
    prop::collection::vec((statement, separator), 1..6)
        .prop_map(|all| all.into_iter().map(|(statement, separator)| format!("{statement}{separator}")).collect())
}

/// Everything that is open to texts from outside takes any text, and what it accepts is JavaScript.
fn takes(text: &str) {
    for form in [Form::Script, Form::Compute] {
        if let Ok(program) = compile(text, form) {
            let parsed = normal(&program.js, SourceType::script(), false);
            assert!(parsed.is_some(), "not JavaScript:\n{}\nfrom\n{text}", program.js);
            for line in 1..=program.js.lines().count() as u32 + 1 {
                for column in [0, 1, 7, u32::MAX] {
                    let _ = program.source_position(line, column);
                }
            }
        }
    }
    let _ = validate_code(text);
    let _ = plan(text, &support::Catalog);
    let _ = preflight(text, &support::Catalog);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_taken(text in any::<String>()) {
        takes(&text);
    }

    #[test]
    fn any_mix_of_tokens_is_taken(text in soup()) {
        takes(&text);
    }

    #[test]
    fn any_mix_of_statements_means_the_same(text in statements()) {
        agree(&text);
        takes(&text);
    }
}
