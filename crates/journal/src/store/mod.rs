//! Where durable runs are.
//!
//! One trait, three stores: [`memory`] for tests, [`sqlite`] for one host, [`postgres`] for several replicas. A store
//! keeps rows of bytes that it cannot read (see [`crate::seal`]) and the few facts that it needs to find a run and to
//! decide who owns it. Every write of an owner is conditional on the epoch of its lease, so a process that lost its
//! run without noticing cannot write to it. PostgreSQL also has the learned types of tools ([`postgres::learned_types`]).

pub mod memory;
pub mod postgres;
pub mod sqlite;
mod tls;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The future of a store's answer.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The lease is not the run's current one: another process has taken the run over, or it has ended.
    #[error("another process has taken over the run {0}")]
    Fenced(String),
    /// There is no such run.
    #[error("there is no run {0}")]
    NoSuchRun(String),
    /// The caller has as many runs that have not ended as it may have.
    #[error("{0} runs of this caller have not ended, which is the most that are kept")]
    TooManyRuns(u64),
    /// The caller's runs that have not ended take as many bytes as they may take.
    #[error(
        "the runs of this caller that have not ended take {used} bytes, and at most {most} are kept: decide or abort some \
         of them, or raise toolgate.runs.max_open_size"
    )]
    TooManyBytes {
        /// What they take, with what was to be added.
        used: u64,
        /// The bound.
        most: u64,
    },
    /// There is no room.
    #[error("the journal's store is full: {0}")]
    Full(String),
    /// Nothing can be written.
    #[error("the journal's store is read-only: {0}")]
    ReadOnly(String),
    /// The store cannot be reached.
    #[error("the journal's store is not available: {0}")]
    Unavailable(String),
    /// What is kept cannot be read.
    #[error("the journal's store has damaged data: {0}")]
    Damaged(String),
}

/// Where a run is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunStatus {
    /// A process owns it, or should.
    Running,
    /// It waits for decisions, and no process owns it.
    Paused,
    /// It has its report.
    Done,
}

impl RunStatus {
    const ALL: [RunStatus; 3] = [RunStatus::Running, RunStatus::Paused, RunStatus::Done];

    /// The name in stores and answers.
    pub fn name(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Paused => "paused",
            RunStatus::Done => "done",
        }
    }

    /// The status of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let known = RunStatus::ALL.into_iter().find(|status| status.name() == text);
        known.ok_or_else(|| StoreError::Damaged(format!("`{text}` is not a status")))
    }
}

/// The right to write to a run, until another process claims it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: String,
    /// Rises with every claim.
    pub epoch: u64,
}

/// A run to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub run: String,
    /// The name of the caller's key.
    pub caller: String,
    /// What makes a repeated request the same request; unique over all runs.
    pub idempotency: Option<Vec<u8>>,
    /// Who owns it.
    pub owner: String,
    /// How long its lease lasts.
    pub ttl: Duration,
    /// Runs of this caller that may be there without having ended, this one included.
    pub max_open: u64,
    /// Bytes that these may take, this one included.
    pub max_open_bytes: u64,
    /// Its first rows. A run is never there without them.
    pub rows: Rows,
}

impl NewRun {
    /// Whether it fits beside runs of its caller that take so many bytes.
    ///
    /// # Errors
    /// If all of them together are above the bound.
    pub(crate) fn fits(&self, others: u64) -> Result<(), StoreError> {
        let used = others.saturating_add(self.rows.bytes());
        let most = self.max_open_bytes;
        if used > most { Err(StoreError::TooManyBytes { used, most }) } else { Ok(()) }
    }
}

/// What came of beginning a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is new.
    New(Lease),
    /// There is a run with this idempotency key already.
    Existing {
        /// Its id.
        run: String,
    },
}

/// Rows of a run: entries in their order, and long texts by a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    /// Entries.
    pub entries: Vec<Vec<u8>>,
    /// Long texts.
    pub blobs: Vec<(String, Vec<u8>)>,
}

impl Rows {
    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        let entries: usize = self.entries.iter().map(Vec::len).sum();
        let blobs: usize = self.blobs.iter().map(|(_, bytes)| bytes.len()).sum();
        (entries + blobs) as u64
    }
}

/// Which run to take over.
#[derive(Debug, Clone)]
pub struct Claim {
    /// This run; any that is due when absent: one of another owner whose lease has ended, one that this owner has given up, or
    /// a paused one that was decided or whose time has come.
    pub run: Option<String>,
    /// Who takes it over.
    pub owner: String,
    /// How long the lease lasts.
    pub ttl: Duration,
    /// Callers whose runs have to wait, where any run is wanted.
    pub not_of: Vec<String>,
    /// The runs that the owner still has, whatever their leases say. Another run of its own whose lease ended
    /// [`GIVEN_UP_LEASES`] leases ago was given up: its end could not be written, or a claim took it and its answer was lost.
    pub held: Vec<String>,
}

/// How many leases pass after the end of the last one until an owner takes a run back that it does not hold any more.
pub const GIVEN_UP_LEASES: u32 = 4;

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRow {
    /// The call.
    pub call: u32,
    /// What is to be decided.
    pub question: Vec<u8>,
    /// What was decided.
    pub decision: Option<Vec<u8>>,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// It is the first one for this call, and it holds.
    Now,
    /// There was one before, which holds.
    Before(Vec<u8>),
    /// Nothing waits under this number.
    NotAsked,
}

/// How an owner leaves its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leave {
    /// The run has its report.
    Done,
    /// The run waits for decisions.
    Paused {
        /// The calls, each with its question. Where one of them has been decided already, the run is due at once.
        calls: Vec<(u32, Vec<u8>)>,
        /// When the run is due without a decision, in milliseconds since 1970.
        wake: Option<u64>,
    },
    /// The run goes on in another process, at once.
    Released,
}

/// A run that its owner still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Its lease.
    pub lease: Lease,
    /// Whether it is to be aborted.
    pub abort: bool,
}

/// Which runs to list.
#[derive(Debug, Clone, Default)]
pub struct Find {
    /// Of this caller.
    pub caller: Option<String>,
    /// In this state.
    pub status: Option<RunStatus>,
    /// This run.
    pub run: Option<String>,
    /// Those that began before this one: when it began, and its id.
    pub before: Option<(u64, String)>,
    /// At most this many, the newest first.
    pub most: usize,
}

/// What a store knows of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub run: String,
    /// The name of the caller's key.
    pub caller: String,
    /// Where it is in its life.
    pub status: RunStatus,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// When it was last written to.
    pub changed: u64,
    /// Its current epoch.
    pub epoch: u64,
    /// Entries that it has.
    pub entries: u64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Whether it is to be aborted.
    pub abort: bool,
}

/// Which runs to forget. Only runs that have ended are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prune {
    /// Those that ended longer ago than this.
    pub older_than: Option<Duration>,
    /// The oldest, until all ended runs together take no more bytes than this.
    pub max_bytes: Option<u64>,
}

/// A store of runs. Futures complete within a bounded time, with an error where the store is gone.
pub trait Store: Send + Sync + 'static {
    /// Begins a run, or finds the one that has the same idempotency key.
    fn begin(&self, run: NewRun) -> StoreFuture<'_, Begun>;

    /// Adds rows behind the `from` entries that the run has; durable when the future completes. Writes nothing if the
    /// lease is not current.
    fn append(&self, lease: Lease, from: u64, rows: Rows) -> StoreFuture<'_, ()>;

    /// The bytes of all runs of this run's caller that have not ended.
    fn open_bytes(&self, run: &str) -> StoreFuture<'_, u64>;

    /// Everything that was appended to a run.
    fn read(&self, run: &str) -> StoreFuture<'_, Rows>;

    /// Entries of a run, from a number on.
    fn entries(&self, run: &str, from: u64, most: usize) -> StoreFuture<'_, Vec<Vec<u8>>>;

    /// One long text of a run.
    fn blob(&self, run: &str, name: &str) -> StoreFuture<'_, Option<Vec<u8>>>;

    /// Takes over a run that is due, or a given one that is paused. `None` when there is none.
    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Lease>>;

    /// Prolongs the leases of an owner's runs, in one write; returns those that it still has.
    fn heartbeat(&self, owner: &str, runs: Vec<String>, ttl: Duration) -> StoreFuture<'_, Vec<Held>>;

    /// Gives a lease back.
    fn leave(&self, lease: Lease, how: Leave) -> StoreFuture<'_, ()>;

    /// Adds rows as [`Store::append`] does and gives the lease back, both or neither.
    fn append_and_leave(&self, lease: Lease, from: u64, rows: Rows, how: Leave) -> StoreFuture<'_, ()>;

    /// The calls of a run that wait, or waited, for a decision.
    fn pending(&self, run: &str) -> StoreFuture<'_, Vec<PendingRow>>;

    /// What is known of a run, and its calls that wait, or waited, for a decision; `None` when there is no such run. A store that
    /// can gives both at once.
    fn look_at(&self, run: &str) -> StoreFuture<'_, Option<(RunRow, Vec<PendingRow>)>> {
        let run = run.to_owned();
        Box::pin(async move {
            let find = Find { run: Some(run.clone()), most: 1, ..Find::default() };
            let Some(row) = self.find(find).await?.pop() else { return Ok(None) };
            Ok(Some((row, self.pending(&run).await?)))
        })
    }

    /// Decides a call. The first decision holds, and a paused run is due then. It survives the end of this process at once, and a
    /// crash of the machine after the next append or [`Store::sync`].
    fn decide(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, Decided>;

    /// Completes when everything that was written before survives a crash of the machine. Stores whose writes do so anyway need not
    /// have it.
    fn sync(&self) -> StoreFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Writes the decision about a call anew. Nothing happens where there is none yet.
    fn amend(&self, run: &str, call: u32, decision: Vec<u8>) -> StoreFuture<'_, ()>;

    /// Asks for the end of a run: its owner hears of it, and a paused one is due. Nothing happens to one that has ended.
    fn abort(&self, run: &str) -> StoreFuture<'_, ()>;

    /// Lists runs.
    fn find(&self, find: Find) -> StoreFuture<'_, Vec<RunRow>>;

    /// Forgets runs that have ended; returns how many.
    fn prune(&self, prune: Prune) -> StoreFuture<'_, u64>;

    /// How often each of these names was counted on a day.
    fn counts(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>>;

    /// Counts each of these names once more on a day, all of them or none, and gives what was counted before. Several processes
    /// that count the same name at the same time get different numbers. Counts of the days before the last one are forgotten.
    fn count(&self, day: u64, names: Vec<String>) -> StoreFuture<'_, Vec<u64>>;

    /// Takes back so many of what was counted.
    fn uncount(&self, day: u64, names: Vec<(String, u64)>) -> StoreFuture<'_, ()>;
}

/// The most names that are counted on one day.
pub const MAX_COUNTED_NAMES: u64 = 100_000;

fn too_many_names() -> StoreError {
    StoreError::Full(format!(
        "{MAX_COUNTED_NAMES} callers and tools have been counted today, which is the most that are"
    ))
}

/// The ended runs to forget, of these rows.
fn to_prune(mut ended: Vec<RunRow>, prune: Prune, now: u64) -> Vec<String> {
    ended.sort_by_key(|row| (row.changed, row.run.clone()));
    let oldest = prune.older_than.map_or(0, |age| now.saturating_sub(milliseconds(age)));
    let mut bytes: u64 = ended.iter().map(|row| row.bytes).sum();
    let most = prune.max_bytes.unwrap_or(u64::MAX);
    let forgotten = ended.into_iter().filter(|row| {
        let forget = (prune.older_than.is_some() && row.changed <= oldest) || bytes > most;
        if forget {
            bytes -= row.bytes;
        }
        forget
    });
    forgotten.map(|row| row.run).collect()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn fenced(lease: &Lease) -> StoreError {
    StoreError::Fenced(lease.run.clone())
}
