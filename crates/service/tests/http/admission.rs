//! Who is let in.

use crate::harness::{Case, cases};
use crate::support::{Ask, Server, Setup, globs, hold, http, key, rate, read, start};
use serde_json::json;
use toolgate_config::checked::Http;
use toolgate_config::values::{HostName, HttpAuth, MetricsAccess, Origin, Setting};
use toolgate_service::{AdmissionRules, LocalToken, ServerLimits, Shutdown, listen_unix, serve};
use toolgate_wire::CallRate;

pub(crate) fn cases() -> Vec<Case> {
    cases![
        with_keys_a_request_without_a_key_is_refused,
        health_needs_no_key,
        a_key_grants_its_functions_and_no_others,
        a_key_grants_its_backends_and_no_others,
        a_key_grants_its_tools_and_so_many_calls,
        an_exceeded_rate_has_retry_after,
        a_foreign_host_name_is_refused,
        a_foreign_origin_is_refused,
        an_allowed_origin_gets_cors_headers,
        changed_rules_apply_to_the_next_request,
        another_router_has_the_same_admission,
        without_keys_a_local_client_needs_the_token,
        without_keys_and_token_nobody_is_admitted,
        a_unix_socket_is_open_to_its_user_only,
        wrong_keys_slow_their_address_down_and_right_ones_are_accepted_at_once,
        a_key_is_shown_its_own_runs_in_flight,
        the_key_for_metrics_opens_nothing_else,
        metrics_are_for_callers_for_one_key_or_open,
    ]
}

fn with_keys() -> Setup {
    let mut few = key("few");
    (few.functions, few.backends) = (globs(&["a*"]), globs(&["sh*"]));
    let mut rare = key("rare");
    rare.rate = rate("1/h");
    Setup { http: http(vec![key("all"), few, rare]), ..Setup::default() }
}

fn run(server: &Server, code: &str) -> Ask {
    server.ask("POST", "/v1/run").json(&json!({ "code": code }).to_string())
}

async fn with_keys_a_request_without_a_key_is_refused() {
    let server = start(with_keys()).await;
    let bare = run(&server, "return 1").send().await;
    assert_eq!((bare.refusal().as_str(), bare.header("www-authenticate")), ("401 UNAUTHORIZED", Some("Bearer")));
    let told = bare.json()["error"]["message"].as_str().expect("the message is text").to_owned();
    assert!(told.contains("send the header `authorization: Bearer KEY`"), "{told}");
    let guess = run(&server, "return 1").bearer("guess").send().await;
    assert_eq!(guess.json(), bare.json(), "the reason is not told");
    for wrong in ["", "all", "all-key ", "all-key2", "ALL-KEY"] {
        let answer = run(&server, "return 1").bearer(wrong).send().await;
        // Spaces around a key are not part of it.
        assert_eq!(answer.status, if wrong.trim() == "all-key" { 200 } else { 401 }, "{wrong:?}");
    }
    let basic = run(&server, "return 1").header("Authorization", "Basic all-key").send().await;
    assert_eq!(basic.refusal(), "401 UNAUTHORIZED");
    let twice = run(&server, "return 1").bearer("all-key").bearer("all-key").send().await;
    assert_eq!(twice.refusal(), "401 UNAUTHORIZED");
    assert_eq!(run(&server, "return 1").bearer("all-key").send().await.json()["result"], json!(1));
    for path in ["/v1/functions", "/v1/openapi.json", "/v1/run/ws"] {
        assert_eq!(server.get(path).await.refusal(), "401 UNAUTHORIZED", "{path}");
    }
    let document = server.ask("GET", "/v1/openapi.json").bearer("all-key").send().await.json();
    assert_eq!(document["paths"]["/v1/run"]["post"]["security"], json!([{"key": []}]));
}

/// With keys, and a key for metrics.
fn with_metrics(metrics: MetricsAccess) -> Setup {
    let http = Http { metrics, metrics_key: Some(key("scrape").hash), ..http(vec![key("all")]) };
    Setup { http, ..Setup::default() }
}

async fn the_key_for_metrics_opens_nothing_else() {
    let server = start(with_metrics(MetricsAccess::Callers)).await;
    let scraped = server.ask("GET", "/metrics").bearer("scrape-key").send().await;
    assert_eq!(scraped.status, 200);
    assert!(scraped.body.contains("toolgate_backend_ready{backend="), "{}", scraped.body);
    assert_eq!(run(&server, "return 1").bearer("scrape-key").send().await.refusal(), "401 UNAUTHORIZED");
    for path in ["/v1/functions", "/v1/stats", "/v1/history", "/v1/tools", "/v1/openapi.json", "/v1/run/ws"] {
        let answer = server.ask("GET", path).bearer("scrape-key").send().await;
        assert_eq!(answer.refusal(), "401 UNAUTHORIZED", "{path}");
    }
    assert_eq!(server.ask("POST", "/metrics").bearer("scrape-key").send().await.status, 405);
}

async fn metrics_are_for_callers_for_one_key_or_open() {
    for (access, expected) in [
        (MetricsAccess::Callers, [200, 200, 401, 401]),
        (MetricsAccess::Key, [200, 401, 401, 401]),
        (MetricsAccess::Open, [200, 200, 200, 200]),
    ] {
        let server = start(with_metrics(access)).await;
        let mut found = Vec::new();
        for presented in [Some("scrape-key"), Some("all-key"), Some("guess"), None] {
            let ask = server.ask("GET", "/metrics");
            let answer = presented.into_iter().fold(ask, Ask::bearer).send().await;
            // The other key may use no backend, and a request without a key learns totals and no names.
            let shows = answer.body.contains("toolgate_backend_ready{");
            assert_eq!(shows, presented == Some("scrape-key"), "{access:?} {presented:?}");
            assert_eq!(
                answer.body.contains("toolgate_runs_in_flight"),
                answer.status == 200,
                "{access:?} {presented:?}"
            );
            found.push(answer.status);
        }
        assert_eq!(found, expected, "{access:?}");
    }
}

async fn health_needs_no_key() {
    let server = start(with_keys()).await;
    assert_eq!(server.get("/healthz").await.status, 200);
    assert_eq!(server.get("/readyz").await.status, 200);
}

async fn a_key_grants_its_functions_and_no_others() {
    let server = start(with_keys()).await;
    let report = run(&server, "return [typeof add, typeof fail]").bearer("few-key").send().await.json();
    assert_eq!(report["result"], json!(["function", "undefined"]), "{report}");
    let refused = |name: &str| {
        let body = json!({"code": "", "functions": [name]}).to_string();
        server.ask("POST", "/v1/run").json(&body).bearer("few-key").send()
    };
    let (hidden, unknown) = (refused("fail").await, refused("nope").await);
    assert_eq!(hidden.refusal(), "400 INVALID_INPUT /functions/0");
    assert_eq!(hidden.body.replace("fail", "nope"), unknown.body);
    let list = server.ask("GET", "/v1/functions").bearer("few-key").send().await.json();
    assert_eq!(list["functions"].as_array().map(Vec::len), Some(1));
}

async fn a_key_grants_its_backends_and_no_others() {
    let server = start(with_keys()).await;
    let code = "return shop.find({what: 'tea'})";
    let granted = run(&server, code).bearer("few-key").send().await.json();
    assert_eq!(granted["result"], json!({"found": "tea"}), "{granted}");
    assert_eq!(granted["calls"][0]["name"], json!("shop.find"));
    let other = run(&server, code).bearer("all-key").send().await.json();
    assert_eq!(other["code"], json!("RUNTIME"), "{other}");
}

async fn a_key_grants_its_tools_and_so_many_calls() {
    let mut other = key("other");
    (other.backends, other.tools) = (None, globs(&["shop.other*"]));
    let mut slow = key("slow");
    (slow.backends, slow.tools, slow.call_rate) = (None, globs(&["shop.f*"]), CallRate::per_minute(1));
    let server = start(Setup { http: http(vec![other, slow]), ..Setup::default() }).await;
    let code = "try { return await shop.find({what: 'tea'}) } catch (e) { return e.code }";
    let ask = async |bearer: &str| run(&server, code).bearer(bearer).send().await.json()["result"].clone();
    assert_eq!(ask("other-key").await, json!("UNKNOWN_TOOL"));
    assert_eq!(ask("slow-key").await, json!({"found": "tea"}));
    assert_eq!(ask("slow-key").await, json!("RATE_LIMITED"));
}

async fn an_exceeded_rate_has_retry_after() {
    let server = start(with_keys()).await;
    assert_eq!(run(&server, "return 1").bearer("rare-key").send().await.status, 200);
    let again = run(&server, "return 1").bearer("rare-key").send().await;
    assert_eq!(again.refusal(), "429 RATE_LIMITED");
    let wait: u64 = again.header("retry-after").and_then(|wait| wait.parse().ok()).expect("a number");
    assert!((3590..=3600).contains(&wait), "{wait}");
    assert_eq!(run(&server, "return 1").bearer("all-key").send().await.status, 200);
}

async fn a_foreign_host_name_is_refused() {
    let server = start(Setup::default()).await;
    let check = async |host: &str, expected: u16| {
        let answer = server.ask("GET", "/healthz").header("Host", host).send().await;
        assert_eq!(answer.status, expected, "{host}: {answer:?}");
    };
    check("localhost", 200).await;
    check(&format!("localhost:{}", server.at.port()), 200).await;
    check("[::1]:1", 200).await;
    check("evil.example", 403).await;
    check("localhost.evil.example", 403).await;
    let two = server.ask("GET", "/healthz").header("X-Other", "1\r\nHost: evil.example").send().await;
    assert_eq!(two.status, 400, "{two:?}");
}

async fn a_foreign_origin_is_refused() {
    let server = start(Setup::default()).await;
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        let answer = run(&server, "return 1").header("Origin", origin).send().await;
        assert_eq!(answer.refusal(), "403 FORBIDDEN", "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    let own = format!("http://{}", server.at);
    assert_eq!(run(&server, "return 1").header("Origin", &own).send().await.status, 200);
}

async fn an_allowed_origin_gets_cors_headers() {
    let page = "https://app.example";
    let http = Http {
        allowed_origins: vec![Origin::parse(page).expect("an origin")],
        allowed_hosts: vec![HostName::parse("tools.example").expect("a host")],
        ..http(vec![])
    };
    let server = start(Setup { http, ..Setup::default() }).await;
    let answer = run(&server, "return 1").header("Origin", page).header("Host", "tools.example").send().await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(page)));
    let asked = server.ask("OPTIONS", "/v1/run").header("Origin", page);
    let asked = asked.header("Access-Control-Request-Method", "POST").send().await;
    assert_eq!((asked.status, asked.header("access-control-allow-methods")), (204, Some("GET, POST, DELETE")));
}

async fn changed_rules_apply_to_the_next_request() {
    let server = start(Setup::default()).await;
    assert_eq!(run(&server, "return 1").send().await.status, 200);
    server.service.change(AdmissionRules::new(http(vec![key("all")]), None));
    assert_eq!(run(&server, "return 1").send().await.status, 401);
    let report = run(&server, "return typeof add").bearer("all-key").send().await.json();
    assert_eq!(report["result"], json!("function"));
}

async fn another_router_has_the_same_admission() {
    use axum::extract::{ConnectInfo, Extension};
    use axum::routing::get;
    use std::net::SocketAddr;
    use toolgate_service::Caller;
    let server = start(with_keys()).await;
    let name = |Extension(caller): Extension<Caller>, ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
        format!("{} from {}", caller.name(), peer.ip())
    };
    let door = server.service.guarded(axum::Router::new().route("/mcp", get(name)));
    let router = server.service.router().merge(door);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("an address");
    let served = tokio::spawn(serve(listener, router, server.shutdown.clone(), ServerLimits::default()));
    let ask = || crate::support::ask(at, "GET", "/mcp");
    assert_eq!(ask().send().await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(ask().bearer("few-key").send().await.body, "few from 127.0.0.1");
    let rebound = ask().bearer("few-key").header("Host", "evil.example").send().await;
    assert_eq!(rebound.refusal(), "403 FORBIDDEN");
    let unknown = crate::support::ask(at, "GET", "/v2/run").send().await;
    assert_eq!(unknown.refusal(), "404 NOT_FOUND");
    assert_eq!(unknown.json()["error"]["message"], json!("no such path: /v2/run"));
    served.abort();
}

async fn without_keys_a_local_client_needs_the_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = LocalToken::open(&folder.path().join("token")).expect("a token");
    let text = std::fs::read_to_string(token.path()).expect("readable");
    let http = Http { auth: HttpAuth::Token, ..http(vec![]) };
    let server = start(Setup { http, token: Some(token), ..Setup::default() }).await;
    assert_eq!(run(&server, "return 1").send().await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(run(&server, "return 1").bearer("0123456789abcdef0123456789abcdef").send().await.status, 401);
    let report = run(&server, "return (await shop.find({what: 'tea'})).found").bearer(text.trim()).send().await.json();
    assert_eq!(report["result"], json!("tea"), "{report}");
    let document = server.ask("GET", "/v1/openapi.json").bearer(text.trim()).send().await.json();
    assert_eq!(document["paths"]["/v1/run"]["post"]["security"], json!([{"key": []}]));
    assert_eq!(server.get("/healthz").await.status, 200);
}

async fn without_keys_and_token_nobody_is_admitted() {
    let http = Http { auth: HttpAuth::Token, ..http(vec![]) };
    let server = start(Setup { http, ..Setup::default() }).await;
    assert_eq!(run(&server, "return 1").send().await.refusal(), "401 UNAUTHORIZED");
    assert_eq!(run(&server, "return 1").bearer("").send().await.refusal(), "401 UNAUTHORIZED");
}

async fn a_unix_socket_is_open_to_its_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolgate.sock");
    let http = Http { auth: HttpAuth::Token, ..http(vec![]) };
    let server = start(Setup { http, ..Setup::default() }).await;
    let listener = listen_unix(&path).expect("it listens");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let busy = listen_unix(&path).expect_err("in use");
    assert_eq!(busy.kind(), std::io::ErrorKind::AddrInUse);
    let shutdown = Shutdown::default();
    let served = tokio::spawn(serve(listener, server.service.router(), shutdown.clone(), ServerLimits::default()));
    let stream = tokio::net::UnixStream::connect(&path).await.expect("connected");
    // No token: whoever can open the socket is its user.
    let answer = run(&server, "return 1").send_over(stream).await;
    assert_eq!(answer.json()["result"], json!(1), "{answer:?}");
    shutdown.begin.cancel();
    served.await.expect("no panic").expect("served");
    assert!(!path.exists(), "the socket is removed");
    // The socket of a server that was killed is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    drop(listen_unix(&path).expect("it listens"));
    std::fs::write(&path, "a file").expect("written");
    assert!(listen_unix(&path).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
}

async fn wrong_keys_slow_their_address_down_and_right_ones_are_accepted_at_once() {
    let server = start(with_keys()).await;
    for _ in 0..20 {
        // A request without a key is no guess.
        assert_eq!(run(&server, "return 1").send().await.status, 401);
    }
    let guesses = || futures_util::future::join_all((0..64).map(|_| run(&server, "return 1").bearer("wrong").send()));
    // Some wrong keys are answered at once, then few may wait at one time.
    loop {
        let answers = guesses().await;
        assert!(answers.iter().all(|answer| matches!(answer.status, 401 | 429)), "{answers:?}");
        if let Some(refused) = answers.iter().find(|answer| answer.status == 429) {
            assert_eq!((refused.refusal().as_str(), refused.header("retry-after")), ("429 RATE_LIMITED", Some("1")));
            let told = json!("too many wrong keys or tokens came from your address");
            assert_eq!(refused.json()["error"]["message"], told);
            break;
        }
    }
    // The right key is accepted while others guess, however many wait.
    let right = (0..8).map(|_| run(&server, "return 1").bearer("all-key").send());
    let (_, answers) = tokio::join!(guesses(), futures_util::future::join_all(right));
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
}

async fn a_key_is_shown_its_own_runs_in_flight() {
    let mut hold = hold();
    let functions = [hold.function.clone()].into_iter().collect();
    let server = start(Setup { functions, ..with_keys() }).await;
    let running = run(&server, "return hold()").bearer("all-key").begin().await;
    hold.began.recv().await.expect("it began");
    let shown =
        async |bearer: &str| server.ask("GET", "/v1/stats").bearer(bearer).send().await.json()["runsInFlight"].clone();
    assert_eq!((shown("all-key").await, shown("few-key").await), (json!(1), json!(0)));
    hold.release.notify_one();
    assert_eq!(read(running).await.status, 200);
    assert_eq!(shown("all-key").await, json!(0));
}
