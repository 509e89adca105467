//! The configured bytes in flight hold for what servers answer and programs send.

use serde_json::json;

use crate::support::{World, fixture};

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
