//! The backends' own resources and prompts, passed through.

use serde_json::{Value, json};
use toolgate_mcp::server::{Completion, Fault, PromptCall, RequestScope, ResourceCall, Service, ToolMode};
use toolgate_wire::{Access, CallerScope};

use crate::support::{World, fixture, object, resource, scope};

async fn two_backends() -> World {
    let servers = json!({ "a": fixture(&["--offers", "ant"]), "b": fixture(&["--offers", "bee", "--era", "modern"]) });
    World::up(servers).await
}

/// These entries' own keys, without what the gateway has itself.
fn keys(entries: &[Value], key: &str) -> Vec<String> {
    let keys = entries.iter().filter_map(|entry| entry[key].as_str()).filter(|it| !it.starts_with("toolgate://"));
    keys.map(str::to_owned).collect()
}

async fn read(world: &World, uri: &str, scope: &RequestScope) -> Result<String, Fault> {
    let contents = world.agent.read(resource(uri, scope)).await?;
    Ok(contents[0]["text"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn resources_keep_their_uris_and_each_is_listed_once() {
    let world = two_backends().await;
    let listed = world.agent.resources(&scope(ToolMode::Direct)).await.unwrap();
    assert_eq!(keys(&listed, "uri"), ["ant://one", "ant://two", "shared://all", "bee://one", "bee://two"]);
    assert_eq!(listed.iter().filter(|it| it["uri"] == "toolgate://health").count(), 1);
    let templates = world.agent.resource_templates(&scope(ToolMode::Both)).await.unwrap();
    assert_eq!(keys(&templates, "uriTemplate"), ["ant://item/{id}", "bee://item/{id}"]);
    assert_eq!(keys(&world.agent.resources(&scope(ToolMode::Code)).await.unwrap(), "uri"), Vec::<String>::new());
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_resource_is_read_from_the_backend_whose_it_is() {
    let world = two_backends().await;
    let direct = scope(ToolMode::Direct);
    assert_eq!(read(&world, "bee://one", &direct).await.unwrap(), "from bee");
    assert_eq!(read(&world, "bee://item/7", &direct).await.unwrap(), "from bee");
    assert_eq!(read(&world, "shared://all", &direct).await.unwrap(), "from ant");
    assert!(read(&world, "toolgate://health", &direct).await.unwrap().contains("status"));
    for (uri, view) in
        [("cat://one", ToolMode::Direct), ("ant://item/missing", ToolMode::Direct), ("ant://one", ToolMode::Code)]
    {
        assert!(matches!(read(&world, uri, &scope(view)).await, Err(Fault::NotFound(_))), "{uri}");
    }
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn lists_are_asked_for_again_only_when_they_changed() {
    let world = two_backends().await;
    let direct = scope(ToolMode::Direct);
    let asked = async |method: &str| {
        let text = read(&world, "ant://item/asked", &direct).await.unwrap();
        serde_json::from_str::<Value>(&text).unwrap()[method].clone()
    };
    for _ in 0..3 {
        read(&world, "ant://one", &direct).await.unwrap();
        world.agent.prompts(&direct).await.unwrap();
    }
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        assert_eq!(asked(method).await, 1, "{method}");
    }
    world.chain("return await a.grow_resource({ name: 'three' })").await;
    let listed = world.agent.resources(&direct).await.unwrap();
    assert!(keys(&listed, "uri").contains(&"ant://three".to_owned()));
    assert_eq!((asked("resources/list").await, asked("prompts/list").await), (json!(2), json!(1)));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn the_only_backend_with_resources_is_asked_for_those_that_no_list_has() {
    let world = World::up(json!({ "a": fixture(&["--offers", "ant"]), "f": fixture(&[]) })).await;
    assert_eq!(read(&world, "link://from-a-tool", &scope(ToolMode::Direct)).await.unwrap(), "from ant");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn a_caller_sees_only_what_its_backends_have() {
    let world = two_backends().await;
    let scope = RequestScope {
        mode: ToolMode::Direct,
        caller: CallerScope { backends: Access::only(["b"]), ..CallerScope::default() },
    };
    let listed = world.agent.resources(&scope).await.unwrap();
    assert_eq!(keys(&listed, "uri"), ["bee://one", "bee://two", "shared://all"]);
    let prompts = world.agent.prompts(&scope).await.unwrap();
    assert_eq!(keys(&prompts, "name"), ["b__greet", "b__discover"]);
    let hidden = PromptCall { name: "a__greet".to_owned(), scope: scope.clone(), ..PromptCall::default() };
    assert!(matches!(world.agent.prompt(hidden).await, Err(Fault::NotFound(_))));
    assert_eq!(read(&world, "shared://all", &scope).await.unwrap(), "from bee");
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn clients_take_turns_at_a_backend() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let settings = json!({ "backends": { "a": { "max_concurrent_calls": 1 } } });
    let world = World::up_with(json!({ "a": fixture(&["--offers", "ant"]) }), settings).await;
    let backend = world.gateway.backend("a").unwrap();
    let (said, mut served) = tokio::sync::mpsc::unbounded_channel();
    let ask = async |caller: u64, uri: &str, waiting: usize| {
        let call = ResourceCall { caller, ..resource(uri, &scope(ToolMode::Direct)) };
        let (answer, said) = (world.agent.read(call), said.clone());
        tokio::spawn(async move {
            answer.await.unwrap();
            said.send(caller).unwrap();
        });
        while (backend.stats().in_flight, backend.stats().queued) != (1, waiting) {
            tokio::task::yield_now().await;
        }
    };
    ask(1, &format!("ant://item/until?{}", gate.display()), 0).await;
    ask(1, "ant://one", 1).await;
    ask(1, "ant://two", 2).await;
    ask(2, "ant://one", 3).await;
    std::fs::write(&gate, "").unwrap();
    let order = [served.recv().await, served.recv().await, served.recv().await, served.recv().await];
    assert_eq!(order, [1, 1, 2, 1].map(Some));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn prompts_are_named_as_tools_are_and_filled_in_by_their_backend() {
    let world = two_backends().await;
    let names = async |view| keys(&world.agent.prompts(&scope(view)).await.unwrap(), "name");
    let passed_on = ["a__greet", "a__discover", "b__greet", "b__discover"];
    assert_eq!(names(ToolMode::Direct).await, passed_on);
    assert_eq!(names(ToolMode::Both).await, [&["discover", "find_tool", "backend_status"], &passed_on[..]].concat());
    let arguments = object(json!({ "whom": "you" }));
    let call =
        PromptCall { name: "b__greet".to_owned(), arguments, scope: scope(ToolMode::Direct), ..PromptCall::default() };
    let filled_in = world.agent.prompt(call).await.unwrap();
    assert_eq!(filled_in["messages"][0]["content"]["text"], "bee greet you");
    let listed = world.agent.prompts(&scope(ToolMode::Direct)).await.unwrap();
    assert_eq!(listed[0], json!({ "name": "a__greet" }));
    world.gateway.shut_down().await;
}

#[tokio::test]
async fn arguments_are_completed_by_the_backend_they_are_for() {
    let world = two_backends().await;
    let complete = async |reference: Value| {
        let (argument, typed, scope) = ("x".to_owned(), "ty".to_owned(), scope(ToolMode::Direct));
        let asked = Completion { reference, argument, typed, scope, ..Completion::default() };
        world.agent.complete(asked).await.unwrap()
    };
    let prompt = json!({ "type": "ref/prompt", "name": "b__greet" });
    assert_eq!(complete(prompt).await, ["bee", "greet", "ty"]);
    let template = json!({ "type": "ref/resource", "uri": "ant://item/{id}" });
    assert_eq!(complete(template).await, ["ant", "ant://item/{id}", "ty"]);
    assert_eq!(complete(json!({ "type": "ref/prompt", "name": "nobody" })).await, Vec::<String>::new());
    world.gateway.shut_down().await;
}
