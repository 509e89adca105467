//! An HTTP API with an OpenAPI document as a backend: its document is read when it starts, and calls are requests.
//!
//! Documents and requests go through the guarded client: public addresses, and those that the configuration allows for
//! this backend. What an API answers is [`toolgate_openapi`]'s to read; queue, timeouts and states are those of every
//! backend.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use toolgate_functions::http::{AllowList, FetchError, Fetcher, Guard, HttpLimits, HttpRequest};
use toolgate_functions::idempotency;
use toolgate_mcp::client::{Closing, LinkError, LocalResult, LocalServer};
use toolgate_mcp::{TreeError, process_budget, tree_bytes};
use toolgate_openapi::{
    AnswerFuture, Api, ApiAnswer, ApiCallError, ApiRequest, ApiSettings, ApiTransport, Credentials, DocumentBundle,
    DocumentLocation, MAX_ANSWER_BYTES, MAX_DOCUMENT_BYTES, OperationFilter, RefusedReference, TransportError,
    read_with_references,
};
use toolgate_wire::{ByteBudget, BytePermit};
use url::Url;

use super::api_login::{ApiLogin, LoginTransport, placeholder};
use super::login::LoginSpec;

/// Largest metadata of an authorization server, in bytes.
const MAX_METADATA_BYTES: usize = 256 << 10;

/// An API of the configuration.
#[derive(Clone, PartialEq)]
pub struct ApiSpec {
    /// Where its document is.
    pub document: DocumentSource,
    /// Where requests go.
    pub base: Url,
    /// Credentials by security scheme.
    pub auth: BTreeMap<String, String>,
    /// The security scheme that a login gives the token of.
    pub login: Option<(String, LoginSpec)>,
    /// Headers of each request.
    pub headers: Vec<(String, String)>,
    /// Rules of the operations that are tools.
    pub include: Vec<String>,
    /// Rules of the operations that are no tools.
    pub exclude: Vec<String>,
    /// Hosts and networks that may be reached although they are not public.
    pub allow: Vec<String>,
}

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentSource {
    /// A file.
    File(PathBuf),
    /// A URL, which is fetched without credentials.
    Url(Url),
}

/// Values of credentials and headers are secrets, so only their names are shown.
impl fmt::Debug for ApiSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ApiSpec")
            .field("base", &self.base.origin().ascii_serialization())
            .field("auth", &self.auth.keys())
            .field("login", &self.login.as_ref().map(|(scheme, _)| scheme))
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// Why an API cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpenFailure {
    /// It can't work until the configuration or the document changes.
    Permanent(String),
    /// It may work another time.
    Temporary(String),
}

/// Reads the document of an API.
pub(crate) async fn open(name: &str, spec: &ApiSpec) -> Result<ApiServer, OpenFailure> {
    let guard = guard_with(&spec.allow).map_err(OpenFailure::Permanent)?;
    let text = read(name, &spec.document, &guard).await?;
    let filter =
        OperationFilter::new(&spec.include, &spec.exclude).map_err(|bad| OpenFailure::Permanent(bad.to_string()))?;
    let mut auth = spec.auth.clone();
    let login = match &spec.login {
        None => None,
        Some((scheme, login)) => {
            let authorizer = login.authorizer(spec.base.as_str());
            let authorizer = authorizer.map_err(|error| OpenFailure::Permanent(error.to_string()))?;
            let placeholder = placeholder().map_err(OpenFailure::Temporary)?;
            auth.insert(scheme.clone(), placeholder.clone());
            Some(ApiLogin { authorizer, placeholder: placeholder.into(), scheme: scheme.as_str().into() })
        }
    };
    let credentials = Credentials::new(auth);
    let settings = ApiSettings { base: spec.base.clone(), credentials, headers: spec.headers.clone(), filter };
    // As for reading: a start that takes too long is dropped and tried again.
    let cancel = CancellationToken::new();
    let _cancels = cancel.clone().drop_guard();
    let api = blocking(move || Api::load_until(&text, settings, || cancel.is_cancelled())).await?;
    let api = api.map_err(|error| OpenFailure::Permanent(error.to_string()))?;
    for skipped in api.skipped() {
        tracing::warn!(backend = name, operation = ?skipped.operation, reason = ?skipped.reason, "no tool");
    }
    for note in api.notes() {
        tracing::warn!(backend = name, ?note, "never sent");
    }
    let limits = HttpLimits { response_body: MAX_ANSWER_BYTES, ..HttpLimits::default() };
    let transport = GuardedTransport(Fetcher::new(guard, limits));
    Ok(ApiServer { name: name.to_owned(), api: Arc::new(api), transport: Arc::new(transport), login })
}

/// Fetches the document of an API and what it refers to, as a backend with these exceptions does when it starts.
///
/// # Errors
/// A sentence, if the document cannot be fetched or read.
pub async fn fetch_document(url: &Url, allow: &[String]) -> Result<(String, Vec<RefusedReference>), String> {
    let read = read_url(url, &guard_with(allow)?).await;
    read.map_err(|failure| match failure {
        OpenFailure::Permanent(reason) | OpenFailure::Temporary(reason) => reason,
    })
}

/// Fetches metadata, such as those of an authorization server, with the same exceptions.
///
/// # Errors
/// A sentence, if they cannot be fetched or are no JSON.
pub async fn fetch_metadata(url: &Url, allow: &[String]) -> Result<Value, String> {
    let (status, body) =
        fetch(url, &guard_with(allow)?, MAX_METADATA_BYTES).await.map_err(|error| explained(&error))?;
    if status != 200 {
        return Err(format!("the server answered {status}"));
    }
    serde_json::from_slice(&body).map_err(|error| format!("it is no JSON: {error}"))
}

fn guard_with(allow: &[String]) -> Result<Guard, String> {
    let allow = AllowList::parse(allow);
    allow.map(Guard::new).map_err(|bad| bad.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// The text of a document, with the documents beside it that it refers to.
async fn read(name: &str, source: &DocumentSource, guard: &Guard) -> Result<String, OpenFailure> {
    let (text, refused) = match source {
        DocumentSource::File(file) => {
            let (path, shown) = (file.clone(), file.display());
            // A start that takes too long is dropped and tried again: its task must not read on beside the next one.
            let cancel = CancellationToken::new();
            let _cancels = cancel.clone().drop_guard();
            let read = blocking(move || read_with_references(&path, || cancel.is_cancelled())).await?;
            read.map_err(|error| OpenFailure::Permanent(format!("can't read {shown}: {error}")))?
        }
        DocumentSource::Url(url) => read_url(url, guard).await?,
    };
    for reference in refused {
        tracing::warn!(backend = name, %reference, "a part of the document is missing");
    }
    Ok(text)
}

async fn read_url(url: &Url, guard: &Guard) -> Result<(String, Vec<RefusedReference>), OpenFailure> {
    let answered = |status: u16| format!("spec: the server answered {status}");
    let (status, body) = fetch(url, guard, MAX_DOCUMENT_BYTES).await.map_err(open_failure)?;
    if status != 200 {
        return Err(OpenFailure::Temporary(answered(status)));
    }
    let text = String::from_utf8(body).map_err(|_| OpenFailure::Permanent("spec: it is not UTF-8".to_owned()))?;
    let location = DocumentLocation::Url(url.clone());
    let bundle = blocking(move || DocumentBundle::new(&text, location)).await?;
    let mut bundle = bundle.map_err(|error| OpenFailure::Permanent(error.to_string()))?;
    while let Some(wanted) = bundle.wanted() {
        let DocumentLocation::Url(wanted) = wanted else { break };
        match fetch(wanted, guard, bundle.room()).await {
            Ok((200, body)) => bundle = blocking(move || given(bundle, &body)).await?,
            Ok((status @ (429 | 500..), _)) => return Err(OpenFailure::Temporary(answered(status))),
            // The operations that need it are no tools, and the others are.
            Ok((status, body)) => bundle.refuse(&answered(status), body.len()),
            Err(error) => {
                let read = if let FetchError::ResponseTooLarge { cap } = error { cap } else { 0 };
                match open_failure(error) {
                    OpenFailure::Permanent(reason) => bundle.refuse(&reason, read),
                    temporary @ OpenFailure::Temporary(_) => return Err(temporary),
                }
            }
        }
    }
    let refused = bundle.refused().to_vec();
    Ok((blocking(move || bundle.finish()).await?, refused))
}

fn given(mut bundle: DocumentBundle, body: &[u8]) -> DocumentBundle {
    bundle.give(body);
    bundle
}

/// Runs work on a document outside the threads of tasks: a large one takes tens of milliseconds, and YAML more.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, OpenFailure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| OpenFailure::Temporary(error.to_string()))
}

/// Fetches one document without credentials: the status and the body.
async fn fetch(url: &Url, guard: &Guard, max_bytes: usize) -> Result<(u16, Vec<u8>), FetchError> {
    let limits = HttpLimits { response_body: max_bytes, ..HttpLimits::default() };
    let request = HttpRequest::from_parts("GET", url.clone(), &[], None)?;
    let response = Fetcher::new(guard.clone(), limits).send_once(request, process_budget()).await?;
    Ok((response.status, response.body))
}

fn open_failure(error: FetchError) -> OpenFailure {
    match error {
        FetchError::Refused(_) | FetchError::ResponseTooLarge { .. } | FetchError::CredentialsInUrl => {
            OpenFailure::Permanent(format!("spec: {}", explained(&error)))
        }
        other => OpenFailure::Temporary(format!("spec: {other}")),
    }
}

/// A refusal with what to do about it.
fn explained(error: &FetchError) -> String {
    match error {
        FetchError::Refused(refusal) => format!("{refusal}; if it is meant, add it to `allowHosts` of this server"),
        other => other.to_string(),
    }
}

/// An API that is called in this process.
pub(crate) struct ApiServer {
    name: String,
    api: Arc<Api>,
    transport: Arc<dyn ApiTransport>,
    login: Option<ApiLogin>,
}

impl LocalServer for ApiServer {
    fn name(&self) -> &str {
        &self.name
    }

    fn tools(&self) -> Vec<Box<RawValue>> {
        self.api.operations().iter().map(|operation| operation.tool.clone()).collect()
    }

    fn call(&self, tool: &str, arguments: Map<String, Value>) -> LocalResult {
        let (api, tool) = (Arc::clone(&self.api), tool.to_owned());
        let kept = if api.reads_all_pages(&tool, &arguments) { KeptAnswers::All } else { KeptAnswers::Last };
        // Holds the permit of the answers until the call has its result.
        let transport = CountedTransport::new(Arc::clone(&self.transport), kept, process_budget().clone());
        let transport = Arc::new(transport);
        let Some(login) = self.login.clone() else {
            return Box::pin(async move { api.call(&*transport, &tool, &arguments).await.map_err(link_error) });
        };
        Box::pin(async move {
            let transport = LoginTransport::new(login, transport);
            let called = api.call(&transport, &tool, &arguments).await;
            called.map_err(|error| transport.refusal().map_or_else(|| link_error(error), LinkError::Auth))
        })
    }
}

fn link_error(error: ApiCallError) -> LinkError {
    match error {
        ApiCallError::Unknown(_) | ApiCallError::Arguments(_) => LinkError::InvalidArguments(error.to_string()),
        ApiCallError::Transport(TransportError::Unsendable(reason)) => LinkError::InvalidArguments(reason),
        ApiCallError::Transport(TransportError::NotSent(reason)) => LinkError::Unreachable(reason),
        ApiCallError::Transport(TransportError::TooLarge { cap }) => LinkError::TooLarge { limit: cap },
        ApiCallError::Transport(TransportError::TooManyValues { limit }) => LinkError::TooManyValues { limit },
        ApiCallError::Transport(TransportError::OverBudget(refused)) => LinkError::OverBudget { refused, sent: true },
        ApiCallError::Transport(TransportError::Lost(reason)) => {
            let closing = Closing { reason, stderr: String::new(), is_expected: false };
            LinkError::Closed { closing: Arc::new(closing), sent: true }
        }
    }
}

/// The memory that the values of an answer may take, and that all pages of a list may take together.
const MAX_TREE_BYTES: usize = 64 << 20;
/// Answers up to this size are not counted, unless they are pages of a list.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;

/// Which answers of a call are in memory at one time.
#[derive(Clone, Copy)]
enum KeptAnswers {
    /// The last one; the one before was read.
    Last,
    /// All of them, as pages of a list.
    All,
}

/// The transport of one call, whose answers count in a budget: their text, and the tree that is made of it.
struct CountedTransport {
    inner: Arc<dyn ApiTransport>,
    kept: KeptAnswers,
    budget: ByteBudget,
    held: Arc<Mutex<Option<BytePermit>>>,
}

impl CountedTransport {
    fn new(inner: Arc<dyn ApiTransport>, kept: KeptAnswers, budget: ByteBudget) -> Self {
        CountedTransport { inner, kept, budget, held: Arc::default() }
    }
}

impl ApiTransport for CountedTransport {
    fn send(&self, request: ApiRequest) -> AnswerFuture {
        let (answer, kept) = (self.inner.send(request), self.kept);
        let (budget, held) = (self.budget.clone(), Arc::clone(&self.held));
        Box::pin(async move {
            let answer = answer.await?;
            // To wait while holding the bytes of another answer could be a wait for each other: with one kept answer the
            // bytes of the one before are given back, and pages after the first must fit at once.
            let permit = match (kept, held.lock().take()) {
                (KeptAnswers::Last, _) if answer.body.len() <= MAX_UNCOUNTED_BYTES => return Ok(answer),
                (KeptAnswers::Last, _) | (KeptAnswers::All, None) => None,
                (KeptAnswers::All, Some(pages)) => Some(pages),
            };
            let bytes = memory_of(&answer.body)?;
            let permit = match permit {
                None => budget.reserve(bytes).await?,
                Some(pages) if pages.bytes().saturating_add(bytes) > MAX_TREE_BYTES => {
                    return Err(TransportError::TooManyValues { limit: MAX_TREE_BYTES });
                }
                Some(mut pages) => {
                    pages.try_grow(bytes)?;
                    pages
                }
            };
            *held.lock() = Some(permit);
            Ok(answer)
        })
    }
}

/// The memory that an answer takes until it is the text of a result.
fn memory_of(body: &[u8]) -> Result<usize, TransportError> {
    let text = std::str::from_utf8(body).map(|text| text.trim_start_matches('\u{feff}'));
    let tree = match text.map(|text| tree_bytes(text, MAX_TREE_BYTES)) {
        Ok(Ok(bytes)) => bytes,
        // A text that is copied, or bytes that become base64.
        Err(_) | Ok(Err(TreeError::NotJson(_))) => 2 * body.len(),
        Ok(Err(TreeError::TooManyValues { limit })) => return Err(TransportError::TooManyValues { limit }),
        Ok(Err(TreeError::OverBudget(refused))) => return Err(refused.into()),
    };
    Ok(tree.saturating_add(body.len()))
}

/// The guarded client as a transport.
struct GuardedTransport(Fetcher);

impl ApiTransport for GuardedTransport {
    fn send(&self, request: ApiRequest) -> AnswerFuture {
        let fetcher = self.0.clone();
        Box::pin(async move {
            let ApiRequest { method, url, mut headers, body, made_key } = request;
            add_idempotency_key(&mut headers, made_key.as_deref());
            let request = HttpRequest::from_parts(&method, url, &headers, body).map_err(transport_error)?;
            let response = fetcher.send_once(request, process_budget()).await.map_err(transport_error)?;
            Ok(ApiAnswer { status: response.status, headers: response.headers, body: response.body })
        })
    }
}

/// A call of a durable run that may have an effect has the same key when it is sent again, also in place of one that was made for
/// this request alone.
fn add_idempotency_key(headers: &mut Vec<(String, String)>, made: Option<&str>) {
    if let Some(key) = idempotency::current() {
        let made = headers.iter_mut().find(|(name, _)| Some(name.as_str()) == made);
        if let Some((_, value)) = made {
            *value = key;
        }
    }
    let has_one = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(idempotency::HEADER));
    let key = idempotency::current().filter(|_| !has_one);
    headers.extend(key.map(|key| (idempotency::HEADER.to_owned(), key)));
}

/// Whether a request may have arrived decides. No wildcard arm: a new error must choose.
fn transport_error(error: FetchError) -> TransportError {
    match error {
        FetchError::ResponseTooLarge { cap } => TransportError::TooLarge { cap },
        FetchError::OverBudget(refused) => TransportError::OverBudget(refused),
        FetchError::ResponseHeadersTooLarge
        | FetchError::TooManyRedirects(_)
        | FetchError::Timeout(_)
        | FetchError::Stalled
        | FetchError::Cancelled
        | FetchError::Network(_) => TransportError::Lost(error.to_string()),
        FetchError::Shape(_)
        | FetchError::Url(_)
        | FetchError::Method(_)
        | FetchError::BodyNotAllowed(_)
        | FetchError::HeaderForbidden(_)
        | FetchError::HeaderInvalid(_)
        | FetchError::RequestHeadersTooLarge
        | FetchError::RequestTooLarge { .. } => TransportError::Unsendable(error.to_string()),
        FetchError::Scheme(_)
        | FetchError::CredentialsInUrl
        | FetchError::Refused(_)
        | FetchError::Egress(_)
        | FetchError::Unreachable(_)
        | FetchError::NoClient(_) => TransportError::NotSent(explained(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_with_the_tree_that_is_made_of_it() {
        let long = format!("\"{}\"", "x".repeat(1 << 20));
        let dense = format!("[{}1]", "1,".repeat(200_000));
        assert!(memory_of(long.as_bytes()).is_ok_and(|bytes| bytes < 3 * long.len()));
        assert!(memory_of(dense.as_bytes()).is_ok_and(|bytes| bytes > 10 * dense.len()));
        assert_eq!(memory_of(&[0xff; 1 << 20]), Ok(3 << 20), "bytes become base64");
        let denser = format!("[{}1]", "1,".repeat(2_000_000));
        assert_eq!(memory_of(denser.as_bytes()), Err(TransportError::TooManyValues { limit: MAX_TREE_BYTES }));
    }

    /// Answers each request with the same body.
    struct Same(Vec<u8>);

    impl ApiTransport for Same {
        fn send(&self, _: ApiRequest) -> AnswerFuture {
            let answer = ApiAnswer { status: 200, headers: Vec::new(), body: self.0.clone() };
            Box::pin(std::future::ready(Ok(answer)))
        }
    }

    fn counted(body: &str, kept: KeptAnswers, budget: &ByteBudget) -> CountedTransport {
        CountedTransport::new(Arc::new(Same(body.as_bytes().to_vec())), kept, budget.clone())
    }

    async fn send(transport: &CountedTransport) -> Result<ApiAnswer, TransportError> {
        let url = Url::parse("https://api.example.com").unwrap();
        transport
            .send(ApiRequest { method: "GET".to_owned(), url, headers: Vec::new(), body: None, made_key: None })
            .await
    }

    #[tokio::test]
    async fn the_last_answer_counts_or_all_pages_do() {
        let small = format!("[{}1]", "1,".repeat(1_000));
        let large = format!("[{}1]", "1,".repeat(100_000));
        for (body, kept, expected) in [
            (&small, KeptAnswers::Last, [0, 0]),
            (&large, KeptAnswers::Last, [1, 1]),
            (&small, KeptAnswers::All, [1, 2]),
            (&large, KeptAnswers::All, [1, 2]),
        ] {
            let budget = ByteBudget::unlimited();
            let transport = counted(body, kept, &budget);
            for answers in expected {
                send(&transport).await.unwrap();
                assert_eq!(budget.used(), answers * memory_of(body.as_bytes()).unwrap());
            }
            drop(transport);
            assert_eq!(budget.used(), 0);
        }
    }

    #[tokio::test]
    async fn pages_that_do_not_fit_together_are_refused() {
        let page = format!("[{}1]", "1,".repeat(200_000));
        let bytes = memory_of(page.as_bytes()).unwrap();
        let budget = ByteBudget::unlimited();
        let transport = counted(&page, KeptAnswers::All, &budget);
        for _ in 0..MAX_TREE_BYTES / bytes {
            send(&transport).await.unwrap();
        }
        assert_eq!(send(&transport).await, Err(TransportError::TooManyValues { limit: MAX_TREE_BYTES }));
        // A page after the first does not wait for bytes.
        let budget = ByteBudget::new("a test", 2 * bytes - 1);
        let transport = counted(&page, KeptAnswers::All, &budget);
        send(&transport).await.unwrap();
        let refused = send(&transport).await;
        assert!(matches!(&refused, Err(TransportError::OverBudget(it)) if it.wanted == bytes), "{refused:?}");
    }
}
