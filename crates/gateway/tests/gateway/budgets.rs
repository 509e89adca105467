//! The configured bytes in flight hold for what servers answer and programs send.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

use toolgate_mcp::server::{RequestScope, Service, ServiceAnswer, ToolCall, ToolMode};
use toolgate_wire::CallerScope;

use crate::support::{World, call, fixture, scope};

/// How one call with an answer, and one with arguments, of this many bytes ends.
fn both(bytes: usize) -> String {
    format!(
        "const end = async call => {{ try {{ await call; return 'ok' }} catch (e) {{ \
         return [e.code, /bytes that (this run|this caller|toolgate) may/.exec(e.message)?.[1]] }} }}; \
         return [await end(b.large({{ bytes: {bytes} }})), await end(b.say({{ texts: ['', 'x'.repeat({bytes})] }}))]"
    )
}

#[tokio::test]
async fn the_configured_bytes_of_a_run_and_a_caller_hold_and_follow_the_file() {
    let servers = json!({ "b": fixture(&[]) });
    let world = World::up_with(servers.clone(), json!({ "limits": { "run_bytes_in_flight": "4MB" } })).await;
    let ok = json!(["ok", "ok"]);
    let over = |whose: &str| json!([["OVER_BUDGET", whose], ["OVER_BUDGET", whose]]);
    assert_eq!(world.chain(&both(1 << 20)).await, ok);
    assert_eq!(world.chain(&both(6 << 20)).await, over("this run"));
    let settings = json!({ "limits": { "run_bytes_in_flight": "64MB", "caller_bytes_in_flight": "4MB" } });
    world.gateway.reload(world.config(servers.clone(), settings)).await;
    assert_eq!(world.chain(&both(6 << 20)).await, over("this caller"));
    world.gateway.reload(world.config(servers, json!({}))).await;
    assert_eq!(world.chain(&both(6 << 20)).await, ok);
    world.gateway.shut_down().await;
}

const BODY_BYTES: usize = 3 << 20;

/// A server whose bodies of unknown size do not begin before as many requests have come as `together` says.
async fn large_bodies(together: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let all = Arc::new(Barrier::new(together));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, all.clone()));
        }
    });
    format!("http://{at}/")
}

async fn answer(mut stream: TcpStream, all: Arc<Barrier>) {
    let mut head = [0; 4096];
    let read = stream.read(&mut head).await.unwrap_or(0);
    let body = "x".repeat(BODY_BYTES);
    if head[..read].starts_with(b"GET /known") {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all((head + &body).as_bytes()).await;
        return;
    }
    all.wait().await;
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").await;
    let _ = stream.write_all(body.as_bytes()).await;
}

/// How so many calls at one time end, counted.
async fn ends(world: &World, call: &str, calls: usize) -> Value {
    let code = format!(
        "const end = async call => {{ try {{ const r = await call; return String((r.body ?? r).length) }} catch (e) {{ \
         return `${{e.code}} ${{/bytes that (this run|this caller|toolgate) may/.exec(e.message)?.[1]}}` }} }}; \
         const all = await Promise.all(Array.from({{ length: {calls} }}, () => end({call}))); \
         const counts = {{}}; for (const one of all) counts[one] = (counts[one] ?? 0) + 1; return counts"
    );
    world.chain(&code).await
}

#[tokio::test]
async fn what_host_functions_receive_counts_in_the_bytes_of_the_run() {
    const CALLS: usize = 6;
    let url = large_bodies(CALLS).await;
    let settings = |bytes: &str| {
        json!({
            "egress": "all",
            "guard": { "allow": ["127.0.0.1"] },
            "limits": { "run_bytes_in_flight": bytes },
            "functions": { "download": { "url": format!("{url}unknown"), "method": "GET" } },
        })
    };
    let servers = json!({ "f": fixture(&[]) });
    let world = World::up_with(servers.clone(), settings("16MB")).await;
    let length = BODY_BYTES.to_string();
    // Bodies whose size is announced wait for each other, and all of them arrive.
    let known = format!("httpCall({{ url: '{url}known' }})");
    assert_eq!(ends(&world, &known, 2 * CALLS).await, json!({ &length: 2 * CALLS }));
    // Others wait as well, for the largest that may come.
    let unknown = [format!("httpCall({{ url: '{url}unknown' }})"), format!("api.fetch('{url}unknown')")];
    for call in unknown.iter().map(String::as_str).chain(["download()"]) {
        assert_eq!(ends(&world, call, CALLS).await, json!({ &length: CALLS }), "{call}");
    }
    // A body counts twice: as it is, and as the text that the program gets.
    world.gateway.reload(world.config(servers, settings("4MB"))).await;
    for call in [known.as_str(), &unknown[0], &unknown[1], "download()"] {
        assert_eq!(ends(&world, call, CALLS).await, json!({ "OVER_BUDGET this run": CALLS }), "{call}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_a_tool_gives_a_host_function_counts_in_the_bytes_of_the_run() {
    let functions = json!({ "large": { "tool": "b.large" } });
    let settings = json!({ "functions": functions, "limits": { "run_bytes_in_flight": "4MB" } });
    let world = World::up_with(json!({ "b": fixture(&[]) }), settings).await;
    let end = |bytes: usize| {
        format!("try {{ await large({{ bytes: {bytes} }}); return 'ok' }} catch (e) {{ return [e.code, e.message] }}")
    };
    assert_eq!(world.chain(&end(1 << 20)).await, json!("ok"));
    let refused = world.chain(&end(6 << 20)).await;
    assert_eq!(refused[0], "OVER_BUDGET", "{refused}");
    assert!(refused[1].as_str().unwrap().contains("bytes that this run may have in flight"), "{refused}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn what_a_client_in_direct_mode_has_not_taken_counts_for_it() {
    const BYTES: usize = 3 << 20;
    let world = World::up(json!({ "b": fixture(&["--offers", "bee"]) })).await;
    let caller = CallerScope { name: "slow".to_owned(), fairness: Some(1), ..CallerScope::default() };
    let scope = RequestScope { caller: caller.clone(), ..scope(ToolMode::Direct) };
    let used = || world.gateway.runner().caller_budget(&caller).used();
    let large = || ToolCall { scope: scope.clone(), ..call("b__large", json!({ "bytes": BYTES })) };
    let answer = Service::call(&world.agent.0, large()).await.unwrap();
    assert!(matches!(&answer, ServiceAnswer::Text(text) if text.as_str().len() >= BYTES), "{answer:?}");
    assert!((BYTES..2 * BYTES).contains(&used()), "{} bytes are counted", used());
    drop(answer);
    assert_eq!(used(), 0);
    // One that asks for more than it may have in flight is told so.
    world
        .gateway
        .reload(world.config(
            json!({ "b": fixture(&["--offers", "bee"]) }),
            json!({ "limits": { "caller_bytes_in_flight": "2MB" } }),
        ))
        .await;
    let refused = world.agent.call(large()).await.unwrap();
    assert_eq!(refused["isError"], true);
    assert!(
        refused["content"][0]["text"].as_str().unwrap().contains("bytes that this caller may have in flight"),
        "{refused}"
    );
    assert_eq!(used(), 0);
    world.gateway.shut_down().await;
}
