//! The HTTP service behind an OAuth issuer of the tests: tokens open what their scopes say, and nothing else does.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256,
    RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};

use crate::fake::Behaviour;
use crate::user::{Running, Server, User, keep_reply, wait_for};

/// The key of another caller of the service.
const KEY: &str = "key-of-ci-0123456789abcdef0123456789abcdef";
const AUDIENCE: &str = "https://tools.example.com/mcp";

/// An issuer with a key of each kind.
struct Issuer {
    origin: String,
    key: EcdsaKeyPair,
    rsa: RsaKeyPair,
    ed25519: Ed25519KeyPair,
    fetches: Arc<AtomicUsize>,
    _runtime: tokio::runtime::Runtime,
}

fn new_key() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random).unwrap()
}

/// A fixed key of 2048 bits, which nothing but this test uses.
fn rsa_key() -> RsaKeyPair {
    let pem = include_str!("issuer-rsa.pem");
    let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    RsaKeyPair::from_pkcs8(&base64::prelude::BASE64_STANDARD.decode(text).unwrap()).unwrap()
}

fn ed25519_key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}

impl Issuer {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let (key, fetches) = (new_key(), Arc::<AtomicUsize>::default());
        let public = key.public_key().as_ref()[1..].to_vec();
        let (x, y) = (BASE64.encode(&public[..32]), BASE64.encode(&public[32..]));
        let (rsa, ed25519) = (rsa_key(), ed25519_key());
        let PublicKeyComponents { n, e } = PublicKeyComponents::<Vec<u8>>::from(rsa.public());
        let keys = json!({ "keys": [
            { "kty": "EC", "crv": "P-256", "use": "sig", "kid": "one", "x": x, "y": y },
            { "kty": "RSA", "use": "sig", "kid": "rsa", "n": BASE64.encode(n), "e": BASE64.encode(e) },
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": BASE64.encode(ed25519.public_key()) },
            { "kty": "oct", "kid": "shared", "k": BASE64.encode("public-secret") },
            { "kty": "unknown", "kid": "strange" },
        ] });
        let metadata = json!({ "issuer": origin, "jwks_uri": format!("{origin}/keys") });
        let counted = Arc::clone(&fetches);
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(move || async move { axum::Json(metadata) }))
            .route(
                "/keys",
                get(move || async move {
                    counted.fetch_add(1, Ordering::Relaxed);
                    axum::Json(keys)
                }),
            );
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { origin, key, rsa, ed25519, fetches, _runtime: runtime }
    }

    fn claims(&self, scope: &str) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        json!({ "iss": self.origin, "aud": [AUDIENCE], "sub": "ada", "exp": now + 600, "scope": scope })
    }

    fn token(&self, claims: &Value) -> String {
        signed(&self.key, &json!({ "alg": "ES256", "kid": "one", "typ": "at+jwt" }), claims)
    }
}

fn signed(key: &EcdsaKeyPair, header: &Value, claims: &Value) -> String {
    signed_by(header, claims, |text| key.sign(&SystemRandom::new(), text).unwrap().as_ref().to_vec())
}

fn signed_by(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let text = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
    format!("{text}.{}", BASE64.encode(sign(text.as_bytes())))
}

/// A gateway over HTTP with the demo server behind it.
fn serve(user: &User, issuer: &Issuer, scopes: Value) -> (Running, String) {
    let demo = json!({ "command": env!("CARGO_BIN_EXE_toolgate"), "args": ["demo"] });
    serve_servers(user, issuer, scopes, &json!({ "demo": demo }))
}

/// A gateway over HTTP with these servers behind it.
fn serve_servers(user: &User, issuer: &Issuer, scopes: Value, servers: &Value) -> (Running, String) {
    serve_settings(user, issuer, scopes, servers, Value::Null)
}

/// The same with host functions, and a key of another caller.
fn serve_settings(user: &User, issuer: &Issuer, scopes: Value, servers: &Value, functions: Value) -> (Running, String) {
    let oauth = json!({ "issuer": issuer.origin, "audience": AUDIENCE, "scopes": scopes });
    let hash = ring::digest::digest(&ring::digest::SHA256, KEY.as_bytes());
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = json!([{ "name": "ci", "hash": format!("sha256:{hash}") }]);
    let mut settings = json!({ "http": { "oauth": oauth } });
    if !functions.is_null() {
        settings["http"]["keys"] = keys;
        settings["functions"] = functions;
    }
    user.config(&json!({ "mcpServers": servers, "toolgate": settings }));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let gateway = user.start(&["serve", "--http", &address]);
    wait_for(|| TcpStream::connect(&address).is_ok());
    (gateway, address)
}

/// Status, head and body of a request.
pub(crate) fn request(address: &str, line: &str, token: Option<&str>, body: &Value) -> (u16, String, Value) {
    let token = token.map(|it| format!("authorization: Bearer {it}\r\n")).unwrap_or_default();
    request_with(address, line, &token, body)
}

/// The same with these header lines.
fn request_with(address: &str, line: &str, headers: &str, body: &Value) -> (u16, String, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = body.to_string();
    write!(
        stream,
        "{line} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    keep_reply(&text);
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// The last message of a run over the WebSocket.
fn by_socket(address: &str, token: &str, code: &str) -> String {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut request = format!("ws://{address}/v1/run/ws").into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        socket.send(Message::text(json!({ "code": code }).to_string())).await.unwrap();
        let mut last = String::new();
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Text(text) = message {
                last = text.to_string();
            }
        }
        last
    })
}

fn run(address: &str, token: Option<&str>, code: &str) -> (u16, String, Value) {
    request(address, "POST /v1/run", token, &json!({ "code": code }))
}

#[test]
fn tokens_of_the_issuer_open_what_their_scopes_say() {
    let (user, issuer) = (User::new(), Issuer::start());
    let scopes = json!({ "time": { "tools": ["demo.current_time"], "functions": [] }, "all": {} });
    let (gateway, address) = serve(&user, &issuer, scopes);
    let (status, head, refused) = run(&address, None, "return 1");
    let message = refused["error"]["message"].as_str().unwrap();
    let token = format!("where TOKEN is an access token of {} for this service", issuer.origin);
    assert!(message.contains(&token) && !message.contains("in the file"), "{message}");
    let challenge = r#"www-authenticate: Bearer scope="all time", resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp""#;
    assert!(status == 401 && head.contains(challenge), "{head}");
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"] {
        let (status, _, metadata) = request(&address, &format!("GET {path}"), None, &Value::Null);
        assert_eq!((status, &metadata["resource"]), (200, &json!(AUDIENCE)));
        assert_eq!(metadata["authorization_servers"], json!([issuer.origin]));
        assert_eq!(metadata["scopes_supported"], json!(["all", "time"]));
    }
    let code = "const names = Object.keys(demo); try { await demo.list_notes({}); return [names, 'called'] } catch (e) { return [names, e.message] }";
    let all = run(&address, Some(&issuer.token(&issuer.claims("openid all"))), code);
    assert!(all.0 == 200 && all.2.to_string().contains("called"), "{all:?}");
    let some = run(&address, Some(&issuer.token(&issuer.claims("time"))), code);
    assert!(some.0 == 200 && some.2.to_string().contains("current_time"), "{some:?}");
    assert!(!some.2.to_string().contains("called"), "{some:?}");
    let (status, head, _) = run(&address, Some(&issuer.token(&issuer.claims("openid"))), code);
    assert!(status == 403 && head.contains(r#"Bearer error="insufficient_scope", scope="all time""#), "{head}");
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    assert_eq!(request(&address, "POST /mcp", None, &mcp).0, 401);
    let session = json!({ "functions": [] });
    let token = issuer.token(&issuer.claims("all"));
    assert_eq!(request(&address, "POST /v1/sessions", Some(&token), &session).0, 400);
    drop(gateway);
}

#[test]
fn a_token_of_the_issuer_signs_no_browser_in_and_the_answer_says_what_does() {
    let (user, issuer) = (User::new(), Issuer::start());
    let (gateway, address) = serve(&user, &issuer, json!({}));
    let token = issuer.token(&issuer.claims(""));
    for (line, body) in [("POST /page/session", json!({ "key": token })), ("POST /v1/page/links", Value::Null)] {
        let (status, head, refused) = request(&address, line, Some(&token), &body);
        assert!(status == 403 && !head.contains("set-cookie"), "{line}: {head}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("sign in with a key of the configuration"), "{line}: {message}");
    }
    for (body, expected) in [
        (json!({ "key": "wrong" }), "give a key of the configuration (toolgate.http.keys), or open the link"),
        (json!({ "link": "used" }), "a link signs one browser in, once, within 10 minutes; run `toolgate ui`"),
    ] {
        let (status, _, refused) = request(&address, "POST /page/session", None, &body);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(status == 401 && message.contains(expected), "{body}: {message}");
    }
    drop(gateway);
}

#[test]
fn every_kind_of_signature_is_verified() {
    let (user, issuer) = (User::new(), Issuer::start());
    let (gateway, address) = serve(&user, &issuer, json!({}));
    let claims = issuer.claims("");
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
    let rsa = |encoding: &'static dyn RsaEncoding, text: &[u8]| {
        let mut signature = vec![0; issuer.rsa.public().modulus_len()];
        issuer.rsa.sign(encoding, &SystemRandom::new(), text, &mut signature).unwrap();
        signature
    };
    let rs256 = signed_by(&header("RS256", "rsa"), &claims, |text| rsa(&RSA_PKCS1_SHA256, text));
    let ps256 = signed_by(&header("PS256", "rsa"), &claims, |text| rsa(&RSA_PSS_SHA256, text));
    let eddsa = signed_by(&header("EdDSA", "ed"), &claims, |text| issuer.ed25519.sign(text).as_ref().to_vec());
    for (kind, token) in [("RS256", &rs256), ("PS256", &ps256), ("EdDSA", &eddsa), ("ES256", &issuer.token(&claims))] {
        assert_eq!(run(&address, Some(token), "return 1").0, 200, "{kind}");
        // One bit of the signature.
        let (text, signature) = token.rsplit_once('.').unwrap();
        let mut signature = BASE64.decode(signature).unwrap();
        signature[20] ^= 1;
        let changed = format!("{text}.{}", BASE64.encode(signature));
        assert_eq!(run(&address, Some(&changed), "return 1").0, 401, "{kind}");
    }
    // A signature is of the kind that its header says, by a key of that kind.
    for (case, token) in [
        ("PS as RS", signed_by(&header("RS256", "rsa"), &claims, |text| rsa(&RSA_PSS_SHA256, text))),
        ("RS as PS", signed_by(&header("PS256", "rsa"), &claims, |text| rsa(&RSA_PKCS1_SHA256, text))),
        ("key of another kind", signed_by(&header("RS256", "ed"), &claims, |text| rsa(&RSA_PKCS1_SHA256, text))),
    ] {
        assert_eq!(run(&address, Some(&token), "return 1").0, 401, "{case}");
    }
    drop(gateway);
}

#[test]
fn no_other_token_opens_anything() {
    let (user, issuer) = (User::new(), Issuer::start());
    let (gateway, address) = serve(&user, &issuer, json!({}));
    let good = issuer.token(&issuer.claims(""));
    assert_eq!(run(&address, Some(&good), "return 1").0, 200);
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims("");
        claims[name] = value;
        issuer.token(&claims)
    };
    let claims = issuer.claims("");
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid });
    let unsigned =
        format!("{}.{}.", BASE64.encode(header("none", "one").to_string()), BASE64.encode(claims.to_string()));
    let hmac = {
        let text =
            format!("{}.{}", BASE64.encode(header("HS256", "shared").to_string()), BASE64.encode(claims.to_string()));
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"public-secret");
        format!("{text}.{}", BASE64.encode(ring::hmac::sign(&key, text.as_bytes())))
    };
    let other_key = signed(&new_key(), &header("ES256", "one"), &claims);
    let critical = |crit: Value| {
        let header = json!({ "alg": "ES256", "kid": "one", "crit": crit, "b64": true, "urn:x": 1 });
        signed(&issuer.key, &header, &claims)
    };
    let mut without = claims.clone();
    without.as_object_mut().unwrap().remove("aud");
    let changed = good.replacen('.', ".e", 1);
    for (case, token) in [
        ("audience", with("aud", json!("https://other.example/mcp"))),
        ("no audience", issuer.token(&without)),
        ("issuer", with("iss", json!("https://evil.example"))),
        ("expired", with("exp", json!(1_000_000))),
        ("not yet", with("nbf", json!(9_999_999_999_u64))),
        ("nobody", with("sub", Value::Null)),
        ("unsigned", unsigned),
        ("shared secret", hmac),
        ("another key", other_key),
        ("critical extension", critical(json!(["urn:x"]))),
        ("critical extension of a standard", critical(json!(["b64"]))),
        ("no critical extension", critical(Value::Null)),
        ("changed", changed),
        ("garbage", "a.b.c".to_owned()),
        ("long", format!("{good}{}", "x".repeat(20_000))),
    ] {
        let (status, head, refused) = run(&address, Some(&token), "return 1");
        assert!(status == 401 && head.contains("resource_metadata="), "{case}: {head}");
        assert!(head.contains(r#"www-authenticate: Bearer error="invalid_token", "#), "{case}: {head}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("the token is not accepted") && message.contains(&issuer.origin), "{case}: {message}");
    }
    // Invented keys cost no requests.
    for number in 0..5 {
        let token = signed(&issuer.key, &header("ES256", &format!("invented-{number}")), &claims);
        assert_eq!(run(&address, Some(&token), "return 1").0, 401);
    }
    assert!(issuer.fetches.load(Ordering::Relaxed) <= 2, "{:?}", issuer.fetches);
    assert_eq!(run(&address, Some(&good), "return 1").0, 200);
    drop(gateway);
}

#[test]
fn the_token_of_a_caller_reaches_no_server_behind_the_gateway() {
    let (user, issuer, server) = (User::new(), Issuer::start(), Server::start(Behaviour::default()));
    let document = json!({
        "openapi": "3.1.0", "info": { "title": "pets", "version": "1" },
        "paths": { "/pets": { "get": { "operationId": "listPets", "responses": {} } } },
    });
    let document = user.file("pets.json", &document.to_string());
    let base = format!("{}/v1", server.fake.origin);
    let servers = json!({
        "notes": { "url": server.url() },
        "pets": { "type": "openapi", "spec": document, "base": base, "allowHosts": ["127.0.0.1"] },
    });
    user.config(&json!({ "mcpServers": servers }));
    assert_eq!(user.log_in(&["login", "notes"]).code, 0);
    let functions = json!({ "readNotes": { "tool": "notes.read" } });
    let (gateway, address) = serve_settings(&user, &issuer, json!({}), &servers, functions);
    let token = issuer.token(&issuer.claims(""));
    let read = |code: &str| run(&address, Some(&token), code).2.to_string();
    wait_for(|| read("return await notes.read({})").contains("done"));
    wait_for(|| read("try { return await pets.listPets({}) } catch (e) { return e.message }").contains("no token"));
    // The same in a program that an interpreter runs.
    assert!(read("const all = []; for (const n of [1]) all.push(await notes.read({})); return all").contains("done"));
    // And at the other doors: MCP, a WebSocket, and a function in an RPC session.
    let before = server.fake.seen.lock().unwrap().headers.len();
    let code = "return await notes.read({})";
    let mcp = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "call_tool_chain", "arguments": { "code": code }, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        },
    } });
    let headers = format!(
        "authorization: Bearer {token}\r\naccept: application/json\r\nmcp-protocol-version: 2026-07-28\r\n\
         mcp-method: tools/call\r\nmcp-name: call_tool_chain\r\n"
    );
    let answered = request_with(&address, "POST /mcp", &headers, &mcp);
    assert!(answered.2.to_string().contains("done"), "{answered:?}");
    assert!(by_socket(&address, &token, code).contains("done"));
    // Sessions are for holders of a key.
    let (_, _, session) = request(&address, "POST /v1/sessions", Some(KEY), &json!({ "functions": ["readNotes"] }));
    let (id, own_token) = (session["executionId"].as_str().unwrap(), session["token"].as_str().unwrap());
    let args = json!({ "args": [{}] });
    let answered = request(&address, &format!("POST /rpc/{id}/readNotes"), Some(own_token), &args);
    assert_eq!(answered.2["result"], "done", "{answered:?}");
    let seen = server.fake.seen.lock().unwrap();
    assert!(seen.headers.len() > before, "the calls of these doors were seen too");
    assert!(
        !seen.headers.iter().any(|header| header.contains(own_token) || header.contains(KEY)),
        "{:?}",
        seen.headers
    );
    let own = |header: &&String| header.starts_with("authorization: Bearer canary-access-");
    assert!(seen.headers.iter().filter(own).count() >= 2, "{:?}", seen.headers);
    let others = seen.headers.iter().filter(|header| header.starts_with("authorization:") && !own(header)).count();
    assert_eq!(others, 0, "{:?}", seen.headers);
    assert!(!seen.headers.iter().any(|header| header.contains(&token)), "{:?}", seen.headers);
    drop(seen);
    drop(gateway);
    user.check_no_secret();
}
