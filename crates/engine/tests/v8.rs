//! What a stock deno would give away, and does not: from inside a program, and from inside the jail.

mod support;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::deno::deno;
use support::v8_builder;
use toolgate_engine::wire::{Code, Interpreter, IsolationLevel, LimitRequest, Profile, Report};
use toolgate_engine::{Engine, EngineChoice, Request, V8Status};

fn engine() -> Engine {
    v8_builder().engine(EngineChoice::V8).build().expect("an engine")
}

async fn run(engine: &Engine, code: &str) -> Report {
    engine.run(Request::new(Profile::Chain, code)).await
}

/// The program's value as JSON text, or its failure.
async fn check(code: &str, expected: &str) {
    let report = run(&engine(), code).await;
    let got = report.value().map_or_else(ToString::to_string, |value| value.get().to_owned());
    assert_eq!(got, expected, "{code}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_deno_is_there() {
    let names = "Deno localStorage sessionStorage caches Worker SharedArrayBuffer Atomics WebAssembly process Buffer \
                 performance navigator location fetch WebSocket global self window require gc";
    let code = format!(
        "return {names:?}.split(/ +/).filter((name) => name in globalThis || eval('typeof ' + name) !== 'undefined')"
    );
    check(&code, "[]").await;
}

/// Every object that a program can reach by properties and prototypes, from the global object and from what fails.
const WALK: &str = r#"
const seen = new Set(), todo = [globalThis, (() => {}).constructor, (async () => {}).constructor, (function* () {}).constructor];
try { null.x } catch (e) { todo.push(e); }
try { const f = () => f(); f(); } catch (e) { todo.push(e); }
try { await import("node:fs"); } catch (e) { todo.push(e); }
const found = [];
while (todo.length > 0) {
  const object = todo.pop();
  if (object === null || (typeof object !== "object" && typeof object !== "function") || seen.has(object)) continue;
  seen.add(object);
  if (typeof object === "function" && object.constructor.constructor("return typeof Deno")() !== "undefined") found.push("Deno behind " + object.name);
  todo.push(Object.getPrototypeOf(object));
  for (const key of Reflect.ownKeys(object)) {
    if (/deno|node|ext:/i.test(String(key))) found.push(String(key));
    const own = Object.getOwnPropertyDescriptor(object, key);
    todo.push(own.value, own.get, own.set);
  }
}
return [found, seen.size > 500];
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_leads_to_deno() {
    check(WALK, "[[],true]").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_import_is_answered_however_it_is_spelt() {
    let code = r#"
const ways = [
  () => import("node:fs"), () => eval("import('node:process')"), () => (0, eval)("import('node:fs')"),
  () => new Function("return import('node:fs')")(), () => Promise.resolve("import('node:fs')").then(eval),
  () => Promise.resolve("return import('node:fs')").then(Function).then((f) => f()), () => ["import('node:fs')"].map(eval)[0],
  () => (async () => {}).constructor("return import('node:fs')")(), () => import("data:text/javascript,export default 1"),
];
const answers = [];
for (const way of ways) { try { await way(); answers.push("answered"); } catch { answers.push("refused"); } }
return [...new Set(answers)];
"#;
    check(code, r#"["refused"]"#).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_outer_realm_never_gets_in() {
    // The stack overflows inside the functions that reach outside; what they throw must be the program's own kind.
    let code = r#"
const kinds = new Set();
const dig = (depth) => { try { dig(depth + 1); } catch (e) { kinds.add(e instanceof RangeError); } try { console.log("x"); structuredClone([1]); new URL("http://a/"); } catch (e) { kinds.add(e instanceof Error); } };
dig(0);
return [...kinds];
"#;
    check(code, "[true]").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stack_shows_the_program_and_nothing_else() {
    let code = "Error.prepareStackTrace = (_, sites) => sites; const { stack } = new Error('x'); return stack";
    check(code, r#""    at <anonymous> (script:1:97)\n""#).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_printed_is_no_frame() {
    let code = r#"console.log("\u0006" + "\0".repeat(24) + "\u00ff\u0002\0\0\0[]"); return "mine""#;
    check(code, r#""mine""#).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_left_for_the_next_run() {
    let engine = engine();
    run(&engine, "globalThis.marker = 1; Object.prototype.marker = 2; return 1").await;
    let next = run(&engine, "return typeof marker").await;
    assert_eq!(next.value().expect("a value").get(), r#""undefined""#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_arrays_count_as_memory() {
    for code in [
        // What is let go again counts while it is held, small pieces too.
        "let all = []; for (let i = 0; i < 60; i++) for (let j = 0; j < 64; j++) all.push(new Uint8Array(16384)); all = null; return 1",
        "const one = new ArrayBuffer(8, { maxByteLength: 1e8 }); one.resize(6e7); one.resize(8); return 1",
        "const all = []; for (;;) all.push(new Uint8Array(1e6).fill(1))",
        "const all = []; for (;;) all.push(new Float64Array(7000).fill(1))",
        "try { new ArrayBuffer(1e9) } catch {} return 1",
        "const all = []; for (;;) all.push({})",
    ] {
        let report = run(&engine(), code).await;
        let failure = report.failure().expect("a failure");
        assert_eq!(
            (failure.code, failure.message.as_str()),
            (Code::Memory, "the run needed more than its 50 MB of memory"),
            "{code}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_spelling_of_a_size_gets_past_the_meter() {
    let two_faced = "let asked = 0; const size = { valueOf: () => (asked++ === 0 ? 1 : 2e7) };";
    let limits = LimitRequest { memory: Some(2 * 1024 * 1024), ..LimitRequest::default() };
    for (code, expected) in [
        (
            "const all = []; for (let i = 0; i < 8; i++) all.push(new Uint8Array('20000000')); return all.length",
            "MEMORY",
        ),
        ("return new Uint8Array({ valueOf: () => 2e7, length: 2e7 }).length", "MEMORY"),
        ("return new Float64Array(new Uint8Array(1e6)).length", "MEMORY"),
        ("return new BigInt64Array('3e6').length", "MEMORY"),
        ("return new Float64Array({ length: '3e6' }).length", "MEMORY"),
        ("return Float64Array.from({ length: 3e6 }).length", "MEMORY"),
        ("return new ArrayBuffer('2e7').byteLength", "MEMORY"),
        ("return new ArrayBuffer({ valueOf: () => 2e7 }).byteLength", "MEMORY"),
        ("const b = new ArrayBuffer(8, { maxByteLength: '2e7' }); b.resize('2e7'); return b.byteLength", "MEMORY"),
        ("return new ArrayBuffer(8).transfer('2e7').byteLength", "MEMORY"),
        ("return new DataView(new ArrayBuffer('2e7')).byteLength", "MEMORY"),
        (
            "const a = new Uint8Array(9e5); const all = []; for (let i = 0; i < 50; i++) all.push(a.toReversed()); return 1",
            "MEMORY",
        ),
        (
            "const a = new ArrayBuffer(9e5); a.constructor = undefined; const all = []; for (let i = 0; i < 50; i++) all.push(a.slice()); return 1",
            "MEMORY",
        ),
        (
            "const a = new ArrayBuffer(9e5); const all = []; for (let i = 0; i < 50; i++) all.push(structuredClone(a)); return 1",
            "MEMORY",
        ),
        ("return 'x'.repeat('2e7').length", "MEMORY"),
        ("return 'x'.padEnd({ valueOf: () => 2e7 }).length", "MEMORY"),
        ("return new Uint8Array(new Set([1, 2, 300])).join()", "\"1,2,44\""),
        ("return new Float32Array({ length: 2.7, 0: 1, 1: '2.5' }).join()", "\"1,2.5\""),
        (
            "return [new Uint8Array().length, new Uint8Array(null).length, new Uint8Array('3').length, new ArrayBuffer().byteLength]",
            "[0,0,3,0]",
        ),
        (
            "class Mine extends Uint16Array {} const m = new Mine([1, 2]); return [m instanceof Mine, m.slice(1) instanceof Mine, m.join()]",
            "[true,true,\"1,2\"]",
        ),
    ] {
        let report = engine().run(Request { limits: limits.clone(), ..Request::new(Profile::Chain, code) }).await;
        let got = report
            .value()
            .map_or_else(|failure| format!("{:?}", failure.code).to_uppercase(), |value| value.get().to_owned());
        assert_eq!(got, expected, "{code}");
    }
    for make in ["new Uint8Array(size).length", "new ArrayBuffer(size).byteLength", "'x'.repeat(size).length"] {
        let code = format!("{two_faced} return [{make}, asked]");
        let report = engine().run(Request { limits: limits.clone(), ..Request::new(Profile::Chain, code) }).await;
        let expected = if make.contains("Uint8Array") { "[0,0]" } else { "[1,1]" };
        assert_eq!(report.value().expect("a value").get(), expected, "{make}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_that_come_and_go_pass_the_limit_by_twelve_megabytes_at_most() {
    for limit in [16, 50, 128] {
        let memory = Some(limit * 1024 * 1024);
        let limits = LimitRequest { memory, ..LimitRequest::default() };
        let held = limit + 12;
        let code = format!(
            "let all = []; for (let i = 0; i < {held}; i++) all.push(Array.from({{ length: 131072 }}, (_, j) => j + 0.5)); \
             all = null; return 1"
        );
        let report = engine().run(Request { limits, ..Request::new(Profile::Chain, code) }).await;
        assert_eq!(report.failure().map(|failure| failure.code), Some(Code::Memory), "{held} of {limit} MB");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loop_that_nothing_interrupts_ends_in_time() {
    let limits = LimitRequest { wall: Some(Duration::from_millis(900)), ..LimitRequest::default() };
    for code in [
        "while (true) {}",
        "for (;;) (3n ** 200000n) ** 2n",
        "for (;;) await null",
        "/(a+)+$/.test('a'.repeat(40) + 'b')",
    ] {
        let request = Request { limits: limits.clone(), ..Request::new(Profile::Chain, code) };
        let report = engine().run(request).await;
        assert_eq!(report.failure().map(|failure| failure.code), Some(Code::Timeout), "{code}");
        // A busy machine takes its time to deliver the end.
        assert!(report.elapsed < Duration::from_secs(15), "{code} took {:?}", report.elapsed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_says_what_confined_the_run() {
    let report = run(&engine(), "return 1").await;
    assert_eq!((report.engine, report.isolation.mode), (Interpreter::V8, IsolationLevel::Process));
    assert!(report.isolation.seccomp && report.isolation.no_new_privs, "{:?}", report.isolation);
    assert!(!report.isolation.no_exec_memory, "its compiler makes memory executable");
}

#[test]
fn the_status_names_the_program() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _in_runtime = runtime.enter();
    let V8Status::Available { version, .. } = engine().v8_status() else { panic!("there is a deno") };
    assert!(version.starts_with("deno "), "{version}");
}

/// Runs a script in deno with every permission, in the jail; gives what it prints.
fn jailed(script: &str) -> String {
    jailed_without("", script)
}

/// The same with layers of the jail left off.
fn jailed_without(layers: &str, script: &str) -> String {
    let worker = env!("CARGO_BIN_EXE_toolgate-worker");
    let mut command = Command::new(worker);
    command.arg0("toolgate-jail").args([layers, "1000000000"]).arg(deno());
    command.args(["run", "--quiet", "--allow-all", "--no-lock", "--no-config", "-"]);
    command.env("TOOLGATE_MARKER", "secret");
    said(command, script)
}

/// What a program prints that is given a script.
fn said(mut command: Command, script: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("a program");
    child.stdin.take().expect("stdin").write_all(script.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("an end");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last line is printed by the script itself when nothing of what it tried worked.
fn check_jailed(attempts: &[&str]) {
    let tries: String =
        attempts.iter().map(|code| format!("await attempt({code:?}, async () => {{ {code} }});\n")).collect();
    let script = format!(
        "const worked = []; const attempt = async (name, act) => {{ try {{ await act(); worked.push(name); }} catch {{}} }};\n\
         {tries} console.log(JSON.stringify(worked)); Deno.exit(0);"
    );
    assert_eq!(jailed(&script).trim(), "[]");
}

#[test]
fn the_jail_holds_when_every_permission_is_given() {
    check_jailed(&[
        "Deno.readTextFileSync('/etc/passwd')",
        "Deno.readTextFileSync('/proc/self/environ')",
        "Deno.readTextFileSync('/proc/self/maps')",
        "[...Deno.readDirSync('/')]",
        "[...Deno.readDirSync('/tmp')]",
        "Deno.writeTextFileSync('/tmp/toolgate-jail-test', 'x')",
        "Deno.mkdirSync('/tmp/toolgate-jail-test-folder')",
        "new Deno.Command('/bin/true').outputSync()",
        "new Deno.Command(Deno.execPath(), { args: ['--version'] }).outputSync()",
        "await Deno.connect({ hostname: '127.0.0.1', port: 1 }).catch((e) => { if (e instanceof Deno.errors.ConnectionRefused) return; throw e; })",
        "Deno.listen({ port: 0 })",
        "(await import('node:fs')).readFileSync('/etc/passwd')",
        "if ((await import('node:child_process')).spawnSync('/bin/true').status !== 0) throw 0",
        "await Deno.resolveDns('localhost', 'A')",
        "Deno.kill(Deno.ppid, 0 || 'SIGCONT')",
        "Deno.dlopen('/lib/x86_64-linux-gnu/libc.so.6', { fork: { parameters: [], result: 'i32' } }).symbols.fork() > 0 || (() => { throw 0 })()",
        "if (Deno.dlopen('/lib/x86_64-linux-gnu/libc.so.6', { mmap: { parameters: ['usize', 'usize', 'i32', 'i32', 'i32', 'usize'], \
            result: 'i64' } }).symbols.mmap(0n, 4096n, 3, 0x21, -1, 0n) === -1n) throw 0",
        "if (Deno.env.get('TOOLGATE_MARKER') === undefined) throw 0",
    ]);
}

#[test]
fn each_layer_of_the_jail_is_what_holds() {
    let read = "try { Deno.readTextFileSync('/etc/passwd'); console.log('read'); } catch {} Deno.exit(0);";
    assert_eq!((jailed_without("landlock,namespaces", read).trim(), jailed(read).trim()), ("read", ""));
    assert_eq!(jailed_without("namespaces", read).trim(), "");
    let listen = "try { Deno.listen({ port: 0 }); console.log('listens'); } catch {} Deno.exit(0);";
    let (open, filtered) = ("seccomp,landlock,namespaces", "landlock,namespaces");
    assert_eq!((jailed_without(open, listen).trim(), jailed_without(filtered, listen).trim()), ("listens", ""));
}

/// Leaves something in every storage that Deno has, as far as that works.
const LEAVE: &str = "try { localStorage.setItem('marker', '1'); } catch {} \
    try { await (await caches.open('c')).put('http://a/', new Response('x')); } catch {} Deno.exit(0);";
/// Names the storages in which something was left.
const FIND: &str = "const found = []; try { if (localStorage.getItem('marker')) found.push('storage'); } catch {} \
    try { if (await (await caches.open('c')).match('http://a/')) found.push('caches'); } catch {} \
    console.log(JSON.stringify(found)); Deno.exit(0);";

#[test]
fn storage_does_not_outlive_a_process() {
    // Without a jail it does, and every flag that denies something changes nothing: so the look is a real one.
    let folder = tempfile::tempdir().expect("a folder");
    let denied = ["--deny-read", "--deny-write", "--deny-net", "--deny-env", "--deny-sys", "--deny-run", "--deny-ffi"];
    let free = |script: &str| {
        let mut command = Command::new(deno());
        command.args(["run", "--quiet", "--no-prompt"]).args(denied).arg("-").env("DENO_DIR", folder.path());
        said(command, script)
    };
    free(LEAVE);
    assert_eq!(free(FIND).trim(), r#"["storage","caches"]"#);
    // The folder that cannot be made holds by itself, and so does landlock.
    for layers in ["", "landlock"] {
        jailed_without(layers, LEAVE);
        assert_eq!(jailed_without(layers, FIND).trim(), "[]", "without {layers:?}");
    }
}

#[test]
fn nothing_is_written_even_where_landlock_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("set");
    let file = folder.path().join("left");
    jailed_without("landlock,namespaces", &format!("Deno.writeTextFileSync({:?}, 'x'); Deno.exit(0);", file));
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), "");
}

#[test]
fn the_process_knows_nothing_of_its_host() {
    let tell = "const { argv0 } = await import('node:process'); \
        console.log(JSON.stringify([Deno.cwd(), argv0, Deno.env.toObject()])); Deno.exit(0);";
    let known = r#"["/","deno",{"DENO_DIR":"/dev/null/deno","NO_COLOR":"1","PATH":"/usr/bin:/bin"}]"#;
    let told: serde_json::Value = serde_json::from_str(&jailed(tell)).expect("JSON");
    assert_eq!(told, serde_json::from_str::<serde_json::Value>(known).expect("JSON"));
}

/// What a process sees that is its host's: files, numbers of processes, names, memory.
const SEE: &str = "const seen = (path) => { try { Deno.lstatSync(path); return true; } catch { return false; } }; \
    console.log(JSON.stringify([['/etc/passwd', '/proc/1', '/home', '/tmp', '/bin/sh'].filter(seen), \
        Deno.pid, Deno.ppid, Deno.hostname(), Deno.systemMemoryInfo().total, Deno.execPath()])); Deno.exit(0);";

#[test]
fn the_process_sees_no_file_and_no_number_of_its_host() {
    let seen =
        |layers: &str| -> serde_json::Value { serde_json::from_str(&jailed_without(layers, SEE)).expect("JSON") };
    let open = seen("seccomp,namespaces");
    assert_eq!(open[0][0], "/etc/passwd", "landlock alone does not hide it");
    assert!(open[1] != 0 && open[2] != 0 && open[4] != 0, "{open}");
    let filtered = seen("namespaces");
    assert_eq!([&filtered[1], &filtered[2], &filtered[4]], [0, 0, 0]);
    let jailed = seen("");
    if jailed[3] == open[3] {
        return eprintln!("skipped: this system permits no namespaces");
    }
    assert_eq!(jailed, serde_json::json!([[], 0, 0, "toolgate", 0, "/deno"]));
}

#[test]
fn the_kernel_bounds_typed_arrays() {
    // The jail of these tests has 1,000 MB, of which V8 reserves more than half.
    let hold = |megabytes: u32| {
        jailed(&format!(
            "const all = []; for (let i = 0; i < {megabytes}; i++) all.push(new Uint8Array(1e6).fill(1)); \
             console.log('held'); Deno.exit(0);"
        ))
    };
    assert_eq!((hold(100).trim(), hold(1200).trim()), ("held", ""));
}
