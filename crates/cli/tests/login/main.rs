//! Logins and secrets with the real command, against an authorization server of the tests: from an empty home with two
//! commands, with a browser of this machine and of another one, in several processes at once, and with nothing secret in
//! any file, output or argument. docs/GUIDE.md shows these commands with what they print.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../../mcp/tests/auth/fake.rs"]
mod fake;
mod refused;
mod resource;
mod secrets;
mod serving;
#[cfg(unix)]
mod terminal;
mod user;

use std::io::Write;

use serde_json::{Value, json};

use crate::fake::{Behaviour, Described, Fault, Issuer};
use crate::user::{Server, User, check_guide, check_guide_row};

#[test]
fn a_server_behind_oauth_is_usable_from_an_empty_home_with_two_commands() {
    let (user, server) = (User::new(), Server::start(Behaviour { tells_account: true, ..Default::default() }));
    let added = user.run(&["add", "notes", &server.url()]);
    assert_eq!(added.code, 0, "{added:?}");
    assert!(added.stderr.contains("notes asks for a login: run `toolgate login notes`"), "{added:?}");
    let before = user.run(&["list"]);
    assert_eq!(before.code, 1);
    assert!(before.stdout.contains("needs login") && before.stdout.contains("`toolgate login notes`"), "{before:?}");
    let login = user.log_in(&["login", "notes"]);
    assert_eq!(login.code, 0, "{login:?}");
    let origin = server.fake.origin.clone();
    let shown = |text: &str| text.replace(&origin, "https://notes.example.com");
    check_guide(&shown(added.stderr.lines().find(|line| line.contains("asks for")).unwrap()));
    // The guide cuts the address of the page.
    let is_page = |line: &str| line.starts_with(&format!("{origin}/authorize?response_type=code&client_id="));
    let said = format!("{}\n{}", login.stdout, login.stderr);
    assert!(said.lines().any(is_page), "{login:?}");
    said.lines().filter(|line| !is_page(line)).for_each(|line| check_guide(&shown(line)));
    let called = user.run(&["call", "notes.read"]);
    assert_eq!((called.code, called.stdout.trim()), (0, "done"), "{called:?}");
    let listed = user.run(&["list"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    check_guide(&shown(listed.stdout.lines().next().unwrap()));
    check_guide_row(&shown(listed.stdout.lines().nth(1).unwrap()));
    assert!(listed.stdout.contains("as ada@example.com at http://127.0.0.1:"), "{listed:?}");
    let listed: Value = serde_json::from_str(&user.run(&["list", "--json"]).stdout).unwrap();
    let login = &listed["backends"][0]["login"];
    assert_eq!((&login["account"], &login["renewed"]), (&json!("ada@example.com"), &json!(true)), "{listed}");
    assert!(login["until"].as_str().unwrap().ends_with(" UTC"), "{listed}");
    let again = user.run(&["login", "notes"]);
    assert!(again.code == 0 && again.stderr.contains("logged in to notes as ada@example.com"), "{again:?}");
    let out = user.run(&["logout", "notes"]);
    assert_eq!((out.code, out.stderr.trim()), (0, "logged out of notes"));
    assert_eq!(user.run(&["logout", "notes"]).stderr.trim(), "there is no login at notes");
    let called = user.run(&["call", "notes.read"]);
    assert!(called.code == 1 && called.stderr.contains("toolgate login notes"), "{called:?}");
    user.check_no_secret();
}

#[test]
fn a_browser_of_another_machine_ends_at_an_address_that_is_pasted() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    let mut login = user.start(&["login", "notes", "--no-browser"]);
    let ends_at = user::follow_without_redirect(&login.url());
    let stdin = login.stdin.as_mut().unwrap();
    writeln!(stdin, "\nnonsense\nhttp://127.0.0.1:1/callback?code=stolen&state=other\n{ends_at}").unwrap();
    let login = login.finish();
    assert_eq!(login.code, 0, "{login:?}");
    assert_eq!(login.stderr.matches("that is not the address of this login").count(), 2, "{login:?}");
    assert_eq!(user.run(&["call", "notes.read"]).code, 0);
    user.check_no_secret();
}

#[cfg(unix)]
#[test]
fn a_browser_is_started_with_the_page_and_no_secret() {
    use std::os::unix::fs::PermissionsExt;
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    let (script, seen) = (user.home().join("browser"), user.home().join("seen"));
    std::fs::write(&script, format!("#!/bin/sh\nprintf '%s' \"$*\" > {0}.new\nmv {0}.new {0}\n", seen.display()))
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let browser = format!("{} --new-window %s", script.display());
    let mut login = user.start_with(&["login", "notes"], &[("BROWSER", &browser)]);
    let url = login.url();
    user::wait_for(|| seen.exists());
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), format!("--new-window {url}"));
    user::follow(&url);
    assert_eq!(login.finish().code, 0);
    user.check_no_secret();
}

/// A person at a terminal who adds a server is asked whether to log in at once.
#[cfg(unix)]
#[test]
fn a_login_is_offered_where_a_server_is_added_at_a_terminal() {
    use std::os::unix::fs::PermissionsExt;
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    let browser = user.home().join("browser");
    // A browser that follows the page to the end of the login.
    let script = "#!/usr/bin/env python3\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n";
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let browser = format!("{} %s", browser.display());
    let question = "notes asks for a login. Log in now? [y/N] ";
    for (answer, said) in [("n", "notes asks for a login: run `toolgate login notes`"), ("y", "logged in to notes")] {
        let answers = json!([[question, answer, 0]]).to_string();
        let added = user.start_at_terminal(&answers, &["add", "notes", &server.url()], &[("BROWSER", &browser)]);
        let added: Value = serde_json::from_str(&added.finish().stdout).unwrap();
        assert_eq!((&added["code"], &added["unanswered"]), (&json!(0), &json!([])), "{added}");
        assert!(added["terminal"].as_str().unwrap().contains(said), "{added}");
        if answer == "n" {
            assert_ne!(user.run(&["call", "notes.read"]).code, 0);
            user.run(&["remove", "notes"]);
        }
    }
    assert_eq!(user.run(&["call", "notes.read"]).stdout.trim(), "done");
    user.check_no_secret();
}

#[cfg(unix)]
#[test]
fn the_page_is_opened_with_the_browser_and_its_arguments_and_without_the_link_in_them() {
    use std::os::unix::fs::PermissionsExt;
    let user = User::new();
    let (script, seen) = (user.home().join("browser"), user.home().join("seen"));
    let text = format!("#!/bin/sh\n{{ echo \"$1\"; cat \"$2\"; }} > {0}.new\nmv {0}.new {0}\n", seen.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let browser = format!("{} --new-window %s", script.display());
    let mut page = user.start_with(&["ui", "--demo"], &[("BROWSER", &browser)]);
    let link = page.url();
    assert!(link.contains("/#link="), "{link}");
    user::wait_for(|| seen.exists());
    let seen = std::fs::read_to_string(&seen).unwrap();
    let (first, page) = seen.split_once('\n').unwrap();
    assert!(first == "--new-window" && page.contains(&link), "{seen}");
}

#[test]
fn a_call_that_needs_more_names_the_command_for_it() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    user.log_in(&["login", "notes"]);
    let program = user
        .file("write.ts", "try { return await notes.write({}) } catch (e) { return { code: e.code, data: e.data } }");
    let refused = user.run(&["run", &program]);
    let refused: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!(refused["code"], "NEEDS_LOGIN");
    let command = "toolgate login notes --scope read --scope write";
    assert_eq!(refused["data"], json!({ "command": command, "scopes": ["read", "write"] }));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    assert_eq!(user.log_in(&words).code, 0);
    let written = user.run(&["run", &program, "--record", "run.jsonl"]);
    assert_eq!((written.code, written.stdout.trim()), (0, "done"), "{written:?}");
    assert_eq!(server.fake.seen.lock().unwrap().scopes, ["read", "read write"]);
    user.check_no_secret();
}

#[test]
fn a_refusal_that_names_no_scope_says_what_to_do() {
    let (user, server) = user_of_pets();
    server.fake.behaviour.lock().unwrap().names_scopes = false;
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    let program = user.file("add.ts", "return await pets.addPet({})");
    let unnamed = "the server wants more rights than the login has, and does not say which: add the scopes that the server's \
                   documentation names to `auth.oauth.scopes` of the server, then run `toolgate login pets`";
    // An access token that is accepted, and one that ended: the call is refused once, and then twice.
    for _ in 0..2 {
        let refused = user.run(&["run", &program]);
        assert!(refused.code == 1 && refused.stderr.contains(unnamed), "{refused:?}");
        server.fake.revoke_access();
    }
    // What it says is enough.
    user.edit_config(|config| config["mcpServers"]["pets"]["auth"]["oauth"]["scopes"] = json!(["read", "write"]));
    let refused = user.run(&["run", &program]);
    let more = "does not say which: run `toolgate login pets`, which asks for read, write; if that is not enough, add";
    assert!(refused.code == 1 && refused.stderr.contains(more), "{refused:?}");
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    assert_eq!(user.run(&["run", &program]).code, 0);
    user.check_no_secret();
}

/// A read without its login ends a dry run with a sentence, not with an answer that a real run would not get.
#[test]
fn a_dry_run_says_that_a_read_needs_a_login() {
    let (user, _server) = user_of_pets();
    let program = user.file("read.ts", "try { return await pets.listPets({}) } catch { return 'no pets' }");
    let ended = user.run(&["run", &program, "--dry-run"]);
    assert!(ended.code == 1 && !ended.stdout.contains("no pets"), "{ended:?}");
    assert!(ended.stderr.contains("the answer to pets.listPets: a login is needed"), "{ended:?}");
    assert!(ended.stderr.contains("toolgate login pets") && !ended.stderr.contains("sends no write"), "{ended:?}");
    assert!(!ended.stderr.contains("has changed something"), "{ended:?}");
}

/// At a terminal the person is told of the login, and the program goes on when it is there.
#[test]
fn a_program_at_a_terminal_waits_for_a_login() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    user.log_in(&["login", "notes"]);
    let program = user.file("write.ts", "return await notes.write({})");
    let asked = user.home().join("asked");
    let answers = json!([["[s]top? ", { "touch": asked }, 0]]).to_string();
    let terminal = user.start_at_terminal(&answers, &["run", &program], &[]);
    user::wait_for(|| asked.exists());
    let command = "login notes --scope read --scope write";
    assert_eq!(user.log_in(&command.split(' ').collect::<Vec<_>>()).code, 0);
    let ran: Value = serde_json::from_str(&terminal.finish().stdout).unwrap();
    assert_eq!((&ran["code"], &ran["stdout"]), (&json!(0), &json!("done\n")), "{ran}");
    let shown = ran["terminal"].as_str().unwrap();
    assert!(
        shown.contains(&format!("notes.write waits for your decision: a login is needed: run `toolgate {command}`"))
    );
    assert_eq!(shown.matches("waits for your decision").count(), 1, "a look asks nothing again: {shown}");
    user.check_no_secret();
}

#[test]
fn three_processes_refresh_once() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    user.log_in(&["login", "notes"]);
    for round in 1..=3 {
        server.fake.revoke_access();
        let calls: Vec<_> = (0..3).map(|_| user.start(&["call", "notes.read"])).collect();
        for call in calls {
            let call = call.finish();
            assert_eq!((call.code, call.stdout.trim()), (0, "done"), "{call:?}");
        }
        assert_eq!(server.fake.refreshes(), round);
    }
    user.check_no_secret();
}

#[test]
fn a_server_of_the_same_name_elsewhere_does_not_get_the_token() {
    let (user, server, other) = (User::new(), Server::start(Behaviour::default()), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url()]);
    user.log_in(&["login", "notes"]);
    let file = user.file("other.json", &json!({ "mcpServers": { "notes": { "url": other.url() } } }).to_string());
    let listed = user.run(&["list", "--config", &file]);
    assert!(listed.stdout.contains("needs login"), "{listed:?}");
    assert!(other.fake.seen.lock().unwrap().tokens_sent.is_empty());
    assert_eq!(user.run(&["list"]).code, 0);
}

#[test]
fn a_removed_server_is_logged_out() {
    let (user, server) = (User::new(), Server::start(Behaviour { revokes: true, ..Default::default() }));
    user.run(&["add", "notes", &server.url()]);
    user.log_in(&["login", "notes"]);
    let removed = user.run(&["remove", "notes"]);
    assert!(removed.code == 0 && removed.stderr.contains("logged out of notes"), "{removed:?}");
    assert_eq!(server.fake.seen.lock().unwrap().revoked, ["canary-refresh-1"]);
}

#[test]
fn clients_and_scopes_of_the_configuration_are_used() {
    let (user, server) = (User::new(), Server::start(Behaviour { registers: false, ..Default::default() }));
    let missing = user.run(&["add", "notes", &server.url()]);
    assert_eq!(missing.code, 0);
    let refused = user.run(&["login", "notes"]);
    assert!(refused.code == 1 && refused.stderr.contains("register a client with the redirect URI"), "{refused:?}");
    let port =
        refused.stderr.split_once("redirect URI http://127.0.0.1:").and_then(|(_, rest)| rest.split_once("/callback"));
    let port = port.map(|(port, _)| format!("`clientId` of the server's `auth`, with `\"redirectPort\": {port}`"));
    assert!(refused.stderr.contains(&port.unwrap()), "{refused:?}");
    user.run(&["remove", "notes"]);
    let client = ["--client-id", "mine", "--client-secret", "${CLIENT_SECRET}", "--login-scope", "extra"];
    let url = server.url();
    user.run(&[&["add", "notes", &url][..], &client].concat());
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    let seen = server.fake.seen.lock().unwrap();
    assert_eq!((&seen.clients[..], &seen.scopes[..]), (&["mine".to_owned()][..], &["extra read".to_owned()][..]));
    assert!(seen.token_requests[0].contains_key("basic"));
    drop(seen);
    user.check_no_secret();
}

#[test]
fn a_client_logs_in_by_itself() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    let auth = json!({ "grant": "client_credentials", "clientId": "mine", "clientSecret": "${CLIENT_SECRET}" });
    let config = json!({ "mcpServers": { "notes": { "url": server.url(), "auth": auth } } });
    user.config(&config);
    let called = user.run(&["call", "notes.write"]);
    assert_eq!((called.code, called.stdout.trim()), (0, "done"), "{called:?}");
    let login = user.run(&["login", "notes"]);
    assert!(login.code == 0 && login.stderr.contains("logged in to notes at"), "{login:?}");
    user.check_no_secret();
}

#[test]
fn hostile_and_broken_issuers_are_refused_in_a_sentence() {
    for (fault, expected) in [
        (Fault::HugeMetadata, "the metadata of the authorization server is larger than 262144 bytes"),
        (Fault::BrokenMetadata, "the metadata of the authorization server is not valid"),
        (Fault::RedirectedMetadata, "it redirects, which is not followed"),
        (Fault::MetadataElsewhere, "the metadata of the authorization server is not a URL that may be used"),
        (Fault::MetadataOfAnotherIssuer, "the answer comes from the issuer https://bank.example"),
        (Fault::MetadataOfAnotherResource, "the metadata of the server is about https://victim.example/mcp"),
        (Fault::NoPkce, "does not support PKCE with S256"),
    ] {
        let (user, server) = (User::new(), Server::start(Behaviour { fault, ..Default::default() }));
        user.run(&["add", "notes", &server.url(), "--offline"]);
        let refused = user.run(&["login", "notes"]);
        assert!(refused.code == 1 && refused.stderr.contains(expected), "{fault:?}: {refused:?}");
        let seen = server.fake.seen.lock().unwrap();
        assert!(seen.clients.is_empty() && seen.token_requests.is_empty(), "{fault:?}");
    }
    let (user, server) = (User::new(), Server::start(Behaviour { fault: Fault::BrokenToken, ..Default::default() }));
    user.run(&["add", "notes", &server.url(), "--offline"]);
    let refused = user.log_in(&["login", "notes"]);
    assert!(refused.code == 1 && refused.stderr.contains("the token was refused: HTTP 502"), "{refused:?}");
    user.check_no_secret();
}

#[test]
fn a_login_that_nobody_finishes_ends() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    user.run(&["add", "notes", &server.url(), "--offline"]);
    let ended = user.run(&["login", "notes", "--timeout", "100ms"]);
    assert!(ended.code == 1 && ended.stderr.contains("the login was not finished within"), "{ended:?}");
    assert!(ended.stderr.contains("`toolgate logout notes`"), "{ended:?}");
    let program = user.run(&["add", "local", "--", "true"]);
    assert_eq!(program.code, 0, "{program:?}");
    let refused = user.run(&["login", "local"]);
    assert!(refused.code == 2 && refused.stderr.contains("takes no login"), "{refused:?}");
    let refused = user.run(&["login", "nobody"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("no server named nobody: there are local, notes"),
        "{refused:?}"
    );
}

/// A document whose operations need a login that these flows describe.
fn document_with_login(user: &User, scheme: &Value) -> String {
    let operation =
        |id: &str, scope: &str| json!({ "operationId": id, "security": [{ "oauth": [scope] }], "responses": {} });
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "pets", "version": "1" },
        "paths": { "/pets": { "get": operation("listPets", "read"), "post": operation("addPet", "write") } },
        "components": { "securitySchemes": { "oauth": scheme } },
    });
    user.file("pets.json", &document.to_string())
}

#[test]
fn an_api_is_added_with_the_login_that_its_document_describes() {
    let behaviour = Behaviour { described: Described::Configured, ..Default::default() };
    let (user, server) = (User::new(), Server::start(behaviour));
    let origin = server.fake.origin.clone();
    let (page, token) = (format!("{origin}/authorize"), format!("{origin}/token"));
    let flow =
        json!({ "authorizationUrl": page, "tokenUrl": token, "scopes": { "read": "", "write": "", "admin": "" } });
    let document = document_with_login(&user, &json!({ "type": "oauth2", "flows": { "authorizationCode": flow } }));
    let (base, file) = (format!("{origin}/v1"), document.as_str());
    let unused = user.run(&["add", "unused", "--openapi", file, "--base", &base]);
    assert_eq!(unused.code, 0, "{unused:?}");
    let use_it = "`oauth`: to use it, run `toolgate remove unused` and add it again with --client-id ID";
    assert!(unused.stderr.contains(use_it), "{unused:?}");
    // What it said works.
    assert_eq!(user.run(&["remove", "unused"]).code, 0);
    let again = user.run(&["add", "unused", "--openapi", file, "--base", &base, "--client-id", "mine"]);
    assert_eq!(again.code, 0, "{again:?}");
    let added = user.run(&["add", "pets", "--openapi", file, "--base", &base, "--client-id", "mine"]);
    assert!(added.code == 0 && added.stderr.contains("`toolgate login pets`"), "{added:?}");
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    assert_eq!(server.fake.seen.lock().unwrap().clients, ["mine"]);
    assert_eq!(server.fake.seen.lock().unwrap().scopes, ["read write"], "what the operations need, and no more");
    let called = user.run(&["call", "pets.addPet"]);
    assert!(called.code == 0 && called.stdout.contains("Rex"), "{called:?}");
    user.check_no_secret();
}

#[test]
fn an_api_is_added_with_the_login_of_its_openid_metadata() {
    let (user, server) = (User::new(), Server::start(Behaviour { described: Described::OpenId, ..Default::default() }));
    let origin = server.fake.origin.clone();
    let add = |name: &str, metadata: &str| {
        let document = document_with_login(&user, &json!({ "type": "openIdConnect", "openIdConnectUrl": metadata }));
        let scopes = ["--login-scope", "read", "--login-scope", "openid"];
        let base = format!("{origin}/v1");
        let args = ["add", name, "--openapi", document.as_str(), "--base", base.as_str(), "--client-id", "mine"];
        user.run(&[&args[..], &scopes[..]].concat())
    };
    let metadata = format!("{origin}/.well-known/openid-configuration");
    let added = add("pets", &metadata);
    assert!(added.code == 0 && added.stderr.contains(&format!("the login `oauth` is at {origin}")), "{added:?}");
    let config = std::fs::read_to_string(user.home().join(".config/toolgate/toolgate.json")).unwrap();
    assert!(config.contains(&format!(r#""issuer": "{origin}/""#)), "{config}");
    server.fake.behaviour.lock().unwrap().described = Described::Configured;
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    assert_eq!(server.fake.seen.lock().unwrap().scopes, ["read openid"], "those that were chosen");
    assert_eq!(user.run(&["call", "pets.listPets"]).code, 0);
    // Metadata of another issuer, and none at all.
    server.fake.behaviour.lock().unwrap().described = Described::OpenId;
    server.fake.behaviour.lock().unwrap().fault = Fault::MetadataOfAnotherIssuer;
    let refused = add("mixed", &metadata);
    assert!(refused.code == 2 && refused.stderr.contains("of another issuer"), "{refused:?}");
    let refused = add("absent", &format!("{origin}/.well-known/nothing"));
    assert!(refused.code == 2 && refused.stderr.contains("answered 404"), "{refused:?}");
    user.check_no_secret();
}

#[test]
fn a_document_leads_no_login_to_an_inner_address_that_the_user_did_not_name() {
    let (user, server) = (User::new(), Server::start(Behaviour { described: Described::OpenId, ..Default::default() }));
    let (origin, public) = (server.fake.origin.clone(), "https://1.1.1.1");
    let (page, token) = (format!("{origin}/authorize"), format!("{origin}/token"));
    let person = |page: &str, token: &str| {
        let flow = json!({ "authorizationUrl": page, "tokenUrl": token, "scopes": {} });
        json!({ "type": "oauth2", "flows": { "authorizationCode": flow } })
    };
    let client = |token: &str| json!({ "type": "oauth2", "flows": { "clientCredentials": { "tokenUrl": token, "scopes": {} } } });
    let metadata = format!("{origin}/.well-known/openid-configuration");
    let metadata = json!({ "type": "openIdConnect", "openIdConnectUrl": metadata });
    server.fake.behaviour.lock().unwrap().fault = Fault::TokenElsewhere;
    let inner = format!("{origin}/v1");
    for (scheme, base, address) in [
        (client(&token), "https://1.1.1.1/v1", "127.0.0.1"),
        (client("http://localhost:9/token"), "https://1.1.1.1/v1", "localhost"),
        (person(&page, &format!("{public}/token")), "https://1.1.1.1/v1", "127.0.0.1"),
        (person(&format!("{public}/authorize"), &token), "https://1.1.1.1/v1", "127.0.0.1"),
        (client("http://127.0.0.9:9/token"), inner.as_str(), "127.0.0.9"),
        (metadata, inner.as_str(), "127.0.0.9"),
    ] {
        let document = document_with_login(&user, &scheme);
        let args = ["add", "pets", "--openapi", document.as_str(), "--base", base];
        let added = user.run(&[&args[..], &["--client-id", "mine", "--client-secret", "${CLIENT_SECRET}"]].concat());
        assert_eq!(added.code, 2, "{scheme}: {added:?}");
        assert!(added.stderr.contains(&format!("with {address} in `allowHosts`")), "{scheme}: {added:?}");
        assert_eq!(user.run(&["login", "pets"]).code, 2, "{scheme}");
    }
    assert_eq!(server.fake.seen.lock().unwrap().token_arrivals, 0);
}

#[test]
fn what_a_document_says_of_its_login_has_no_variables() {
    let user = User::new();
    let token = "https://1.1.1.1/token?stolen=${CLIENT_SECRET}";
    let flow = json!({ "authorizationUrl": "https://1.1.1.1/?stolen=${CLIENT_SECRET}", "tokenUrl": token });
    let scheme = json!({ "type": "oauth2", "flows": { "authorizationCode": flow } });
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "pets", "version": "1" },
        "servers": [{ "url": "https://1.1.1.1/v1" }],
        "paths": { "/pets": { "get": { "security": [{ "oauth": ["${CLIENT_SECRET}"] }], "responses": {} } } },
        "components": { "securitySchemes": { "oauth": scheme } },
    });
    let document = user.file("pets.json", &document.to_string());
    let added = user.run(&["add", "pets", "--openapi", &document, "--client-id", "mine"]);
    assert_eq!(added.code, 0, "{added:?}");
    let mut login = user.start(&["login", "pets", "--no-browser"]);
    let page = login.url();
    assert!(page.contains("stolen=${CLIENT_SECRET}") && page.contains("scope=%24%7BCLIENT_SECRET%7D"), "{page}");
    drop(login);
    user.check_no_secret();
}

#[test]
fn an_issuer_with_a_path_is_accepted_where_endpoints_are_configured() {
    let behaviour = Behaviour { described: Described::ConfiguredMcp, issuer: Issuer::OfTenant, ..Default::default() };
    let (user, server) = (User::new(), Server::start(behaviour));
    let origin = server.fake.origin.clone();
    let log_in = |issuer: Option<String>| {
        let mut auth = json!({ "clientId": "mine", "scopes": ["read"] });
        auth["authorizationUrl"] = json!(format!("{origin}/authorize"));
        auth["tokenUrl"] = json!(format!("{origin}/token"));
        auth["issuer"] = json!(issuer);
        if issuer.is_none() {
            auth.as_object_mut().unwrap().remove("issuer");
        }
        user.config(&json!({ "mcpServers": { "notes": { "url": server.url(), "auth": auth } } }));
        user.run(&["logout", "notes"]);
        user.log_in(&["login", "notes"])
    };
    let refused = log_in(Some(format!("{origin}/other")));
    assert!(refused.code == 1 && refused.stderr.contains(&format!("expected was {origin}/other")), "{refused:?}");
    assert_eq!(server.fake.seen.lock().unwrap().token_arrivals, 0);
    for issuer in [None, Some(format!("{origin}/tenant"))] {
        let accepted = log_in(issuer.clone());
        assert_eq!(accepted.code, 0, "{issuer:?}: {accepted:?}");
        let called = user.run(&["call", "notes.read"]);
        assert_eq!((called.code, called.stdout.trim()), (0, "done"), "{called:?}");
    }
    let resource = server.url();
    let seen = server.fake.seen.lock().unwrap();
    assert!(seen.token_requests.iter().all(|form| form["resource"] == resource), "{:?}", seen.token_requests);
    drop(seen);
    user.check_no_secret();
}

/// A user of an API whose login the configuration describes.
fn user_of_pets() -> (User, Server) {
    user_of_pets_with(|_| {})
}

/// The same with another login.
fn user_of_pets_with(change: impl FnOnce(&mut Value)) -> (User, Server) {
    let behaviour = Behaviour { described: Described::Configured, ..Default::default() };
    let (user, server) = (User::new(), Server::start(behaviour));
    let origin = server.fake.origin.clone();
    let operation = |id: &str| json!({ "operationId": id, "security": [{ "oauth": [] }], "responses": {} });
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "pets", "version": "1" },
        "paths": { "/pets": { "get": operation("listPets"), "post": operation("addPet") } },
        "components": { "securitySchemes": { "oauth": { "type": "oauth2", "flows": {} } } },
    });
    let document = user.file("pets.json", &document.to_string());
    let mut login = json!({
        "clientId": "mine", "authorizationUrl": format!("{origin}/authorize"), "tokenUrl": format!("{origin}/token"),
        "scopes": ["read"],
    });
    change(&mut login);
    let api = json!({
        "type": "openapi", "spec": document, "base": format!("{origin}/v1"), "auth": { "oauth": login },
        "allowHosts": ["127.0.0.1"],
    });
    user.config(&json!({ "mcpServers": { "pets": api } }));
    (user, server)
}

#[test]
fn an_api_that_refuses_a_new_token_as_well_is_told_with_who_issued_it() {
    let (user, server) = user_of_pets();
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    // The token has ended, and the next one does not cover the call.
    server.fake.revoke_access();
    let refused = user.run(&["call", "pets.addPet"]);
    assert!(refused.code == 1 && refused.stderr.contains("toolgate login pets --scope write"), "{refused:?}");
    assert_eq!(server.fake.refreshes(), 1);
    server.fake.behaviour.lock().unwrap().fault = Fault::RefusedTokens;
    let refused = user.run(&["call", "pets.listPets"]);
    // Another login would be refused as well.
    let said = "the server refuses the token of this login";
    assert!(refused.code == 1 && refused.stderr.contains(said), "{refused:?}");
    assert!(refused.stderr.contains(&format!("{} issued it for no named resource", server.fake.origin)), "{refused:?}");
    assert!(refused.stderr.contains("`toolgate logout pets`"), "{refused:?}");
    assert_eq!(server.fake.refreshes(), 2);
    user.check_no_secret();
}

#[test]
fn an_api_behind_oauth_is_called_with_the_token_of_a_login() {
    let (user, server) = user_of_pets();
    let refused = user.run(&["call", "pets.listPets"]);
    assert!(refused.code == 1 && refused.stderr.contains("toolgate login pets"), "{refused:?}");
    assert_eq!(user.log_in(&["login", "pets"]).code, 0);
    let called = user.run(&["call", "pets.listPets"]);
    assert!(called.code == 0 && called.stdout.contains("Rex"), "{called:?}");
    server.fake.revoke_access();
    assert_eq!(user.run(&["call", "pets.listPets"]).code, 0);
    assert_eq!(server.fake.refreshes(), 1);
    let refused = user.run(&["call", "pets.addPet"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("toolgate login pets --scope read --scope write"),
        "{refused:?}"
    );
    assert_eq!(user.log_in(&["login", "pets", "--scope", "write"]).code, 0);
    assert_eq!(user.run(&["call", "pets.addPet"]).code, 0);
    assert!(user.run(&["list"]).stdout.contains("renewed by itself"));
    user.check_no_secret();
}

#[test]
fn an_api_that_describes_its_login_by_metadata_needs_no_urls() {
    let (user, server) = (User::new(), Server::start(Behaviour::default()));
    let origin = server.fake.origin.clone();
    let document = document_with_login(&user, &json!({ "type": "oauth2", "flows": {} }));
    let api = json!({
        "type": "openapi", "spec": document, "base": format!("{origin}/v1"), "auth": { "oauth": { "scopes": ["read"] } },
        "allowHosts": ["127.0.0.1"],
    });
    user.config(&json!({ "mcpServers": { "pets": api } }));
    let login = user.log_in(&["login", "pets"]);
    assert_eq!(login.code, 0, "{login:?}");
    let called = user.run(&["call", "pets.listPets"]);
    assert!(called.code == 0 && called.stdout.contains("Rex"), "{called:?}");
    user.check_no_secret();
}
