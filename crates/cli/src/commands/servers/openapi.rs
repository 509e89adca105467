//! `toolgate add NAME --openapi FILE|URL`: the entry of an HTTP API.
//!
//! The document is loaded once here, so that one that cannot be used is refused before it is in a file. Requests will go
//! to the base that is written, which is `--base` or else the first server of the document. With `--client-id` the OAuth
//! login that the document describes is written too: where a person logs in and where tokens are issued stays as it was
//! when the user added the API, whatever the document says later. A document is not trusted: its login may not lead to an
//! inner address that the user did not name, and what is written from it has no variables.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};
use toolgate_backends::{fetch_document, fetch_metadata, quoted};
use toolgate_config::text::tree::Node;
use toolgate_config::text::{Format, Source};
use toolgate_config::vars;
use toolgate_openapi::{
    Api, ApiSettings, Credentials, DocumentLogin, DocumentReadError, LoginPlace, RefusedReference, logins,
    read_with_references, summary,
};
use toolgate_wire::addresses::not_public;
use url::{Host, Url};

use super::super::Usage;
use super::edit::{client, put_pairs};
use crate::args::servers::AddArgs;
use crate::print::{counted, escape, note};

/// How long the document at a URL may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
/// Most scopes of the document that a login asks for without being told to.
const MAX_ASSUMED_SCOPES: usize = 16;
/// Where OpenID metadata are below their issuer.
const OPENID_METADATA: &str = "/.well-known/openid-configuration";

/// The flows of OAuth that no login is made with: they give the token or the password to pages and programs.
const UNSUPPORTED_FLOWS: [&str; 2] = ["implicit", "password"];

/// A document that can be used.
struct UsableDocument {
    /// As the configuration names it.
    spec: String,
    /// Where its requests go.
    base: Url,
    /// The logins that it describes.
    logins: Vec<DocumentLogin>,
    /// Its text; empty if it was not read.
    text: String,
}

/// The entry for a document. `remove` is the command that removes it again.
pub(super) fn entry(args: &AddArgs, document: &str, remove: &str) -> anyhow::Result<Map<String, Value>> {
    let asked = args.base.as_deref().map(|base| Url::parse(base).map_err(|error| Usage(format!("--base: {error}"))));
    let asked = asked.transpose()?;
    let is_url = ["http://", "https://"].iter().any(|scheme| document.starts_with(scheme));
    let url = is_url.then(|| Url::parse(document).map_err(|error| Usage(format!("--openapi: {error}")))).transpose()?;
    // Who names an address of this machine or network means it; a name that a document gives is not believed.
    let mut inner: Vec<String> = asked.iter().chain(&url).filter_map(inner_address).collect();
    inner.dedup();
    let document = match url {
        Some(url) if args.offline => {
            let base = asked.ok_or_else(|| Usage("--base: say where requests go".to_owned()))?;
            UsableDocument { spec: url.into(), base, logins: Vec::new(), text: String::new() }
        }
        Some(url) => of_url(&url, asked, &args.auth, &inner)?,
        None => of_file(Path::new(document), asked, &args.auth)?,
    };
    let mut entry = Map::from_iter([
        ("type".to_owned(), json!("openapi")),
        ("spec".to_owned(), json!(document.spec)),
        ("base".to_owned(), base_text(args, &document.base)),
    ]);
    put_pairs(&mut entry, "auth", "auth", &args.auth)?;
    put_login(&mut entry, args, &document, &inner, remove)?;
    put_pairs(&mut entry, "header", "headers", &args.header)?;
    for host in &inner {
        note(format_args!("allowHosts: {} may be reached although it is not public", escape::line(host)));
    }
    note_refused_base(&args.name, &document.base, &inner, remove);
    if !inner.is_empty() {
        entry.insert("allowHosts".to_owned(), json!(inner));
    }
    Ok(entry)
}

/// Says that calls will be refused, where the document leads them to an inner address that the user did not name.
fn note_refused_base(name: &str, base: &Url, allowed: &[String], remove: &str) {
    let Some(address) = inner_address(base).filter(|address| !allowed.contains(address)) else { return };
    let hosts: Vec<&str> = allowed.iter().map(String::as_str).chain([address.as_str()]).collect();
    note(format_args!(
        "calls will be refused: the document's server {} is an inner address, which only the configuration may allow. If it is \
         meant, write \"allowHosts\": {} into the entry of {}, or run `{}` and add it again with --base {}",
        escape::line(base.as_str()),
        escape::line(&json!(hosts).to_string()),
        escape::line(name),
        escape::line(remove),
        escape::line(&quoted(base.as_str()))
    ));
}

/// The base as the configuration has it. One that the document names has no variables.
fn base_text(args: &AddArgs, base: &Url) -> Value {
    let text = base.as_str().trim_end_matches('/');
    if args.base.is_some() { json!(text) } else { json!(vars::escape(text)) }
}

/// Where a login takes place.
struct LoginEndpoints {
    /// Where a person logs in; none for a client that logs in by itself.
    page: Option<Url>,
    /// Where tokens are issued.
    token: Url,
    /// The issuer, if metadata name it.
    issuer: Option<Url>,
}

impl LoginEndpoints {
    /// Refuses inner addresses that the user did not name: the client's secret would be sent there.
    fn check(&self, named: &[String]) -> Result<(), Usage> {
        for url in self.page.iter().chain([&self.token]) {
            if let Some(address) = inner_address(url).filter(|address| !named.contains(address)) {
                return Err(Usage(format!(
                    "--client-id: the document leads the login to {}, an inner address; if it is meant, add the API without \
                     --client-id, then write the login into `auth` of its entry, with {address} in `allowHosts`",
                    escape::line(url.as_str())
                )));
            }
        }
        Ok(())
    }
}

/// Adds the login of the document for the client that is given, or says that there is one.
fn put_login(
    entry: &mut Map<String, Value>,
    args: &AddArgs,
    document: &UsableDocument,
    allow: &[String],
    remove: &str,
) -> anyhow::Result<()> {
    let UsableDocument { logins, base, .. } = document;
    let mut login = client(args);
    if args.client_id.is_none() {
        if !login.is_empty() {
            return Err(Usage("--login-scope: a login needs --client-id".to_owned()).into());
        }
        if let Some(DocumentLogin { scheme, .. }) = logins.first().filter(|_| args.auth.is_empty()) {
            let scheme = escape::line(scheme);
            note(format_args!(
                "the document has an OAuth login, `{scheme}`: to use it, run `{}` and add it again with --client-id ID",
                escape::line(remove)
            ));
        }
        return Ok(());
    }
    let DocumentLogin { scheme, place, scopes } = usable_login(args, document)?;
    let endpoints = match place {
        LoginPlace::AuthorizationCode { authorization_url, token_url } => {
            LoginEndpoints { page: Some(authorization_url.clone()), token: token_url.clone(), issuer: None }
        }
        LoginPlace::ClientCredentials { token_url } => {
            LoginEndpoints { page: None, token: token_url.clone(), issuer: None }
        }
        LoginPlace::Metadata(url) => endpoints(url, allow)?,
    };
    endpoints.check(allow)?;
    // A login at an inner API may be anywhere, so the document must not be what makes it one.
    if let Some(address) = inner_address(base).filter(|address| args.base.is_none() && !allow.contains(address)) {
        let message = format!(
            "--client-id: the document's server is {address}, an inner address; if it is meant, name it: --base {}",
            escape::line(base.as_str())
        );
        return Err(Usage(message).into());
    }
    let LoginEndpoints { page, token, issuer } = endpoints;
    // A query may have `${`: a document must not have variables of this user sent anywhere.
    let text = |url: &Url| json!(vars::escape(url.as_str()));
    match &page {
        Some(page) => login.insert("authorizationUrl".to_owned(), text(page)),
        None => login.insert("grant".to_owned(), json!("client_credentials")),
    };
    login.insert("tokenUrl".to_owned(), text(&token));
    if let Some(issuer) = &issuer {
        login.insert("issuer".to_owned(), text(issuer));
    }
    if args.login_scope.is_empty() && scopes.len() > MAX_ASSUMED_SCOPES {
        note(format_args!(
            "the document names {} scopes, and the login asks for none of them: to choose some, run `{}` and add it again with \
             --login-scope SCOPE",
            scopes.len(),
            escape::line(remove)
        ));
    } else if args.login_scope.is_empty() && !scopes.is_empty() {
        let scopes: Vec<String> = scopes.iter().map(|scope| vars::escape(scope)).collect();
        login.insert("scopes".to_owned(), json!(scopes));
    }
    let at = page.as_ref().unwrap_or(&token).origin().ascii_serialization();
    let command = page.map(|_| format!(": run `toolgate login {}`", quoted(&args.name))).unwrap_or_default();
    note(format_args!("the login `{}` is at {}{}", escape::line(scheme), escape::line(&at), escape::line(&command)));
    let auth = entry.entry("auth").or_insert_with(|| json!({}));
    let schemes = auth.as_object_mut();
    let taken = schemes.and_then(|schemes| schemes.insert(scheme.clone(), Value::Object(login)));
    if taken.is_some() {
        return Err(Usage(format!("--auth and --client-id are both for `{}`: give one", escape::line(scheme))).into());
    }
    Ok(())
}

/// The first login of a document that the client can use.
fn usable_login<'d>(args: &AddArgs, document: &'d UsableDocument) -> Result<&'d DocumentLogin, Usage> {
    let logins = &document.logins;
    let usable = logins.iter().find(|login| match &login.place {
        LoginPlace::AuthorizationCode { .. } => true,
        LoginPlace::Metadata(_) => !args.offline,
        LoginPlace::ClientCredentials { .. } => args.client_secret.is_some(),
    });
    usable.ok_or_else(|| {
        let unsupported = if logins.is_empty() { unsupported_flows(&document.text) } else { Vec::new() };
        if !unsupported.is_empty() {
            let flows = unsupported.join(" flow and the ");
            return Usage(format!(
                "--client-id: the only login of the document is the {flows} flow, which is not supported; --auth SCHEME=TOKEN takes a \
                 token that you have"
            ));
        }
        let why = match logins.first().map(|login| &login.place) {
            Some(LoginPlace::Metadata(_)) => "the metadata of the login are not read with --offline",
            Some(LoginPlace::ClientCredentials { .. }) => "the client logs in by itself, and needs --client-secret too",
            Some(LoginPlace::AuthorizationCode { .. }) | None => "no document was read that describes an OAuth login",
        };
        Usage(format!("--client-id: {why}"))
    })
}

/// The flows of a document's logins that are not supported; none of a document that is too large to be read as one tree.
fn unsupported_flows(text: &str) -> Vec<&'static str> {
    let format =
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') { Format::Json } else { Format::Yaml };
    let Ok(tree) = Source::new(Path::new("document"), format, text).tree() else { return Vec::new() };
    let of_v3 = tree.get("components").and_then(|components| components.get("securitySchemes"));
    let schemes = of_v3.or_else(|| tree.get("securityDefinitions")).and_then(Node::entries).unwrap_or_default();
    let has = |flow: &str| {
        schemes.iter().any(|scheme| {
            let scheme = &scheme.node;
            let of_v2 = scheme.get("flow").and_then(Node::text) == Some(flow);
            of_v2 || scheme.get("flows").is_some_and(|flows| flows.get(flow).is_some())
        })
    };
    UNSUPPORTED_FLOWS.into_iter().filter(|flow| has(flow)).collect()
}

/// Where a person logs in and where tokens are issued, by the metadata of an authorization server.
fn endpoints(url: &Url, allow: &[String]) -> anyhow::Result<LoginEndpoints> {
    let shown = escape::line(url.as_str()).to_string();
    let wrong = |reason: &str| Usage(format!("{shown}: {}", escape::line(reason)));
    let metadata = fetched(fetch_metadata(url, allow))?.map_err(|reason| wrong(&reason))?;
    let text = |key: &str| metadata.get(key).and_then(Value::as_str);
    // Metadata that are at the place of another issuer are not its own (OpenID Connect Discovery, section 4.3).
    if let Some(issuer) = url.as_str().strip_suffix(OPENID_METADATA)
        && text("issuer").map(|found| found.trim_end_matches('/')) != Some(issuer)
    {
        return Err(wrong("the metadata are of another issuer").into());
    }
    let endpoint = |key: &str| text(key).and_then(|text| Url::parse(text).ok());
    let missing = || wrong("the metadata name no authorization_endpoint and token_endpoint");
    Ok(LoginEndpoints {
        page: Some(endpoint("authorization_endpoint").ok_or_else(missing)?),
        token: endpoint("token_endpoint").ok_or_else(missing)?,
        issuer: endpoint("issuer").filter(|issuer| ["https", "http"].contains(&issuer.scheme())),
    })
}

/// What is fetched, within its time.
fn fetched<T>(work: impl Future<Output = Result<T, String>>) -> anyhow::Result<Result<T, String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fetched = runtime.block_on(async { tokio::time::timeout(FETCH_TIMEOUT, work).await });
    runtime.shutdown_background();
    Ok(fetched.unwrap_or_else(|_| Err(format!("it was not there after {} s", FETCH_TIMEOUT.as_secs()))))
}

/// An address that is not public, or the name of this machine.
fn inner_address(base: &Url) -> Option<String> {
    let inner = |address: IpAddr| not_public(address).map(|_| address.to_string());
    match base.host()? {
        Host::Ipv4(address) => inner(address.into()),
        Host::Ipv6(address) => inner(address.into()),
        Host::Domain(name) => {
            let is_local = name == "localhost" || name.ends_with(".localhost");
            is_local.then(|| name.to_owned())
        }
    }
}

fn of_file(file: &Path, asked: Option<Url>, auth: &[String]) -> anyhow::Result<UsableDocument> {
    let shown = escape::line(&file.to_string_lossy()).to_string();
    let (text, refused) = read_with_references(file, || false).map_err(|error| match error {
        DocumentReadError::Io(error) => anyhow::Error::new(error).context(format!("cannot read {shown}")),
        DocumentReadError::Load(error) => Usage(format!("{shown}: {error}")).into(),
        DocumentReadError::Cancelled => error.into(),
    })?;
    let base = usable_base(&shown, &text, refused, None, asked, auth)?;
    let logins = logins(&text, &base).unwrap_or_default();
    Ok(UsableDocument { spec: std::path::absolute(file)?.to_string_lossy().into_owned(), base, logins, text })
}

fn of_url(url: &Url, asked: Option<Url>, auth: &[String], allow: &[String]) -> anyhow::Result<UsableDocument> {
    let shown = escape::line(url.as_str()).to_string();
    let (text, refused) = fetched(fetch_document(url, allow))?.map_err(|reason| {
        let reason = escape::line(&reason).to_string();
        Usage(format!("{shown}: {reason}; --offline adds it unread"))
    })?;
    let base = usable_base(&shown, &text, refused, Some(url), asked, auth)?;
    let logins = logins(&text, &base).unwrap_or_default();
    Ok(UsableDocument { spec: url.as_str().to_owned(), base, logins, text })
}

/// Where the requests of a document go, if it can be used; says how many tools it has.
fn usable_base(
    shown: &str,
    text: &str,
    refused: Vec<RefusedReference>,
    origin: Option<&Url>,
    asked: Option<Url>,
    auth: &[String],
) -> anyhow::Result<Url> {
    for reference in refused {
        note(format_args!("  {}", escape::line(&reference.to_string())));
    }
    let named = summary(text, origin).map_err(|error| Usage(format!("{shown}: {error}")))?.servers.into_iter().next();
    let base = asked.or(named).ok_or_else(|| {
        Usage(format!("{shown} names no server with an absolute URL: say with --base where requests go"))
    })?;
    // Only the names count here: a scheme that the document does not have is told before anything is written.
    let schemes = auth.iter().filter_map(|pair| pair.split_once('=')).map(|(name, _)| (name.to_owned(), String::new()));
    let settings = ApiSettings { credentials: Credentials::new(schemes.collect()), ..ApiSettings::new(base.clone()) };
    let api = Api::load(text, settings).map_err(|error| Usage(format!("{shown}: {error}")))?;
    note(format_args!("{} at {}", counted(api.operations().len(), "tool"), escape::line(base.as_str())));
    for skipped in api.skipped() {
        note(format_args!("  no tool: {}: {}", escape::line(&skipped.operation), escape::line(&skipped.reason)));
    }
    for never_sent in api.notes() {
        note(format_args!("  {}", escape::line(never_sent)));
    }
    Ok(base)
}
