//! A server that asks something itself before it carries out a call of a program.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_mcp::InteractiveClient;
use toolgate_mcp::server::ToolCall;
use toolgate_run::RunRequest;
use toolgate_run::durable::{About, CallDecision, DecisionKind, DurableError, PendingView, RunStatus};
use toolgate_run::stage::Staging;
use toolgate_wire::Profile;

use crate::support::{TEST_TIMEOUT, World, call, first_text, fixture, object};

async fn world() -> World {
    World::up(json!({ "f": fixture(&["--era", "modern"]) })).await
}

fn code(world: &World) -> String {
    let file = json!(world.folder.path().join("said").to_str().unwrap());
    format!("try {{ return await f.asks_back({{ file: {file} }}) }} catch (e) {{ return [e.code, e.message] }}")
}

fn said(world: &World) -> Vec<String> {
    let file: &Path = &world.folder.path().join("said");
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// How often a server of an earlier revision has begun to carry out the call.
fn starts(world: &World) -> usize {
    std::fs::read_to_string(world.folder.path().join("said.starts")).unwrap_or_default().lines().count()
}

fn decision(call_id: u32, decision: DecisionKind, arguments: Option<Value>) -> CallDecision {
    let arguments = arguments.map(|value| RawValue::from_string(value.to_string()).unwrap());
    CallDecision { call_id, decision, arguments, reason: None, remember: None, by: String::new(), at: 0 }
}

/// The run that a program has become, and what it waits for.
async fn begun(world: &World, code: &str) -> (String, PendingView) {
    let told = world.call("call_tool_chain", json!({ "code": code, "durable": true })).await;
    assert!(first_text(&told).contains("is paused"), "{told}");
    let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap().to_owned();
    let question = waits(world, &run).await.unwrap();
    (run, question)
}

/// The question of a run; `Err` with its value where it has ended, or with its report where it failed.
async fn waits(world: &World, run: &str) -> Result<PendingView, Value> {
    let runs = world.gateway.runner().durable().await.unwrap();
    loop {
        let view = runs.wait(run, Some(""), Duration::from_secs(1)).await.unwrap();
        match view.summary.status {
            RunStatus::Done => {
                let report: Value = serde_json::from_str(view.report.unwrap().get()).unwrap();
                return Err(if report["ok"] == true { report["value"].clone() } else { report });
            }
            RunStatus::Paused if !view.pending.is_empty() => return Ok(view.pending[0].clone()),
            RunStatus::Paused | RunStatus::Running => {}
        }
    }
}

async fn decide(world: &World, run: &str, decision: CallDecision) -> Result<(), DurableError> {
    let runs = world.gateway.runner().durable().await.unwrap();
    runs.decide(run, Some(""), vec![decision]).await.map(drop)
}

#[tokio::test]
async fn a_person_answers_a_server_inside_a_program() {
    let world = world().await;
    let (run, question) = begun(&world, &code(&world)).await;
    let About::Form { message, schema } = &question.about else { panic!("{question:?}") };
    assert_eq!((message.as_str(), &schema["required"]), ("Who is meant?", &json!(["name"])));
    assert_eq!((question.tool.as_str(), question.reason.as_str()), ("asks_back", "f asks: Who is meant?"));
    assert!(said(&world).is_empty());
    for wrong in [
        decision(question.call_id, DecisionKind::Approve, None),
        decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": 7 }))),
        decision(question.call_id, DecisionKind::Edit, Some(json!({ "name": "Ann" }))),
    ] {
        assert!(matches!(decide(&world, &run, wrong).await, Err(DurableError::BadDecision { .. })));
    }
    let answer = decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Ann" })));
    decide(&world, &run, answer).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Ann");
    assert_eq!(said(&world), ["Ann"], "carried out once");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_server_may_ask_again_and_a_person_may_decline() {
    let world = world().await;
    let (run, first) = begun(&world, &code(&world)).await;
    let bob = |question: &PendingView| decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Bob" })));
    decide(&world, &run, bob(&first)).await.unwrap();
    let second = waits(&world, &run).await.unwrap();
    assert_eq!(second.reason, "f asks: Which Bob?");
    assert_ne!(second.call_id, first.call_id, "each question is decided under a number of its own");
    decide(&world, &run, bob(&second)).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Bob");
    assert_eq!(said(&world), ["Bob"]);

    let (run, question) = begun(&world, &code(&world)).await;
    decide(&world, &run, decision(question.call_id, DecisionKind::Deny, None)).await.unwrap();
    let declined = "f.asks_back asked a question, and a person declined: a person denied it";
    assert_eq!(waits(&world, &run).await.unwrap_err(), json!(["DENIED", declined]));
    assert_eq!(said(&world), ["Bob"]);
    world.gateway.shut_down().await;
}

/// The `requestState` of each request that the server got for the call.
fn states(world: &World) -> Vec<String> {
    let file = world.folder.path().join("said.states");
    std::fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// What a server gave with its question is kept with the run: another gateway answers as if it had asked, with the state of the last
/// question. A server that does not take its state any more is called from the beginning, and answered at once.
#[tokio::test]
async fn the_state_of_a_server_is_sent_back_by_another_gateway() {
    for (void, expected) in [
        (None, ["None", "first", "second"].as_slice()),
        (Some("second"), &["None", "first", "second", "None", "first"]),
    ] {
        let servers = json!({ "f": fixture(&["--era", "modern"]) });
        let world = World::up(servers.clone()).await;
        let code = code(&world).replace("({ file: ", &format!("({{ void: {}, file: ", json!(void)));
        let (run, first) = begun(&world, &code).await;
        let bob =
            |question: &PendingView| decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Bob" })));
        decide(&world, &run, bob(&first)).await.unwrap();
        let second = waits(&world, &run).await.unwrap();
        assert_eq!(second.reason, "f asks: Which Bob?");
        let shown = serde_json::to_string(&second).unwrap();
        assert!(!shown.contains("askedInput"), "what is the server's own is not shown: {shown}");
        world.gateway.shut_down().await;
        let next = World::at(Arc::clone(&world.folder), servers, json!({}));
        next.gateway.settled(TEST_TIMEOUT, |_| true).await;
        decide(&next, &run, bob(&second)).await.unwrap();
        if void.is_none() {
            assert_eq!(waits(&next, &run).await.unwrap_err(), "hello Bob");
            assert_eq!(said(&next), ["Bob"], "carried out once");
        } else {
            // The server asks its second question again, with the state that it does not take.
            let ended = waits(&next, &run).await.unwrap_err();
            assert!(ended.to_string().contains("requestState"), "{ended}");
            assert!(said(&next).is_empty());
        }
        assert_eq!(states(&next)[..expected.len()], *expected, "{:?}", states(&next));
        next.gateway.shut_down().await;
    }
}

#[tokio::test]
async fn a_client_with_forms_shows_the_form_of_the_server() {
    let world = world().await;
    let code = code(&world);
    let asks = |answers: Value| {
        let client = InteractiveClient::new(&object(json!({ "elicitation": {} })), &object(answers));
        ToolCall {
            interactive_client: Some(client),
            ..call("call_tool_chain", json!({ "code": code, "durable": true }))
        }
    };
    let asked = world.agent.call(asks(json!({}))).await.unwrap();
    let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["params"]["requestedSchema"]["properties"]["name"]["title"], "Name", "{asked}");
    let message = request["params"]["message"].as_str().unwrap();
    assert!(message.contains("f.asks_back (f asks: Who is meant?)"), "{message}");
    let responses = json!({ key.as_str(): { "action": "accept", "content": { "name": "Cleo" } } });
    let answers = json!({ "requestState": asked["requestState"], "inputResponses": responses });
    let done = world.agent.call(asks(answers)).await.unwrap();
    assert_eq!(first_text(&done), "hello Cleo", "{done}");
    world.gateway.shut_down().await;
}

/// A program that was not asked for as a durable run begins again as one when its server asks: nothing was changed before. The next
/// one is kept from its start.
#[tokio::test]
async fn a_server_may_ask_in_any_program() {
    for (era, sent) in [("modern", [3, 5]), ("legacy", [3, 5])] {
        let world = World::up(json!({ "f": fixture(&["--era", era]) })).await;
        let attempts = || if era == "modern" { states(&world).len() } else { starts(&world) };
        // A careful server asks only a client that declares forms.
        let code = code(&world).replace("({ file: ", "({ careful: true, file: ");
        let json = json!({ "tool": "f.asks_back", "arguments": { "file": world.folder.path().join("said") } });
        for (at, code) in [code, json.to_string()].into_iter().enumerate() {
            let told = world.call("call_tool_chain", json!({ "code": code })).await;
            assert!(first_text(&told).contains("is paused"), "{era}: {told}");
            let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap().to_owned();
            let question = waits(&world, &run).await.unwrap();
            let ann = decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Ann" })));
            decide(&world, &run, ann).await.unwrap();
            assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Ann");
            assert_eq!((said(&world).len(), attempts()), (at + 1, sent[at]), "{era}: carried out once");
        }
        world.gateway.shut_down().await;
    }
}

/// Calls that ask at the same time have changed nothing: the program begins again as one that waits for all of them.
#[tokio::test]
async fn two_calls_that_ask_at_one_time_are_no_change() {
    let world = world().await;
    let file = json!(world.folder.path().join("said").to_str().unwrap());
    let call = format!("f.asks_back({{ careful: true, file: {file} }})");
    let code = format!("return await Promise.all([{call}, {call}])");
    let told = world.call("call_tool_chain", json!({ "code": code })).await;
    assert!(first_text(&told).contains("is paused"), "{told}");
    let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap().to_owned();
    for name in ["Ann", "Ben"] {
        let question = waits(&world, &run).await.unwrap();
        decide(&world, &run, decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": name }))))
            .await
            .unwrap();
    }
    let mut greeted: Vec<Value> = waits(&world, &run).await.unwrap_err().as_array().unwrap().clone();
    greeted.sort_by_key(Value::to_string);
    assert_eq!(
        (greeted, said(&world).len()),
        (vec![json!("hello Ann"), json!("hello Ben")], 2),
        "carried out once each"
    );
    world.gateway.shut_down().await;
}

/// The first attempt of a program that begins again counts for nothing, and neither does going on with a call.
#[tokio::test]
async fn a_call_of_a_program_that_begins_again_counts_once_in_its_day() {
    let policy = json!([{ "tool": "f.asks_back", "do": "allow", "limits": "1 a day" }]);
    let servers = json!({ "f": fixture(&["--era", "modern"]) });
    let world = World::up_with(servers, json!({ "policy": policy })).await;
    let told = world.call("call_tool_chain", json!({ "code": code(&world) })).await;
    assert!(first_text(&told).contains("is paused"), "{told}");
    let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap().to_owned();
    let question = waits(&world, &run).await.unwrap();
    let ann = decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Ann" })));
    decide(&world, &run, ann).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Ann");
    let text = world.text("call_tool_chain", json!({ "code": code(&world) })).await;
    assert!(text.contains("DENIED"), "the one of today was made: {text}");
    assert_eq!(said(&world).len(), 1);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_program_that_has_changed_something_does_not_begin_again() {
    let world = world().await;
    let code = code(&world).replace("try {", "await f.echo({ n: 1 }); try {");
    let text = world.text("call_tool_chain", json!({ "code": code })).await;
    assert!(text.contains("INPUT_REQUIRED") && text.contains("cannot wait for one"), "{text}");
    assert!(said(&world).is_empty());
    // What has asked once is expected to ask: the next program is kept.
    let told = world.call("call_tool_chain", json!({ "code": code })).await;
    assert!(first_text(&told).contains("is paused"), "{told}");
    world.gateway.shut_down().await;
}

/// A read whose server asks something ends a rehearsal: after the review it is made and waits as in any run.
#[tokio::test]
async fn a_read_that_asks_waits_after_the_review_of_a_staged_run() {
    for era in ["modern", "legacy"] {
        let world = World::up(json!({ "f": fixture(&["--era", era, "--reads", "asks_back"]) })).await;
        let file = json!(world.folder.path().join("said").to_str().unwrap());
        let code = format!("await f.echo({{ n: 1 }}); return await f.asks_back({{ careful: true, file: {file} }})");
        let request = RunRequest { staging: Staging::Wanted, ..RunRequest::new(Profile::Chain, code.clone()) };
        let report = world.gateway.runner().run(request).await;
        let failure = report.report.failure().unwrap().message.clone();
        assert!(failure.ends_with("the answer to f.asks_back: its server asks a person something"), "{failure}");
        assert_eq!(report.review.unwrap().len(), 1, "the write before it");

        let told = world.call("call_tool_chain", json!({ "code": code, "stage": true })).await;
        let run = told["_meta"]["toolgate/report"]["paused"]["runId"].as_str().unwrap().to_owned();
        let line = waits(&world, &run).await.unwrap();
        assert_eq!((line.tool.as_str(), line.staged.is_some()), ("echo", true), "{line:?}");
        decide(&world, &run, decision(line.call_id, DecisionKind::Approve, None)).await.unwrap();
        let question = waits(&world, &run).await.unwrap();
        assert!(matches!(question.about, About::Form { .. }), "{era}: {question:?}");
        let ann = decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Ann" })));
        decide(&world, &run, ann).await.unwrap();
        assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Ann");
        assert_eq!(said(&world), ["Ann"], "{era}: carried out once");
        world.gateway.shut_down().await;
    }
}

/// A server of an earlier revision asks while it holds the call open: it is told to stop, and called again with the answer.
#[tokio::test]
async fn a_person_answers_a_server_of_an_earlier_revision() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let (run, first) = begun(&world, &code(&world)).await;
    let About::Form { message, schema } = &first.about else { panic!("{first:?}") };
    assert_eq!((message.as_str(), &schema["required"]), ("Who is meant?", &json!(["name"])));
    // Whoever answers is told what the answer does.
    assert_eq!(first.reason, "f asks: Who is meant? (with an answer the call is made again, from its beginning)");
    assert!(said(&world).is_empty());
    let bob = |question: &PendingView| decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Bob" })));
    decide(&world, &run, bob(&first)).await.unwrap();
    let second = waits(&world, &run).await.unwrap();
    assert!(second.reason.starts_with("f asks: Which Bob?"), "{second:?}");
    decide(&world, &run, bob(&second)).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Bob");
    assert_eq!(said(&world), ["Bob"], "carried out once");

    let (run, question) = begun(&world, &code(&world)).await;
    decide(&world, &run, decision(question.call_id, DecisionKind::Deny, None)).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err()[0], "DENIED");
    assert_eq!(said(&world), ["Bob"]);
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn an_answer_makes_the_call_of_an_earlier_revision_once_more_and_a_refusal_does_not() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let (run, question) = begun(&world, &code(&world)).await;
    assert_eq!(starts(&world), 1);
    let answer = decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Ann" })));
    decide(&world, &run, answer).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err(), "hello Ann");
    assert_eq!((starts(&world), said(&world)), (2, vec!["Ann".to_owned()]));

    let (run, question) = begun(&world, &code(&world)).await;
    decide(&world, &run, decision(question.call_id, DecisionKind::Deny, None)).await.unwrap();
    assert_eq!(waits(&world, &run).await.unwrap_err()[0], "DENIED");
    assert_eq!(starts(&world), 3, "begun once, and not again");
    world.gateway.shut_down().await;
}

/// The first attempt was sent, so the effect of the call is not known, although the second one was not.
#[tokio::test]
async fn a_call_that_cannot_be_made_again_was_sent() {
    let world = World::up(json!({ "f": fixture(&[]) })).await;
    let (run, question) = begun(&world, &code(&world)).await;
    world.gateway.reload(world.config(json!({}), json!({}))).await;
    let answer = decision(question.call_id, DecisionKind::Answer, Some(json!({ "name": "Ann" })));
    decide(&world, &run, answer).await.unwrap();
    let ended = waits(&world, &run).await.unwrap_err();
    let runs = world.gateway.runner().durable().await.unwrap();
    let report = runs.view(&run, Some("")).await.unwrap().report.unwrap();
    let report: Value = serde_json::from_str(report.get()).unwrap();
    assert_eq!(report["calls"][0]["state"], "unknown", "{ended} {report}");
    assert_eq!(starts(&world), 1);
    world.gateway.shut_down().await;
}
