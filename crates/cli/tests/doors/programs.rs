//! Programs of every kind: values, errors, tools, hints, fast paths, limits, images, big output, denied tools.

use std::time::Duration;

/// One program, and the time that its caller asks for.
pub(crate) struct Program {
    pub(crate) code: &'static str,
    pub(crate) timeout_ms: Option<u64>,
}

impl Program {
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout_ms.map(Duration::from_millis)
    }
}

const fn plain(code: &'static str) -> Program {
    Program { code, timeout_ms: None }
}

const fn within(code: &'static str, ms: u64) -> Program {
    Program { code, timeout_ms: Some(ms) }
}

pub(crate) const PROGRAMS: &[Program] = &[
    // Values.
    plain("return 1"),
    plain("return null"),
    plain("return undefined"),
    plain("// nothing"),
    plain("return 'text'"),
    plain("return ''"),
    plain("return [1, 2.5, -0, 1e21, 12345678901234567890]"),
    plain("return { b: 1, 10: 2, a: 3, 2: 4 }"),
    plain("return { date: new Date(0), nested: { deep: [[[]]] } }"),
    plain("return 'é\\u2028\\ud83d\\ude00'"),
    plain("return NaN"),
    plain("return 10n"),
    plain("return () => 1"),
    plain("const a = {}; a.a = a; return a"),
    plain("return Symbol('x')"),
    plain("type A = { n: number }; const a: A = { n: 1 }; return a.n as number"),
    plain("const data: number[] = [3, 1, 2]; return data.sort()"),
    plain("export default async () => 5"),
    plain("return typeof process + typeof require + typeof fetch"),
    // Console.
    plain("console.log('a', 1); console.error('b'); return 'c'"),
    plain("for (let i = 0; i < 1200; i++) console.log(i); return 1"),
    plain("console.log('\\u001b[31mred'); return 1"),
    // Errors.
    plain("throw new Error('boom')"),
    plain("throw 'text'"),
    plain("throw null"),
    plain("null.x"),
    plain("const a = 1; a = 2"),
    plain("return await Promise.reject(new TypeError('late'))"),
    plain("return ("),
    plain("let x = 1; let x = 2; return x"),
    plain("import fs from 'fs'; return fs"),
    plain("const fs = require('fs'); return fs"),
    plain("return await fetch('https://example.com')"),
    plain("return process.env"),
    plain("return eval('1')"),
    plain("(function f() { f() })()"),
    // Tools.
    plain("const found = await demo.list_issues({ limit: 3 }); return found"),
    plain("const all = await Promise.all([demo.list_issues({ limit: 1 }), demo.list_notes({})]); return all.length"),
    plain("const list = await demo.list_issues({}); return JSON.stringify(list).length"),
    plain("const one = await tools.demo.get_issue({ id: 1 }); return one"),
    plain(
        "try { await demo.always_fails({ message: 'no' }) } catch (e) { return [e.name, e.code, e.message, e.backend, e.tool] }",
    ),
    plain("await demo.always_fails({ message: 'no' })"),
    plain("return (await Promise.allSettled([demo.always_fails({}), demo.list_notes({})])).map(it => it.status)"),
    plain("const n = demo.list_notes({}); await n; return n.length"),
    plain("return await demo['list_notes']({})"),
    plain("return Object.keys(tools)"),
    plain("return Object.keys(demo).length"),
    // Fast paths.
    plain("return await demo.list_issues({ limit: 2 })"),
    plain("demo.get_issue({ id: 3 })"),
    plain("{\"tool\": \"demo.get_issue\", \"arguments\": {\"id\": 3}}"),
    plain("{\"tool\": \"demo.get_issue\", \"arguments\": {}}"),
    plain("{\"tool\": \"demo.nothing\", \"arguments\": {}}"),
    plain("{\"tool\": \"nowhere.nothing\", \"arguments\": {}}"),
    plain("return await demo.always_fails({ message: 'short' })"),
    plain("return __getToolInterface('demo.get_issue')"),
    plain("return __interfaces.demo.get_issue"),
    plain("__getToolInterface('demo.no_such_tool')"),
    // Hints and preflight.
    plain("return await demo.list_isues({})"),
    plain("return await dmo.list_issues({})"),
    plain("const id = 'x'; return await demo.get_issue({ id })"),
    plain("return await demo.get_issue({ idd: 1 })"),
    plain("return await list_issues({})"),
    plain("const q = await demo.list_issues({ limit: 1 }); return q.nothing.here"),
    plain("try { await demo.nope({}) } catch { return 'caught' }"),
    // Limits.
    within("for (;;);", 3_000),
    within("await new Promise(() => {})", 3_000),
    within("return 1", 5_000),
    within("return await demo.list_notes({})", 5_000),
    plain("const a = []; for (;;) a.push(new Array(1e5).fill(1))"),
    plain("let n = 0; for (let i = 0; i < 1001; i++) { await demo.list_notes({}); n++ } return n"),
    // Images and big output.
    plain("return { type: 'image', data: 'AA==', mimeType: 'image/png' }"),
    plain("return [{ type: 'text', text: 'see' }, { type: 'image', data: 'AA==', mimeType: 'image/png' }]"),
    plain("return Array.from({ length: 3000 }, (_, id) => ({ id, name: 'row ' + id }))"),
    plain("return 'x'.repeat(300000)"),
    plain("return 'x'.repeat(17 * 1024 * 1024)"),
];
