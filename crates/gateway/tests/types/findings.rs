//! What is certain, what is a warning, what is nothing.

use std::sync::{Arc, LazyLock};

use serde_json::json;
use toolgate_catalog::types::learned::{LearnedType, LearnedTypes};
use toolgate_functions::{HostFunction, Param, Presence, Registry};
use toolgate_plan::Finding;
use toolgate_run::{Environment, LearnedResults, ProgramTypes, RunRequest, Runner};
use toolgate_wire::{Code, Profile};

use crate::changes::CHANGES;
use crate::runner::{Case, cases};
use crate::world::{TYPED, TYPES, WAIT_TIMEOUT, block_on, check, checker, checkers, run, runner_with, tools};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        findings::what_is_certainly_wrong_is_found_before_the_first_call,
        findings::a_refusal_says_where_what_and_what_there_is,
        findings::what_is_not_certain_is_no_error,
        findings::what_a_program_does_with_host_functions_is_checked,
        findings::no_correct_use_of_host_functions_is_refused,
        findings::a_program_without_tools_is_checked_against_the_functions,
        findings::programs_that_need_no_check_start_no_checker,
        findings::a_property_that_no_result_had_is_a_warning,
        findings::a_schema_that_results_broke_refuses_nothing,
    ]
}

fn shown(finding: &Finding) -> String {
    format!("{}:{} {}", finding.position.line, finding.position.column, finding.code.as_str())
}

pub(crate) fn what_is_certainly_wrong_is_found_before_the_first_call() {
    for (marked, expected) in [
        ("const r = await tracker.list_issues(); return r.issues.¦lenght", "unknown_property"),
        ("const r = await tracker.list_issues();\nreturn r.issues.map(i => i.¦titel)", "unknown_property"),
        ("const { ¦issue } = await tracker.list_issues(); return issue", "unknown_property"),
        // The types that a program writes hide no misspelling.
        (
            "const r: any[] = (await tracker.list_issues()).issues; return r.map(i => i.author.¦lgin)",
            "unknown_property",
        ),
        ("const r: any = await tracker.list_issues(); return r.issues.map((i: any) => i.¦titel)", "unknown_property"),
        ("const all: any[] = []; all.push((await tracker.list_issues()).¦data.issues); return all", "unknown_property"),
        // Nor does a comparison, or the test of another property that is not declared.
        ("return (await tracker.list_issues()).issues.filter(i => i.¦stat === 'open')", "unknown_property"),
        ("return (await tracker.list_issues()).issues.filter(i => i.¦createdAt > '2026')", "unknown_property"),
        ("const r = await tracker.list_issues(); if (r.isError) return r.¦totl; return r.total", "unknown_property"),
        (
            "const r = await tracker.list_issues(); if (r.isError) throw r.isError; return r.¦data.issues",
            "unknown_property",
        ),
        (
            "const { issues, error } = await tracker.list_issues(); if (error) throw error; return issues.map(i => i.¦body)",
            "unknown_property",
        ),
        (
            "let all = []; let n = 0; do { const p = await tracker.list_issues(); all = all.concat(p.¦items); n++ } while (n < 2); return all",
            "unknown_property",
        ),
        // What is no list is used as one, and what is no function is called.
        ("for (const i of ¦await tracker.list_issues()) console.log(i.title)", "unknown_property"),
        ("const page = await tracker.list_issues(); return [...¦page]", "unknown_property"),
        ("const page = await tracker.list_issues(); const ¦[a] = page; return a", "unknown_property"),
        (
            "const all = []; const page = await tracker.list_issues(); all.push(...¦page); return all",
            "unknown_property",
        ),
        ("const page = await tracker.list_issues(); return [...¦page.total]", "unknown_property"),
        ("const i = await tracker.get_issue({ number: 1 }); return i.¦title()", "unknown_property"),
        ("const i = await tracker.get_issue({ number: 1 }); return i.¦labels(0)", "unknown_property"),
        ("const i = await tracker.get_issue({ number: 1 }); return ¦i()", "unknown_property"),
        ("for (const f of await my_files.list()) { console.log(f.¦pth) }", "unknown_property"),
        ("const u = await tracker.get_user({ login: 'a' }); return u.email.¦lenght", "unknown_property"),
        (
            "const rows = await Promise.all([1].map(n => tracker.get_issue({ number: n }))); return rows[0].¦titel",
            "unknown_property",
        ),
        ("return (await tools['my-files'].read({ path: 'a' })).¦txt", "unknown_property"),
        ("return await tracker.list_issues().then(r => r.¦isues)", "unknown_property"),
        ("const t = tracker; return t.¦lst_issues()", "unknown_tool"),
        ("const r = tracker.list_issues(); return r.¦issues", "missing_await"),
        ("const out = []; for (const f of ¦my_files.list()) out.push(f.path); return out", "missing_await"),
        ("return [...¦my_files.list()]", "missing_await"),
        ("const r = loose.get(); return r.¦anything.goes", "missing_await"),
        ("const n = tracker.list_issues(); return await tracker.get_user({ ¦login: n })", "invalid_arguments"),
        (
            "const r = await tracker.list_issues(); return await tracker.get_user({ ¦login: r.total })",
            "invalid_arguments",
        ),
        (
            "const t = (await tracker.get_issue({ number: 1 })).title; await tracker.create_issue({ title: t, ¦urgent: t })",
            "invalid_arguments",
        ),
        (
            "const x = (await tracker.get_issue({ number: 1 })).title; await tracker.create_issue(¦{ body: x })",
            "invalid_arguments",
        ),
        (
            "const x = (await tracker.get_issue({ number: 1 })).title; await tracker.create_issue({ ¦titel: x })",
            "invalid_arguments",
        ),
        (
            "const x = 'a'; await tracker.create_issue({ title: x, ¦options: { weight: x.length } })",
            "invalid_arguments",
        ),
        (
            "const x = 'a'; /* ü */ const r = await tracker.get_issue({ number: 1 }); return x + r.¦stat",
            "unknown_property",
        ),
        // A type that contains itself, and one whose keys are data.
        ("return (await nested.tree()).root.kids[0].kids[0].¦nme", "unknown_property"),
        ("return (await nested.tree()).by_id.x.¦titel", "unknown_property"),
        ("return Object.values((await nested.tree()).by_id).map(one => one.¦titel)", "unknown_property"),
        (
            "enum E { A }\nlet z = 1; z = 2;\nreturn (await tracker.get_issue({ number: E.A })).¦nmber + z",
            "unknown_property",
        ),
    ] {
        let code = &marked.replace('¦', "");
        let before = &marked[..marked.find('¦').unwrap()];
        let (line, last) = (before.lines().count(), before.rsplit('\n').next().unwrap());
        let expected = format!("{line}:{} {expected}", last.encode_utf16().count() + 1);
        let found = check(&TYPED, code).unwrap_or_else(|| panic!("no program: {code}"));
        let errors: Vec<String> = found.errors.iter().map(shown).collect();
        assert!(errors.contains(&expected), "{code}\n{:?}\n{:?}", found.errors, found.warnings);
        let report = run(&TYPED, code).report;
        assert_eq!(report.failure().map(|failure| failure.code), Some(Code::InvalidCode), "{code}: {report:?}");
        assert!(report.calls.is_empty(), "{code}: {:?}", report.calls);
    }
}

pub(crate) fn a_refusal_says_where_what_and_what_there_is() {
    let code = "await tracker.create_issue({ title: 'x' });\nconst i = await tracker.get_issue({ number: 1 });\nreturn i.auther.login;";
    let report = run(&TYPED, code).report;
    let failure = report.failure().unwrap();
    assert_eq!(failure.code, Code::InvalidCode);
    assert_eq!(failure.message, "Property 'auther' does not exist on type 'tracker.get_issue()'; nothing was called");
    assert_eq!(failure.position.map(|at| (at.line, at.column)), Some((3, 10)));
    let hint = failure.hint.clone().unwrap();
    assert!(hint.starts_with("Did you mean `author`? It has number, title, state, author, labels"), "{hint}");
    assert!(report.calls.is_empty());
    let unlike = check(&TYPED, "return (await tracker.get_issue({ number: 1 })).xyzzy").unwrap();
    let suggestion = unlike.errors[0].suggestion.clone().unwrap();
    assert!(suggestion.ends_with(r#"If the server sends it all the same, write ["xyzzy"]."#), "{suggestion}");
}

pub(crate) fn what_is_not_certain_is_no_error() {
    let own = [
        // Not declared, or declared to be open.
        "return (await loose.get()).anything.goes.lenght",
        "return (await tracker.get_issue({ number: 1 })).fields.whatever",
        "const r = loose.get(); return r.name",
        // Not declared, and read as what is not.
        "return (await tracker.get_issue({ number: 1 }))['undeclared']?.length",
        "const i = await tracker.get_issue({ number: 1 }); return i[\"undeclared\"]",
        // Keys that are data, and values of a type that contains itself.
        "const d = (await nested.tree()).by_id; for (const k in d) console.log(d[k].title); return [Object.keys(d).length, d.hasOwnProperty('x')]",
        "return Object.entries((await nested.tree()).by_id).map(([k, v]) => k + v.title)",
        "return (await nested.tree()).by_id.x.title.length",
        "const walk = (n) => [n.name, ...(n.kids ?? []).flatMap(walk)]; return walk((await nested.tree()).root)",
        "let n = (await nested.tree()).root; while (n.kids) n = n.kids[0]; return n.name",
        // Asked for rather than used.
        "const r = await tracker.list_issues(); return r.items ?? r.issues",
        "const r = await tracker.list_issues(); if (r.error) throw new Error(r.error); return r.total",
        "const r = await tracker.list_issues(); return r.items?.length ?? 0",
        "const r = await tracker.list_issues(); return 'items' in r ? r.items : r.issues",
        "const { items = [] } = await tracker.list_issues(); return items",
        "const r = await tracker.list_issues(); return Array.isArray(r) ? r.length : r.issues.length",
        // Asked for by the variable that it goes into.
        "const { error, issues } = await tracker.list_issues(); if (error) throw new Error(error); return issues.length",
        "const r = await tracker.list_issues(); const err = r.error; if (err) throw new Error(err); return r.total",
        "const { issues, items } = await tracker.list_issues(); return (issues ?? items).length",
        "let cursor, n = 0; do { const r = await tracker.list_issues(); n += r.issues.length; cursor = r.next_cursor } while (cursor); return n",
        "return (await tracker.list_issues()).issues.map(({ number, body }) => `${number}: ${body ?? 'no body'}`)",
        "return (await tracker.list_issues()).issues.map(({ number, user }) => ({ number, user: user?.login ?? null }))",
        "return (await tracker.list_issues()).issues.filter(({ pull_request }) => !pull_request)",
        "return (await tracker.list_issues()).issues.filter(i => i.pinned)",
        "const r = await tracker.list_issues(); return [r.items, r.issues, r.data].find(Array.isArray).length",
        "const i = await tracker.get_issue({ number: 1 }); return [i.owner, i.author].filter(Boolean)[0]",
        "return (await tracker.list_issues()).issues.map(i => i.reviewer).filter(Boolean).length",
        "const fmt = d => d ? new Date(d).toISOString() : 'never'; const i = await tracker.get_issue({ number: 1 }); return [fmt(i.created_at), fmt(i.closed_at)]",
        // Compared only, or behind the test of another that is not declared.
        "const r = await tracker.list_issues(); if (r.success === false) throw new Error('failed'); return r.total",
        "const r = await tracker.list_issues(); if (r.status === 'error' || r.has_more === true) return 0; return r.total",
        "return (await tracker.list_issues()).issues.filter(i => i.draft !== true && i.locked !== true).length",
        "const r = await tracker.list_issues(); switch (r.kind) { case 'page': return r.content[0].text; default: return r.total }",
        "const i = await tracker.get_issue({ number: 1 }); return i.labels.some(l => l === 'bug' || l.name === 'bug')",
        "const r = await tracker.list_issues(); if (r.isError) return r.content[0].text; return r.total",
        "const r = await tracker.list_issues(); return r.isError ? r.content[0].text : r.total",
        "const { isError, content, total } = await tracker.list_issues(); if (isError) return content[0].text; return total",
        "const r = await tracker.list_issues(); return r.items instanceof Array ? r.items.length : 0",
        "const r = await tracker.list_issues(); return Number(r.reactions) || 0",
        "const i = await tracker.get_issue({ number: 1 }); return i.stat === 'open' || i.state === 'open'",
        // Said to be there by the program's own types.
        "const r: any = await tracker.get_issue({ number: 1 }); return [r.assignee, r.author.avatar]",
        "const r = await tracker.get_issue({ number: 1 }); return [(r as any).assignee, (r.author as any).avatar]",
        "const r = await tracker.get_issue({ number: 1 }) as unknown as { assignee: string }; return [r.assignee]",
        "interface Issue { number: number; assignee?: { login: string } } const r: Issue = await tracker.get_issue({ number: 1 }); return [r.assignee]",
        "return (await tracker.list_issues()).issues.map((i: any) => [i.assignee])",
        "for (const i of (await tracker.list_issues()).issues as any[]) console.log(i.assignee); return 1",
        // A list or a function for all that the program knows.
        "const r = await tracker.list_issues(); return Array.isArray(r) ? [...r] : [...r.issues]",
        "const r = await tracker.list_issues(); const isList = (x) => { const y = x; return Array.isArray(y) }; if (isList(r)) return [...r]; return r.total",
        "const r = await tracker.list_issues(); if (r.length) return [...r]; return r.total",
        "const r: any = await tracker.list_issues(); return [...r]",
        "for (const i of await tracker.list_issues() as any) console.log(i.title); return 1",
        "const r = await tracker.list_issues(); return typeof r[Symbol.iterator] === 'function' ? [...r] : r.total",
        "const i = await tracker.get_issue({ number: 1 }); return typeof i.title === 'function' ? i.title() : i.title",
        "const r = await tracker.list_issues(); try { for (const i of r) console.log(i) } catch { return r.total }",
        "const d = (await nested.tree()).by_id; try { return [...d] } catch { return 0 }",
        // Given by the program itself.
        "const r = await tracker.list_issues(); for (const i of r.issues) i.score = i.comments * 2; return r.issues[0].score",
        "const r = await tracker.list_issues(); return Object.assign(r, { seen: true }).seen",
        "let r = await tracker.list_issues(); r = r.issues; return r.length + r.map(i => i.title).length",
        "let text = ''; text = (await loose.get()).anything; return text.goes",
        "const rows = (await tracker.list_issues()).issues; rows.push((await loose.get()).anything); return rows.map(r => r.goes).length",
        "Array.prototype.last = function () { return this[this.length - 1] }; return (await my_files.list()).last().path",
        "globalThis.tracker = { list: async () => ({ n: 1 }) }; return (await tracker.list()).n",
        "tracker.extra = async () => ({ n: 1 }); return (await tracker.extra()).n",
        // Given by a function, under a key that is data.
        "const rows = (await tracker.list_issues()).issues; const key = 'sc' + 'ore'; rows.forEach(r => { r[key] = 1 }); return rows.map(r => r.score)",
        // Handled.
        "const attempt = async (f) => { try { return await f() } catch (e) { return e.code } }; return await attempt(() => tracker.get_user({}))",
        "async function attempt(f) { try { return await f() } catch { return 0 } } return await attempt(async () => (await tracker.list_issues()).isues.length)",
        "const load = async () => (await tracker.list_issues()).isues.length; try { return await load() } catch { return 0 }",
        "try { await tracker.get_user({ login: 5 + (await loose.get()).length }) } catch { return 'no' }",
        "try { return (await tracker.list_issues()).isues.length } catch { return 0 }",
        "const n = (await tracker.list_issues()).total; return await tracker.get_user({ login: n }).catch(() => 'no')",
        "async function load() { return (await tracker.list_issues()).isues.length } return await load().catch(() => 0)",
        "const safe = async (f, a) => { try { return await f(a) } catch { return null } }; return [await safe(tracker.nope, {}), (await tracker.list_issues()).total]",
        "return (await Promise.allSettled([1].map(async (n) => (await tracker.get_issue({ number: n })).titel.length))).length",
        // A tool that is not there, where the call is not made or its failure is handled.
        "const r = await tracker.list_issues(); if (r.total > 0) return r.total; return await tracker.fetch_page({})",
        "const more = async () => tracker.fetch_page({}); return (await tracker.list_issues()).total",
        "for (const n of []) await tracker.fetch_page({ n }); return (await tracker.list_issues()).total",
        "const later = tracker.fetch_page({}); return await later.catch((e) => e.code)",
        "return (await Promise.allSettled([tracker.fetch_page({}), tracker.list_issues()])).map((one) => one.status)",
        // About the arguments of a function of the program, inside the arguments of a tool.
        "const h = ({ x = 'a' } = {}) => x; return await tracker.get_user({ login: 'u' + h({ x: 5 }) })",
        "function pad(n = 1) { return '' + n } return await tracker.get_user({ login: pad('7') })",
        "class P { constructor({ n = 1 } = {}) { this.n = n } } return await tracker.get_user({ login: '' + new P({ n: 'x' }).n })",
        "return await tracker.get_user({ login: 'u' + [1, 2].indexOf('1') })",
        // Alternatives of different kinds, declared or made by the program.
        "const r = await odd.either(); return r.value.split(',').length",
        "const r = await odd.either(); return r.value.toFixed(1)",
        "const r = (await odd.either()).rows; return r.map(i => i.a)",
        "const r = (await odd.either()).rows; return r.b.length",
        "const i = await tracker.get_issue({ number: 1 }); const x = i.comments > 1 ? i.title : i.number; return x.split(' ')",
        "const i = await tracker.get_issue({ number: 1 }); const x = i.comments > 1 ? i.labels : i.title; return x.map(l => l)",
        "const d = (await nested.tree()).by_id; const i = await tracker.get_issue({ number: 1 }); const x = i.comments > 1 ? i : d; return x.whatever",
        // One result or another, of which one has fewer keys.
        "const full = await odd.full(); const brief = await odd.brief(); const x = full.id > 0 ? full : brief; return x.body.length",
        "const full = await odd.full(); const brief = await odd.brief(); return [brief, full].map(x => x.body)",
        "const full = await odd.full(); const brief = await odd.brief(); const x = [brief, full].find(x => x.body); return x.body.length",
        "const get = async (all) => { if (all) return await odd.full(); return await odd.brief() }; return (await get(true)).body.length",
        "const best = { item: await odd.brief() }; best.item = await odd.full(); return best.item.body.length",
        "const x = (await loose.get()).full ?? await odd.brief(); return x.body",
        "const x = (await odd.brief()) ?? (await odd.full()); return x.id",
        // Properties that a schema names under a condition.
        "const r = await odd.conditional(); return [r.extra.length, r.id]",
        // A promise is an object too.
        "const p = loose.get(); p.label = 'a'; const r = await p; return p.label.length + r.name.length",
        "const p = tracker.list_issues(); p.cancel?.(); return (await p).total",
        "const p = tracker.list_issues(); if (p.cancel) p.cancel(); return (await p).total",
        // JavaScript that strict TypeScript does not like.
        "let x = 1; x = 'a'; const o = {}; o.a = x; return o.a + o.b",
        "const by = {}; for (const i of (await tracker.list_issues()).issues) (by[i.state] ??= []).push(i); return by.open.length",
        "const r = await tracker.list_issues(); return r.issues.reduce((all, i) => { all[i.state] = (all[i.state] || 0) + 1; return all }, {}).open",
        "class Row { constructor(i) { this.t = i.title } } return (await tracker.list_issues()).issues.map(i => new Row(i).t)",
        "function f(i) { return i.title + parseInt(i.number) } return (await tracker.list_issues()).issues.map(f)",
        "const q = {}; q.title = 'x'; return (await tracker.create_issue(q)).title",
        "const d = new Date(0); return (await tracker.get_user({ login: d })).login",
        "const rs = await Promise.allSettled([tracker.get_issue({ number: 1 })]); return rs.map(r => r.value.title)",
    ];
    for code in own.iter().chain(CHANGES) {
        let found = check(&TYPED, code).unwrap_or_else(|| panic!("no program: {code}"));
        assert!(found.errors.is_empty(), "{code}\n{:?}", found.errors);
    }
}

/// `total`, `api.user`, `api.log`: what a configuration or a WebSocket caller may give.
fn functions() -> Registry {
    let text = json!({ "type": "string" });
    let total = HostFunction::builder("total")
        .required("of", json!({ "type": "array", "items": { "type": "number" } }), "")
        .optional("digits", json!({ "type": "integer" }), "")
        .returns(json!({ "type": "object", "properties": { "sum": { "type": "number" }, "unit": text } }))
        .handle(|_, _| async { Ok(json!({ "sum": 6, "unit": "m" })) });
    let query = json!({ "type": "object", "required": ["name"], "additionalProperties": false, "properties": {
        "name": text, "age": { "type": "integer" } } });
    let user = HostFunction::builder("api.user")
        .required("query", query, "")
        .returns(json!({ "type": "object", "properties": { "id": { "type": "integer" }, "name": text } }))
        .handle(|_, _| async { Ok(json!({ "id": 7, "name": "ann" })) });
    let log = HostFunction::builder("api.log")
        .param(Param { name: "lines".into(), schema: text, presence: Presence::Rest, description: String::new() })
        .handle(|_, _| async { Ok(json!(null)) });
    [total, user, log].into_iter().map(Result::unwrap).collect()
}

static WITH_FUNCTIONS: LazyLock<Runner> =
    LazyLock::new(|| runner_with(&tools(), Some(Arc::clone(&TYPES)), functions()));

pub(crate) fn what_a_program_does_with_host_functions_is_checked() {
    for (code, message) in [
        ("return (await total([1])).summ", "Property 'summ' does not exist on type 'total()'"),
        ("return (await api.total([1])).unti", "Property 'unti' does not exist on type 'total()'"),
        ("const u = await api.user({ name: 'a' }); return u.nmae.length", "Property 'nmae' does not exist"),
        ("return await api.usr({ name: 'a' })", "`api` has no function `usr`"),
        ("return await total()", "total lacks argument 1 `of`"),
        ("return await total([1], 2, 3)", "total takes at most 2 arguments, and gets 3"),
        ("return await total('1, 2')", "A string is given where a list is wanted"),
        ("return await total([1], 'two')", "A string is given where a number is wanted"),
        ("return await api.user('ann')", "A string is given where an object is wanted"),
        ("return await api.user({ age: 7 })", "api.user(query) lacks name"),
        ("return await api.user({ name: 5 })", "A number is given where a string is wanted"),
        ("const n = 'a'; return await api.user({ name: n, agee: 7 })", "api.user(query) takes no 'agee'"),
        ("const u = api.user({ name: 'a' }); return u.name.length", "A promise is used as if it were its value"),
        ("return await api.log('a', 5)", "A number is given where a string is wanted"),
        // With a tool beside it, which is not called either.
        (
            "await tracker.create_issue({ title: 'x' }); return (await total([1])).summ",
            "Property 'summ' does not exist",
        ),
    ] {
        let found = check(&WITH_FUNCTIONS, code).unwrap_or_else(|| panic!("no program: {code}"));
        let errors: Vec<&str> = found.errors.iter().map(|error| error.message.as_str()).collect();
        assert!(errors.iter().any(|one| one.starts_with(message)), "{code}\n{errors:?}\n{:?}", found.warnings);
        let report = run(&WITH_FUNCTIONS, code).report;
        assert_eq!(report.failure().map(|failure| failure.code), Some(Code::InvalidCode), "{code}: {report:?}");
        assert!(report.calls.is_empty(), "{code}: {:?}", report.calls);
    }
}

/// Programs that run: no check may stop one.
const FINE: [&str; 16] = [
    "return (await total([1, 2, 3])).sum + (await api.total([1], null)).unit.length",
    "return await total([1], undefined)",
    "const u = await api.user({ name: 'a', age: undefined }); return u.id.toFixed(2)",
    "await api.log(); await api.log('a', 'b', `c`); return 1",
    "const lines = ['a', 'b']; await api.log(...lines); return lines.length",
    "return (await Promise.all([[1], [2]].map((list) => total(list)))).map((it) => it.sum)",
    "const f = api.user; return (await f({ name: 'a' })).name",
    "const { user } = api; return (await user({ name: 'a' })).name",
    "try { return await total('x') } catch (e) { return e.code }",
    "return await total('x').catch((e) => e.code)",
    "try { return (await api.usr({})) } catch { return 0 }",
    "return typeof api.usr === 'function' ? await api.usr() : 'none'",
    "return api.usr?.() ?? 'none'",
    "api.extra = async () => ({ n: 1 }); return (await api.extra()).n",
    "globalThis.total = async () => ({ n: 1 }); return (await globalThis.total('x')).n",
    "const h = ({ x = 'a' } = {}) => x; return (await total([[1].indexOf('1'), h({ x: 5 })])).sum",
];

pub(crate) fn no_correct_use_of_host_functions_is_refused() {
    let untyped = runner_with(&tools(), None, functions());
    for code in FINE {
        let report = run(&untyped, code).report;
        assert!(report.failure().is_none(), "not correct: {code}: {:?}", report.failure());
        let found = check(&WITH_FUNCTIONS, code).unwrap_or_else(|| panic!("no program: {code}"));
        assert!(found.errors.is_empty(), "{code}\n{:?}", found.errors);
    }
}

/// `run_code`: a program of the profile `Snippet`, which has functions and no tools.
pub(crate) fn a_program_without_tools_is_checked_against_the_functions() {
    let snippet = |code: &str| block_on(WITH_FUNCTIONS.run(RunRequest::new(Profile::Snippet, code.to_owned()))).report;
    let wrong = snippet("await api.log('first');\nreturn (await api.user({ name: 'a' })).nmae");
    let failure = wrong.failure().unwrap();
    assert_eq!((failure.code, failure.position.map(|at| at.line)), (Code::InvalidCode, Some(2)), "{failure:?}");
    assert!(failure.hint.as_deref().is_some_and(|hint| hint.starts_with("Did you mean `name`?")), "{failure:?}");
    assert!(wrong.calls.is_empty(), "{:?}", wrong.calls);
    // The tools of the gateway are not in reach of such a program, so nothing is said of them.
    for code in FINE.into_iter().chain(["return typeof tracker", "const tracker = { n: 1 }; return tracker.n", "1 + 1"])
    {
        let report = snippet(code);
        assert!(report.failure().is_none(), "{code}: {report:?}");
        assert!(!format!("{:?}", report.warnings).contains("not checked"), "{code}: {report:?}");
    }
    let broken = snippet("return (await api.");
    assert_eq!(broken.failure().map(|failure| failure.code), Some(Code::Syntax));
}

pub(crate) fn programs_that_need_no_check_start_no_checker() {
    let types = Arc::new(ProgramTypes::new(checker(WAIT_TIMEOUT)));
    let runner = runner_with(&tools(), Some(types), functions());
    let before = checkers();
    for code in [
        "const a = { b: 1 }; return a.b + [1].lenght",
        "return await tracker.get_user({ login: 'a' })",
        "{\"tool\":\"tracker.get_user\",\"arguments\":{\"login\":\"a\"}}",
        "return Object.keys(tools)",
        "return context",
    ] {
        let report = run(&runner, code).report;
        assert!(report.warnings.is_empty(), "{code}: {report:?}");
    }
    let snippet = RunRequest::new(Profile::Snippet, "return [1, 2].map((n) => n * 2)".to_owned());
    assert!(block_on(runner.run(snippet)).report.failure().is_none());
    assert_eq!(checkers(), before, "no process was started");
    assert!(run(&runner, "const r = await tracker.list_issues(); return r.total").report.failure().is_none());
    assert_eq!(checkers().len(), before.len() + 1, "one that needs a check starts it");
}

struct Learning {
    types: LearnedTypes,
    /// A tool whose results broke its schema.
    broken: Option<&'static str>,
}

impl LearnedResults for Learning {
    fn version(&self) -> u64 {
        1 + u64::from(self.broken.is_some())
    }

    fn result_type(&self, backend: &str, tool: &str) -> Option<LearnedType> {
        self.types.get(backend, tool).cloned()
    }

    fn types(&self) -> Arc<LearnedTypes> {
        Arc::new(self.types.clone())
    }

    fn breaks_its_schema(&self, _: &str, tool: &str) -> bool {
        self.broken == Some(tool)
    }
}

struct LearnedEnvironment(Arc<Learning>);

impl Environment for LearnedEnvironment {
    fn learned(&self) -> Option<Arc<dyn LearnedResults>> {
        Some(Arc::clone(&self.0) as _)
    }

    fn types(&self) -> Option<Arc<ProgramTypes>> {
        Some(Arc::clone(&TYPES))
    }
}

fn learned_runner(learning: Learning) -> Runner {
    let environment = LearnedEnvironment(Arc::new(learning));
    Runner::new(TYPED.engine().clone(), Arc::clone(TYPED.bridge()), Arc::new(environment))
}

pub(crate) fn a_schema_that_results_broke_refuses_nothing() {
    let runner = learned_runner(Learning { types: LearnedTypes::default(), broken: Some("get_user") });
    let user = "const u = await tracker.get_user({ login: 'a' }); return u.nickname.length";
    assert_eq!(check(&TYPED, user).unwrap().errors.len(), 1);
    assert_eq!(check(&runner, user).unwrap().errors, [], "its results have other keys than it says");
    let issue = "const i = await tracker.get_issue({ number: 1 }); return i.titel";
    assert_eq!(check(&runner, issue).unwrap().errors.len(), 1, "the others are checked");
}

pub(crate) fn a_property_that_no_result_had_is_a_warning() {
    let mut types = LearnedTypes::default();
    types.observe("loose", "get", r#"{"anything":{"goes":[1,2,3]},"name":"x"}"#).unwrap();
    let runner = learned_runner(Learning { types, broken: None });
    for (code, name) in
        [("const r = await loose.get(); return r.nme", "name"), ("return (await loose.get()).anything.gos", "goes")]
    {
        let report = run(&runner, code).report;
        assert!(report.failure().is_none(), "{code}: {report:?}");
        let warning = report
            .warnings
            .iter()
            .map(ToString::to_string)
            .find(|warning| warning.contains("no result so far had it"))
            .unwrap();
        assert!(warning.contains(&format!("Did you mean `{name}`?")), "{warning}");
    }
    let fine =
        run(&runner, "const r = await loose.get(); return [r.name.length, r.anything.goes[0].foo, r.maybe ?? 1]");
    assert!(fine.report.warnings.is_empty(), "{:?}", fine.report.warnings);
}
