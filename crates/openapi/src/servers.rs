//! The servers that a document names. They are suggestions for the configuration, which alone decides where requests go.

use serde_json::Value;
use url::Url;

use crate::document::{Document, Version};

/// The URL of a server with the defaults of its variables.
pub(crate) fn with_defaults(server: &Value) -> String {
    let mut url = server.get("url").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    for (name, variable) in server.get("variables").and_then(Value::as_object).into_iter().flatten() {
        let default = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), default);
    }
    url
}

/// The absolute servers of a document; relative ones are resolved against where the document came from.
pub(crate) fn declared(document: &Document<'_>, origin: Option<&Url>) -> Vec<Url> {
    let texts: Vec<String> = match document.version {
        Version::V2 => v2_servers(document, origin),
        Version::V30 | Version::V31 | Version::V32 => {
            let servers = document.top("servers").and_then(|it| it.as_array().cloned()).unwrap_or_default();
            if servers.is_empty() { of_first_path(document) } else { servers.iter().map(with_defaults).collect() }
        }
    };
    let absolute = |text: &String| match origin {
        Some(origin) => origin.join(text).ok(),
        // Without a scheme, the safe one.
        None if text.starts_with("//") => Url::parse(&format!("https:{text}")).ok(),
        None => Url::parse(text).ok(),
    };
    texts.iter().filter_map(absolute).filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host()).collect()
}

/// The servers of the first path, for a document that has none of its own.
fn of_first_path(document: &Document<'_>) -> Vec<String> {
    let paths = document.paths().unwrap_or_default();
    let item = paths.first().and_then(|(_, raw)| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default();
    let members = item.as_object().into_iter().flat_map(|item| item.values());
    let servers = item.get("servers").or_else(|| members.clone().find_map(|operation| operation.get("servers")));
    servers.and_then(Value::as_array).into_iter().flatten().map(with_defaults).collect()
}

fn v2_servers(document: &Document<'_>, origin: Option<&Url>) -> Vec<String> {
    let text = |key: &str| document.top(key).and_then(|it| it.as_str().map(str::to_owned));
    let mut path = text("basePath").unwrap_or_default();
    if !path.is_empty() && !path.starts_with('/') {
        path.insert(0, '/');
    }
    let Some(host) = text("host") else { return origin.map(|_| path).into_iter().collect() };
    let schemes = document.top("schemes").and_then(|it| it.as_array().cloned()).unwrap_or_default();
    let mut schemes: Vec<&str> = schemes.iter().filter_map(Value::as_str).collect();
    schemes.sort_by_key(|scheme| *scheme != "https");
    let scheme = schemes.first().copied().unwrap_or("https");
    vec![format!("{scheme}://{host}{path}")]
}
