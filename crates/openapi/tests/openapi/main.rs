//! Documents become tools, arguments become requests, answers become results.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod fake_server;
mod hostile;
mod references;
mod requests;
mod styles;
mod tools;

use serde_json::{Map, Value};
use std::collections::BTreeMap;
use toolgate_openapi::{Api, ApiSettings, Credentials};
use url::Url;

pub(crate) const EVERYTHING: &str = include_str!("../fixtures/everything.yaml");
pub(crate) const SWAGGER_2: &str = include_str!("../fixtures/swagger2.json");

pub(crate) fn settings(auth: &[(&str, &str)]) -> ApiSettings {
    let secrets: BTreeMap<String, String> = auth.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let base = Url::parse("https://api.example.com/v1/").unwrap();
    ApiSettings { credentials: Credentials::new(secrets), ..ApiSettings::new(base) }
}

pub(crate) fn load(text: &str) -> Api {
    Api::load(text, settings(&[])).unwrap()
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    let Value::Object(object) = value else { panic!("an object") };
    object
}

/// The tool of an operation.
pub(crate) fn tool(api: &Api, name: &str) -> Value {
    let operation = api.operations().iter().find(|it| it.name == name).unwrap_or_else(|| panic!("{name}"));
    serde_json::from_str(operation.tool.get()).unwrap()
}
