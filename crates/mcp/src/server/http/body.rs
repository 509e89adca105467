//! Reads request bodies, bounded in size and in time and counted in the client's byte budget.
//!
//! Parsing is done by the caller.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame};
use tokio::time::timeout;
use toolgate_wire::{ByteBudget, BytePermit};

use super::refusal::Refusal;
use crate::buffer::{Buffer, Overflow};

/// A body that is too large is read on, and discarded, up to this multiple of the limit; past it, reading stops.
const MAX_OVERRUN_FACTOR: usize = 4;

/// How long receiving a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The whole body if it has at most `limit` bytes, and the permit that counts it.
pub(super) async fn read(body: Body, budget: &ByteBudget, limit: usize) -> Result<(Vec<u8>, BytePermit), Refusal> {
    timeout(BODY_TIMEOUT, collect(body, budget, limit)).await.map_err(|_| Refusal::too_slow())?
}

/// Reads up to `limit` bytes.
///
/// A larger body is read on and discarded up to a bound: many clients read the response only after they have sent the whole
/// body.
async fn collect(mut body: Body, budget: &ByteBudget, limit: usize) -> Result<(Vec<u8>, BytePermit), Refusal> {
    let mut kept = Buffer::new(budget, limit);
    let mut overflow = None;
    let mut length = 0usize;
    while let Some(frame) = next(&mut body).await {
        let Ok(chunk) = frame.map_err(|_| Refusal::broken_body())?.into_data() else { continue };
        length = length.saturating_add(chunk.len());
        if length > limit.saturating_mul(MAX_OVERRUN_FACTOR) {
            break;
        }
        if overflow.is_none()
            && let Err(reason) = kept.push(&chunk)
        {
            overflow = Some(reason);
            kept = Buffer::new(budget, limit);
        }
    }
    match overflow {
        None => Ok(kept.finish()),
        Some(Overflow::TooLong) => Err(Refusal::too_large(limit)),
        Some(Overflow::OverBudget(refused)) => Err(Refusal::over_budget(&refused)),
    }
}

async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}
