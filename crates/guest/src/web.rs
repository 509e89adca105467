//! URLs and query strings for the prelude, by the WHATWG rules of crate `url`.
//!
//! The prelude and this file exchange JSON texts: a URL's parts, a list of pairs.

use url::{Url, form_urlencoded, quirks};

/// The parts of a URL as a JSON object, or nothing when it is not one.
pub(crate) fn parse(input: &str, base: Option<&str>) -> Option<String> {
    let url = match base {
        Some(base) => Url::parse(base).ok()?.join(input).ok()?,
        None => Url::parse(input).ok()?,
    };
    Some(parts(&url))
}

/// The parts after a change of one; nothing when the change is refused.
pub(crate) fn set(href: &str, part: &str, value: &str) -> Option<String> {
    let mut url = Url::parse(href).ok()?;
    match part {
        "href" => return parse(value, None),
        "protocol" => quirks::set_protocol(&mut url, value).ok()?,
        "username" => quirks::set_username(&mut url, value).ok()?,
        "password" => quirks::set_password(&mut url, value).ok()?,
        "host" => quirks::set_host(&mut url, value).ok()?,
        "hostname" => quirks::set_hostname(&mut url, value).ok()?,
        "port" => quirks::set_port(&mut url, value).ok()?,
        "pathname" => quirks::set_pathname(&mut url, value),
        "search" => quirks::set_search(&mut url, value),
        "hash" => quirks::set_hash(&mut url, value),
        _ => return None,
    }
    Some(parts(&url))
}

fn parts(url: &Url) -> String {
    let origin = quirks::origin(url);
    let fields = [
        ("href", quirks::href(url)),
        ("origin", &origin),
        ("protocol", quirks::protocol(url)),
        ("username", quirks::username(url)),
        ("password", quirks::password(url)),
        ("host", quirks::host(url)),
        ("hostname", quirks::hostname(url)),
        ("port", quirks::port(url)),
        ("pathname", quirks::pathname(url)),
        ("search", quirks::search(url)),
        ("hash", quirks::hash(url)),
    ];
    let object: serde_json::Map<_, _> = fields.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect();
    serde_json::Value::Object(object).to_string()
}

/// The pairs of a query string as a JSON list.
pub(crate) fn parse_query(query: &str) -> String {
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    serde_json::json!(pairs).to_string()
}

/// The query string of a JSON list of pairs.
pub(crate) fn write_query(pairs: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_json::from_str(pairs).ok()?;
    Some(form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}
