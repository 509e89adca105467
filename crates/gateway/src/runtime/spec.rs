//! From a configured server to a backend's spec, and to a fingerprint that its cached tools are kept under.

use std::collections::BTreeMap;

use ring::digest::{Context, SHA256};

use super::backend_records::KeyName;
use crate::backends::{ApiSpec, BackendKind, BackendSpec, DocumentSource};
use toolgate_config::checked::{OpenApi, Policy, Settings, SpecSource, Transport};
use toolgate_config::values::{Allowed, Secret};
use toolgate_mcp::client::InheritedEnv;
use toolgate_mcp::protocol::Era;

/// What to start. The user's choice among the tools is applied to the catalog and not here, so that
/// a change of it needs no restart.
pub(super) fn spec(
    name: &str,
    transport: &Transport,
    policy: &Policy,
    settings: &Settings,
    era: Option<Era>,
) -> BackendSpec {
    BackendSpec {
        timeout: policy.timeout,
        start_timeout: settings.limits.start_timeout,
        max_concurrent_calls: policy.max_concurrent_calls,
        inherit_env: match transport {
            Transport::Stdio(process) if process.inherit_env => InheritedEnv::All,
            _ => InheritedEnv::Basic,
        },
        era_hint: era,
        ..BackendSpec::new(name, kind(transport))
    }
}

fn kind(transport: &Transport) -> BackendKind {
    match transport {
        Transport::Stdio(process) => BackendKind::Stdio {
            command: process.command.to_string_lossy().into_owned(),
            args: process.args.iter().map(|arg| arg.expose().to_owned()).collect(),
            env: process.env.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
            cwd: process.cwd.clone(),
        },
        Transport::Http(remote) => BackendKind::Http {
            url: remote.url.url().to_string(),
            headers: remote.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
        },
        Transport::OpenApi(api) => BackendKind::OpenApi(api_spec(api)),
    }
}

fn api_spec(api: &OpenApi) -> ApiSpec {
    let exposed = |(name, value): (&String, &Secret)| (name.clone(), value.expose().to_owned());
    let allowed = |entry: &Allowed| match entry {
        Allowed::Host(name) => name.to_string(),
        Allowed::Net(network) => network.to_string(),
    };
    ApiSpec {
        document: match &api.spec {
            SpecSource::File(file) => DocumentSource::File(file.clone()),
            SpecSource::Url(url) => DocumentSource::Url(url.url().clone()),
        },
        base: api.base.url().clone(),
        auth: api.auth.iter().map(exposed).collect(),
        headers: api.headers.iter().map(|(name, value)| exposed((name, value))).collect(),
        include: api.include.clone(),
        exclude: api.exclude.clone(),
        allow: api.allow_hosts.iter().map(allowed).collect(),
    }
}

/// The names under which a server gets its secrets.
pub(super) fn key_names(transport: &Transport) -> Vec<KeyName> {
    match transport {
        Transport::Stdio(process) => process.env.keys().cloned().map(KeyName::Variable).collect(),
        Transport::Http(remote) => remote.headers.iter().map(|(name, _)| KeyName::Header(name.clone())).collect(),
        Transport::OpenApi(api) => {
            let headers = api.headers.iter().map(|(name, _)| KeyName::Header(name.clone()));
            headers.chain(api.auth.keys().cloned().map(KeyName::Scheme)).collect()
        }
    }
}

/// Stands for everything that decides which tools a server shows. One way: the cache must not hold a secret.
pub(super) fn fingerprint(transport: &Transport) -> String {
    let mut digest = Context::new(&SHA256);
    // Each part with its length: otherwise two parts could be divided otherwise and look the same.
    let mut put = |part: &str| {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part.as_bytes());
    };
    let mut put_all = |pairs: &BTreeMap<String, String>| pairs.iter().flat_map(|(k, v)| [k, v]).for_each(|it| put(it));
    match kind(transport) {
        BackendKind::Stdio { command, args, env, cwd } => {
            put_all(&env);
            put("stdio");
            put(&command);
            args.iter().for_each(|arg| put(arg));
            put(&cwd.unwrap_or_default().to_string_lossy());
        }
        BackendKind::Http { url, headers } => {
            put_all(&headers);
            put("http");
            put(&url);
        }
        BackendKind::OpenApi(api) => {
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
