//! Functions whose URL the user configured: endpoints and the weather.

use crate::support::{serve, serve_raw};
use axum::Router;
use axum::extract::{Query, RawQuery};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get};
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use toolgate_functions::endpoint::{EndpointMethod, HttpEndpoint, secret_header};
use toolgate_functions::weather::{WeatherSettings, get_weather};
use toolgate_functions::{CallContext, Hints, HostFunction, Param, Presence};
use url::Url;

async fn service() -> SocketAddr {
    let echo = |method: Method, RawQuery(query): RawQuery, headers: HeaderMap, body: String| async move {
        let key = headers.get("x-key").map(|value| value.to_str().unwrap_or_default().to_owned());
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        axum::Json(json!({"method": method.as_str(), "query": query, "key": key, "body": body}))
    };
    let busy = || async { (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "7")], "busy").into_response() };
    let router = Router::new()
        .route("/echo", any(echo))
        .route("/text", any(|| async { "plain" }))
        .route("/empty", any(|| async { StatusCode::NO_CONTENT }))
        .route("/busy", any(busy))
        .route("/teapot", any(|| async { (StatusCode::IM_A_TEAPOT, "x".repeat(10_000)) }))
        .route("/away", any(|| async { Redirect::temporary("/echo") }));
    serve(router).await
}

fn endpoint(url: &str, method: EndpointMethod, params: &[&str]) -> HostFunction {
    let param = |name: &&str| Param {
        name: (*name).to_owned(),
        schema: json!(true),
        presence: Presence::Optional,
        description: String::new(),
    };
    let endpoint = HttpEndpoint {
        effect: toolgate_functions::endpoint::DeclaredEffect::Unknown,
        name: "lookUp".to_owned(),
        description: String::new(),
        params: params.iter().map(param).collect(),
        result: json!(true),
        url: Url::parse(url).expect("a URL"),
        method,
        headers: HeaderMap::from_iter(secret_header("X-Key", "s3cret")),
        timeout: Duration::from_millis(500),
    };
    assert!(!format!("{endpoint:?}").contains("s3cret"), "a secret shows in Debug");
    endpoint.into_function().expect("a sound signature")
}

async fn call(function: &HostFunction, args: Value) -> Value {
    let Value::Array(args) = args else { panic!("arguments are a list") };
    function.call(CallContext::default(), args).await.unwrap_or_else(|error| error.to_json())
}

#[tokio::test]
async fn with_a_body_the_arguments_are_a_list() {
    let at = service().await;
    for (method, name) in
        [(EndpointMethod::Post, "POST"), (EndpointMethod::Put, "PUT"), (EndpointMethod::Patch, "PATCH")]
    {
        let function = endpoint(&format!("http://{at}/echo?a=b"), method, &[]);
        let expected = json!({"method": name, "query": "a=b", "key": "s3cret", "body": {"args": [1, {"x": null}]}});
        assert_eq!(call(&function, json!([1, {"x": null}])).await, expected);
    }
}

#[tokio::test]
async fn without_a_body_the_arguments_are_the_query() {
    let at = service().await;
    let named = endpoint(&format!("http://{at}/echo?a=b"), EndpointMethod::Get, &["q", "limit", "deep"]);
    let query = |answer: Value| answer["query"].clone();
    assert_eq!(
        query(call(&named, json!(["x&y=/#", 3, {"a": 1}])).await),
        "a=b&q=x%26y%3D%2F%23&limit=3&deep=%7B%22a%22%3A1%7D"
    );
    assert_eq!(query(call(&named, json!([null, 3])).await), "a=b&limit=3");
    assert_eq!(query(call(&named, json!([])).await), "a=b");
    let open = endpoint(&format!("http://{at}/echo"), EndpointMethod::Delete, &[]);
    assert_eq!(query(call(&open, json!(["x", 2])).await), "args=x&args=2");
}

#[tokio::test]
async fn an_answer_is_json_or_text_or_nothing() {
    let at = service().await;
    assert_eq!(call(&endpoint(&format!("http://{at}/text"), EndpointMethod::Get, &[]), json!([])).await, "plain");
    assert_eq!(call(&endpoint(&format!("http://{at}/empty"), EndpointMethod::Get, &[]), json!([])).await, Value::Null);
}

#[tokio::test]
async fn a_failing_endpoint_says_how_and_when_to_come_back() {
    let at = service().await;
    let busy = call(&endpoint(&format!("http://{at}/busy"), EndpointMethod::Get, &[]), json!([])).await;
    let expected = json!({
        "code": "UNAVAILABLE",
        "message": "lookUp: the endpoint answered 503 Service Unavailable",
        "data": {"status": 503, "body": "busy"},
        "retryAfterMs": 7000,
    });
    assert_eq!(busy, expected);
    let teapot = call(&endpoint(&format!("http://{at}/teapot"), EndpointMethod::Get, &[]), json!([])).await;
    assert_eq!(teapot["code"], "FAILED");
    assert_eq!(teapot["data"]["body"].as_str().map(str::len), Some(2048));
}

#[tokio::test]
async fn an_endpoint_that_moved_is_not_followed() {
    let at = service().await;
    let moved = call(&endpoint(&format!("http://{at}/away"), EndpointMethod::Get, &[]), json!([])).await;
    assert_eq!(moved["message"], "lookUp: the endpoint answered 307 Temporary Redirect");
}

#[tokio::test]
async fn errors_of_an_endpoint_do_not_name_its_url() {
    let (silent, _) = serve_raw("127.0.0.1:0", |stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let late = call(&endpoint(&format!("http://{silent}/"), EndpointMethod::Get, &[]), json!([])).await;
    assert_eq!(late, json!({"code": "TIMEOUT", "message": "lookUp: no answer within 500 ms"}));
    let (stalling, _) = serve_raw("127.0.0.1:0", |mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf").await;
        std::future::pending::<()>().await;
    })
    .await;
    let half = call(&endpoint(&format!("http://{stalling}/"), EndpointMethod::Get, &[]), json!([])).await;
    assert_eq!(half, json!({"code": "TIMEOUT", "message": "the response did not complete in time"}));
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("an address");
    let absent = call(&endpoint(&format!("http://{free}/"), EndpointMethod::Get, &[]), json!([])).await;
    assert_eq!(absent, json!({"code": "UNAVAILABLE", "message": "lookUp: the endpoint cannot be reached"}));
}

/// Open-Meteo, as far as it is asked.
async fn open_meteo() -> WeatherSettings {
    let forecast = |Query(query): Query<HashMap<String, String>>| async move {
        if query.get("current").is_none_or(|current| !current.contains("temperature_2m")) {
            return (StatusCode::BAD_REQUEST, "nothing asked").into_response();
        }
        let degrees = |name: &str| query.get(name).and_then(|text| text.parse::<f64>().ok());
        let current = json!({"time": "2024-05-01T12:00", "temperature_2m": 21.5});
        let units = json!({"temperature_2m": "°C"});
        let (latitude, longitude) = (degrees("latitude"), degrees("longitude"));
        let answer = json!({"latitude": latitude, "longitude": longitude, "elevation": 38, "current": current, "current_units": units});
        axum::Json(answer).into_response()
    };
    let at = serve(Router::new().route("/base/v1/forecast", get(forecast))).await;
    let base_url = Url::parse(&format!("http://{at}/base/")).expect("a URL");
    WeatherSettings { base_url, timeout: Duration::from_secs(5) }
}

async fn weather(settings: &WeatherSettings, args: Value, hints: Value) -> (Value, Vec<String>) {
    let (Value::Array(args), Value::Object(hints)) = (args, hints) else { panic!("a list and an object") };
    let context = CallContext { hints: Hints::new(hints), ..CallContext::default() };
    let warnings = context.warnings.clone();
    let answer = get_weather(settings).expect("a sound signature").call(context, args).await;
    (answer.unwrap_or_else(|error| error.to_json()), warnings.to_vec())
}

fn fine(latitude: f64, longitude: f64) -> Value {
    let current = json!({"time": "2024-05-01T12:00", "temperature_2m": 21.5});
    json!({"latitude": latitude, "longitude": longitude, "current": current, "current_units": {"temperature_2m": "°C"}})
}

#[tokio::test]
async fn the_weather_is_that_of_the_place_given() {
    let settings = open_meteo().await;
    let hints = json!({"location": {"latitude": 1, "longitude": 2}});
    let (answer, warnings) = weather(&settings, json!([{"latitude": 52.52, "longitude": 13.41}]), hints).await;
    assert_eq!((answer, warnings), (fine(52.52, 13.41), vec![]));
}

#[tokio::test]
async fn without_a_place_the_hints_are_used_and_a_warning_says_so() {
    let settings = open_meteo().await;
    for args in [json!([]), json!([null]), json!([{}])] {
        let hints = json!({"location": {"latitude": -33.9, "longitude": 151.2}});
        let (answer, warnings) = weather(&settings, args, hints).await;
        assert_eq!(answer, fine(-33.9, 151.2));
        let expected = "api.getWeather: no coordinates were given; used the request's location hint (-33.9, 151.2)";
        assert_eq!(warnings, [expected]);
    }
}

#[tokio::test]
async fn no_place_at_all_is_an_error_and_so_is_half_a_place() {
    let settings = open_meteo().await;
    for args in
        [json!([]), json!([{"latitude": 1}]), json!([{"latitude": 91, "longitude": 0}]), json!([{"city": "Rome"}])]
    {
        let (answer, warnings) = weather(&settings, args.clone(), json!({})).await;
        assert_eq!((answer["code"].clone(), warnings), (json!("INVALID_ARGUMENTS"), vec![]), "{args}");
    }
}

#[tokio::test]
async fn a_weather_service_that_makes_no_sense_is_an_error() {
    let at = serve(Router::new().route("/v1/forecast", get(|| async { "sunny" }))).await;
    let base_url = Url::parse(&format!("http://{at}")).expect("a URL");
    let settings = WeatherSettings { base_url, timeout: Duration::from_secs(5) };
    let place = json!([{"latitude": 0, "longitude": 0}]);
    let (answer, _) = weather(&settings, place, Value::Object(Map::new())).await;
    assert_eq!(answer["message"], "the weather service answered without current weather");
}
