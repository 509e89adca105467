//! Where programs may send HTTP requests, and what the ledger says about the effects of calls.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use toolgate_mcp::server::{RequestScope, Service};

use crate::support::{World, fixture};

async fn world(settings: Value) -> World {
    World::up_with(json!({ "f": fixture(&[]) }), settings).await
}

/// A server that answers a GET and closes the connection of everything else.
async fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let read = stream.read(&mut head).await.unwrap_or(0);
            if head[..read].starts_with(b"GET") {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi").await;
            }
        }
    });
    format!("http://{at}/")
}

async fn report(world: &World, code: &str) -> Value {
    world.call("call_tool_chain", json!({ "code": code })).await["_meta"]["toolgate/report"].clone()
}

fn described(world: &World) -> String {
    world.agent.tools(&RequestScope::default()).iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn by_default_programs_have_no_network() {
    let world = world(json!({})).await;
    assert_eq!(world.chain("return typeof httpCall").await, json!("undefined"));
    let snippet = world.call("run_code", json!({ "code": "return typeof httpCall" })).await;
    assert!(snippet.to_string().contains("undefined"), "{snippet}");
    let text = described(&world);
    assert!(!text.contains("httpCall") && !text.contains("getWeather") && text.contains("no network"), "{text}");
    let failed = world.call("call_tool_chain", json!({ "code": "return httpCall({ url: 'https://a.test' })" })).await;
    assert!(failed.to_string().contains("`toolgate.egress` is off"), "{failed}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn with_all_hosts_programs_have_every_function() {
    let world = world(json!({ "egress": "all" })).await;
    let found = world.chain("return [typeof httpCall, typeof api.fetch, typeof api.getWeather]").await;
    assert_eq!(found, json!(["function", "function", "function"]));
    assert!(described(&world).contains("httpCall"));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_list_of_hosts_permits_these_only() {
    let world = world(json!({ "egress": ["127.0.0.0/8"], "guard": { "allow": ["127.0.0.0/8"] } })).await;
    let url = server().await;
    assert_eq!(world.chain("return [typeof httpCall, typeof api.getWeather]").await, json!(["function", "undefined"]));
    let sent = report(&world, &format!("return (await httpCall({{ url: '{url}' }})).status")).await;
    assert_eq!(
        (&sent["ok"], &sent["calls"][0]["readOnly"], &sent["safe_to_retry"]),
        (&json!(true), &json!(true), &json!(true)),
        "{sent}"
    );
    let code =
        "try { await httpCall({ url: 'https://example.com/', method: 'POST' }) } catch (error) { return error.code }";
    let refused = report(&world, code).await;
    assert_eq!(
        (&refused["calls"][0]["state"], &refused["safe_to_retry"]),
        (&json!("not_sent"), &json!(true)),
        "{refused}"
    );
    let code =
        format!("try {{ await httpCall({{ url: '{url}', method: 'POST' }}) }} catch (error) {{ return error.code }}");
    let lost = report(&world, &code).await;
    assert_eq!((&lost["calls"][0]["state"], &lost["safe_to_retry"]), (&json!("unknown"), &json!(false)), "{lost}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_failure_that_a_tool_reports_does_not_prove_that_it_did_nothing() {
    let world = world(json!({ "functions": { "breaks": { "tool": "f.fail" } } })).await;
    for call in ["f.fail({})", "breaks({})"] {
        let failed = report(&world, &format!("try {{ await {call} }} catch {{}} return 1")).await;
        let (state, retry) = (&failed["calls"][0]["state"], &failed["safe_to_retry"]);
        assert_eq!((state, retry), (&json!("failed"), &json!(false)), "{call}: {failed}");
    }
    world.gateway.shut_down().await;
}
