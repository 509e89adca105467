//! Our own client against our own server: both eras, nothing lost on the way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use toolgate_backends::{
    Backend, BackendChange, BackendEvent, BackendKind, BackendSpec, BackendState, CallError, CallOptions,
};
use toolgate_demo::Demo;
use toolgate_mcp::protocol::Era;
use toolgate_mcp::server::{Change, Service};

use crate::peer::{Host, soon};
use crate::service::Sample;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

struct Pair {
    _host: Host,
    backend: Backend,
    news: broadcast::Receiver<BackendEvent>,
}

async fn pair(service: Arc<dyn Service>, era: Era) -> Pair {
    let host = Host::start(service).await;
    let kind = BackendKind::Http { url: host.url(), headers: BTreeMap::new(), login: None };
    let spec = BackendSpec { era_hint: Some(era), ..BackendSpec::new("demo", kind) };
    let (events, news) = broadcast::channel(64);
    let backend = Backend::start(spec, events);
    backend.ready(Duration::from_secs(30)).await.unwrap();
    let BackendState::Ready(ready) = backend.state() else { panic!("{}", backend.state()) };
    assert_eq!(ready.era, era);
    Pair { _host: host, backend, news }
}

async fn call(backend: &Backend, tool: &str, arguments: Value, options: CallOptions) -> Result<Value, CallError> {
    let arguments = arguments.as_object().cloned().unwrap();
    soon(backend.call(tool, arguments, options))
        .await
        .map(|reply| serde_json::from_str(reply.into_text().as_str()).unwrap())
}

#[tokio::test]
async fn values_are_unchanged_in_both_eras() {
    for era in ERAS {
        let Pair { backend, .. } = &pair(Arc::new(Demo::default()), era).await;
        let open = call(backend, "list_issues", json!({ "state": "open", "limit": 2 }), CallOptions::default()).await;
        assert_eq!(open.unwrap()["issues"].as_array().unwrap().len(), 2);
        let note = json!({ "name": "größe", "text": "ä\u{0}\n" });
        call(backend, "create_note", note.clone(), CallOptions::default()).await.unwrap();
        let read = call(backend, "read_note", json!({ "name": "größe" }), CallOptions::default()).await;
        assert_eq!(read.unwrap(), note);
        let failed = call(backend, "always_fails", json!({ "message": "as it should" }), CallOptions::default()).await;
        assert!(matches!(failed, Err(CallError::Tool { .. })), "{failed:?}");
    }
}

#[tokio::test]
async fn progress_and_cancelling_work_in_both_eras() {
    for era in ERAS {
        let Pair { backend, .. } = &pair(Arc::new(Demo::default()), era).await;
        let (progress, mut news) = mpsc::channel(16);
        let options = CallOptions { progress: Some(progress), ..CallOptions::default() };
        call(backend, "slow_task", json!({ "seconds": 0.05, "steps": 3 }), options).await.unwrap();
        let mut steps = Vec::new();
        while let Ok(step) = news.try_recv() {
            steps.push(step.progress);
        }
        assert_eq!(steps, [1.0, 2.0, 3.0]);

        let cancel = CancellationToken::new();
        let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
        let (ended, ()) = tokio::join!(call(backend, "slow_task", json!({ "seconds": 600 }), options), async {
            tokio::task::yield_now().await;
            cancel.cancel();
        });
        assert!(ended.is_err());
        call(backend, "current_time", json!({}), CallOptions::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_changed_list_of_tools_is_notified_in_both_eras() {
    for era in ERAS {
        let sample = Sample::new();
        let mut pair = pair(sample.clone(), era).await;
        soon(async {
            // Listening begins in the background, so the change is repeated until it is heard.
            let announce = async {
                loop {
                    let _ = sample.changes.send(Change::Tools.into());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let hear = async { while !matches!(pair.news.recv().await.unwrap().change, BackendChange::Tools(_)) {} };
            tokio::select! { () = hear => {}, () = announce => {} }
        })
        .await;
    }
}
