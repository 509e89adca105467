//! A person is asked about calls of an agent's program: by the client's own forms, or elsewhere.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_mcp::InteractiveClient;
use toolgate_mcp::server::{RequestScope, Service, ToolCall};
use toolgate_run::durable::{CallDecision, DecisionKind, ListRuns, RunStatus};

use crate::support::{World, call, first_text, fixture, object};

/// A gateway that asks about `f.echo`.
async fn asking() -> World {
    let policy = json!([{ "tool": "f.echo", "do": "ask", "reason": "echoes are checked" }]);
    World::up_with(json!({ "f": fixture(&[]) }), json!({ "policy": policy })).await
}

/// The call of a client of the newest revision with these capabilities and these answers.
fn modern(code: &str, capabilities: Value, answers: Value) -> ToolCall {
    let client = InteractiveClient::new(&object(capabilities), &object(answers));
    ToolCall { interactive_client: Some(client), ..call("call_tool_chain", json!({ "code": code })) }
}

fn forms() -> Value {
    json!({ "elicitation": {} })
}

fn approve_all(asked: &Value) -> Map<String, Value> {
    let approve = json!({ "action": "accept", "content": { "decision": "approve" } });
    asked["inputRequests"].as_object().unwrap().keys().map(|key| (key.clone(), approve.clone())).collect()
}

/// What a program returned.
fn value(result: &Value) -> Value {
    serde_json::from_str(&first_text(result)).unwrap_or_else(|error| panic!("{error}: {result}"))
}

/// Long enough for a person.
async fn think() {
    tokio::time::sleep(Duration::from_millis(260)).await;
}

const TWO: &str = "const a = await f.echo({ n: 1 }); const b = await f.echo({ n: 2 }); return [a.n, b.n]";

#[tokio::test]
async fn a_client_with_forms_is_asked_call_by_call() {
    let world = asking().await;
    let asked = world.agent.call(modern(TWO, forms(), json!({}))).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let message = request["params"]["message"].as_str().unwrap();
    assert!(message.contains("f.echo (echoes are checked)\narguments: {\"n\":1}"), "{message}");
    let state = asked["requestState"].as_str().unwrap();
    assert!(state.len() < 200);

    let edited = json!({ key.as_str(): { "action": "accept", "content": { "decision": "approve", "arguments": "{\"n\":10}" } } });
    let again = json!({ "requestState": state, "inputResponses": edited });
    let asked = world.agent.call(modern(TWO, forms(), again)).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let answers = json!({ "requestState": asked["requestState"], "inputResponses": approve_all(&asked) });
    let done = world.agent.call(modern(TWO, forms(), answers)).await.unwrap();
    assert_eq!(value(&done), json!([10, 2]));
    let calls = &done["_meta"]["toolgate/report"]["calls"];
    assert_eq!(calls[0]["state"], "applied");
    world.gateway.shut_down().await;
}

/// The run waits as before, and the form says why.
#[tokio::test]
async fn an_edit_that_does_not_fit_is_asked_about_again() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let schema = folder.path().join("schema.json");
    std::fs::write(&schema, r#"{"type":"object","properties":{"n":{"type":"number"}}}"#).unwrap();
    let servers = json!({ "f": fixture(&["--schema", schema.to_str().unwrap()]) });
    let policy = json!([{ "tool": "f.echo", "do": "ask", "reason": "echoes are checked" }]);
    let world = World::at(folder, servers, json!({ "policy": policy }));
    let code = "return [(await f.echo({ n: 1 })).n]";
    let asked = world.agent.call(modern(code, forms(), json!({}))).await.unwrap();
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    for edited in [r#"{"n":"bad"}"#, r#"{"n":50000,"n":5}"#] {
        let content = json!({ "decision": "approve", "arguments": edited });
        let responses = json!({ key.as_str(): { "action": "accept", "content": content } });
        let answers = json!({ "requestState": asked["requestState"], "inputResponses": responses });
        let again = world.agent.call(modern(code, forms(), answers)).await.unwrap();
        assert_eq!(again["resultType"], "input_required", "{again}");
        let message = again["inputRequests"][&key]["params"]["message"].as_str().unwrap();
        assert!(message.starts_with("Nothing is decided yet: the arguments"), "{message}");
        assert!(message.contains("arguments: {\"n\":1}"), "{message}");
    }
    let answers = json!({ "requestState": asked["requestState"], "inputResponses": approve_all(&asked) });
    let done = world.agent.call(modern(code, forms(), answers)).await.unwrap();
    assert_eq!(value(&done), json!([1]));
    world.gateway.shut_down().await;
}

/// A person cannot be asked, and the reason is not that the program could have been run otherwise.
#[tokio::test]
async fn a_store_that_cannot_be_opened_is_named_where_a_call_is_asked_about() {
    let folder = std::sync::Arc::new(tempfile::tempdir().unwrap());
    let store = folder.path().join("store");
    std::fs::write(&store, "no database, and longer than the header of one".repeat(10)).unwrap();
    let policy = json!([{ "tool": "f.echo", "do": "ask" }]);
    let settings = json!({ "policy": policy, "runs": { "store": store } });
    let world = World::at(folder, json!({ "f": fixture(&[]) }), settings);
    let failed = world.call("call_tool_chain", json!({ "code": TWO })).await;
    let warnings = failed["_meta"]["toolgate/report"]["warnings"].to_string();
    assert!(warnings.contains("no person can be asked about its calls: durable runs cannot be kept"), "{failed}");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn calls_that_wait_together_are_asked_about_together() {
    let world = asking().await;
    let code = "const all = await Promise.allSettled([1, 2, 3, 4, 5].map(n => f.echo({ n })));
        return all.map(one => one.value?.n ?? one.reason.code)";
    let asked = world.agent.call(modern(code, forms(), json!({}))).await.unwrap();
    let schema = &asked["inputRequests"]["calls"]["params"]["requestedSchema"];
    let ids: Vec<String> = serde_json::from_value(schema["required"].clone()).unwrap();
    assert_eq!(ids.len(), 5, "{asked}");
    let words = ["approve", "deny", "approve", "approve", "deny"];
    let content: Map<String, Value> = ids.into_iter().zip(words.map(Value::from)).collect();
    let responses = json!({ "calls": { "action": "accept", "content": content } });
    let answers = json!({ "requestState": asked["requestState"], "inputResponses": responses });
    let done = world.agent.call(modern(code, forms(), answers)).await.unwrap();
    assert_eq!(value(&done), json!([1, "DENIED", 3, 4, "DENIED"]));
    world.gateway.shut_down().await;
}

/// A correction asks by the same forms as the program that it corrects.
#[tokio::test]
async fn a_correction_is_asked_about_by_forms() {
    let world = asking().await;
    let client = |tool: &str, arguments: Value, answers: Value| ToolCall {
        interactive_client: Some(InteractiveClient::new(&object(forms()), &object(answers))),
        ..call(tool, arguments)
    };
    let answered =
        |asked: &Value| json!({ "requestState": asked["requestState"], "inputResponses": approve_all(asked) });
    let broken = json!({ "code": "await f.echo({ n: 1 }); return missing.field" });
    let asked = world.agent.call(client("call_tool_chain", broken.clone(), json!({}))).await.unwrap();
    let failed = world.agent.call(client("call_tool_chain", broken, answered(&asked))).await.unwrap();
    assert_eq!(failed["isError"], true, "{failed}");
    let run = failed["_meta"]["toolgate/report"]["executionId"].as_str().unwrap();
    let fix = json!({ "run_id": run, "code": TWO });
    let asked = world.agent.call(client("fix_run", fix.clone(), json!({}))).await.unwrap();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let requests = asked["inputRequests"].to_string();
    assert!(requests.contains("{\\\"n\\\":2}") && !requests.contains("{\\\"n\\\":1}"), "only what is new: {requests}");
    let done = world.agent.call(client("fix_run", fix, answered(&asked))).await.unwrap();
    assert_eq!(value(&done), json!([1, 2]), "{done}");
    world.gateway.shut_down().await;
}

/// What a client without forms is told, and the run that waits.
async fn paused(world: &World, result: &Value) -> String {
    let text = first_text(result);
    assert!(text.contains("is paused") && text.contains("You cannot approve"), "{result}");
    assert!(text.contains("f.echo({\"n\":1}): echoes are checked"), "{text}");
    assert_ne!(result["isError"], true, "{result}");
    let runs = world.gateway.runner().durable().await.unwrap();
    let newest = runs.list(ListRuns { most: 1, ..ListRuns::default() }).await.unwrap().runs.remove(0);
    assert!(text.contains(&newest.run), "{text}");
    let view = runs.view(&newest.run, Some("")).await.unwrap();
    assert_eq!((view.summary.status, view.pending.len()), (RunStatus::Paused, 1));
    newest.run
}

/// The report of a run, once it has ended; `None` while it waits for a person.
async fn ended(world: &World, run: &str) -> Option<Value> {
    let runs = world.gateway.runner().durable().await.unwrap();
    loop {
        let view = runs.wait(run, Some(""), Duration::from_secs(1)).await.unwrap();
        match view.summary.status {
            RunStatus::Done => return Some(serde_json::from_str(view.report.unwrap().get()).unwrap()),
            RunStatus::Paused if !view.pending.is_empty() => return None,
            RunStatus::Paused | RunStatus::Running => {}
        }
    }
}

async fn approve_elsewhere(world: &World, run: &str) {
    let runs = world.gateway.runner().durable().await.unwrap();
    let pending = runs.view(run, Some("")).await.unwrap().pending;
    let approve = |call_id| CallDecision {
        call_id,
        decision: DecisionKind::Approve,
        arguments: None,
        reason: None,
        remember: None,
        by: String::new(),
        at: 0,
    };
    runs.decide(run, Some(""), pending.iter().map(|it| approve(it.call_id)).collect()).await.unwrap();
}

const ONE: &str = "return (await f.echo({ n: 1 })).n";

#[tokio::test]
async fn a_client_without_forms_is_told_that_the_run_is_paused() {
    let world = asking().await;
    for client in [call("call_tool_chain", json!({ "code": ONE })), modern(ONE, json!({}), json!({}))] {
        let told = world.agent.call(client).await.unwrap();
        let run = paused(&world, &told).await;
        assert_eq!(ended(&world, &run).await, None);
        approve_elsewhere(&world, &run).await;
        assert_eq!(ended(&world, &run).await.unwrap()["value"], 1);
        let status = world.call("run_status", json!({ "run_id": run })).await;
        assert!(first_text(&status).contains("has ended"), "{status}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_decline_that_no_person_made_counts_as_no_answer() {
    let world = asking().await;
    let decline = |asked: &Value| {
        let keys = asked["inputRequests"].as_object().unwrap().keys();
        let responses: Map<String, Value> = keys.map(|key| (key.clone(), json!({ "action": "decline" }))).collect();
        json!({ "requestState": asked["requestState"], "inputResponses": responses })
    };
    let code = "try { return (await f.echo({ n: 1 })).n } catch (e) { return [e.code, e.message] }";
    let asked = world.agent.call(modern(code, forms(), json!({}))).await.unwrap();
    let told = world.agent.call(modern(code, forms(), decline(&asked))).await.unwrap();
    let run = paused(&world, &told).await;
    approve_elsewhere(&world, &run).await;
    assert_eq!(ended(&world, &run).await.unwrap()["value"], 1);

    let asked = world.agent.call(modern(code, forms(), json!({}))).await.unwrap();
    think().await;
    let denied = world.agent.call(modern(code, forms(), decline(&asked))).await.unwrap();
    assert_eq!(value(&denied), json!(["DENIED", "a person denied f.echo: the person declined"]));
    world.gateway.shut_down().await;
}

/// 25 approvals one after the other. SDK clients stop after ten rounds; the eighth is the last that we ask for.
#[tokio::test]
async fn after_eight_rounds_a_person_is_asked_elsewhere() {
    let world = asking().await;
    let code = "let sum = 0; for (let n = 1; n <= 25; n++) sum += (await f.echo({ n })).n; return sum";
    let (rounds, result) = ask_until_answered(&world, code).await.expect("the client does not give up");
    assert_eq!(rounds, 8);
    assert!(first_text(&result).contains("is paused"), "{result}");
    let runs = world.gateway.runner().durable().await.unwrap();
    let run = runs.list(ListRuns { most: 1, ..ListRuns::default() }).await.unwrap().runs.remove(0).run;
    let report = loop {
        approve_elsewhere(&world, &run).await;
        if let Some(report) = ended(&world, &run).await {
            break report;
        }
    };
    assert_eq!(report["value"], 325);
    world.gateway.shut_down().await;
}

/// A call as JSON is asked about like a program, and so is a program that only reads.
#[tokio::test]
async fn every_way_to_call_a_tool_is_asked_about() {
    let policy = json!([{ "tool": "f.*", "do": "ask", "reason": "all is checked" }]);
    let world = World::up_with(json!({ "f": fixture(&["--reads", "echo"]) }), json!({ "policy": policy })).await;
    let json = json!({ "tool": "f.echo", "arguments": { "n": 1 } }).to_string();
    for (tool, code) in
        [("call_tool_chain", json.as_str()), ("query_tools", &json), ("query_tools", "return await f.echo({ n: 1 })")]
    {
        let asks = |answers: Value| {
            let client = InteractiveClient::new(&object(forms()), &object(answers));
            ToolCall { interactive_client: Some(client), ..call(tool, json!({ "code": code })) }
        };
        let asked = world.agent.call(asks(json!({}))).await.unwrap();
        assert_eq!(asked["resultType"], "input_required", "{tool} {code}: {asked}");
        let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        let message = request["params"]["message"].as_str().unwrap();
        assert!(message.contains("f.echo (all is checked)\narguments: {\"n\":1}"), "{message}");
        let edited = json!({ key.as_str(): { "action": "accept", "content": { "decision": "approve", "arguments": "{\"n\":10}" } } });
        let answers = json!({ "requestState": asked["requestState"], "inputResponses": edited });
        let done = world.agent.call(asks(answers)).await.unwrap();
        assert_eq!(value(&done)["n"], 10, "{done}");
        let decision = &done["_meta"]["toolgate/report"]["calls"][0]["decision"];
        assert_eq!(decision["verdict"], "edited", "{done}");
        // Denied, the report of a call points nowhere.
        let denied = json!({ key.as_str(): { "action": "accept", "content": { "decision": "deny" } } });
        let asked = world.agent.call(asks(json!({}))).await.unwrap();
        let answers = json!({ "requestState": asked["requestState"], "inputResponses": denied });
        let done = world.agent.call(asks(answers)).await.unwrap();
        let text = first_text(&done);
        assert!(done["isError"] == true && text.contains("a person denied f.echo"), "{text}");
        assert_eq!(text.contains("at line"), !code.starts_with('{'), "{text}");
    }
    world.gateway.shut_down().await;
}

/// Client libraries give up after this many rounds of one request.
const CLIENT_ROUNDS: usize = 10;

/// A client that sends its request again with what its person approves, as client libraries do; `Err` where it gives up.
async fn ask_until_answered(world: &World, code: &str) -> Result<(usize, Value), String> {
    let mut result = world.agent.call(modern(code, forms(), json!({}))).await.unwrap();
    for round in 0..CLIENT_ROUNDS {
        if result["resultType"] != "input_required" {
            return Ok((round, result));
        }
        let answers = json!({ "requestState": result["requestState"], "inputResponses": approve_all(&result) });
        result = world.agent.call(modern(code, forms(), answers)).await.unwrap();
    }
    Err(format!("it asked more than {CLIENT_ROUNDS} times: {result}"))
}

/// SECURITY.md: nothing that a model can write approves a call.
#[tokio::test]
async fn a_model_cannot_approve() {
    let world = asking().await;
    let asked = world.agent.call(modern(ONE, forms(), json!({}))).await.unwrap();
    let answers = json!({ "requestState": asked["requestState"], "inputResponses": approve_all(&asked) });
    // In the arguments, which a model writes, they are refused or mean nothing.
    let forged = [
        call(
            "call_tool_chain",
            json!({ "code": ONE, "requestState": answers["requestState"], "inputResponses": answers["inputResponses"] }),
        ),
        modern(ONE, forms(), json!({ "requestState": "AAAA", "inputResponses": answers["inputResponses"] })),
    ];
    for call in forged {
        let result = world.agent.call(call).await;
        let refused = result.as_ref().is_err() || result.as_ref().is_ok_and(|result| result["isError"] == true);
        assert!(refused, "{result:?}");
    }
    // Nor does a tool that a model sees, called with everything that it could know.
    let run = {
        let runs = world.gateway.runner().durable().await.unwrap();
        let listed = runs.list(ListRuns { most: 10, ..ListRuns::default() }).await.unwrap();
        listed.runs[0].run.clone()
    };
    for tool in world.agent.tools(&RequestScope::default()) {
        let name = tool["name"].as_str().unwrap();
        for arguments in [
            json!({ "run_id": run }),
            json!({ "run_id": run, "decision": "approve" }),
            json!({ "code": format!("return approve('{run}')"), "timeout": 1000 }),
            json!({ "result_id": run, "code": "(d) => d" }),
        ] {
            let _ = world.agent.call(call(name, arguments)).await;
        }
    }
    let runs = world.gateway.runner().durable().await.unwrap();
    let view = runs.view(&run, Some("")).await.unwrap();
    assert_eq!((view.summary.status, view.pending.len()), (RunStatus::Paused, 1), "it still waits");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn an_approval_for_the_run_answers_its_other_calls() {
    let world = asking().await;
    let asked = world.agent.call(modern(TWO, forms(), json!({}))).await.unwrap();
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let responses =
        json!({ key.as_str(): { "action": "accept", "content": { "decision": "approve", "remember": "run" } } });
    let answers = json!({ "requestState": asked["requestState"], "inputResponses": responses });
    let done = world.agent.call(modern(TWO, forms(), answers)).await.unwrap();
    assert_eq!(value(&done), json!([1, 2]));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_client_that_opens_urls_is_sent_to_the_page() {
    let world = asking().await;
    let urls = || json!({ "elicitation": { "url": {} } });
    let told = world.agent.call(modern(ONE, urls(), json!({}))).await.unwrap();
    assert!(first_text(&told).contains("is paused"), "there is no page: {told}");

    world.gateway.runner().set_page("http://127.0.0.1:7878/".to_owned());
    let asked = world.agent.call(modern(ONE, urls(), json!({}))).await.unwrap();
    let params = &asked["inputRequests"]["page"]["params"];
    assert_eq!(
        (&params["mode"], &params["url"]),
        (&json!("url"), &json!("http://127.0.0.1:7878/#/pending")),
        "{asked}"
    );
    let run = params["elicitationId"].as_str().unwrap().to_owned();
    let answer = |action: &str| json!({ "requestState": asked["requestState"], "inputResponses": { "page": { "action": action } } });
    let told = world.agent.call(modern(ONE, urls(), answer("decline"))).await.unwrap();
    assert!(first_text(&told).contains("is paused"), "declining to open it decides nothing: {told}");

    let opened = world.agent.call(modern(ONE, urls(), answer("accept")));
    let (done, ()) = tokio::join!(opened, async {
        think().await;
        approve_elsewhere(&world, &run).await;
    });
    let done = done.unwrap();
    assert_eq!(value(&done), json!(1), "what was decided there is the answer here: {done}");
    // Forms come first where a client has both.
    let both = json!({ "elicitation": { "form": {}, "url": {} } });
    let asked = world.agent.call(modern(ONE, both, json!({}))).await.unwrap();
    assert!(asked["inputRequests"].get("page").is_none(), "{asked}");
    // A form that was declined unseen is no answer: the page comes next. A busy machine may make the decline look seen.
    let mut told = Value::Null;
    for _ in 0..20 {
        let both = || json!({ "elicitation": { "form": {}, "url": {} } });
        let asked = world.agent.call(modern(ONE, both(), json!({}))).await.unwrap();
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let declined =
            json!({ "requestState": asked["requestState"], "inputResponses": { key: { "action": "decline" } } });
        told = world.agent.call(modern(ONE, both(), declined)).await.unwrap();
        if told["resultType"] == "input_required" {
            break;
        }
    }
    assert_eq!(told["inputRequests"]["page"]["params"]["mode"], "url", "{told}");
    world.gateway.shut_down().await;
}
