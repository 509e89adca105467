//! From a configured server to a backend's spec, and to a fingerprint that its cached tools are kept under.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use ring::digest::{Context, SHA256};
use url::Url;

use super::backend_records::{KeyKind, KeyName};
use toolgate_backends::{ApiSpec, BackendKind, BackendSpec, DocumentSource, LoginSpec, quoted};
use toolgate_config::checked::{
    BackendPolicy, BackendTransport, LoginSettings, OpenApi, SecretValues, ServerSandbox, Settings, SpecSource,
};
use toolgate_config::values::{Allowed, LoginGrant, Secret, SecretPlace};
use toolgate_mcp::client::auth::{AuthSettings, ClientRegistration, Endpoints, Grant, RegisteredClient, SecretText};
use toolgate_mcp::client::{InheritedEnv, Redactor, StdioSandbox};
use toolgate_mcp::protocol::Era;
use toolgate_secrets::{Preference, SecretStore};

/// What to start. The user's choice among the tools is applied to the catalog and not here, so that
/// a change of it needs no restart.
pub(super) fn spec(
    name: &str,
    transport: &BackendTransport,
    policy: &BackendPolicy,
    settings: &Settings,
    era: Option<Era>,
) -> BackendSpec {
    BackendSpec {
        timeout: policy.timeout,
        start_timeout: settings.limits.start_timeout,
        max_concurrent_calls: policy.max_concurrent_calls,
        inherit_env: match transport {
            BackendTransport::Stdio(process) if process.inherit_env => InheritedEnv::All,
            _ => InheritedEnv::Basic,
        },
        sandbox: match transport {
            BackendTransport::Stdio(process) => process.sandbox.as_ref().map(sandbox),
            _ => None,
        },
        era_hint: era,
        ..BackendSpec::new(name, kind(name, transport, settings))
    }
}

/// The secrets of the configuration that are in the command, the arguments or the URL of a server. Those of other servers are
/// none of its own: when they change, it is not started again.
pub(super) fn secrets_in(transport: &BackendTransport, secrets: &SecretValues) -> Redactor {
    let texts: Vec<Cow<'_, str>> = match transport {
        BackendTransport::Stdio(process) => {
            let places = [process.command.as_os_str()].into_iter().chain(process.cwd.as_deref().map(Path::as_os_str));
            let args = process.args.iter().map(|arg| Cow::Borrowed(arg.expose()));
            places.map(OsStr::to_string_lossy).chain(args).collect()
        }
        BackendTransport::Http(remote) => vec![remote.url.url().as_str().into()],
        BackendTransport::OpenApi(api) => vec![api.base.url().as_str().into()],
    };
    Redactor::default().and_values(secrets.iter().filter(|value| texts.iter().any(|text| text.contains(value))))
}

fn sandbox(settings: &ServerSandbox) -> StdioSandbox {
    StdioSandbox {
        read: settings.read.clone(),
        write: settings.write.clone(),
        network: settings.network,
        memory: settings.memory.get(),
        processes: settings.processes,
        home: settings.home.clone(),
    }
}

/// What the configuration says about the login of a server that can have one.
pub(super) fn login_of(transport: &BackendTransport) -> Option<&LoginSettings> {
    match transport {
        BackendTransport::Http(remote) => remote.login.as_deref(),
        BackendTransport::OpenApi(api) => api.login.as_ref().map(|(_, login)| login),
        BackendTransport::Stdio(_) => None,
    }
}

/// How a server is reached.
pub(super) fn kind(name: &str, transport: &BackendTransport, settings: &Settings) -> BackendKind {
    match transport {
        BackendTransport::Stdio(process) => BackendKind::Stdio {
            command: process.command.to_string_lossy().into_owned(),
            args: process.args.iter().map(|arg| arg.expose().to_owned()).collect(),
            env: process.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
            cwd: process.cwd.clone(),
        },
        BackendTransport::Http(remote) => BackendKind::Http {
            url: remote.url.url().to_string(),
            headers: remote.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
            login: remote
                .login
                .as_deref()
                .and_then(|login| login_spec(name, remote.url.url(), login, settings, None))
                .map(Box::new),
        },
        BackendTransport::OpenApi(api) => BackendKind::OpenApi(Box::new(api_spec(name, api, settings))),
    }
}

/// How a server logs in; none without a folder for logins. MCP servers are named as the resource of their tokens, APIs are not;
/// `scheme` is the security scheme of an API.
fn login_spec(
    name: &str,
    url: &Url,
    login: &LoginSettings,
    settings: &Settings,
    scheme: Option<&str>,
) -> Option<LoginSpec> {
    let preregistered = login.client_id.clone().map(|id| RegisteredClient {
        id,
        secret: login.client_secret.as_ref().map(|secret| SecretText::new(secret.expose())),
        redirect_uri: None,
    });
    let metadata_document = login.client_metadata.as_ref().map(|url| url.url().to_string());
    let endpoints = login.token_url.as_ref().map(|token| Endpoints {
        authorization: login.authorization_url.as_ref().map(|url| url.url().to_string()),
        token: token.url().to_string(),
        names_resource: scheme.is_none(),
    });
    let auth = AuthSettings {
        // With the URL: a file of another folder may have a server of this name elsewhere, which must not get the token.
        name: format!("{name} {url}"),
        grant: match login.grant {
            LoginGrant::AuthorizationCode => Grant::AuthorizationCode,
            LoginGrant::ClientCredentials => Grant::ClientCredentials,
        },
        client: ClientRegistration { preregistered, metadata_document },
        scopes: login.scopes.clone(),
        issuer: login.issuer.as_ref().map(|issuer| issuer.url().to_string()),
        endpoints,
        allow_hosts: login.allow_hosts.iter().map(allowed).collect(),
        logout_command: format!("toolgate logout {}", quoted(name)),
        setting: scheme.map_or_else(|| "auth".to_owned(), |scheme| format!("auth.{scheme}")),
    };
    let preference = match settings.logins.place {
        SecretPlace::Auto => Preference::Auto,
        SecretPlace::Keyring => Preference::Keyring,
        SecretPlace::File => Preference::File,
    };
    let store = SecretStore::new(settings.logins.folder.clone()?, "toolgate login", preference);
    Some(LoginSpec { settings: auth, store, command: format!("toolgate login {}", quoted(name)) })
}

fn allowed(entry: &Allowed) -> String {
    match entry {
        Allowed::Host(name) => name.to_string(),
        Allowed::Net(network) => network.to_string(),
    }
}

fn api_spec(name: &str, api: &OpenApi, settings: &Settings) -> ApiSpec {
    let exposed = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
    let login = |(scheme, login): &(String, LoginSettings)| {
        let mut login = login_spec(name, api.base.url(), login, settings, Some(scheme))?;
        // What the API itself may be at, its login may be at as well.
        login.settings.allow_hosts.extend(api.allow_hosts.iter().map(allowed));
        Some((scheme.clone(), login))
    };
    ApiSpec {
        document: match &api.spec {
            SpecSource::File(file) => DocumentSource::File(file.clone()),
            SpecSource::Url(url) => DocumentSource::Url(url.url().clone()),
        },
        base: api.base.url().clone(),
        auth: api.auth.iter().map(exposed).collect(),
        login: api.login.as_ref().and_then(login),
        headers: api.headers.iter().map(|(name, value)| exposed((name, value))).collect(),
        include: api.include.clone(),
        exclude: api.exclude.clone(),
        allow: api.allow_hosts.iter().map(allowed).collect(),
    }
}

/// The names under which a server gets its secrets.
pub(super) fn key_names(transport: &BackendTransport) -> Vec<KeyName> {
    let key = |kind: KeyKind, name: &str, value: &Secret| {
        let is_set = !value.expose().trim().is_empty();
        KeyName { kind, name: name.to_owned(), is_set }
    };
    match transport {
        BackendTransport::Stdio(process) => {
            process.env.iter().map(|(name, value)| key(KeyKind::Variable, name, value)).collect()
        }
        BackendTransport::Http(remote) => {
            remote.headers.iter().map(|(name, value)| key(KeyKind::Header, name, value)).collect()
        }
        BackendTransport::OpenApi(api) => {
            let headers = api.headers.iter().map(|(name, value)| key(KeyKind::Header, name, value));
            headers.chain(api.auth.iter().map(|(name, value)| key(KeyKind::Scheme, name, value))).collect()
        }
    }
}

/// Stands for everything that decides which tools a server shows. One way: the cache must not hold a secret.
pub(super) fn fingerprint(name: &str, transport: &BackendTransport, settings: &Settings) -> String {
    let mut digest = Context::new(&SHA256);
    // Each part with its length: otherwise two parts could be divided otherwise and look the same.
    let mut put = |part: &str| {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    };
    let mut put_all = |pairs: &BTreeMap<String, String>| pairs.iter().flat_map(|(k, v)| [k, v]).for_each(|it| put(it));
    match kind(name, transport, settings) {
        BackendKind::Stdio { command, args, env, cwd } => {
            put_all(&env);
            put("stdio");
            put(&command);
            args.iter().for_each(|arg| put(arg));
            put(&cwd.unwrap_or_default().to_string_lossy());
        }
        BackendKind::Http { url, headers, login: _ } => {
            put_all(&headers);
            put("http");
            put(&url);
        }
        BackendKind::OpenApi(api) => {
            let api = *api;
            put_all(&api.auth);
            put_all(&api.headers.into_iter().collect());
            put("openapi");
            put(&match api.document {
                DocumentSource::File(file) => file.to_string_lossy().into_owned(),
                DocumentSource::Url(url) => url.into(),
            });
            put(api.base.as_str());
            for rules in [&api.include, &api.exclude] {
                put("rules");
                rules.iter().for_each(|rule| put(rule));
            }
        }
    }
    digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
