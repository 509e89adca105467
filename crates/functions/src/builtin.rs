//! The built-in functions: `httpCall`, `api.fetch`, `api.getWeather`. A run has them where egress is permitted, unless its
//! `functions` list omits them.

use super::http::{Fetcher, HttpRequest, HttpResponse};
use super::weather::{self, WeatherSettings};
use super::{CallContext, FailedEffect, FunctionAnswer, FunctionError, HostFunction, Registry, SignatureError};
use serde_json::{Value, json};
use std::sync::atomic::AtomicBool;

/// The built-in functions, with one guarded client: without a fetcher no request of a program's own choice is sent, and
/// without settings there is no weather.
pub fn registry(fetcher: Option<&Fetcher>, weather: Option<&WeatherSettings>) -> Result<Registry, SignatureError> {
    let mut functions = Registry::new();
    if let Some(fetcher) = fetcher {
        functions.insert(http_call(fetcher.clone())?);
        functions.insert(fetch(fetcher.clone())?);
    }
    if let Some(weather) = weather {
        functions.insert(weather::get_weather(weather)?);
    }
    Ok(functions)
}

/// `httpCall({url, method?, headers?, body?})`.
fn http_call(fetcher: Fetcher) -> Result<HostFunction, SignatureError> {
    let mut request = init_schema();
    let mut properties = json!({ "url": url_schema() });
    if let (Some(all), Some(init)) = (properties.as_object_mut(), request["properties"].as_object_mut()) {
        all.append(init);
    }
    request["properties"] = properties;
    request["required"] = json!(["url"]);
    HostFunction::builder("httpCall")
        .describe(
            "Sends an HTTP request and returns the response. Any status is a response, not an error. Only public hosts can be \
             reached.",
        )
        .required("request", request, "What to send. A body that is not a string is sent as JSON.")
        .returns(response_schema())
        .reads_only_by_method_of(0)
        .handle_counted(move |context, mut args| {
            let fetcher = fetcher.clone();
            async move {
                let mut init = args.first_mut().map(Value::take).unwrap_or_default();
                let url = init.as_object_mut().and_then(|request| request.remove("url")).unwrap_or_default();
                send(&fetcher, &context, &url, Some(&init)).await
            }
        })
}

/// `api.fetch(url, init)`.
fn fetch(fetcher: Fetcher) -> Result<HostFunction, SignatureError> {
    HostFunction::builder("api.fetch")
        .describe(
            "Fetches a URL and returns the whole response as plain data: `json` is already parsed, there is no `.json()`. Only \
             public hosts can be reached.",
        )
        .required("url", url_schema(), "An absolute http or https URL.")
        .optional("init", init_schema(), "How to send it; GET without a body by default.")
        .returns(response_schema())
        .reads_only_by_method_of(1)
        .handle_counted(move |context, args| {
            let fetcher = fetcher.clone();
            async move { send(&fetcher, &context, args.first().unwrap_or(&Value::Null), args.get(1)).await }
        })
}

async fn send(
    fetcher: &Fetcher,
    context: &CallContext,
    url: &Value,
    init: Option<&Value>,
) -> Result<FunctionAnswer, FunctionError> {
    let request = HttpRequest::new(url.as_str().unwrap_or_default(), init, fetcher.limits().request_body)?;
    let redirected = AtomicBool::new(false);
    let response = fetcher.fetch_noting(context, request, &redirected).await;
    response.and_then(HttpResponse::into_answer).map_err(|error| match redirected.into_inner() {
        true => FunctionError::from(error).with_effect(FailedEffect::Unknown),
        false => error.into(),
    })
}

fn url_schema() -> Value {
    json!({ "type": "string" })
}

fn init_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "method": { "type": "string" },
            "headers": { "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } },
            "body": {},
        },
        "additionalProperties": false,
    })
}

fn response_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": { "type": "integer" },
            "headers": {
                "type": "object",
                "additionalProperties": { "type": "string" },
                "description": "Lower-case names; repeated headers joined by `, `, set-cookie by line breaks.",
            },
            "json": { "description": "The parsed body, when the response says that it is JSON." },
            "body": { "type": "string", "description": "The body otherwise." },
            "encoding": { "const": "base64", "description": "Present when `body` is base64 of bytes that are no text." },
        },
        "required": ["status", "headers"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs;
    use crate::http::{AllowList, Guard, HttpLimits};

    fn built_in() -> Registry {
        let fetcher = Fetcher::new(Guard::new(AllowList::none()), HttpLimits::default());
        registry(Some(&fetcher), Some(&WeatherSettings::default())).expect("sound signatures")
    }

    #[test]
    fn the_built_in_functions_document_themselves() {
        insta::assert_snapshot!(docs::for_model(&built_in()));
    }

    async fn check(name: &str, args: Value, expected: &str) {
        let Value::Array(args) = args else { panic!("arguments are a list") };
        let found = built_in().call(name, CallContext::default(), args).await.expect_err("a refusal");
        assert_eq!(found.effect, FailedEffect::NotSent);
        assert_eq!(format!("{} {}", found.code.as_str(), found.message), expected);
    }

    #[test]
    fn a_get_reads_and_a_post_does_not() {
        let check = |name: &str, args: Value, expected: bool| {
            let function = built_in().get(name).cloned().expect("built in");
            assert_eq!(function.reads_only(&args.to_string()), expected, "{name} {args}");
        };
        check("httpCall", json!([{"url": "http://a.test"}]), true);
        check("httpCall", json!([{"url": "http://a.test", "method": "head"}]), true);
        check("httpCall", json!([{"url": "http://a.test", "method": "POST"}]), false);
        check("httpCall", json!([{"url": "http://a.test", "method": 1}]), false);
        check("api.fetch", json!(["http://a.test"]), true);
        check("api.fetch", json!(["http://a.test", {"method": "OPTIONS"}]), true);
        check("api.fetch", json!(["http://a.test", {"method": "DELETE"}]), false);
        check("api.getWeather", json!([]), true);
    }

    #[test]
    fn without_egress_there_is_nothing() {
        assert!(registry(None, None).expect("sound signatures").is_empty());
    }

    #[tokio::test]
    async fn a_request_that_can_not_be_sent_says_why() {
        check(
            "httpCall",
            json!([{}]),
            r#"INVALID_ARGUMENTS httpCall: argument 1 `request`: "url" is a required property"#,
        )
        .await;
        check("httpCall", json!([]), "INVALID_ARGUMENTS httpCall: argument 1 `request` is missing").await;
        check(
            "httpCall",
            json!([{"url": "ftp://a.test"}]),
            "REFUSED the scheme `ftp` is not allowed: use http or https",
        )
        .await;
        let credentials = "REFUSED a URL must not contain a user name or password: use the Authorization header";
        check("api.fetch", json!(["http://u:p@a.test/"]), credentials).await;
        check("api.fetch", json!(["http://u@a.test/", null]), credentials).await;
        let forbidden = "REFUSED the header `Host` must not be set";
        check("api.fetch", json!(["http://a.test/", {"headers": {"Host": "b"}}]), forbidden).await;
        let invalid = "INVALID_ARGUMENTS api.fetch: argument 2 `init` at /headers/a: [] is not of types \"boolean\", \"number\", \"string\"";
        check("api.fetch", json!(["http://a.test/", {"headers": {"a": []}}]), invalid).await;
    }
}
