//! What a backend listed, kept until it may list something else.
//!
//! A list is good for as long as we would hear of its change: until then it is given again without asking. Where
//! nothing would be heard, it is good for a few seconds, as our own lists are to clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use super::offers::Offer;

/// More entries than this are not kept.
const MOST: usize = 10_000;
/// Nor are more bytes of them.
const LARGEST: usize = 16 << 20;
/// A longer URI or name is none: no list has it, and none that fits a template is worth remembering.
pub const LONGEST_ID: usize = 8192;
/// How long a list is good whose changes nobody announces.
const UNANNOUNCED: Duration = Duration::from_secs(5);

/// A list as a backend gave it: every entry that can be told from the others, once.
#[derive(Debug, Default)]
pub struct Offered {
    entries: Vec<Value>,
    places: HashMap<String, usize>,
    bytes: usize,
}

impl Offered {
    /// The entries, in the backend's order.
    pub fn entries(&self) -> &[Value] {
        &self.entries
    }

    /// The entry with this URI, template or name.
    pub fn get(&self, id: &str) -> Option<&Value> {
        self.places.get(id).and_then(|place| self.entries.get(*place))
    }

    /// Takes an entry that has a name; of several with one id the first counts.
    pub fn add(&mut self, entry: Value, offer: Offer) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let Some(id) = text(offer.id()).filter(|id| id.len() <= LONGEST_ID && text("name").is_some()) else {
            return;
        };
        let bytes = self.bytes.saturating_add(entry.to_string().len());
        if self.entries.len() >= MOST || bytes > LARGEST || self.places.contains_key(id) {
            return;
        }
        self.places.insert(id.to_owned(), self.entries.len());
        self.entries.push(entry);
        self.bytes = bytes;
    }
}

/// The lists of one conversation.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    resources: Slot,
    templates: Slot,
    prompts: Slot,
}

type Slot = Mutex<Option<Kept>>;

/// A list, and what must not have changed for it to be good.
#[derive(Debug)]
pub(super) struct Kept {
    pub(crate) list: Arc<Offered>,
    pub(crate) edition: u64,
    pub(crate) since: Instant,
}

impl Kept {
    /// Whether the list would still be the same; `heard` says whether we would know otherwise.
    pub(super) fn is_good(&self, edition: u64, heard: bool) -> bool {
        self.edition == edition && (heard || self.since.elapsed() < UNANNOUNCED)
    }
}

impl Shelf {
    /// The place of a list. Whoever finds it taken waits for the list that is being read.
    pub(super) async fn slot(&self, offer: Offer) -> MutexGuard<'_, Option<Kept>> {
        match offer {
            Offer::Resources => self.resources.lock().await,
            Offer::Templates => self.templates.lock().await,
            Offer::Prompts => self.prompts.lock().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(entries: impl IntoIterator<Item = Value>, expected: &[&str]) {
        let mut list = Offered::default();
        entries.into_iter().for_each(|entry| list.add(entry, Offer::Resources));
        let found: Vec<_> = list.entries().iter().filter_map(|entry| entry["uri"].as_str()).collect();
        assert_eq!(found, expected);
        assert!(expected.iter().all(|uri| list.get(uri).is_some_and(|entry| entry["uri"] == *uri)));
    }

    #[test]
    fn an_entry_counts_once_and_only_with_an_id_and_a_name() {
        let odd =
            [json!({ "uri": 5, "name": "a" }), json!({ "uri": "", "name": "a" }), json!({ "uri": "x" }), json!([])];
        check(odd, &[]);
        check([json!({ "uri": "x".repeat(LONGEST_ID + 1), "name": "a" })], &[]);
        check([json!({ "uri": "a", "name": "1" }), json!({ "uri": "a", "name": "2" })], &["a"]);
    }

    #[test]
    fn a_list_is_bounded_in_number_and_in_bytes() {
        let mut list = Offered::default();
        (0..MOST + 5).for_each(|n| list.add(json!({ "uri": format!("u{n}"), "name": "n" }), Offer::Resources));
        assert_eq!(list.entries().len(), MOST);
        let mut list = Offered::default();
        let heavy = "x".repeat(LARGEST / 3);
        (0..9).for_each(|n| list.add(json!({ "uri": format!("u{n}"), "name": heavy }), Offer::Resources));
        assert_eq!(list.entries().len(), 2);
    }

    #[test]
    fn a_list_is_good_until_a_change_is_heard_or_for_a_while_where_none_would_be() {
        let kept = |age| Kept { list: Arc::default(), edition: 3, since: Instant::now().checked_sub(age).unwrap() };
        let old = UNANNOUNCED * 2;
        assert!(kept(old).is_good(3, true));
        assert!(!kept(old).is_good(3, false));
        assert!(kept(Duration::ZERO).is_good(3, false));
        assert!(!kept(Duration::ZERO).is_good(4, true));
    }
}
