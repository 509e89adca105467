//! Sends what was learned to the PostgreSQL of the runs, and asks it what other replicas learned.
//!
//! A thread of its own with one connection: a database that is slow or gone delays neither calls nor learning. It does one request
//! at a time and answers each one, with what changed or with the error.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Weak};

use toolgate_catalog::types::learned::{LearnedType, LearnedTypes, VERSION};
use toolgate_journal::store::StoreError;
use toolgate_journal::store::postgres::learned_types::{LearnedTypeTable, ToolName};

use super::Task;

/// Results to add to the table, and the edition since which changes are asked for.
pub(super) struct ShareRequest {
    pub(super) added: Arc<LearnedTypes>,
    /// Backends whose types are to be deleted.
    pub(super) forgotten: Vec<String>,
    pub(super) since: u64,
}

/// What the table has, as far as it changed.
pub(super) struct SharedChange {
    pub(super) edition: u64,
    /// Whether it has nothing else.
    pub(super) is_whole: bool,
    pub(super) types: Vec<(ToolName, LearnedType)>,
}

pub(super) type ShareReply = Result<SharedChange, StoreError>;

/// The thread. It ends when this is dropped.
pub(super) struct TypeSharing {
    requests: Sender<ShareRequest>,
}

impl TypeSharing {
    /// Shares by the database at this address, and sends replies as tasks.
    pub(super) fn start(address: String, replies: Weak<SyncSender<Task>>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (requests, inbox) = channel();
        let serve = move || serve(&runtime, &address, &inbox, &replies);
        std::thread::Builder::new().name("toolgate-types".into()).spawn(serve)?;
        Ok(TypeSharing { requests })
    }

    /// Hands over a request; `false` if the thread has ended.
    pub(super) fn request(&self, request: ShareRequest) -> bool {
        self.requests.send(request).is_ok()
    }
}

fn serve(
    runtime: &tokio::runtime::Runtime,
    address: &str,
    requests: &Receiver<ShareRequest>,
    replies: &Weak<SyncSender<Task>>,
) {
    let mut table = None;
    for request in requests {
        let reply = runtime.block_on(share(&mut table, address, &request));
        // The learner may have ended meanwhile: a reply holds it for no longer than it takes to be sent.
        let Some(learner) = replies.upgrade() else { return };
        if learner.send(Task::Shared(reply)).is_err() {
            return;
        }
    }
}

async fn share(table: &mut Option<LearnedTypeTable>, address: &str, request: &ShareRequest) -> ShareReply {
    let was_open = table.is_some();
    let reply = attempt(table, address, request).await;
    if reply.is_ok() {
        return reply;
    }
    *table = None;
    if !was_open {
        return reply;
    }
    // The connection may have ended since it was last used, with a restart of the database for one. If the first attempt was
    // written after all, its results count twice, which changes no type.
    let reply = attempt(table, address, request).await;
    if reply.is_err() {
        *table = None;
    }
    reply
}

async fn attempt(table: &mut Option<LearnedTypeTable>, address: &str, request: &ShareRequest) -> ShareReply {
    let table = match table {
        Some(table) => table,
        None => table.insert(LearnedTypeTable::connect(address, VERSION).await?),
    };
    table.forget(&request.forgotten).await?;
    let tools: Vec<ToolName> =
        request.added.iter().map(|(backend, tool, _)| (backend.to_owned(), tool.to_owned())).collect();
    let merged = table.merge(&tools, |kept| {
        let (backend, tool) = kept.tool;
        let added = request.added.get(backend, tool).cloned().unwrap_or_default();
        added.added_to(kept.shape, kept.room)
    });
    merged.await?;
    let changed = table.changed_since(request.since).await?;
    // A row that holds no type of this version is not ours, or damaged: it is left out until it is written anew.
    let types = changed.rows.into_iter().filter_map(|row| Some((row.tool, LearnedType::read(&row.shape).ok()?)));
    Ok(SharedChange { edition: changed.edition, is_whole: changed.is_whole, types: types.collect() })
}
