//! Caches the lists of a server: resources, templates, prompts.
//!
//! A list is fresh until a change is notified; where no change would be notified, for a few seconds. Bounded in entries and
//! bytes. Tools are not cached here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use super::requests::ListKind;
use super::tool_listing::AddMore;

/// The most entries of a list; further ones are dropped.
const MAX_ENTRIES: usize = 10_000;
/// The most bytes of a list; further entries are dropped.
const MAX_LIST_BYTES: usize = 16 << 20;
/// The longest URI or name; entries with longer ones are dropped.
pub const MAX_ID_BYTES: usize = 8192;
/// How long a list stays fresh if the server does not notify changes.
const UNANNOUNCED_TTL: Duration = Duration::from_secs(5);

/// A list of a server: every entry with an id of its own, once.
#[derive(Debug, Default)]
pub struct ItemList {
    entries: Vec<Value>,
    index_by_id: HashMap<String, usize>,
    bytes: usize,
}

impl ItemList {
    /// The entries, in the server's order.
    pub fn entries(&self) -> &[Value] {
        &self.entries
    }

    /// The entry with this URI, template or name.
    pub fn get(&self, id: &str) -> Option<&Value> {
        self.index_by_id.get(id).and_then(|index| self.entries.get(*index))
    }

    /// Adds an entry that has an id and a name; of several with one id, the first is kept.
    pub(super) fn add(&mut self, entry: Value, kind: ListKind) -> AddMore {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let Some(id) = text(kind.id()).filter(|id| id.len() <= MAX_ID_BYTES && text("name").is_some()) else {
            return AddMore::Yes;
        };
        if self.index_by_id.contains_key(id) {
            return AddMore::Yes;
        }
        let bytes = self.bytes.saturating_add(entry.to_string().len());
        if self.entries.len() >= MAX_ENTRIES || bytes > MAX_LIST_BYTES {
            return AddMore::No;
        }
        self.index_by_id.insert(id.to_owned(), self.entries.len());
        self.entries.push(entry);
        self.bytes = bytes;
        AddMore::Yes
    }
}

/// The cached lists of one session.
#[derive(Debug, Default)]
pub(super) struct ListCache {
    resources: Slot,
    templates: Slot,
    prompts: Slot,
}

type Slot = Mutex<Option<CachedList>>;

/// A list, and the version and time by which its freshness is decided.
#[derive(Debug)]
pub(super) struct CachedList {
    pub(crate) list: Arc<ItemList>,
    pub(crate) version: u64,
    pub(crate) since: Instant,
}

impl CachedList {
    /// Whether the list is still current; `notified` says whether changes are notified.
    pub(super) fn is_fresh(&self, version: u64, notified: bool) -> bool {
        self.version == version && (notified || self.since.elapsed() < UNANNOUNCED_TTL)
    }
}

impl ListCache {
    /// The cache slot of a list, locked: a second reader waits for the list that is being read.
    pub(super) async fn slot(&self, kind: ListKind) -> MutexGuard<'_, Option<CachedList>> {
        match kind {
            ListKind::Resources => self.resources.lock().await,
            ListKind::Templates => self.templates.lock().await,
            ListKind::Prompts => self.prompts.lock().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(entries: impl IntoIterator<Item = Value>, expected: &[&str]) {
        let mut list = ItemList::default();
        entries.into_iter().for_each(|entry| {
            let _ = list.add(entry, ListKind::Resources);
        });
        let found: Vec<_> = list.entries().iter().filter_map(|entry| entry["uri"].as_str()).collect();
        assert_eq!(found, expected);
        assert!(expected.iter().all(|uri| list.get(uri).is_some_and(|entry| entry["uri"] == *uri)));
    }

    #[test]
    fn an_entry_counts_once_and_only_with_an_id_and_a_name() {
        let odd =
            [json!({ "uri": 5, "name": "a" }), json!({ "uri": "", "name": "a" }), json!({ "uri": "x" }), json!([])];
        check(odd, &[]);
        check([json!({ "uri": "x".repeat(MAX_ID_BYTES + 1), "name": "a" })], &[]);
        check([json!({ "uri": "a", "name": "1" }), json!({ "uri": "a", "name": "2" })], &["a"]);
    }

    #[test]
    fn a_list_is_bounded_in_number_and_in_bytes() {
        let mut list = ItemList::default();
        (0..MAX_ENTRIES + 5).for_each(|n| {
            let _ = list.add(json!({ "uri": format!("u{n}"), "name": "n" }), ListKind::Resources);
        });
        assert_eq!(list.entries().len(), MAX_ENTRIES);
        let mut list = ItemList::default();
        let heavy = "x".repeat(MAX_LIST_BYTES / 3);
        (0..9).for_each(|n| {
            let _ = list.add(json!({ "uri": format!("u{n}"), "name": heavy }), ListKind::Resources);
        });
        assert_eq!(list.entries().len(), 2);
    }

    #[test]
    fn a_list_is_fresh_until_a_change_is_notified_or_for_a_while_where_none_would_be() {
        let cached =
            |age| CachedList { list: Arc::default(), version: 3, since: Instant::now().checked_sub(age).unwrap() };
        let old = UNANNOUNCED_TTL * 2;
        assert!(cached(old).is_fresh(3, true));
        assert!(!cached(old).is_fresh(3, false));
        assert!(cached(Duration::ZERO).is_fresh(3, false));
        assert!(!cached(Duration::ZERO).is_fresh(4, true));
    }
}
