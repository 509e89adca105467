//! The idempotency key of the call in progress.
//!
//! A durable run gives every call that may have an effect a key of its own, which is the same when the call is sent again
//! after a crash. The key is set around the future of the call and read where the request is built: the layers between them
//! need not know of it. It is not seen by tasks that the future spawns.

use std::future::Future;

tokio::task_local! {
    static KEY: String;
}

/// The header of HTTP requests.
pub const HEADER: &str = "idempotency-key";

/// The future of a call that has this key.
pub fn with_key<F: Future>(key: String, call: F) -> impl Future<Output = F::Output> {
    KEY.scope(key, call)
}

/// The key of the call in progress; none outside of durable runs.
pub fn current() -> Option<String> {
    KEY.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_key_is_that_of_its_own_call() {
        assert_eq!(current(), None);
        let call =
            |key: &str| with_key(key.to_owned(), async { (current(), tokio::task::yield_now().await, current()) });
        let (one, two) = tokio::join!(call("one"), call("two"));
        assert_eq!(one, (Some("one".into()), (), Some("one".into())));
        assert_eq!(two.2.as_deref(), Some("two"));
        assert_eq!(current(), None);
    }
}
