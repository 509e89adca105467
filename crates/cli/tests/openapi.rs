//! An HTTP API behind the command line, from an empty home: `add --openapi`, then calls and programs.
//!
//! docs/GUIDE.md shows these commands with what they print.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The API of examples/petstore.yaml, which wants the key `k-123`. It serves until the test's process ends.
fn petstore() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base = format!("http://{}/v1", listener.local_addr().expect("an address"));
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    base
}

fn serve(mut stream: TcpStream) {
    let mut received = Vec::new();
    let (head, body) = loop {
        let mut chunk = [0; 4096];
        let Ok(read @ 1..) = stream.read(&mut chunk) else { return };
        received.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&received).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if body.len() >= length.unwrap_or(0) {
            break (head.to_owned(), body.to_owned());
        }
    };
    let pets =
        [json!({"id": 1, "name": "Rex", "status": "sold"}), json!({"id": 2, "name": "Tom", "status": "available"})];
    let line = head.lines().next().unwrap_or_default();
    let (status, answer) = match line.rsplit_once(' ').map_or("", |(request, _)| request) {
        "GET /openapi.json" => (
            200,
            json!({"openapi": "3.0.0", "info": {}, "servers": [{"url": "/v1"}], "paths": {"/pets": {"get": {"operationId": "listPets"}}}, "components": {"securitySchemes": {"api_key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"}}}, "security": [{"api_key": []}]}),
        ),
        "GET /inner.json" => (
            200,
            json!({"openapi": "3.0.0", "info": {}, "servers": [{"url": "http://10.1.2.3/v1"}], "paths": {"/pets": {"get": {"operationId": "listPets"}}}}),
        ),
        "GET /broken.json" => (200, json!({"openapi": "9"})),
        _ if !head.contains("\r\nx-api-key: k-123") => (401, json!({"message": "no key"})),
        "GET /v1/pets" => (200, json!(pets)),
        "GET /v1/pets?status=available" => (200, json!([pets[1]])),
        "GET /v1/pets/1" => (200, pets[0].clone()),
        "POST /v1/pets" => {
            let mut pet: Value = serde_json::from_str(&body).expect("JSON");
            pet["id"] = json!(3);
            (201, pet)
        }
        _ => (404, json!({"message": "no such pet"})),
    };
    let body = answer.to_string();
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
}

/// A user with an empty home.
struct User(TempDir);

impl User {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        std::fs::copy(root().join("examples/petstore.yaml"), home.path().join("petstore.yaml")).expect("a copy");
        User(home)
    }

    /// Exit code, standard output and standard error.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolgate"));
        command.args(args).current_dir(self.0.path()).env("HOME", self.0.path()).env("PETSTORE_KEY", "k-123");
        command.env_remove("XDG_CONFIG_HOME").env_remove("XDG_CACHE_HOME").env_remove("COLUMNS").stdin(Stdio::null());
        let output = command.output().expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
    }

    fn add(&self, base: &str) -> (i32, String, String) {
        self.run(&[
            "add",
            "petstore",
            "--openapi",
            "petstore.yaml",
            "--base",
            base,
            "--auth",
            "api_key=${PETSTORE_KEY}",
        ])
    }
}

/// What the guide shows for a command.
#[track_caller]
fn check_guide(output: &str) {
    let guide = std::fs::read_to_string(root().join("docs/GUIDE.md")).expect("the guide");
    for line in output.lines().filter(|line| !line.trim().is_empty()) {
        assert!(guide.contains(line.trim_end()), "docs/GUIDE.md does not show: {line}\nin: {output}");
    }
}

#[test]
fn an_api_is_usable_from_an_empty_home_with_two_commands() {
    let (user, base) = (User::new(), petstore());
    let (code, _, said) = user.add(&base);
    assert_eq!(code, 0, "{said}");
    let port = base.trim_end_matches("/v1").rsplit(':').next().expect("a port");
    check_guide(said.replace(port, "8080").lines().next().unwrap_or_default());
    let (code, shown, said) = user.run(&["call", "petstore.listPets", r#"{"status": "available"}"#]);
    assert_eq!(code, 0, "{said}");
    check_guide(&shown);
    let (_, shown, _) = user.run(&["describe", "petstore.addPet"]);
    assert!(shown.contains("addPet") && shown.contains("name"), "{shown}");
    let file = user.0.path().join("rename.ts");
    let program = "const pet = await petstore.addPet({ name: 'Ada' });\nconst all = await petstore.listPets({});\ntry { await petstore.getPet({ id: 9 }) } catch (e) { return { pet, all: all.length, status: e.data.status, code: e.code } }\n";
    std::fs::write(&file, program).expect("a program");
    check_guide(program);
    let (code, shown, said) = user.run(&["run", "rename.ts"]);
    assert_eq!(code, 0, "{said}");
    let value: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(value, json!({"pet": {"name": "Ada", "id": 3}, "all": 2, "status": 404, "code": "TOOL_FAILED"}));
    let config =
        std::fs::read_to_string(user.0.path().join(".config/toolgate/toolgate.json")).expect("a configuration");
    assert!(config.contains("${PETSTORE_KEY}") && !config.contains("k-123"), "{config}");
}

#[test]
fn a_document_that_cannot_be_used_is_not_added() {
    let user = User::new();
    std::fs::write(user.0.path().join("petstore.yaml"), "openapi: 9\n").expect("a file");
    let (code, _, said) = user.add("http://127.0.0.1:1/");
    assert_eq!((code, user.0.path().join(".config/toolgate/toolgate.json").exists()), (2, false), "{said}");
    assert!(said.contains("version 9 is not supported"), "{said}");
    std::fs::write(user.0.path().join("petstore.yaml"), "openapi: 3.0.0\npaths: {/a: {get: {}}}\n").expect("a file");
    // A credential of a scheme that the document does not have would never be sent.
    let (code, _, said) = user.add("http://127.0.0.1:1/");
    assert_eq!((code, user.0.path().join(".config/toolgate/toolgate.json").exists()), (2, false), "{said}");
    assert!(said.contains("no security scheme `api_key`"), "{said}");
    let (code, _, said) = user.run(&["add", "petstore", "--openapi", "petstore.yaml"]);
    assert!(code == 2 && said.contains("--base"), "{said}");
}

#[test]
fn an_address_that_only_the_document_names_is_not_allowed() {
    let (user, base) = (User::new(), petstore());
    let file = user.0.path().join("petstore.yaml");
    let text = std::fs::read_to_string(&file).expect("a document").replace("https://petstore.example.com/v1", &base);
    std::fs::write(&file, text).expect("a document");
    let (code, _, said) = user.run(&["add", "petstore", "--openapi", "petstore.yaml"]);
    assert_eq!(code, 0, "{said}");
    let expected = format!(
        "calls will be refused: the document's server {base} is an inner address, which only the configuration may allow. If it \
         is meant, write \"allowHosts\": [\"127.0.0.1\"] into the entry of petstore, or run `toolgate remove petstore` and add it \
         again with --base {base}"
    );
    assert!(said.contains(&expected), "{said}");
    let (code, _, said) = user.run(&["call", "petstore.listPets", "{}"]);
    assert!(code != 0 && said.contains("allowHosts"), "{said}");
    // What it said is enough.
    let config = user.0.path().join(".config/toolgate/toolgate.json");
    let kind = r#""type": "openapi","#;
    let more = format!(r#"{kind} "allowHosts": ["127.0.0.1"], "auth": {{ "api_key": "${{PETSTORE_KEY}}" }},"#);
    let written = std::fs::read_to_string(&config).expect("a file");
    assert!(written.contains(kind), "{written}");
    std::fs::write(&config, written.replace(kind, &more)).expect("a file");
    let (code, shown, said) = user.run(&["call", "petstore.listPets", "{}"]);
    assert!(code == 0 && shown.contains("Rex"), "{said}");
}

#[test]
fn an_inner_address_in_the_document_of_a_url_is_said_too() {
    let (user, base) = (User::new(), petstore());
    let url = format!("{}/inner.json", base.trim_end_matches("/v1"));
    let (code, _, said) = user.run(&["add", "petstore", "--openapi", &url]);
    assert!(code == 0 && said.contains("the document's server http://10.1.2.3/v1 is an inner address"), "{said}");
    assert!(said.contains(r#""allowHosts": ["127.0.0.1","10.1.2.3"] into the entry of petstore"#), "{said}");
    // A server that the user names is allowed, and nothing is said.
    let (code, _, said) = user.run(&["add", "named", "--openapi", &url, "--base", &base]);
    assert!(code == 0 && !said.contains("refused"), "{said}");
}

#[test]
fn a_document_at_a_url_is_read_before_it_is_added() {
    let (user, base) = (User::new(), petstore());
    let origin = base.trim_end_matches("/v1");
    let add = |path: &str, more: &[&str]| {
        let url = format!("{origin}{path}");
        user.run(&[&["add", "petstore", "--openapi", &url, "--auth", "api_key=${PETSTORE_KEY}"], more].concat())
    };
    let config = user.0.path().join(".config/toolgate/toolgate.json");
    for (path, expected) in [("/broken.json", "is not supported: 2.0, 3.0"), ("/none.json", "the server answered 401")]
    {
        let (code, _, said) = add(path, &[]);
        assert!(code == 2 && said.contains(expected) && !config.exists(), "{path}: {said}");
    }
    let (code, _, said) = add("/openapi.json", &[]);
    assert!(code == 0 && said.contains(&format!("1 tool at {base}")), "{said}");
    assert!(said.contains("allowHosts: 127.0.0.1"), "{said}");
    let (code, shown, said) = user.run(&["call", "petstore.listPets", "{}"]);
    assert!(code == 0 && shown.contains("Rex"), "{said}");
    assert_eq!(user.run(&["remove", "petstore"]).0, 0);
    let (code, _, said) = add("/none.json", &["--offline"]);
    assert!(code == 2 && said.contains("--base"), "{said}");
    assert_eq!(add("/none.json", &["--offline", "--base", &base]).0, 0);
}

/// Arguments that fit their schema, and that no request can be made of: the ledger says that nothing was sent.
#[test]
fn arguments_that_cannot_be_sent_are_not_sent() {
    let (user, base) = (User::new(), petstore());
    let text =
        |name: &str, place: &str| json!({"name": name, "in": place, "required": true, "schema": {"type": "string"}});
    let put = |id: &str, parameter: Value| json!({"put": {"operationId": id, "parameters": [parameter]}});
    let document = json!({"openapi": "3.0.0", "info": {}, "paths": {
        "/pets/{id}": put("path", text("id", "path")),
        "/header": put("header", text("X-Note", "header")),
        "/long": put("long", text("note", "query")),
    }});
    std::fs::write(user.0.path().join("petstore.yaml"), document.to_string()).expect("a document");
    let (code, _, said) = user.run(&["add", "petstore", "--openapi", "petstore.yaml", "--base", &base]);
    assert_eq!(code, 0, "{said}");
    for call in [
        "path({ id: '' })",
        "path({ id: '..' })",
        r"header({ 'X-Note': 'a\nb: c' })",
        "header({ 'X-Note': 'x'.repeat(200_000) })",
        "long({ note: 'x'.repeat(200_000) })",
    ] {
        std::fs::write(user.0.path().join("call.ts"), format!("await petstore.{call}")).expect("a program");
        let (_, shown, said) = user.run(&["run", "call.ts", "--json"]);
        let report: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{call}: {shown}{said}"));
        let made = &report["calls"][0];
        assert_eq!(
            (&made["state"], &made["errorCode"]),
            (&json!("not_sent"), &json!("INVALID_ARGUMENTS")),
            "{call}: {report}"
        );
    }
}

#[test]
fn a_public_address_needs_no_exception() {
    let user = User::new();
    let (code, _, said) = user.add("https://1.1.1.1/v1");
    assert!(code == 0 && !said.contains("allowHosts"), "{said}");
    let config = std::fs::read_to_string(user.0.path().join(".config/toolgate/toolgate.json")).expect("a file");
    assert!(!config.contains("allowHosts"), "{config}");
}

/// The document is not read, nor is anything said of it, where the name is taken.
#[test]
fn a_name_that_is_taken_is_told_first_and_with_the_command_that_helps() {
    let (user, base) = (User::new(), petstore());
    assert_eq!(user.add(&base).0, 0);
    let (code, _, said) = user.run(&["add", "petstore", "--openapi", "nowhere.yaml"]);
    let taken = "error: a server named petstore already exists: run `toolgate remove petstore` first";
    assert_eq!((code, said.trim()), (2, taken));
    let (code, _, said) = user.run(&["add", "petstore", "--", "true"]);
    assert_eq!((code, said.trim()), (2, taken));
    let other = ["add", "pet store", "--openapi", "petstore.yaml", "--base", &base, "--config", "my file.json"];
    assert_eq!(user.run(&other).0, 0);
    let (code, _, said) = user.run(&other);
    assert!(code == 2 && said.contains("run `toolgate remove 'pet store' --config 'my file.json'` first"), "{said}");
}

#[test]
fn a_login_that_is_not_supported_is_named() {
    let user = User::new();
    let add = |schemes: &str| {
        let text = format!(
            "openapi: 3.0.0\ninfo: {{}}\npaths: {{/a: {{get: {{}}}}}}\ncomponents: {{securitySchemes: {schemes}}}\n"
        );
        std::fs::write(user.0.path().join("petstore.yaml"), text).expect("a document");
        let args =
            ["add", "petstore", "--openapi", "petstore.yaml", "--base", "https://1.1.1.1/", "--client-id", "mine"];
        let (code, _, said) = user.run(&args);
        assert_eq!(code, 2, "{said}");
        said
    };
    let implicit = "{authorizationUrl: https://1.1.1.1/authorize, scopes: {}}";
    let said = add(&format!("{{oa: {{type: oauth2, flows: {{implicit: {implicit}}}}}}}"));
    assert!(said.contains("the only login of the document is the implicit flow, which is not supported"), "{said}");
    let password = "{tokenUrl: https://1.1.1.1/token, scopes: {}}";
    let said = add(&format!("{{oa: {{type: oauth2, flows: {{implicit: {implicit}, password: {password}}}}}}}"));
    assert!(said.contains("is the implicit flow and the password flow"), "{said}");
    let said = add("{key: {type: apiKey, in: header, name: X-Key}}");
    assert!(said.contains("no document was read that describes an OAuth login"), "{said}");
    let old = r#"{"swagger": "2.0", "info": {}, "paths": {"/a": {"get": {}}}, "securityDefinitions": {"oa": {"type": "oauth2", "flow": "implicit", "authorizationUrl": "https://1.1.1.1/a"}}}"#;
    std::fs::write(user.0.path().join("old.json"), old).expect("a document");
    let args = ["add", "old", "--openapi", "old.json", "--base", "https://1.1.1.1/", "--client-id", "mine"];
    let (code, _, said) = user.run(&args);
    assert!(code == 2 && said.contains("is the implicit flow, which is not supported"), "{said}");
}

#[test]
fn an_api_without_a_login_in_its_entry_says_how_it_gets_one() {
    let (user, base) = (User::new(), petstore());
    assert_eq!(user.add(&base).0, 0);
    let (code, _, said) = user.run(&["login", "petstore"]);
    assert!(code == 2 && said.contains("the configuration has no OAuth login for this API"), "{said}");
    assert!(said.contains("`toolgate add petstore --openapi DOCUMENT --client-id ID`"), "{said}");
    assert!(!said.contains("program") && !said.contains("header"), "{said}");
}

#[test]
fn a_client_certificate_that_is_never_sent_is_said() {
    let user = User::new();
    let document = json!({
        "openapi": "3.1.0", "info": {}, "servers": [{ "url": "https://api.example.com/v1" }],
        "paths": { "/pets": { "get": { "operationId": "listPets" } } },
        "components": { "securitySchemes": { "m": { "type": "mutualTLS" } } }, "security": [{ "m": [] }],
    });
    std::fs::write(user.0.path().join("mutual.json"), document.to_string()).expect("a file");
    let (code, _, said) = user.run(&["add", "mutual", "--openapi", "mutual.json"]);
    let expected = "the security scheme `m` asks for a client certificate, and none is sent";
    assert!(code == 0 && said.contains(expected), "{said}");
}
