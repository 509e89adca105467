//! Bodies of requests, bounded.

use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, Bytes};
use hyper::body::{Body as _, Frame};

use tokio::time::timeout;

use super::refusal::Refusal;

/// How often over the limit a body may be before the connection is cut instead of read to its end.
const PATIENCE: usize = 4;

/// How long a body may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(60);

/// The whole body if it has at most `limit` bytes.
pub(super) async fn read(body: Body, limit: usize) -> Result<Vec<u8>, Refusal> {
    timeout(ARRIVAL, collect(body, limit)).await.map_err(|_| Refusal::too_slow())?
}

/// Reads up to `limit` bytes.
///
/// A larger one is read on for a while and thrown away: many clients hear a refusal only once
/// they have sent everything.
async fn collect(mut body: Body, limit: usize) -> Result<Vec<u8>, Refusal> {
    let mut kept = Vec::new();
    let mut length = 0usize;
    while let Some(frame) = next(&mut body).await {
        let Ok(chunk) = frame.map_err(|_| Refusal::broken_body())?.into_data() else { continue };
        length = length.saturating_add(chunk.len());
        if length <= limit {
            kept.extend_from_slice(&chunk);
        } else if length <= limit.saturating_mul(PATIENCE) {
            kept = Vec::new();
        } else {
            break;
        }
    }
    if length <= limit { Ok(kept) } else { Err(Refusal::too_large(limit)) }
}

async fn next(body: &mut Body) -> Option<Result<Frame<Bytes>, axum::Error>> {
    std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await
}
