//! Logins that are missing or of no use: what `list`, `login`, calls and the HTTP service say of them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake::{Behaviour, Fault};
use crate::serving::{ask, backend, open, serve_http};
use crate::user::{Server, User, follow, wait_for};
use crate::{user_of_pets, user_of_pets_with};

#[test]
fn an_api_that_nobody_has_logged_in_to_needs_a_login() {
    let (user, _server) = user_of_pets();
    let listed = user.run(&["list"]);
    assert!(listed.code == 1 && listed.stdout.contains("needs login"), "{listed:?}");
    assert!(listed.stdout.contains("run `toolgate login pets`"), "{listed:?}");
    let mut gateway = open(&user);
    let mut id = 2;
    let mut read = |method: &str, params: Value| {
        id += 1;
        let answer = ask(&mut gateway, id, method, params);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().or_else(|| result["contents"][0]["text"].as_str());
        serde_json::from_str::<Value>(text.unwrap_or_else(|| panic!("{answer}"))).unwrap()
    };
    let keys = json!({ "name": "get_required_keys_for_tool", "arguments": { "tool_name": "pets.listPets" } });
    let shown = json!({ "uri": "toolgate://backend/pets" });
    let scheme = |is_set: bool| json!([{ "name": "oauth", "kind": "security scheme", "set": is_set }]);
    assert_eq!(read("tools/call", keys.clone())["keys"], scheme(false));
    // It may be starting meanwhile.
    wait_for(|| read("resources/read", shown.clone())["state"] == "needs login");
    assert!(read("resources/read", shown.clone())["detail"].to_string().contains("toolgate login pets"));
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    let listed = user.run(&["list"]);
    assert!(listed.code == 0 && listed.stdout.contains("ready"), "{listed:?}");
    assert_eq!(read("tools/call", keys)["keys"], scheme(true));
    assert_ne!(read("resources/read", shown)["state"], "needs login");
    user.check_no_secret();
}

#[test]
fn the_login_that_an_api_lacks_is_begun_over_http() {
    let (user, _server) = user_of_pets();
    let config: Value =
        serde_json::from_str(&std::fs::read_to_string(user.home().join(".config/toolgate/toolgate.json")).unwrap())
            .unwrap();
    let (gateway, address) = serve_http(&user, &config["mcpServers"]);
    wait_for(|| backend(&address, "pets")["state"] == "needs-login");
    let shown = backend(&address, "pets");
    assert_eq!((&shown["action"], &shown["lastError"]), (&json!("log-in"), &json!("run `toolgate login pets`")));
    let begun = crate::resource::request(&address, "POST /v1/backends/pets/login", None, &json!({}));
    follow(begun.2["url"].as_str().unwrap());
    wait_for(|| backend(&address, "pets")["action"].is_null());
    drop(gateway);
    user.check_no_secret();
}

/// Another login would give the same token: it is not asked for again.
#[test]
fn a_server_that_refuses_the_token_of_a_login_is_told_with_the_reason_and_the_audience() {
    for refreshes in [true, false] {
        let behaviour = Behaviour { fault: Fault::RefusedTokens, refreshes, ..Default::default() };
        let (user, server) = (User::new(), Server::start(behaviour));
        user.run(&["add", "notes", &server.url(), "--offline"]);
        let said = format!(
            "the server refuses the token of this login (the audience is another); {} issued it for the resource {}",
            server.fake.origin,
            server.url()
        );
        let login = user.log_in(&["login", "notes"]);
        assert!(login.code == 1 && login.stderr.contains(&said), "{login:?}");
        let listed = user.run(&["list", "--json"]);
        let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
        assert_eq!(listed["backends"][0]["state"], "failed", "{listed}");
        assert!(listed.to_string().contains(&said), "{listed}");
        let called = user.run(&["call", "notes.read"]);
        assert!(called.code != 0 && called.stderr.contains(&said), "{called:?}");
        // Once the server takes it, another login is possible, and the one that there is works.
        server.fake.behaviour.lock().unwrap().fault = Fault::None;
        assert_eq!(user.run(&["call", "notes.read"]).code, 0);
        user.check_no_secret();
    }
}

/// A try renews the token that the server refuses. That is no login of a person, after which the next try would follow at once.
#[test]
fn a_server_that_refuses_renewed_tokens_is_left_alone_for_a_while() {
    let behaviour = Behaviour { fault: Fault::RefusedTokens, ..Default::default() };
    let (user, server) = (User::new(), Server::start(behaviour));
    user.run(&["add", "notes", &server.url(), "--offline"]);
    assert_eq!(user.log_in(&["login", "notes"]).code, 1);
    let before = server.fake.refreshes();
    let (gateway, address) = serve_http(&user, &json!({ "notes": { "url": server.url() } }));
    wait_for(|| backend(&address, "notes")["state"] == "failed");
    // Tries without a pause would be some hundreds in this time.
    std::thread::sleep(Duration::from_secs(2));
    assert!(server.fake.refreshes() <= before + 2, "{} after {before}", server.fake.refreshes());
    drop(gateway);
}

/// Issuers lock the account of a client after some wrong secrets.
#[test]
fn a_client_that_the_issuer_refuses_asks_once_and_names_the_setting() {
    let behaviour = || Behaviour { fault: Fault::ForgottenClients, ..Default::default() };
    let client = json!({ "grant": "client_credentials", "clientId": "mine", "clientSecret": "${CLIENT_SECRET}" });
    let (user, server) = (User::new(), Server::start(behaviour()));
    user.config(&json!({ "mcpServers": { "notes": { "url": server.url(), "auth": client } } }));
    let arrivals = |server: &Server| server.fake.seen.lock().unwrap().token_arrivals;
    for (tries, command) in [(1, &["call", "notes.read"][..]), (2, &["list"]), (3, &["login", "notes"])] {
        let refused = user.run(command);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(refused.code != 0 && said.contains("`auth.clientId` and `auth.clientSecret`"), "{refused:?}");
        assert_eq!(arrivals(&server), tries, "{command:?}");
    }
    // A program that goes on after the refusal does not ask again either.
    let (user, server) = user_of_pets_with(|login| {
        login["grant"] = json!("client_credentials");
        login["clientSecret"] = json!("${CLIENT_SECRET}");
    });
    server.fake.behaviour.lock().unwrap().fault = Fault::ForgottenClients;
    let code = "let said = ''; for (let n = 0; n < 5; n++) try { await pets.listPets({}) } catch (e) { said = e.message } return said";
    let program = user.file("calls.ts", code);
    let ran = user.run(&["run", &program]);
    assert!(ran.stdout.contains("`auth.oauth.clientId` and `auth.oauth.clientSecret`"), "{ran:?}");
    assert_eq!(arrivals(&server), 1);
    user.check_no_secret();
}
