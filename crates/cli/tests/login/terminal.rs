//! What commands ask a person at a terminal about logins and secrets.

use serde_json::{Value, json};

use crate::fake::Behaviour;
use crate::user::{Server, User};

fn configuration(user: &User) -> String {
    std::fs::read_to_string(user.home().join(".config/toolgate/toolgate.json")).unwrap()
}

#[test]
fn a_person_is_asked_for_the_client_that_cannot_be_registered_by_itself() {
    let (user, server) = (User::new(), Server::start(Behaviour { registers: false, ..Default::default() }));
    user.config(&json!({ "mcpServers": { "notes": { "url": server.url() } } }));
    let stopped = user.run_at_terminal(&["login", "notes"], &[("client id (empty to stop): ", "")]);
    assert!(stopped.code == 1 && stopped.stderr.contains("register a client"), "{stopped:?}");
    assert!(!configuration(&user).contains("auth"));

    let answers = [("client id (empty to stop): ", "mine"), ("not shown): ", "canary-typed-secret")];
    let login = user.run_at_terminal(&["login", "notes"], &answers);
    assert!(login.code == 0 && login.stderr.contains("logged in to notes at"), "{login:?}");
    let config: Value = serde_json::from_str(&configuration(&user)).unwrap();
    let auth = &config["mcpServers"]["notes"]["auth"];
    let port = auth["redirectPort"].as_u64().unwrap();
    let shown = format!("Register a client with the redirect URI http://127.0.0.1:{port}/callback there.");
    assert!(login.stderr.contains(&shown), "{login:?}");
    let expected = json!({ "clientId": "mine", "redirectPort": port, "clientSecret": "${keyring:notes.clientSecret}" });
    assert_eq!(auth, &expected);
    let called = user.run(&["call", "notes.read"]);
    assert_eq!((called.code, called.stdout.trim()), (0, "done"), "{called:?}");
    {
        let seen = server.fake.seen.lock().unwrap();
        assert_eq!((&seen.clients[..], &seen.scopes[..]), (&["mine".to_owned()][..], &["read".to_owned()][..]));
        assert!(seen.token_requests[0].contains_key("basic"), "{:?}", seen.token_requests);
        assert_eq!(seen.token_requests[0]["redirect_uri"], format!("http://127.0.0.1:{port}/callback"));
    }
    // The next login asks nothing, and comes back to the same port.
    user.run(&["logout", "notes"]);
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    let redirects: Vec<String> = {
        let seen = server.fake.seen.lock().unwrap();
        seen.token_requests.iter().filter_map(|form| form.get("redirect_uri").cloned()).collect()
    };
    assert_eq!(redirects, vec![format!("http://127.0.0.1:{port}/callback"); 2]);
    user.check_no_secret();
}

#[test]
fn a_person_is_asked_whether_literal_secrets_are_moved() {
    let question =
        "These servers have 1 literal secret. Keep them among `toolgate secret` instead of in the file? [y/N] ";
    let servers = json!({ "git": { "command": "true", "env": { "GITHUB_TOKEN": "canary-0123456789" } } });
    for (answer, expected) in [("n", "canary-0123456789"), ("y", "${keyring:git.GITHUB_TOKEN}")] {
        let user = User::new();
        let file = user.file("elsewhere/mcp.json", &json!({ "mcpServers": servers }).to_string());
        let imported = user.run_at_terminal(&["import", &file], &[(question, answer)]);
        assert_eq!(imported.code, 0, "{imported:?}");
        let written = format!(r#""GITHUB_TOKEN": "{expected}""#);
        assert!(configuration(&user).contains(&written), "{}", configuration(&user));
        assert_eq!(user.run(&["secret", "list"]).stdout.contains("git.GITHUB_TOKEN"), answer == "y");
        if answer == "y" {
            std::fs::remove_file(&file).unwrap();
            user.check_no_secret();
        }
    }
}
