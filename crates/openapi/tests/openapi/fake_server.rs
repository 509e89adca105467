//! A server made from the document accepts what is sent for any arguments that fit a tool's schema.
//!
//! The server reads requests by the document's own words, with code of its own: it finds the operation, takes each
//! parameter apart in its style, and validates what it finds against the document's schema. What it found must also be
//! what was given.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use toolgate_openapi::{ApiCallError, ApiRequest, ArgumentError};

use crate::{EVERYTHING, load, object, tool};

/// The document in JSON, which the server reads without the code that is tested.
fn document() -> Value {
    serde_json::from_str(include_str!("../fixtures/everything.json")).unwrap()
}

/// Draws values that fit a schema.
struct Drawer<'s> {
    root: &'s Value,
    state: u64,
}

impl Drawer<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    fn text(&mut self, least: u64) -> String {
        const PIECES: [&str; 24] = [
            "a",
            "Z",
            "0",
            " ",
            "/",
            "?",
            "&",
            "=",
            "#",
            "%",
            "%2F",
            "+",
            ",",
            "|",
            ";",
            ".",
            "..",
            "[",
            "]",
            "{",
            "\"",
            "ä",
            "\u{1F600}",
            "~",
        ];
        let length = least + self.below(5);
        (0..length).map(|_| PIECES[self.below(PIECES.len() as u64) as usize]).collect()
    }

    fn draw(&mut self, schema: &Value, depth: u32) -> Value {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let target = self.root.pointer(reference.strip_prefix('#').unwrap()).unwrap().clone();
            let drawn = self.draw(&target, depth);
            return self.with_constants(schema, drawn);
        }
        if let Some(constant) = schema.get("const") {
            return constant.clone();
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return values[self.below(values.len() as u64) as usize].clone();
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.get(keyword) {
                let branch = branches[self.below(branches.len() as u64) as usize].clone();
                return self.draw(&branch, depth);
            }
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            let parts: Vec<Value> = parts.iter().map(|part| self.draw(part, depth)).collect();
            let objects = parts.into_iter().filter_map(|part| part.as_object().cloned());
            return Value::Object(objects.flatten().collect());
        }
        let kind = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds[self.below(kinds.len() as u64) as usize].as_str().unwrap().to_owned(),
            Some(Value::String(kind)) => kind.clone(),
            _ => "string".to_owned(),
        };
        match kind.as_str() {
            "null" => Value::Null,
            "boolean" => json!(self.below(2) == 1),
            "integer" => json!(self.below(2_000) + 1),
            "number" => json!(self.below(2_000) as f64 / 8.0),
            "array" => {
                let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
                let more = if depth > 3 { 0 } else { self.below(4) };
                let items = schema.get("items").cloned().unwrap_or_default();
                (0..least + more).map(|_| self.draw(&items, depth + 1)).collect()
            }
            "object" => Value::Object(self.object(schema, depth)),
            _ => json!(self.text(schema.get("minLength").and_then(Value::as_u64).unwrap_or(0))),
        }
    }

    fn object(&mut self, schema: &Value, depth: u32) -> Map<String, Value> {
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let mut drawn = Map::new();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if required.contains(&name.as_str()) || (depth < 4 && self.below(2) == 1) {
                drawn.insert(name.clone(), self.draw(property, depth + 1));
            }
        }
        drawn
    }

    /// What stands beside a reference: the value of a discriminator.
    fn with_constants(&mut self, schema: &Value, mut drawn: Value) -> Value {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            drawn[name] = property["const"].clone();
        }
        drawn
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || (bytes.next().unwrap() as char).to_digit(16).unwrap() as u8;
                out.push(digit() * 16 + digit());
            }
            other => out.push(other),
        }
    }
    String::from_utf8(out).unwrap()
}

/// A text as the type that a schema wants.
fn typed(document: &Value, schema: &Value, text: &str) -> Value {
    match resolved(document, schema).get("type").and_then(Value::as_str) {
        Some("integer" | "number" | "boolean") => serde_json::from_str(text).unwrap_or_else(|_| json!(text)),
        _ => json!(text),
    }
}

fn resolved<'d>(document: &'d Value, schema: &'d Value) -> &'d Value {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => resolved(document, document.pointer(reference.strip_prefix('#').unwrap()).unwrap()),
        None => schema,
    }
}

fn list(document: &Value, schema: &Value, text: &str, separator: &str) -> Value {
    let items = &schema["items"];
    text.split(separator).map(|item| typed(document, items, &decoded(item))).collect()
}

fn pairs(document: &Value, schema: &Value, texts: &[(String, String)]) -> Value {
    let properties = &resolved(document, schema)["properties"];
    let one = |(name, text): &(String, String)| (name.clone(), typed(document, &properties[name], text));
    Value::Object(texts.iter().map(one).collect())
}

/// The value of one parameter in a request, or none.
fn parameter(document: &Value, parameter: &Value, found: &Found) -> Option<Value> {
    let text = |key: &str| parameter.get(key).and_then(Value::as_str);
    let (name, place) = (text("name")?, text("in")?);
    if let Some(content) = parameter.get("content") {
        assert!(content.get("application/json").is_some());
        let (_, text) = found.query.iter().find(|(key, _)| key == name)?;
        return serde_json::from_str(&decoded(text)).ok();
    }
    let schema = &parameter["schema"];
    let kind = resolved(document, schema).get("type").and_then(Value::as_str).unwrap_or("string");
    let explode = parameter.get("explode").and_then(Value::as_bool);
    let style = text("style").unwrap_or(if matches!(place, "query" | "cookie") { "form" } else { "simple" });
    let explode = explode.unwrap_or(style == "form");
    if place == "query" && style == "deepObject" {
        let prefix = format!("{name}[");
        let inner = found.query.iter().filter_map(|(key, value)| {
            Some((key.strip_prefix(&prefix)?.strip_suffix(']')?.to_owned(), decoded(value)))
        });
        let inner: Vec<(String, String)> = inner.collect();
        return (!inner.is_empty()).then(|| pairs(document, schema, &inner));
    }
    if place == "query" && kind == "array" && explode {
        let items: Vec<Value> = found
            .query
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, it)| typed(document, &schema["items"], &decoded(it)))
            .collect();
        return (!items.is_empty()).then(|| items.into());
    }
    let raw = match place {
        "path" => found.path.get(name)?.clone(),
        "query" => found.query.iter().find(|(key, _)| key == name)?.1.clone(),
        "header" => found.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?.1.clone(),
        _ => {
            let cookies = &found.headers.iter().find(|(key, _)| key == "cookie")?.1;
            cookies.split("; ").find_map(|pair| pair.strip_prefix(&format!("{name}=")))?.to_owned()
        }
    };
    Some(match (style, kind) {
        ("label", "array") => list(document, schema, raw.strip_prefix('.')?, if explode { "." } else { "," }),
        ("label", _) => typed(document, schema, &decoded(raw.strip_prefix('.')?)),
        ("matrix", "array") => {
            let items =
                raw.strip_prefix(';')?.split(';').map(|it| it.strip_prefix(&format!("{name}=")).unwrap().to_owned());
            items.map(|item| typed(document, &schema["items"], &decoded(&item))).collect()
        }
        ("matrix", _) => typed(document, schema, &decoded(raw.strip_prefix(&format!(";{name}="))?)),
        ("spaceDelimited", _) => list(document, schema, &raw, "%20"),
        ("pipeDelimited", _) => list(document, schema, &raw, "%7C"),
        (_, "array") => list(document, schema, &raw, ","),
        (_, "object") => {
            let texts: Vec<&str> = raw.split(',').collect();
            let inner: Vec<(String, String)> =
                texts.chunks(2).map(|pair| (decoded(pair[0]), decoded(pair[1]))).collect();
            pairs(document, schema, &inner)
        }
        _ => typed(document, schema, &decoded(&raw)),
    })
}

/// The parts of a request as a server sees them.
struct Found {
    path: HashMap<String, String>,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
}

/// The operation that a request is for, with its path variables.
fn route<'d>(document: &'d Value, request: &ApiRequest) -> (&'d Value, Vec<&'d Value>, HashMap<String, String>) {
    let path = request.url.path().strip_prefix("/v1").unwrap();
    let given: Vec<&str> = path.split('/').collect();
    for (template, item) in document["paths"].as_object().unwrap() {
        let parts: Vec<&str> = template.split('/').collect();
        let fits = |(part, text): (&&str, &&str)| part.starts_with('{') || part == text;
        let Some(operation) = item.get(request.method.to_lowercase()) else { continue };
        if parts.len() == given.len() && parts.iter().zip(&given).all(fits) {
            let variables = parts.iter().zip(&given).filter(|(part, _)| part.starts_with('{'));
            let variables =
                variables.map(|(part, text)| (part.trim_matches(['{', '}']).to_owned(), (*text).to_owned()));
            let shared = item.get("parameters").and_then(Value::as_array).into_iter().flatten();
            let own = operation.get("parameters").and_then(Value::as_array).into_iter().flatten();
            return (operation, own.chain(shared).collect(), variables.collect());
        }
    }
    panic!("no operation for {} {path}", request.method);
}

fn body(document: &Value, media_type: &str, schema: &Value, request: &ApiRequest) -> Option<Value> {
    let bytes = request.body.as_ref()?;
    let sent = request.headers.iter().find(|(name, _)| name == "content-type").unwrap().1.as_str();
    assert!(sent.starts_with(media_type), "{sent} is not {media_type}");
    Some(match media_type {
        "application/json" => serde_json::from_slice(bytes).unwrap(),
        "application/octet-stream" => json!(String::from_utf8(bytes.clone()).unwrap()),
        "multipart/form-data" => multipart(document, schema, sent, bytes),
        _ => {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let fields: Vec<(String, String)> = text
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, value)| (decoded(name), value.to_owned()))
                .collect();
            form(document, schema, &fields)
        }
    })
}

fn form(document: &Value, schema: &Value, fields: &[(String, String)]) -> Value {
    let mut value = Map::new();
    for (name, property) in schema["properties"].as_object().unwrap() {
        let given: Vec<&String> = fields.iter().filter(|(key, _)| key == name).map(|(_, it)| it).collect();
        let prefix = format!("{name}[");
        let deep = fields
            .iter()
            .filter_map(|(key, it)| Some((key.strip_prefix(&prefix)?.strip_suffix(']')?.to_owned(), decoded(it))));
        let deep: Vec<(String, String)> = deep.collect();
        match resolved(document, property)["type"].as_str() {
            Some("array") if !given.is_empty() => {
                let items = given.iter().map(|it| typed(document, &property["items"], &decoded(it))).collect();
                value.insert(name.clone(), items);
            }
            Some("object") if !deep.is_empty() => drop(value.insert(name.clone(), pairs(document, property, &deep))),
            Some("object") if !given.is_empty() => {
                value.insert(name.clone(), serde_json::from_str(&decoded(given[0])).unwrap());
            }
            _ if !given.is_empty() => drop(value.insert(name.clone(), typed(document, property, &decoded(given[0])))),
            _ => {}
        }
    }
    Value::Object(value)
}

fn multipart(document: &Value, schema: &Value, content_type: &str, bytes: &[u8]) -> Value {
    let boundary = content_type.split("boundary=").nth(1).unwrap();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let mut value = Map::new();
    for part in text.split(&format!("--{boundary}")).filter(|part| part.starts_with("\r\n") && part.len() > 2) {
        let (head, content) = part.trim_start_matches("\r\n").split_once("\r\n\r\n").unwrap_or_default();
        let Some(name) = head.split("name=\"").nth(1).and_then(|it| it.split('"').next()) else { continue };
        let content = content.strip_suffix("\r\n").unwrap();
        let property = resolved(document, &schema["properties"][name]);
        let one = if property["type"] == "object" { serde_json::from_str(content).unwrap() } else { json!(content) };
        value.insert(name.to_owned(), one);
    }
    Value::Object(value)
}

/// Whether the server accepts a request; gives what it found, by place.
fn serve(document: &Value, request: &ApiRequest) -> Map<String, Value> {
    let (operation, parameters, path) = route(document, request);
    let query = request.url.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let query = query.map(|(name, value)| (decoded(name), value.to_owned())).collect();
    let found = Found { path, query, headers: request.headers.clone() };
    let valid = |schema: &Value, value: &Value| {
        let mut schema = schema.clone();
        schema["components"] = document["components"].clone();
        jsonschema::validate(&schema, value).unwrap_or_else(|error| panic!("{error}: {value} for {request:?}"));
    };
    let mut read = Map::new();
    for raw in parameters {
        let name = format!("{}_{}", raw["in"].as_str().unwrap(), raw["name"].as_str().unwrap());
        match parameter(document, raw, &found) {
            Some(value) => {
                let schema = raw.get("schema").unwrap_or_else(|| &raw["content"]["application/json"]["schema"]);
                valid(schema, &value);
                read.insert(name, value);
            }
            None => assert_ne!(raw.get("required"), Some(&json!(true)), "{name} is missing"),
        }
    }
    if let Some(declared) = operation.get("requestBody") {
        let (media_type, media) = declared["content"].as_object().unwrap().iter().next().unwrap();
        let empty = json!({});
        let schema = media.get("schema").unwrap_or(&empty);
        match body(document, media_type, schema, request) {
            Some(value) => {
                valid(schema, &value);
                read.insert("body".to_owned(), value);
            }
            None => assert_ne!(declared.get("required"), Some(&json!(true)), "the body is missing"),
        }
    }
    read
}

/// What was given, by the places that the document has: a flattened body as one object.
fn given(tool_name: &str, arguments: &Map<String, Value>, read: &Map<String, Value>) -> Map<String, Value> {
    let mut by_place = Map::new();
    let mut body = Map::new();
    for (name, value) in arguments.iter().filter(|(_, value)| !value.is_null() || tool_name == "putItem") {
        let place = ["path", "query", "header", "cookie"]
            .into_iter()
            .find(|place| read.contains_key(&format!("{place}_{name}")));
        match place {
            Some(place) => drop(by_place.insert(format!("{place}_{name}"), value.clone())),
            None if name == "path_id" => drop(by_place.insert(name.clone(), value.clone())),
            None if name == "body" => drop(by_place.insert(name.clone(), plain(value))),
            None => drop(body.insert(name.strip_prefix("body_").unwrap_or(name).to_owned(), plain(value))),
        }
    }
    if !body.is_empty() || read.contains_key("body") && !by_place.contains_key("body") {
        by_place.insert("body".to_owned(), Value::Object(body));
    }
    by_place
}

/// A file as the text that it holds.
fn plain(value: &Value) -> Value {
    match value.get("base64").and_then(Value::as_str) {
        Some("aGk=") => json!("hi"),
        _ => value.clone(),
    }
}

/// Texts drawn for `base64` become base64, and names of files become names.
fn repaired(value: &mut Value) {
    match value {
        Value::Object(members) if members.contains_key("base64") => {
            *value = json!({"base64": "aGk=", "filename": "a.txt"})
        }
        Value::Object(members) => members.values_mut().for_each(repaired),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn a_server_made_from_the_document_accepts_what_is_sent(seed: u64) {
        thread_local! {
            static LOADED: (toolgate_openapi::Api, Value) = (load(EVERYTHING), document());
        }
        LOADED.with(|(api, document)| {
            let operation = &api.operations()[(seed % api.operations().len() as u64) as usize];
            let schema = tool(api, &operation.name)["inputSchema"].clone();
            let mut arguments = Drawer { root: &schema, state: seed }.draw(&schema, 0);
            arguments.as_object_mut().unwrap().values_mut().for_each(repaired);
            prop_assert!(jsonschema::is_valid(&schema, &arguments), "{} {arguments}", operation.name);
            let arguments = object(arguments);
            match api.request(&operation.name, &arguments) {
                Ok(request) => {
                    let read = serve(document, &request);
                    prop_assert_eq!(&given(&operation.name, &arguments, &read), &read, "{:?}", request);
                }
                // A step of a path is never sent, nor an item with the separator of its list.
                Err(ApiCallError::Arguments(ArgumentError::Unfit { argument, problem })) => {
                    let text = arguments[&argument].to_string();
                    let is_step = problem.contains("step of a path") && text.contains('.');
                    let is_separator = problem.contains("separates its items") && text.contains([' ', '|']);
                    prop_assert!(is_step || is_separator, "{problem} {text}");
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            }
            Ok(())
        })?;
    }
}

#[test]
fn the_server_has_the_document_that_the_tools_are_made_from() {
    let read = |text: &str| {
        let api = load(text);
        let tools = api.operations().iter().map(|it| it.tool.get().to_owned());
        tools.collect::<Vec<_>>()
    };
    assert_eq!(read(EVERYTHING), read(include_str!("../fixtures/everything.json")));
}
