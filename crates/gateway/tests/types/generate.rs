//! Random programs as agents write them, with marks where they can be damaged.
//!
//! `‹p:title›` is the name of a property of a declared result, `‹t:get_user›` of a tool, `‹k:path›` of an argument that is
//! required, `‹s:x›`, `‹n:x›` and `‹b:x›` are arguments that must be texts, numbers and booleans, `‹w›` is an `await`.

/// Parts of programs; `@` is a number that makes names unique. Each declares `v@`, something to return.
const PARTS: &[&str] = &[
    "const page@ = ‹w›tracker.‹t:list_issues›({ state: 'open', limit: ‹n:5› });\nconst v@ = page@.‹p:issues›.map(i => i.‹p:title›);",
    "const { issues: issues@ } = await tracker.‹t:list_issues›();\nconst v@ = issues@.filter(i => i.‹p:comments› > 1).map(i => ({ title: i.‹p:title›, by: i.‹p:author›.‹p:login› }));",
    "const all@ = (await tracker.‹t:list_issues›({})).‹p:issues›;\nlet v@ = 0;\nfor (const issue of all@) v@ += issue.‹p:comments›;",
    "const rows@ = (await tracker.list_issues()).issues;\nconst v@ = rows@.reduce((sum, row) => sum + row.‹p:comments›, 0) / rows@.‹p:length›;",
    "const issue@ = ‹w›tracker.‹t:get_issue›({ ‹k:number›: ‹n:1› });\nconst v@ = `${issue@.‹p:title› } by ${issue@.‹p:author›.‹p:login›}`;",
    "const one@ = await tracker.get_issue({ number: 2 });\nconst owner@ = ‹w›tracker.‹t:get_user›({ ‹k:login›: ‹s:one@.author.login› });\nconst v@ = { owner: owner@.‹p:login›, id: owner@.‹p:id› };",
    "const list@ = ‹w›my_files.‹t:list›();\nconst v@ = list@.filter(f => !f.‹p:folder›).sort((a, b) => b.‹p:size› - a.‹p:size›).map(f => f.‹p:path›);",
    "const names@ = (await my_files.list()).map(f => f.‹p:path›);\nconst texts@ = await Promise.all(names@.map(path => my_files.‹t:read›({ ‹k:path›: ‹s:path› })));\nconst v@ = texts@.map(t => t.‹p:text›.split('\\n').‹p:length›);",
    "const written@ = ‹w›my_files.‹t:write›({ ‹k:path›: ‹s:'out.txt'›, ‹k:text›: ‹s:'hello'› });\nconst v@ = written@.‹p:bytes›;",
    "const made@ = ‹w›tracker.‹t:create_issue›({ ‹k:title›: ‹s:'New'›, labels: ['bug'], urgent: ‹b:true› });\nconst v@ = made@.‹p:number›;",
    "async function describe@(number) {\n  const issue = ‹w›tracker.‹t:get_issue›({ number });\n  return issue.‹p:title› + ' ' + issue.‹p:labels›.join(', ');\n}\nconst v@ = await describe@(3);",
    "const v@ = [];\nfor (const f of await my_files.‹t:list›()) {\n  const body = ‹w›my_files.‹t:read›({ path: f.‹p:path› });\n  v@.push({ path: f.‹p:path›, first: body.‹p:text›.slice(0, 3) });\n}",
    "const byState@ = {};\nfor (const i of (await tracker.list_issues()).‹p:issues›) {\n  (byState@[i.‹p:state›] ??= []).push(i.‹p:number›);\n}\nconst v@ = Object.entries(byState@).map(([state, numbers]) => `${state}: ${numbers.length}`);",
    "const m@ = new Map((await tracker.list_issues()).issues.map(i => [i.‹p:number›, i]));\nconst v@ = [...m@.values()].map(i => i.‹p:created_at›);",
    "const v@ = await tracker.‹t:list_issues›().then(r => r.‹p:total›);",
    "const v@ = (await tools.tracker.‹t:list_issues›({ limit: ‹n:2› })).‹p:issues›.length;",
    "const [first@, ...others@] = (await tracker.list_issues()).‹p:issues›;\nconst v@ = first@.‹p:title› + others@.map(o => o.‹p:author›.‹p:login›).join();",
    "const { total: total@, next: next@ } = ‹w›tracker.‹t:list_issues›();\nconst v@ = next@ ? total@ : total@ + 1;",
    "const v@ = (await tracker.list_issues()).issues.flatMap(i => i.‹p:labels›).filter((l, n, all) => all.indexOf(l) === n);",
    "const due@ = (await tracker.get_issue({ number: 1 })).‹p:milestone›;\nconst v@ = due@ ? due@.‹p:due› : 'never';",
    "const grouped@ = Object.groupBy((await tracker.list_issues()).issues, i => i.‹p:state›);\nconst v@ = Object.keys(grouped@).map(k => grouped@[k].map(i => i.‹p:title›));",
    "const top@ = (await tracker.list_issues()).issues.toSorted((a, b) => b.‹p:comments› - a.comments).slice(0, 2);\nconst v@ = JSON.stringify(top@.map(({ ‹p:number›, ‹p:title› }) => [number, title]));",
    "const raw@ = ‹w›loose.‹t:get›();\nconst v@ = raw@.anything.goes.map(n => n * 2);",
    "const sizes@ = (await my_files.list()).map(({ ‹p:size› }) => size);\nconst v@ = Math.max(...sizes@);",
    "const when@ = new Date((await tracker.get_issue({ number: 1 })).‹p:created_at›);\nconst v@ = when@.getUTCFullYear();",
    "const some@ = (await tracker.list_issues()).issues.find(i => i.‹p:number› === 2);\nconst v@ = some@?.‹p:title›;",
    "const v@ = (await my_files.read({ path: 'a.txt' })).‹p:text›.split('\\n').map(line => line.trim()).filter(Boolean);",
    "const summary@ = { issues: (await tracker.list_issues()).‹p:total›, files: (await my_files.list()).‹p:length› };\nconst v@ = summary@.issues + summary@.files;",
    "let cursor@ = null;\nconst seen@ = [];\ndo {\n  const page = ‹w›tracker.‹t:list_issues›({ limit: 10 });\n  seen@.push(...page.‹p:issues›.map(i => i.‹p:number›));\n  cursor@ = page.‹p:next›;\n} while (cursor@);\nconst v@ = seen@.length;",
    "const v@ = await Promise.all((await tracker.list_issues()).issues.map(async i => {\n  const user = ‹w›tracker.‹t:get_user›({ login: i.‹p:author›.login });\n  return user.‹p:email›;\n}));",
];

/// Parts that are correct and that nobody damages: what agents do besides.
const PLAIN: &[&str] = &[
    "let v@;\ntry {\n  v@ = (await loose.get({})).anything.goes.length;\n} catch (error) {\n  v@ = error.message;\n}",
    "const r@ = await tracker.list_issues();\nconst v@ = (r@.items ?? r@.issues ?? []).length;",
    "let v@ = await tracker.list_issues();\nv@ = v@.issues;\nv@ = v@.length;",
    "const x@ = await tracker.get_issue({ number: 1 });\nx@.score = x@.comments * 2;\nconst v@ = x@.score;",
    "interface Row@ { id: number; name?: string }\nconst rows@: Row@[] = [{ id: 1 }];\nconst v@ = rows@.map((r: Row@) => r.name ?? r.id);",
    "class Counter@ { #n = 0; add(n: number) { this.#n += n; return this; } get value() { return this.#n; } }\nconst v@ = new Counter@().add(2).value;",
    "const o@: any = {};\no@.a = 1;\nconst v@ = o@.a + (o@.b ?? 0);",
    "const settled@ = await Promise.allSettled([tracker.get_issue({ number: 1 }), loose.get()]);\nconst v@ = settled@.map(s => s.status);",
    "const v@ = (await loose.get()).anything.goes.map((n, i) => [n, i]);",
    "const acc@ = (await tracker.list_issues()).issues.reduce((all, i) => { all[i.state] = (all[i.state] || 0) + 1; return all; }, {});\nconst v@ = acc@.open;",
    "const copy@ = { ...(await tracker.get_issue({ number: 1 })), extra: 'x' };\nconst v@ = copy@.extra + copy@.title;",
    "const merged@ = [...(await my_files.list()), ...(await loose.get()).anything.goes];\nconst v@ = merged@.length;",
    "function size@(x) { return Array.isArray(x) ? x.length : Object.keys(x).length; }\nconst v@ = size@(await my_files.list()) + size@(await tracker.list_issues());",
    "const best@ = (await tracker.list_issues()).issues.reduce((a, b) => (a.comments > b.comments ? a : b));\nconst v@ = best@.title;",
    "console.log('start');\nconst v@ = typeof tracker.delete_issue === 'function' ? 1 : 0;",
    "const texts@ = {};\nfor (const { path } of await my_files.list()) texts@[path] = (await my_files.read({ path })).text;\nconst v@ = texts@['a.txt'].length;",
    "const jobs@ = { a: tracker.list_issues(), b: tracker.get_user({ login: 'a' }) };\nfor (const k in jobs@) jobs@[k] = await jobs@[k];\nconst v@ = jobs@.a.total + jobs@.b.login;",
    "const report@ = { user: await tracker.get_user({ login: 'a' }) };\nfor (const [k, v] of Object.entries(report@)) report@[k] = JSON.stringify(v);\nconst v@ = report@.user.length;",
    "const params@ = { number: '5' };\nObject.keys(params@).forEach(k => { params@[k] = Number(params@[k]); });\nconst v@ = (await tracker.get_issue({ number: params@.number })).title;",
    "const state@ = { current@: await tracker.get_user({ login: 'a' }) };\nstate@.current@ = await loose.get({});\nconst v@ = state@.current@.name;",
    "class Pager@ { page@ = ''; turn(to) { this.page@ = to; return this; } }\nconst v@ = (await tracker.get_issue({ number: new Pager@().turn(5).page@ })).title;",
    "const found@ = { people@: [await tracker.get_user({ login: 'a' })] };\nfound@.people@.push(await loose.get());\nconst v@ = found@.people@[1].name;",
    "var w@ = await tracker.list_issues();\nvar w@ = await tracker.get_user({ login: 'a' });\nconst v@ = w@.login;",
    "const asked@ = await loose.get();\nconst v@ = (await tracker.create_issue({ title: 't', assignee: asked@.assignee })).number;",
    "const list@ = (await tracker.list_issues()).issues;\nconst mark@ = (row, n) => { row['ra' + 'nk'] = n; };\nlist@.forEach(mark@);\nconst v@ = list@.map(row => row.rank);",
    "const sum@ = (await tracker.list_issues()).issues.reduce((a, b) => (a.comments ?? a) + b.comments);\nconst v@ = sum@.toFixed(1);",
];

/// A small generator of numbers, the same every time.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }

    fn one<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len())]
    }
}

/// A program with its marks.
pub(crate) fn marked(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    let mut program = String::new();
    let mut returned = Vec::new();
    for n in 0..count {
        let plain = random.below(3) == 0;
        let part = if plain { *random.one(PLAIN) } else { *random.one(PARTS) };
        program.push_str(&part.replace('@', &n.to_string()));
        program.push('\n');
        returned.push(format!("v{n}"));
    }
    match random.below(3) {
        0 => program.push_str(&format!("return [{}];", returned.join(", "))),
        1 => program.push_str(&format!("return {{ {} }};", returned.join(", "))),
        _ => program.push_str(&format!("console.log({});\nreturn {};", returned.join(", "), returned[0])),
    }
    program
}

/// The program as it is meant.
pub(crate) fn unmarked(program: &str) -> String {
    let mut out = String::new();
    for (n, piece) in program.split('‹').enumerate() {
        match piece.split_once('›') {
            Some((mark, rest)) if n > 0 => {
                out.push_str(if mark == "w" { "await " } else { &mark[2..] });
                out.push_str(rest);
            }
            _ => out.push_str(piece),
        }
    }
    out
}

/// The program with one place damaged, and how; `None` if it has no such place.
pub(crate) fn damaged(program: &str, random: &mut Random) -> Option<(&'static str, String)> {
    let places: Vec<(usize, usize)> =
        program.match_indices('‹').filter_map(|(at, _)| Some((at, at + program[at..].find('›')?))).collect();
    if places.is_empty() {
        return None;
    }
    let (start, end) = *random.one(&places);
    let mark = &program[start + '‹'.len_utf8()..end];
    let (before, after) = (&program[..start], &program[end + '›'.len_utf8()..]);
    let (how, replaced) = match mark.split_once(':') {
        None => ("missing await", String::new()),
        Some(("t", name)) => ("misspelt tool", misspelt(name, random)),
        // In a pattern there is no nesting to get wrong.
        Some(("p", name)) if before.ends_with('.') && random.below(4) == 0 => {
            ("wrong nesting", format!("{}.{name}", ["data", "result", "items"][random.below(3)]))
        }
        Some(("p", name)) => {
            let wrong = misspelt(name, random);
            let is_pattern = !before.ends_with('.');
            ("renamed property", if is_pattern { format!("{wrong}: {name}") } else { wrong })
        }
        Some(("k", name)) => ("missing argument", misspelt_key(name, after, random)),
        Some(("s", _)) => {
            ("wrong argument type", ["42", "[1]", "true", "{ a: 1 }", "v_number"][random.below(5)].to_owned())
        }
        Some(("n", _)) => ("wrong argument type", ["'7'", "[7]", "false", "v_text"][random.below(4)].to_owned()),
        Some(_) => ("wrong argument type", ["'yes'", "1", "v_text"][random.below(3)].to_owned()),
    };
    let declared = "const v_number = (await tracker.list_issues()).total, v_text = (await tracker.get_user({ login: 'a' })).login;\n";
    let head = if replaced.starts_with("v_") { declared } else { "" };
    Some((how, unmarked(&format!("{head}{before}{replaced}{after}"))))
}

/// `{ login }` has no value of its own to keep.
fn misspelt_key(name: &str, after: &str, random: &mut Random) -> String {
    let wrong = misspelt(name, random);
    if after.starts_with(':') { wrong } else { format!("{wrong}: {name}") }
}

fn misspelt(name: &str, random: &mut Random) -> String {
    let mut letters: Vec<char> = name.chars().collect();
    let at = 1 + random.below(letters.len() - 1);
    match random.below(4) {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at - 1]),
        2 => letters.push('s'),
        _ => letters.swap(at, at - 1),
    }
    let wrong: String = letters.into_iter().collect();
    if wrong == name { format!("{name}_") } else { wrong }
}
