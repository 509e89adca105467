//! The right of a caller to a stream that it has opened: an answer that may last for days must not outlive it.
//!
//! A stream of a browser ends with the session that opened it: at a sign-out, at its time, when it makes room for others. A
//! stream of a key ends soon after the key is removed, replaced or changed. Requests that are answered at once need none of
//! this: each of them is admitted anew.

use std::time::Duration;

use crate::page::sessions::PageSessionEnd;
use crate::{Caller, HttpService};

/// How often the caller of a stream is looked up again.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Who has opened a stream, and by which session of the page; admission adds it to every request as an extension.
#[derive(Debug, Clone)]
pub(crate) struct StreamRight {
    pub(crate) caller: Caller,
    pub(crate) session: Option<PageSessionEnd>,
}

impl StreamRight {
    /// Waits until the right is gone.
    pub(crate) async fn lost(self, service: HttpService) {
        let unknown = async {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                if !self.is_known(&service) {
                    return;
                }
            }
        };
        tokio::select! {
            () = self.session_ended() => {}
            () = unknown => {}
        }
    }

    /// Waits until the session of the page that opened the stream has ended; for ever where it was opened by a key.
    pub(crate) async fn session_ended(&self) {
        match &self.session {
            Some(session) => session.wait().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the rules still know the caller.
    pub(crate) fn is_known(&self, service: &HttpService) -> bool {
        let rules = service.rules();
        match &self.caller {
            Caller::Local => rules.keys.is_empty(),
            Caller::Key(key) => {
                let now = rules.keys.named(&key.name);
                now.is_some_and(|now| matches!(now, Caller::Key(now) if now == *key))
            }
            // A token cannot be looked at again: its holder connects anew.
            Caller::Token(_) => false,
        }
    }
}
