//! What counts as read, probed, written, trusted and guarded.

use super::*;

fn usage(js: &str) -> ProgramUsage {
    ProgramUsage::of(js).unwrap()
}

fn access(js: &str, name: &str) -> PropertyAccess {
    usage(js).access_at(js.rfind(name).unwrap()).unwrap().1
}

#[test]
fn a_property_is_read_probed_or_written() {
    assert_eq!(access("return r.a;", "a"), PropertyAccess::Read);
    assert_eq!(access("return [r.a.b];", "b"), PropertyAccess::Read);
    assert_eq!(access("const { a } = r;", "a"), PropertyAccess::Read);
    assert_eq!(access("return r ? r.a : 1;", "a"), PropertyAccess::Read);
    for probed in [
        "if (r.a) {}",
        "return r.a ?? 1;",
        "return 1 || r.a;",
        "return r.a?.b;",
        "return r.a?.();",
        "return typeof r.a;",
        "return !r.a;",
        "return r.a === undefined;",
        "return x ? r.a : 1;",
        "const { a = 1 } = r;",
        "return Boolean(r.a);",
        "return Array.isArray(r.a);",
        "if (r.a) {} return r.a;",
    ] {
        assert_eq!(access(probed, "a"), PropertyAccess::Probed, "{probed}");
    }
    for compared in [
        "return r.a === 'x' && 1;",
        "if (r.a !== true) {}",
        "return r.a > 1;",
        "switch (r.a) {}",
        "return ['x'].includes(r.a);",
        "const { a: x } = r; if (x === 'y') {}",
        "const is = (x) => x === 'y'; is(r.a);",
    ] {
        assert_eq!(access(compared, "a"), PropertyAccess::Compared, "{compared}");
    }
    for written in ["r.a = 1;", "r.a += 1;", "r.a++;", "delete r.a;", "r['a'] = 1; return r.a;"] {
        assert_eq!(access(written, "a"), PropertyAccess::Written, "{written}");
    }
}

/// The property is the last `.q` or `{ q` of the program.
#[test]
fn a_property_is_probed_by_what_its_value_goes_into() {
    let access = |js: &str| {
        let at = js.rfind(".q").max(js.rfind("{ q")).unwrap();
        usage(js).access_at(js[at..].find('q').unwrap() + at).unwrap().1
    };
    for probed in [
        "const { q } = r; if (q) {}",
        "const { q: x } = r; return x ?? 1;",
        "const x = r.q; const y = x; while (y) {}",
        "let x; do { x = r.q; } while (x);",
        "if ((m = r.q)) {} var m;",
        "return rows.map(({ q }) => q ?? 1);",
        "return rows.map(({ q }) => q?.b);",
        "return rows.filter(({ q }) => !q);",
        "return rows.filter((row) => row.q);",
        "const has = (row) => row.q; return rows.filter(has);",
        "return [r.a, r.q].find(Array.isArray);",
        "const all = [r.a, r.q]; return all.filter(Boolean)[0];",
        "for (const x of [r.a, r.q]) { if (x) {} }",
        "const [a, b] = [r.a, r.q]; if (b) {}",
        "return rows.map((row) => row.q).filter(Boolean);",
        "const f = (d) => (d ? 1 : 2); return f(r.q);",
        "function f(d) { return d ?? 1; } return f(r.q);",
        "function f(d = 1) { return d; } return f(r.q);",
        "const u = { f(d) { return d || 1; } }; return u.f(r.q);",
        "const f = (d) => (d ? 1 : 2); return [1, r.q].map(f);",
        "const first = (...all) => all.find((x) => x != null); return first(r.a, r.q);",
        "const f = () => r.q; const x = f(); if (x) {}",
        "const rows2 = rows.map((row) => ({ ...row, who: row.q })); return rows2.filter((x) => x.who);",
        "const o = {}; o.who = r.q; if (o.who) {}",
        "return Number(r.q) || 0;",
        "return r.q instanceof Array;",
        "const x = await r.q; if (!x) {}",
    ] {
        assert_eq!(access(probed), PropertyAccess::Probed, "{probed}");
    }
    for read in [
        "const { q } = r; return q.length;",
        "const x = r.q; if (x.length) {}",
        "const x = r.q; for (const y of x) { if (y) {} }",
        "const x = r.q[0]; if (x) {}",
        "return [r.a, r.q].join();",
        "const f = (d) => d + 1; return f(r.q);",
        "return rows.map((row) => row.q);",
        "const [a, b] = r.q; if (a) {}",
    ] {
        assert_eq!(access(read), PropertyAccess::Read, "{read}");
    }
}

#[test]
fn what_runs_depending_on_a_property_is_known() {
    let depends = |js: &str| {
        let plain = js.replace('¦', "");
        usage(&plain).depending_on([plain.find("q").unwrap()]).contain(js.find('¦').unwrap())
    };
    for dependent in [
        "if (r.q) { ¦x; }",
        "if (a) {} else if (r.q) ¦x; else y;",
        "if (r.q === 'a') { y; } else { ¦x; }",
        "return r.q ? ¦x : y;",
        "return r.q && ¦x;",
        "while (r.q) { ¦x; }",
        "switch (r.q) { case 'a': ¦x; }",
        "const { q } = r; if (q) { ¦x; }",
        "const bad = r.q === 1; if (bad) { ¦x; }",
        "if (!r.q) return y; ¦x;",
        "if (r.q !== 'ok') { f(); throw y; } ¦x;",
        "for (const i of r) { if (i.q == null) continue; ¦x; }",
    ] {
        assert!(depends(dependent), "{dependent}");
    }
    for independent in [
        "if (r.q) { y; } ¦x;",
        "if (r.q) return y; ¦x;",
        "if (r.q === 'bad') throw y; ¦x;",
        "do { ¦x; } while (r.q);",
        "if (r.a) { ¦x; } r.q;",
    ] {
        assert!(!depends(independent), "{independent}");
    }
    let tested = |js: &str| usage(&js.replace('¦', "")).is_tested(js.find('¦').unwrap());
    assert!(tested("let r; if (isList(r)) { f(¦r); }") && tested("let r; if (!isList(r)) return 1; f(¦r);"));
    assert!(tested("let r; if (isList(r)) { const ¦[a] = r; }"));
    assert!(!tested("let r; if (a) { f(¦r); } isList(r);"));
}

#[test]
fn the_types_of_a_program_are_claims_about_its_values() {
    let claims = |source: &str| {
        let program = crate::compile(source, crate::Form::Script).unwrap();
        let at = program.js.rfind(".q").or(program.js.rfind("{ q").map(|at| at + 1)).unwrap() + 1;
        TypeClaims::of(&program).have(&program, at, "q")
    };
    for claimed in [
        "const r: any = f(); return r.q",
        "const r = (await f()) as any; return r.a.q",
        "return (r as any).q",
        "return (<any>r).q",
        "return (r as unknown as T).q; type T = {}",
        "interface R { a: { q: number } } const r: R = f(); return r.a.q",
        "const r: Reply = f(); return r.q",
        "const { q }: any = f(); return q",
        "const r: any[] = f(); return r.map((i) => i.q)",
        "const r = f(); for (const i of r.a as any[]) g(i.q)",
        "return r.map((i: any) => i.q)",
        "return r.map((i: Record<string, unknown>) => i.q)",
        "function get(): Promise<any> { return f() } return (await get()).q",
        "let r; r = f() as any; const x = r; return x.q",
        "enum E { A } return (r as any)[E.A].q",
        "return Object.values(r as any).map((i) => i.q)",
    ] {
        assert!(claims(claimed), "{claimed}");
    }
    for unclaimed in [
        "const r = f(); return r.q",
        "const all: any[] = []; return r.q",
        "const n: number = f(); return r.q",
        "interface R { a: string } const r: R = f(); return r.q",
        "const names: string[] = r.q",
    ] {
        assert!(!claims(unclaimed), "{unclaimed}");
    }
}

#[test]
fn programs_that_change_types_are_not_trusted() {
    for trusted in [
        "let n = 0; for (const i of r) n += i.a; return n;",
        "const out = []; for (const i of r) out.push(i); return out;",
        "const by = {}; for (const i of r) (by[i.a] ??= []).length; return by;",
        "return r.reduce((all, i) => { all[i.a] = i; return all; }, {});",
        "let x; x = f(); x = 1; return x;",
        "let page = await f(); page = page.items; return page;",
        "return Object.assign({}, r).a;",
        "const by = {}; for (const i of r) (by[i.a] ??= []).push(i); return by;",
        "const by = new Map(); for (const i of r) by.get(i.a).push(i); return by;",
        "return r.reduce((all, i) => { all.push(i.a); return all; }, []);",
        "const by = {}; return r.reduceRight((all, i) => { all[i.a] = i; return all; }, by);",
        "const by = {}; r.forEach((i) => { by[i.a] = i.b; }); return by;",
        "var E; (function (E) { E[E['A'] = 0] = 'A'; })(E || (E = {})); return r.a;",
        "function walk(node, out) { out.push(node.a); return out; } return walk(r, []);",
        "function walk(node, out = []) { out.push(node.a); node.kids.map((kid) => walk(kid, out)); return out; } walk(r);",
        "const add = (all, i) => { all[i.a] = i; return all; }; return r.reduce(add, {});",
        "((all) => { all[k] = 1; })(E ||= {}); var E;",
        "const by = {}; for (const i of r) { by[i.a] = by[i.a] || { rows: [], n: 0 }; by[i.a].rows.push(i); }",
        "const by = { a: [], b: [] }; for (const i of r) by[i.a].push(i);",
        "const jobs = { a: f() }; for (const k in jobs) jobs[k] = await jobs[k];",
        "const rows = [await f()]; rows.push(x); rows[0] = y;",
        "store.set({ key: 1 }); tools.store.push({});",
        "var a = 1; var a = 'x';",
        "const s = { cur }; s.cur = 1;",
        "const n = r.reduce((a, b) => a + b); return n;",
        "let all = []; for (const page of pages) { all = all.concat(page.items); } return all;",
        "const b = { a: [] }; for (const i of r) b.a.push(i); return b.a[0].a;",
        "class Bad extends Error {} throw new Bad();",
    ] {
        assert!(usage(trusted).is_trusted, "{trusted}");
    }
    for doubtful in [
        "const r = await f(); r.items.push(x);",
        "const rows = await f(); rows.push(x);",
        "Object.assign(r, x);",
        "String.prototype.a = 1;",
        "for (let i of r) { i = i.a; }",
        "return r.map((i) => { i = i.a; return i; });",
        "tracker = {};",
        "const row = await f(); row[k] = 1;",
        "for (const row of rows) row[k] = 1;",
        "let { a } = r; a = 1;",
        "rows.forEach((r) => { r[key] = 1; });",
        "rows.forEach(function (r) { r[key] = 1; });",
        "rows.forEach(([k, r]) => { r[k] = 1; });",
        "rows.map((r) => r.push(1));",
        "rows.reduce((a, b) => { a[key] = b; return a; });",
        "const first = await f(); rows.reduce((a, b) => { a[key] = b; return a; }, first);",
        "[a, b] = r;",
        "return eval('1');",
        "function f(list) { arguments[0].push(1); } f(r);",
        "const groups = {}; groups.open = await f(); for (const k of Object.keys(groups)) groups[k].push(1);",
        "function add(a, list) { list.push(1); } add(...[], [], r);",
        "const mark = (row) => { row[key] = 1; }; rows.forEach(mark);",
        "function mark(row) { row[key] = 1; } for (const row of rows) mark(row);",
        "function mark(row) { row[key] = 1; } mark(await f());",
        "function outer(row) { mark(row); } function mark(row) { row[key] = 1; } outer(rows[0]);",
        "const mark = (row) => { row[key] = 1; }; const other = mark; rows.forEach(other);",
        "const tools = { mark(row) { row[key] = 1; } }; rows.forEach(tools.mark);",
        "function add(list) { list.push(1); } add(r.items);",
        "const n = { next: {} }; n.next = n.next.next; n.next.push(1);",
        "const by = {}; for (const i of r) by[i.a] = i; by.x[k] = 1;",
        "const o = {}; o.rows = await f(); o.rows.push(x);",
        "const o = { ...(await f()) }; o.rows.push(x);",
        "const o = { rows: await f() }; o.rows.push(x);",
        "function walk(node, out) { out.push(node.a); } walk(r, []); walk(r, r.items);",
        "function walk(node, out) { out.push(node.a); } walk(...r);",
        "const mark = (r) => { r[key] = 1; }; rows.forEach(mark);",
        "class A { put(all, k) { all[k] = 1; } } new A().put(r, 'a');",
        "class A { rows = []; } const a = new A(); a[k] = 1;",
        "let node = { kids: [] }; for (;;) { node = node.kids[0]; node[k] = 1; }",
        "rows.push.apply(rows, x);",
        "const add = rows.push.bind(rows);",
        "const { push } = rows;",
        "function a() {} function a() {}",
        "for (var i of r) f(i); for (var i of s) f(i);",
        "const o = { a() {} }; o.a = 1;",
        "r.reduce((a, b) => a + b);",
        "return new Proxy(r, {});",
        "const { assign } = Object; assign(r, x);",
        "const set = Object.assign; set(r, x);",
        "const set = Object['assign']; set(r, x);",
        "class Rows extends Array { last() {} } return Rows.from(r).last();",
        "const b = { a: [] }; b.a.push(await f()); b.a[0]['s' + k] = 1;",
        "const by = new Map(); by.get(k).push(await f()); by.get(k)[0][k] = 1;",
    ] {
        assert!(!usage(doubtful).is_trusted, "{doubtful}");
    }
}

#[test]
fn the_text_has_no_comments_and_a_changed_variable_has_any_type() {
    let js = "let a = f(); // @ts-nocheck\n/* ü */ a = a.b; return a.c;";
    let usage = usage(js);
    let text = &usage.text;
    assert!(text.starts_with("let a = /** @type {any} */(f()); "), "{text}");
    assert!(!text.contains("@ts"), "{text}");
    assert_eq!(usage.offset(text.find("a.c").unwrap()), js.find("a.c").unwrap());
    assert_eq!(usage.offset(text.find("f()").unwrap()), js.find("f()").unwrap());
    assert_eq!(usage.offset(0), 0);
}

#[test]
fn literals_and_properties_that_change_have_any_type() {
    for (js, expected) in [
        ("const o = { a: f() }; o[k] = 1;", "const o = /** @type {any} */({ a: f() }); o[k] = 1;"),
        ("const o = { a: [x], b: 1 }; o.a.push(1);", "const o = { a: /** @type {any} */([x]), b: 1 }; o.a.push(1);"),
        ("const o = { a: 1 }; o.a = 'x';", "const o = { a: /** @type {any} */(1) }; o.a = /** @type {any} */('x');"),
        ("const o = { a }; o.a ??= b;", "const o = { a: /** @type {any} */(a) }; o.a ??= /** @type {any} */(b);"),
        (
            "class A { #a = 1; b() { this.#a = c; } }",
            "class A { #a = /** @type {any} */(1); b() { this.#a = /** @type {any} */(c); } }",
        ),
        ("var a = 1; var a = b;", "var a = /** @type {any} */(1); var a = /** @type {any} */(b);"),
        ("return r.reduce(f).b;", "return /** @type {any} */(r.reduce(f)).b;"),
        ("const o = { a: 1 }; o.a += 1; o.b = 1;", "const o = { a: 1 }; o.a += 1; o.b = 1;"),
        ("const o = { a: [] }; o.a.push(1);", "const o = { a: [] }; o.a.push(1);"),
        ("let n = '5'; n *= 1;", "let n = /** @type {any} */('5'); n *= 1;"),
        ("let n = x; n++;", "let n = /** @type {any} */(x); n++;"),
        ("let n = 0; n++; n -= 2;", "let n = 0; n++; n -= 2;"),
        ("const o = { a: '5' }; o.a--;", "const o = { a: /** @type {any} */('5') }; o.a--;"),
        ("let all = []; all = all.concat(x);", "let all = /** @type {any} */([]); all = all.concat(x);"),
    ] {
        assert_eq!(usage(js).text, expected);
    }
}

#[test]
fn what_a_literal_sends_is_known() {
    let js = "f({ a: 1, b: x, c: [x], d() {}, e: { toJSON() {} } }); f({ ...y, g: `z` });";
    let usage = usage(js);
    let at = |text: &str| js.find(text).unwrap();
    for (key, is_sent) in [("a:", true), ("b:", false), ("c:", true), ("d(", false), ("e:", false), ("g:", true)] {
        assert_eq!(usage.is_in_json(at(key)), is_sent, "{key}");
    }
    assert_eq!(usage.keys_beside(at("b:")).map(<[String]>::len), Some(5));
    assert_eq!((usage.keys_beside(at("g:")), usage.keys_beside(at("f("))), (None, None));
}

#[test]
fn calls_on_globals_and_handled_errors_are_known() {
    let js = "try { a.b({ x: 1 }); } catch {} c.d({ ...y }).catch(e);";
    let usage = usage(js);
    let at = |text: &str| js.find(text).unwrap();
    assert!(usage.is_guarded(at("x:")) && !usage.is_guarded(at("c.d")));
    assert_eq!(usage.global_call_at(at("x:")), Some("a.b"));
    assert_eq!((usage.global_call_at(at("{ ...")), usage.global_call_at(at("try"))), (Some("c.d"), None));
    assert_eq!((usage.literal_keys(at("{ x")), usage.literal_keys(at("{ ..."))), (Some(&["x".to_owned()][..]), None));
    assert_eq!((usage.arguments_at(at("x:")), usage.arguments_at(at("try"))), (Some(1), None));
    assert!(usage.handles_rejections);
    assert!(usage.is_dereferenced(at(".catch") + 1) && !usage.is_dereferenced(at("x:")));
}

#[test]
fn every_name_and_text_is_mentioned_as_it_reads() {
    let js = r#"const { a, 'b-c': d = 1, ...rest } = store; store.e?.(); store["f\x67"](); store[`h`](); store.\u0069();
        tools.store["list" + "_x"]; x => x; class K { m() {} } label: for (;;) break label; // comment
        const o = { p: 1, "q r": 2, get s() { return /regex/; } };"#;
    let used = usage(js);
    for name in
        ["a", "b-c", "d", "rest", "store", "e", "fg", "h", "i", "tools", "list", "_x", "K", "m", "p", "q r", "s"]
    {
        assert!(used.mentions(name), "{name}");
    }
    for name in ["list_x", "comment", "regex", "f", ""] {
        assert!(!used.mentions(name), "{name}");
    }
}

#[test]
fn what_a_function_of_the_program_catches_is_guarded() {
    let marked = |js: &str| usage(&js.replace('¦', " ")).is_guarded(js.find('¦').unwrap() + 1);
    for guarded in [
        "try { a(¦b); } catch {}",
        "const attempt = async (f) => { try { return await f(); } catch { return 0; } }; attempt(() => a.b({ ¦x }));",
        "async function attempt(f) { try { return await f(); } catch { return 0; } } attempt(async function () { ¦x });",
        "const u = { attempt(f) { try { return f(); } catch {} } }; u.attempt(() => ¦x);",
        "class U { attempt(f) { try { return f(); } catch {} } } new U().attempt(() => ¦x);",
        "const attempt = (f) => { try { f(); } catch {} }; const load = () => ¦x; attempt(load);",
        "async function load() { return deep(); } function deep() { ¦x } try { await load(); } catch {}",
        "const safe = async (f, a) => { try { return await f(a); } catch {} }; safe(store.¦get, {});",
        "async function load() { ¦x } return await load().catch(() => 0);",
        "const load = async () => ¦x; const jobs = [load()]; await Promise.allSettled(jobs);",
        "const jobs = ids.map(async (id) => ¦x); await Promise.allSettled(jobs);",
        "const jobs = []; jobs.push((async () => ¦x)()); await Promise.allSettled(jobs);",
        "return await f().then((r) => ¦x).catch(() => 0);",
        "return await load().then((r) => r, () => 0); async function load() { ¦x }",
    ] {
        assert!(marked(guarded), "{guarded}");
    }
    for open in [
        "attempt(() => ¦x); try { a; } catch {}",
        "const attempt = (f) => { try { f(); } finally {} }; attempt(() => ¦x);",
        "const attempt = (f) => { try { f(); } catch {} }; f(() => ¦x);",
        "function load() { ¦x } try { a; } catch {} load();",
        "async function load() { ¦x } await load(); await other().catch(() => 0);",
        "await Promise.allSettled(¦x.map(async (id) => 1));",
    ] {
        assert!(!marked(open), "{open}");
    }
}

/// A program is read on the stack of its caller, in bounded time and memory.
#[test]
fn stores_that_lead_to_themselves_or_far_away_are_bounded() {
    let aliases: String = (1..4_000).map(|at| format!("let a{at} = a{};", at - 1)).collect();
    let programs = [
        "const s = { rows: [] }; s.rows = s.rows || []; s.rows.push(1); return r.a;".to_owned(),
        "const n = {}; n.next = n.next.next; n.next.push(1); n.a = n.b; n.b = n.a; n.b.push(1);".to_owned(),
        format!("let a0 = []; {aliases} {}", "a3999[k] = 1;".repeat(4_000)),
        format!("let a; {} {}", "a = [1];".repeat(5_000), "a[k] = 1;".repeat(2_000)),
        format!("function f(x) {{ x[k] = 1; f(x); }} {}", "f([1]);".repeat(10_000)),
        format!("return [{}]{};", "r.a,".repeat(1_000), ".filter(f)".repeat(300)),
        format!("let x; if ({} r.a) {{}} {}", "r.a || ".repeat(600), "x = r.a ? r.b : r.c;".repeat(1_000)),
    ];
    let small = std::thread::Builder::new().stack_size(1 << 20);
    let trusted = small.spawn(move || programs.map(|program| usage(&program).is_trusted)).unwrap().join().unwrap();
    assert_eq!(trusted, [true, false, false, false, false, false, true]);
}
