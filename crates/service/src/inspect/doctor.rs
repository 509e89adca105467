//! `GET /v1/doctor`: which layers confine programs here, as a worker that just ran reports them.
//!
//! `toolgate doctor` looks at a worker from outside too; a service that runs other programs cannot tell its workers apart.

use std::time::Duration;

use axum::extract::{RawQuery, State};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_wire::report::{Isolation, IsolationLevel};

use super::query::Query;
use crate::refusal::Refusal;
use crate::{Caller, HttpService};

/// How long the program may take that shows what confines it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What confines programs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DoctorReply {
    /// Whether a program ran in a process of its own, under a filter of system calls.
    ok: bool,
    /// The version of the service.
    version: &'static str,
    /// The operating system and the processor.
    system: String,
    /// Why no program ran, if none did.
    error: Option<String>,
    /// From the strongest to the weakest.
    layers: Vec<Layer>,
    /// What is wrong with the configuration file as it is now, for callers that see every tool.
    problems: Vec<String>,
}

/// A layer.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Layer {
    /// Its name in reports.
    name: &'static str,
    /// Whether it holds.
    active: bool,
    /// Whether programs are run only with it.
    required: bool,
    /// What it does, or what its absence means.
    note: String,
}

pub(crate) async fn read(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    RawQuery(query): RawQuery,
) -> Result<Json<DoctorReply>, Refusal> {
    Query::parse(&query.unwrap_or_default(), &[])?;
    let report = service.runner().probe(PROBE_TIMEOUT).await;
    let layers = layers(&report.isolation);
    let gateway = service.gateway().filter(|_| caller.scope().sees_all_tools());
    let problems = gateway.map(|gateway| gateway.problems()).unwrap_or_default();
    Ok(Json(DoctorReply {
        ok: layers.iter().all(|layer| layer.active || !layer.required),
        version: env!("CARGO_PKG_VERSION"),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        error: report.failure().map(|failure| failure.message.clone()),
        layers,
        problems: problems.iter().map(ToString::to_string).collect(),
    }))
}

fn layers(isolation: &Isolation) -> Vec<Layer> {
    let layer = |name, active, required, on: String, off: &str| Layer {
        name,
        active,
        required,
        note: if active { on } else { off.to_owned() },
    };
    vec![
        layer(
            "process",
            isolation.mode == IsolationLevel::Process,
            true,
            "every run has a process of its own, killed at its end".to_owned(),
            "programs run in a thread, or none could be started: `toolgate doctor` says why",
        ),
        layer(
            "seccomp",
            isolation.seccomp,
            true,
            "a program can make no system call that opens, connects, forks or executes".to_owned(),
            "no filter of system calls",
        ),
        layer(
            "no_new_privs",
            isolation.no_new_privs,
            false,
            "no privilege can be gained by executing anything".to_owned(),
            "the kernel did not take it",
        ),
        layer(
            "landlock",
            isolation.landlock > 0,
            false,
            format!("version {}: the kernel denies every file and port once more", isolation.landlock),
            "not in force; files stay out of reach all the same, since seccomp has no call that opens one",
        ),
        layer(
            "no_exec_memory",
            isolation.no_exec_memory,
            false,
            "memory cannot be made executable".to_owned(),
            "this kernel cannot deny it by itself; the seccomp filter still refuses to map any",
        ),
        layer(
            "namespaces",
            !isolation.namespaces.is_empty(),
            false,
            format!("{} of its own", isolation.namespaces.join(", ")),
            "not permitted here; the network stays out of reach, since seccomp has no call that makes a socket",
        ),
        layer(
            "private_user",
            isolation.private_user,
            false,
            "a user id that owns nothing".to_owned(),
            "workers keep the user that started them",
        ),
    ]
}
