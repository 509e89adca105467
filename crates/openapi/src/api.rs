//! An API that a document describes: its tools, and the calls of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value};
use url::Url;

use crate::answer;
use crate::bounds::{MAX_DOCUMENT_BYTES, MAX_REDIRECTS};
use crate::document::Document;
use crate::encode::{self, ArgumentError};
use crate::filter::OperationFilter;
use crate::operation::Operation;
use crate::read::{Reader, SkippedOperation};
use crate::security::{Credentials, Security};
use crate::transport::{ApiAnswer, ApiRequest, ApiTransport, TransportError};
use crate::yaml::{self, Conversion};
use crate::{pages, servers};
use toolgate_wire::foreign_text::one_line;

/// What the configuration says about an API. Printed without values of headers, which may be secrets.
#[derive(Clone)]
pub struct ApiSettings {
    /// Where requests go: everything is below this URL.
    pub base: Url,
    /// Secrets by security scheme.
    pub credentials: Credentials,
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Which operations are tools.
    pub filter: OperationFilter,
}

impl ApiSettings {
    /// Settings with a base alone.
    pub fn new(base: Url) -> Self {
        Self { base, credentials: Credentials::default(), headers: Vec::new(), filter: OperationFilter::default() }
    }
}

impl fmt::Debug for ApiSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ApiSettings")
            .field("base", &self.base.as_str())
            .field("credentials", &self.credentials)
            .field("headers", &headers)
            .field("filter", &self.filter)
            .finish()
    }
}

/// Why a document cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The document is too large.
    #[error("the document has {size} bytes, but at most {MAX_DOCUMENT_BYTES} are read")]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// It is neither JSON nor YAML, or no OpenAPI document.
    #[error("not an OpenAPI document: {0}")]
    NotOpenApi(String),
    /// The base is no place for requests.
    #[error("base: {0}")]
    Base(String),
    /// The credentials do not fit the document.
    #[error("{0}")]
    Credentials(String),
    /// Nothing is left to call.
    #[error("no operation can be called: {0}")]
    Empty(String),
    /// Reading was cancelled.
    #[error("reading it was cancelled")]
    Cancelled,
}

/// Why a call gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiCallError {
    /// There is no such operation.
    #[error("no operation named {0}")]
    Unknown(String),
    /// The arguments cannot be sent.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// There is no answer.
    #[error(transparent)]
    Transport(#[from] TransportError),
}

/// What a document says of itself, for people who add it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentSummary {
    /// Its title.
    pub title: String,
    /// The servers that it names, absolute.
    pub servers: Vec<Url>,
}

/// Most characters of a document's title.
const MAX_TITLE_CHARS: usize = 100;

/// Reads what a document says of itself. Relative servers are resolved against `origin`, where it came from.
pub fn summary(text: &str, origin: Option<&Url>) -> Result<DocumentSummary, LoadError> {
    let json = json_text(text)?;
    let document = Document::new(&json).map_err(LoadError::NotOpenApi)?;
    let info = document.top("info").unwrap_or_default();
    let title = info.get("title").and_then(Value::as_str).unwrap_or_default();
    let title = one_line(title, MAX_TITLE_CHARS);
    Ok(DocumentSummary { title, servers: servers::declared(&document, origin) })
}

/// An API, ready for calls.
#[derive(Debug)]
pub struct Api {
    settings: ApiSettings,
    security: Security,
    operations: Vec<Operation>,
    by_name: HashMap<String, usize>,
    skipped: Vec<SkippedOperation>,
    notes: Vec<String>,
}

impl Api {
    /// Reads a document, JSON or YAML.
    pub fn load(text: &str, settings: ApiSettings) -> Result<Self, LoadError> {
        Self::load_until(text, settings, || false)
    }

    /// The same until `is_cancelled` says that the result is not wanted any more: a task that blocks cannot be stopped from
    /// outside. It is asked for each operation and each schema.
    pub fn load_until(text: &str, settings: ApiSettings, is_cancelled: impl Fn() -> bool) -> Result<Self, LoadError> {
        check_base(&settings.base)?;
        let json = json_text(text)?;
        let mut document = Document::new(&json).map_err(LoadError::NotOpenApi)?;
        document.work.cancel_with(&is_cancelled);
        let security = Security::read(&document, settings.credentials.clone()).map_err(LoadError::Credentials)?;
        let mut reader = Reader::new(&document, &security, &settings.filter, &settings.base);
        reader.read().map_err(LoadError::NotOpenApi)?;
        if document.work.is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        let (operations, skipped) = (reader.operations, reader.skipped);
        if operations.is_empty() {
            let why = match skipped.first() {
                Some(first) => format!("{}: {}", first.operation, first.reason),
                None => "the document has none that `include` and `exclude` leave".to_owned(),
            };
            return Err(LoadError::Empty(why));
        }
        let by_name = operations.iter().enumerate().map(|(at, operation)| (operation.name.clone(), at)).collect();
        let notes = security.notes(operations.iter().map(|operation| &operation.plan.security));
        Ok(Self { settings, security, operations, by_name, skipped, notes })
    }

    /// Its operations in the order of the document.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Operations of the document that are no tools, with the reason.
    pub fn skipped(&self) -> &[SkippedOperation] {
        &self.skipped
    }

    /// What the document asks for that is never sent, as sentences.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn find(&self, tool: &str) -> Result<&Operation, ApiCallError> {
        let found = self.by_name.get(tool).and_then(|at| self.operations.get(*at));
        found.ok_or_else(|| ApiCallError::Unknown(tool.to_owned()))
    }

    /// The request of a call.
    pub fn request(&self, tool: &str, arguments: &Map<String, Value>) -> Result<ApiRequest, ApiCallError> {
        let operation = self.find(tool)?;
        let ApiSettings { base, headers, .. } = &self.settings;
        Ok(encode::request(base, &self.security, headers, operation, arguments)?)
    }

    /// Whether a call follows the pages of a list, and so holds all of its answers until the last one.
    pub fn reads_all_pages(&self, tool: &str, arguments: &Map<String, Value>) -> bool {
        self.find(tool).is_ok_and(|operation| asks_for_all_pages(operation, arguments))
    }

    /// Calls an operation; gives a result as MCP has it.
    pub async fn call(
        &self,
        transport: &dyn ApiTransport,
        tool: &str,
        arguments: &Map<String, Value>,
    ) -> Result<Value, ApiCallError> {
        let request = self.request(tool, arguments)?;
        let operation = self.find(tool)?;
        if asks_for_all_pages(operation, arguments) {
            return Ok(pages::all(self, transport, operation, request).await?);
        }
        let (answer, url) = self.exchange(transport, request).await?;
        Ok(self.result(operation, answer, &url))
    }

    /// The result of an answer.
    pub(crate) fn result(&self, operation: &Operation, answer: ApiAnswer, url: &Url) -> Value {
        let missing = self.security.missing(&operation.plan.security);
        answer::result(operation, answer, url, &missing)
    }

    /// A URL that an answer named, with the credentials that go into the query: links do not repeat them.
    pub(crate) fn with_credentials(&self, operation: &Operation, url: Url) -> Url {
        encode::with_query_credentials(url, &self.security, &operation.plan.security)
    }

    /// Sends a request, and follows redirects of one that only reads, within the API's own origin. Any other redirect is
    /// an answer: credentials and data go to the configured server and to no other.
    pub(crate) async fn exchange(
        &self,
        transport: &dyn ApiTransport,
        mut request: ApiRequest,
    ) -> Result<(ApiAnswer, Url), TransportError> {
        for hop in 0..MAX_REDIRECTS {
            let (url, follows) = (request.url.clone(), matches!(request.method.as_str(), "GET" | "HEAD"));
            let next = follows.then(|| request.clone());
            let answer = transport.send(request).await;
            let answer = answer.map_err(|error| if hop == 0 { error } else { error.after_an_answer() })?;
            let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
            let target = answer.header("location").filter(|_| is_redirect).and_then(|it| url.join(it).ok());
            match (target, next) {
                (Some(target), Some(next)) if target.origin() == url.origin() => {
                    request = ApiRequest { url: target, ..next };
                }
                _ => return Ok((answer, url)),
            }
        }
        Err(TransportError::Lost(format!("more than {MAX_REDIRECTS} redirects")))
    }
}

fn asks_for_all_pages(operation: &Operation, arguments: &Map<String, Value>) -> bool {
    operation.plan.all_pages.as_ref().and_then(|it| arguments.get(it)) == Some(&Value::Bool(true))
}

fn check_base(base: &Url) -> Result<(), LoadError> {
    let problem = if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
        "must be an http or https URL"
    } else if !base.username().is_empty() || base.password().is_some() {
        "must not contain a user name or password: use `auth`"
    } else if base.query().is_some() || base.fragment().is_some() {
        "must not have a query or a fragment"
    } else {
        return Ok(());
    };
    Err(LoadError::Base(problem.to_owned()))
}

/// The document as JSON text.
pub(crate) fn json_text(text: &str) -> Result<Cow<'_, str>, LoadError> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err(LoadError::TooLarge { size: text.len() });
    }
    as_json(text, MAX_DOCUMENT_BYTES).json.map_err(LoadError::NotOpenApi)
}

/// A text as JSON, which has at most `max` bytes if it was YAML. A text that begins with a brace is JSON, which also is
/// YAML but is read faster.
pub(crate) fn as_json(text: &str, max: usize) -> Conversion<Cow<'_, str>> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('{') {
        return Conversion { json: Ok(text.into()), written: text.len() };
    }
    let Conversion { json, written } = yaml::to_json(text, max);
    Conversion { json: json.map(Into::into), written }
}
