//! Endpoints of the RPC bridge: opens and ends sessions, and calls functions within them.
//!
//! A session's token grants only the functions it was opened for. Refusals do not help to guess: an unknown id, a wrong
//! token, an expired session and a function that was not granted get the same response, before the body is read. Stores and
//! tokens are in `rpc_sessions`.

use std::time::{Duration, Instant, SystemTime};

use axum::Extension;
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use ring::digest::{SHA256, digest};
use serde_json::Value;
use serde_json::value::RawValue;

use super::admission::Peer;
use super::body;
use super::caller::bearer;
use super::messages::{RpcReply, RpcRequest, SessionReply, SessionRequest};
use super::path::Path;
use super::refusal::{Refusal, Shown};
use super::run::{answer, named};
use super::{Caller, HttpService, trace};
use crate::rpc_sessions::{ExecutionId, SessionGrant, SessionOwner, SessionTtl};
use toolgate_functions::{CallContext, FunctionAnswer};

const DEFAULT_TTL_MS: u64 = 5 * 60 * 1000;
/// If receiving the body takes longer, the session is authorised again: it may have been revoked meanwhile.
const REAUTHORISE_AFTER: Duration = Duration::from_millis(100);

pub(super) async fn open(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if matches!(caller, Caller::Token(_)) {
        // What a token opens is not known once it is gone.
        return Err(Refusal::BadRequest("sessions are for holders of an API key"));
    }
    let (text, _share) = body::read(&headers, body, service.rpc_limits(), &service.budget(&caller)).await?;
    let request: SessionRequest = body::parse(&text)?;
    let names = request.functions.ok_or_else(|| Refusal::missing("/functions"))?;
    let functions = named(&service.runner().functions(&caller.scope()), &names, "/functions")?.names();
    let ttl = SessionTtl::new(Duration::from_millis(request.ttl_ms.map_or(DEFAULT_TTL_MS, |ms| ms.0)));
    let ttl = ttl.map_err(|fault| Refusal::field("/ttlMs", fault.to_string()))?;
    let opened = service.sessions().open(owner_of(&caller), functions, ttl).await?;
    let reply = SessionReply {
        url: address(&service, &headers, &opened.execution_id),
        execution_id: opened.execution_id.to_string(),
        token: opened.token.reveal().to_owned(),
        expires_at: opened.expires_at,
    };
    Ok((StatusCode::CREATED, [(header::CACHE_CONTROL, "no-store")], Json(reply)).into_response())
}

/// The URL for calls, under the host that the caller addressed, which admission has checked.
fn address(service: &HttpService, headers: &HeaderMap, id: &ExecutionId) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let base = service.public_url().map_or_else(|| format!("http://{host}"), ToString::to_string);
    format!("{}/rpc/{id}", base.trim_end_matches('/'))
}

pub(super) async fn revoke(
    State(service): State<HttpService>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Refusal> {
    match service.sessions().revoke(&id, caller.name()).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(Refusal::NoSuchSession(Shown::new(&id))),
    }
}

pub(super) async fn call(
    State(service): State<HttpService>,
    peer: Peer,
    path: Result<Path<(String, String)>, Refusal>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    // A path that is not UTF-8 names no session.
    let Path((id, function)) = path.map_err(|_| Refusal::UnauthorisedInSession)?;
    let token = bearer(&headers).unwrap_or_default();
    let started = Instant::now();
    let comparison = service.failed_keys().begin(peer.address())?;
    let (mut grant, mut caller) = match authorise(&service, &id, token, &function).await {
        Err(wrong @ Refusal::UnauthorisedInSession) => return Err(comparison.failed(wrong).await),
        authorised => authorised?,
    };
    service.rates().take(&caller, started)?;
    let (text, mut share) = body::read(&headers, body, service.rpc_limits(), &service.budget(&caller)).await?;
    if started.elapsed() > REAUTHORISE_AFTER {
        (grant, caller) = authorise(&service, &id, token, &function).await?;
    }
    let request: RpcRequest = body::parse(&text)?;
    let args = request.args.ok_or_else(|| Refusal::missing("/args"))?;
    let Value::Array(args) = share.tree("/args", &args)? else {
        return Err(Refusal::field("/args", "must be a list"));
    };
    let cancel = service.shutdown().abort.child_token();
    let _cancel_on_drop = cancel.clone().drop_guard();
    let context = CallContext { cancel, deadline: Some(end_of(&grant)), ..CallContext::default() };
    let called =
        service.runner().call_function(&caller.scope(), &grant.function, context, args, trace::context(&headers)).await;
    // Counted in the caller's bytes until the reply is written.
    let (reply, _permit) = match called.map(FunctionAnswer::into_text) {
        Ok((text, permit)) => {
            let result = RawValue::from_string(text).map_err(|_| Refusal::Internal)?;
            (RpcReply { result: Some(result), error: None }, permit)
        }
        Err(error) => (RpcReply { result: None, error: Some(error.to_json()) }, None),
    };
    answer(&service.budget(&caller), &reply)
}

/// The owner of a session that this caller opens. The record in the store has neither a key nor its hash.
fn owner_of(caller: &Caller) -> SessionOwner {
    let key = match caller {
        Caller::Key(key) => {
            let digest = digest(&SHA256, key.hash.digest().as_slice());
            Some(digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
        }
        Caller::Local | Caller::Token(_) => None,
    };
    SessionOwner { name: caller.name().to_owned(), key }
}

/// The session's grant, if the key that opened the session still exists and is the same one.
async fn authorise(
    service: &HttpService,
    id: &str,
    token: &str,
    function: &str,
) -> Result<(SessionGrant, Caller), Refusal> {
    let grant = service.sessions().authorise(id, token, function).await?;
    let caller = service.rules().keys.named(&grant.owner.name).filter(|caller| owner_of(caller) == grant.owner);
    let caller = caller.ok_or(Refusal::UnauthorisedInSession)?;
    Ok((grant, caller))
}

fn end_of(grant: &SessionGrant) -> tokio::time::Instant {
    let end = SystemTime::UNIX_EPOCH + Duration::from_millis(grant.expires_at);
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    tokio::time::Instant::now() + left.min(SessionTtl::MAX)
}
