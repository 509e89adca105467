//! What is certain, what is a warning, what is nothing.

use std::sync::Arc;

use toolgate_catalog::types::learned::{LearnedType, LearnedTypes};
use toolgate_gateway::run::{Environment, LearnedResults, ProgramTypes, Runner};
use toolgate_plan::Finding;
use toolgate_wire::Code;

use crate::runner::{Case, cases};
use crate::world::{TYPED, TYPES, check, run};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        findings::what_is_certainly_wrong_is_found_before_the_first_call,
        findings::a_refusal_says_where_what_and_what_there_is,
        findings::what_is_not_certain_is_no_error,
        findings::a_program_without_tools_pays_nothing,
        findings::a_property_that_no_result_had_is_a_warning,
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
        (
            "const r: any[] = (await tracker.list_issues()).issues; return r.map(i => i.author.¦name)",
            "unknown_property",
        ),
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
}

pub(crate) fn what_is_not_certain_is_no_error() {
    for code in [
        // Not declared, or declared to be open.
        "return (await loose.get()).anything.goes.lenght",
        "return (await tracker.get_issue({ number: 1 })).fields.whatever",
        "const r = loose.get(); return r.name",
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
        // Given by the program itself.
        "const r = await tracker.list_issues(); for (const i of r.issues) i.score = i.comments * 2; return r.issues[0].score",
        "const r = await tracker.list_issues(); return Object.assign(r, { seen: true }).seen",
        "let r = await tracker.list_issues(); r = r.issues; return r.length + r.map(i => i.title).length",
        "let text = ''; text = (await loose.get()).anything; return text.goes",
        "const rows = (await tracker.list_issues()).issues; rows.push((await loose.get()).anything); return rows.map(r => r.goes).length",
        "Array.prototype.last = function () { return this[this.length - 1] }; return (await my_files.list()).last().path",
        "globalThis.tracker = { list: async () => ({ n: 1 }) }; return (await tracker.list()).n",
        "tracker.extra = async () => ({ n: 1 }); return (await tracker.extra()).n",
        // Handled.
        "try { await tracker.get_user({ login: 5 + (await loose.get()).length }) } catch { return 'no' }",
        "try { return (await tracker.list_issues()).isues.length } catch { return 0 }",
        "const n = (await tracker.list_issues()).total; return await tracker.get_user({ login: n }).catch(() => 'no')",
        // JavaScript that strict TypeScript does not like.
        "let x = 1; x = 'a'; const o = {}; o.a = x; return o.a + o.b",
        "const by = {}; for (const i of (await tracker.list_issues()).issues) (by[i.state] ??= []).push(i); return by.open.length",
        "const r = await tracker.list_issues(); return r.issues.reduce((all, i) => { all[i.state] = (all[i.state] || 0) + 1; return all }, {}).open",
        "class Row { constructor(i) { this.t = i.title } } return (await tracker.list_issues()).issues.map(i => new Row(i).t)",
        "function f(i) { return i.title + parseInt(i.number) } return (await tracker.list_issues()).issues.map(f)",
        "const q = {}; q.title = 'x'; return (await tracker.create_issue(q)).title",
        "const d = new Date(0); return (await tracker.get_user({ login: d })).login",
        "const rs = await Promise.allSettled([tracker.get_issue({ number: 1 })]); return rs.map(r => r.value.title)",
    ] {
        let found = check(&TYPED, code).unwrap_or_else(|| panic!("no program: {code}"));
        assert!(found.errors.is_empty(), "{code}\n{:?}", found.errors);
    }
}

pub(crate) fn a_program_without_tools_pays_nothing() {
    let report = run(&TYPED, "const a = { b: 1 }; return a.b + [1].lenght").report;
    assert!(report.failure().is_none() && report.warnings.is_empty(), "{report:?}");
}

struct Learning(LearnedTypes);

impl LearnedResults for Learning {
    fn version(&self) -> u64 {
        1
    }

    fn result_type(&self, backend: &str, tool: &str) -> Option<LearnedType> {
        self.0.get(backend, tool).cloned()
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

pub(crate) fn a_property_that_no_result_had_is_a_warning() {
    let mut types = LearnedTypes::default();
    types.observe("loose", "get", r#"{"anything":{"goes":[1,2,3]},"name":"x"}"#).unwrap();
    let environment = LearnedEnvironment(Arc::new(Learning(types)));
    let runner = Runner::new(TYPED.engine().clone(), Arc::clone(TYPED.bridge()), Arc::new(environment));
    for (code, name) in
        [("const r = await loose.get(); return r.nme", "name"), ("return (await loose.get()).anything.gos", "goes")]
    {
        let report = run(&runner, code).report;
        assert!(report.failure().is_none(), "{code}: {report:?}");
        let warning = report.warnings.iter().find(|warning| warning.contains("no result so far had it")).unwrap();
        assert!(warning.contains(&format!("Did you mean `{name}`?")), "{warning}");
    }
    let fine =
        run(&runner, "const r = await loose.get(); return [r.name.length, r.anything.goes[0].foo, r.maybe ?? 1]");
    assert!(fine.report.warnings.is_empty(), "{:?}", fine.report.warnings);
}
