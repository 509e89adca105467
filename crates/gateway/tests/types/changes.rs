//! Programs that give what they made values of other types: they run, so none is refused.

use crate::runner::{Case, cases};
use crate::world::{TYPED, UNTYPED, check, run};

pub(crate) fn cases() -> Vec<Case> {
    cases![changes::no_program_that_changes_types_is_refused, changes::what_such_a_program_does_else_is_checked]
}

/// Correct programs.
pub(crate) const CHANGES: &[&str] = &[
    // Written by a key that is data, into a literal with properties.
    "const jobs = { a: tracker.list_issues(), b: tracker.get_user({ login: 'a' }) }; for (const k in jobs) jobs[k] = await jobs[k]; return jobs.a.total",
    "const jobs = { a: tracker.list_issues() }; for (const k of Object.keys(jobs)) jobs[k] = await jobs[k]; return jobs.a.total",
    "const jobs = { a: tracker.list_issues(), b: loose.get() }; await Promise.all(Object.keys(jobs).map(async (k) => { jobs[k] = await jobs[k] })); return jobs.a.issues.length",
    "const rep = { user: await tracker.get_user({ login: 'a' }) }; for (const [k, v] of Object.entries(rep)) rep[k] = JSON.stringify(v); return rep.user.length",
    "const p = { number: '5' }; for (const k of Object.keys(p)) p[k] = Number(p[k]); return (await tracker.get_issue({ number: p.number })).title",
    "const p = { number: '5' }; for (const k in p) { p[k] = parseInt(p[k]) } return (await tracker.get_issue(p)).title",
    "const rec = { best: 'none' }; const put = (k, v) => { rec[k] = v }; put('best', 2); return (await tracker.get_issue({ number: rec.best })).title",
    "const api = { list: () => tracker.list_issues() }; for (const k in api) { const orig = api[k]; api[k] = async (...a) => ({ wrapped: await orig(...a) }) } return (await api.list()).wrapped.total",
    "const issues = (await tracker.list_issues()).issues; const n = issues.reduce((all, i) => { all[i.state] = i.comments; return all }, { open: 'none' }); return (await tracker.get_issue({ number: n.open })).title",
    // Put into a list that has items.
    "const u = await loose.get(); const o = { users: [await tracker.get_user({ login: 'a' })] }; o.users.push(u); return o.users[1].name",
    "const u = await loose.get(); const rows = [await tracker.get_user({ login: 'a' })]; rows.push(u); return rows[1].name",
    "const u = await loose.get(); const rows = ['b']; rows['push'](u.anything.goes[0]); return (await tracker.get_issue({ number: rows[1] })).title",
    "const u = await loose.get(); const s = new Set([await tracker.get_user({ login: 'a' })]); s.add(u); return [...s].map((x) => x.name)[1]",
    "class Shelf { rows = [{ login: 'a' }] } const u = await loose.get(); const s = new Shelf(); s.rows.push(u); await tracker.list_issues(); return s.rows[1].name",
    // By a function that has a name.
    "const rows = (await tracker.list_issues()).issues; const key = 'sc' + 'ore'; const mark = (r) => { r[key] = 1 }; rows.forEach(mark); return rows.map((r) => r.score)",
    "const rows = (await tracker.list_issues()).issues; function mark(r, key) { r[key] = 1 } mark(rows[0], 'sc' + 'ore'); return rows[0].score",
    "const rows = (await tracker.list_issues()).issues; const add = (list, x) => list.push(x); add(rows, await loose.get()); return rows.at(-1).name",
    "const by = {}; for (const i of (await tracker.list_issues()).issues) by[i.number] = i; by[1]['sc' + 'ore'] = 2; return by[1].score",
    // A property of an object of the program.
    "const s = { cur: await tracker.get_user({ login: 'a' }) }; s.cur = await loose.get({}); return s.cur.name",
    "const cur = await tracker.get_user({ login: 'a' }); const s = { cur }; s.cur = await loose.get({}); return s.cur.name",
    "const ctx = { data: await tracker.list_issues() }; ctx.data = JSON.parse(JSON.stringify(ctx.data)).issues; return ctx.data.length",
    "const u = await loose.get(); const cfg = { n: '' }; cfg.n = u.anything.goes[0]; return (await tracker.get_issue({ number: cfg.n })).title",
    "const u = await loose.get(); const cfg = { n: '' }; cfg['n'] ||= u.anything.goes[0]; return (await tracker.get_issue({ number: cfg.n })).title",
    "const u = await loose.get(); const cfg = {}; cfg.n = ''; cfg.n = u.anything.goes[0]; return (await tracker.get_issue({ number: cfg.n })).title",
    "class S { page = ''; constructor(p) { this.page = p } } return (await tracker.get_issue({ number: new S(5).page })).title",
    "class S { page = ''; constructor(p) { this['page'] = p } } return (await tracker.get_issue({ number: new S(5).page })).title",
    "class S { #page = ''; constructor(p) { this.#page = p } get() { return this.#page } } return (await tracker.get_issue({ number: new S(5).get() })).title",
    "class S { constructor() { this.page = '' } turn(p) { this.page = p } } const s = new S(); s.turn(5); return (await tracker.get_issue({ number: s.page })).title",
    // A variable with several declarations.
    "var r = await tracker.list_issues(); var r = await tracker.get_user({ login: 'a' }); return r.login",
    "for (var i = 0; i < 1; i++) { var x = await tracker.get_user({ login: 'a' }); console.log(x.login) } for (var i = 0; i < 1; i++) { var x = await tracker.get_issue({ number: 1 }); console.log(x.title) } return 1",
    "for (var r of (await tracker.list_issues()).issues) console.log(r.title); for (var r of await my_files.list()) console.log(r.path); return 1",
    "async function f() { return tracker.list_issues() } async function f() { return tracker.get_user({ login: 'a' }) } return (await f()).login",
    // A value that is not sent, and one that says by itself what is.
    "const u = await loose.get(); return (await tracker.create_issue({ title: 't', assignee: u.assignee })).title",
    "const make = ({ title, assignee }) => tracker.create_issue({ title, assignee }); return (await make({ title: 'x' })).title",
    "await loose.get(); return (await tracker.create_issue({ toJSON() { return { title: 't' } } })).title",
    // A method that is not called by its name.
    "const u = await loose.get(); const rows = (await tracker.list_issues()).issues; rows.push.apply(rows, [u]); return rows.at(-1).name",
    "const u = await loose.get(); const rows = (await tracker.list_issues()).issues; [].push.apply(rows, [u]); return rows.at(-1).name",
    "const u = await loose.get(); const rows = [await tracker.get_user({ login: 'a' })]; const add = rows.push.bind(rows); add(u); return rows[1].name",
    "const u = await loose.get(); const rows = [await tracker.get_user({ login: 'a' })]; const { push } = rows; push.call(rows, u); return rows[1].name",
    // Made a number by an operator.
    "let n = '5'; n *= 1; return (await tracker.get_issue({ number: n })).title",
    "let n = '5'; n++; return (await tracker.get_issue({ number: n })).title",
    "const o = { count: '5' }; o.count -= 0; return (await tracker.get_issue({ number: o.count })).title",
    // By what a checker does not follow.
    "const r = new Proxy(await tracker.list_issues(), { get: () => 7 }); return r.anything.toFixed(1)",
    "const r = await tracker.list_issues(); const { assign } = Object; assign(r, { extra: [1] }); return r.extra.length",
    "class L extends Array { last() { return this[this.length - 1] } } return L.from((await tracker.list_issues()).issues).last().title",
    "const b = { a: [] }; b.a.push(await tracker.get_issue({ number: 1 })); b.a[0]['s' + 1] = 1; return b.a[0].s1 + (await tracker.get_issue({ number: 1 }))['s1']",
    // Without a start, an item and then a number.
    "const { issues } = await tracker.list_issues(); return issues.reduce((a, b) => (a.comments ?? a) + b.comments).toFixed(1)",
    "const { issues } = await tracker.list_issues()\nissues.reduce((a, b) => (a.comments ?? a) + b.comments).toFixed(1)\nreturn 1",
];

pub(crate) fn no_program_that_changes_types_is_refused() {
    let mut wrong = Vec::new();
    for code in CHANGES {
        let report = run(&UNTYPED, code).report;
        assert!(report.failure().is_none(), "not correct: {code}\n{:?}", report.failure());
        let found = check(&TYPED, code).unwrap_or_else(|| panic!("no program: {code}"));
        if !found.errors.is_empty() {
            wrong.push(format!("{code}\n  {:?}", found.errors));
        }
    }
    assert!(wrong.is_empty(), "{} are refused:\n{}", wrong.len(), wrong.join("\n"));
}

pub(crate) fn what_such_a_program_does_else_is_checked() {
    for code in [
        "const out = { open: [], n: 0 }; for (const i of (await tracker.list_issues()).issues) { out.open.push(i.titel); out.n++ } return out",
        "const n = { open: 0, closed: 0 }; for (const i of (await tracker.list_issues()).issues) n[i.stat]++; return n",
        "const s = { cur: null }; s.cur = 5; return [s.cur, (await tracker.list_issues()).isues.length]",
        "const by = {}; for (const i of (await tracker.list_issues()).issues) (by[i.state] ??= { rows: [], n: 0 }).rows.push(i.titel); return by",
        "function walk(node, out = []) { out.push(node.title); return out } const r = await tracker.list_issues(); return r.issues.map((i) => walk(i)).concat(r.isues)",
        "const add = (all, i) => { all[i.number] = i.title; return all }; const r = await tracker.list_issues(); return [r.issues.reduce(add, {}), r.totl]",
        "const best = (await tracker.list_issues()).issues.reduce((a, b) => (a.coments > b.comments ? a : b)); return best.title",
        "await loose.put({ a: 1 }); const m = new Map(); m.set('a', 1); return [m.get('a'), (await tracker.list_issues()).totl]",
        "var n = 1; var n = 2; return n + (await tracker.list_issues()).totl",
        "const u = await loose.get(); return await tracker.create_issue({ title: u.name, lables: ['a'] })",
        "const u = await loose.get(); return await tracker.create_issue({ titel: u.name })",
    ] {
        let found = check(&TYPED, code).unwrap_or_else(|| panic!("no program: {code}"));
        assert!(!found.errors.is_empty(), "{code}\n{:?}", found.warnings);
    }
}
