//! The index of one snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::OnceLock;

use bm25::{Embedding, Scorer, TokenEmbedding};
use serde_json::Value;

use super::super::backend::ToolRef;
use super::super::distance;
use super::super::snapshot::Catalog;
use super::act::{self, Act};
use super::thing::{Siblings, parameters};
use super::words::{joined, proper_names, words};
use super::{Hit, meaning, values};

/// How fast more of the same word stops to matter, and how much a long text is held against a tool.
const K1: f32 = 1.2;
const B: f32 = 0.4;

/// What a word is worth, by where a tool says it.
mod weight {
    pub(super) const NAME: f32 = 4.0;
    pub(super) const TITLE: f32 = 2.0;
    pub(super) const BACKEND: f32 = 2.5;
    pub(super) const TAG: f32 = 2.0;
    pub(super) const FIRST_SENTENCE: f32 = 1.5;
    pub(super) const DESCRIPTION: f32 = 0.7;
    pub(super) const PARAMETER: f32 = 0.6;
    pub(super) const SIBLING: f32 = 0.2;
}

/// What a match of the meaning is worth where the word itself does not match, and beside it.
const MEANING: f32 = 0.5;
/// What a match of a word that is hinted at is worth.
const HINT: f32 = 0.5;
/// What a match of a word that was probably meant is worth.
const RESCUED: f32 = 0.7;
/// What the verb of an order is worth: it says what is done, and the other words to what.
const VERB: f32 = 0.6;
/// What is left of a tool's score where it covers none of the words, and where the task says nothing of its name.
const UNCOVERED: f32 = 0.3;
const UNNAMED: f32 = 0.7;
/// What is left of a tool's score where two for the same thing come before it.
const REPEATED: f32 = 0.8;
/// More than any sum of words: an exact name goes first.
const EXACT: f32 = 10_000.0;

/// Words of a description that are read, words of a query that are used, and letters of a query that are looked at.
const MAX_DESCRIPTION_WORDS: usize = 300;
const MAX_QUERY_WORDS: usize = 32;
const MAX_QUERY: usize = 2_000;

/// A word or a group of meaning, as a number.
type Term = u32;

/// All tools of a snapshot, ready to be searched.
pub(crate) struct Index {
    /// Sorted, so that a rescue is the same every time.
    terms: BTreeMap<String, Term>,
    groups: HashMap<usize, Term>,
    scorer: Scorer<usize, Term>,
    /// By term, what the scorer gives each tool for it, once that was asked: the same verbs are in every other task.
    found: Vec<OnceLock<Vec<(usize, f32)>>>,
    positions: Vec<(usize, usize)>,
    /// The words of each tool's name that are not its verb, each as the terms that stand for it.
    names: Vec<Vec<Vec<Term>>>,
    /// The number of each tool's thing: tools of one backend that are about the same share it.
    things: Vec<usize>,
    /// What each tool does.
    acts: Vec<&'static [Act]>,
    /// From a name without case and separators to the tools that bear it.
    exact: HashMap<String, BTreeSet<usize>>,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("tools", &self.positions.len()).field("terms", &self.terms.len()).finish()
    }
}

impl Index {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut index = Self {
            terms: BTreeMap::new(),
            groups: HashMap::new(),
            scorer: Scorer::new(),
            found: Vec::new(),
            positions: Vec::new(),
            names: Vec::new(),
            things: Vec::new(),
            acts: Vec::new(),
            exact: HashMap::new(),
        };
        let mut documents = Vec::new();
        let mut first = 0;
        for (b, backend) in catalog.backends().iter().enumerate() {
            let siblings = Siblings::of(backend);
            for (t, entry) in backend.tools().iter().enumerate() {
                let tool = ToolRef { backend, entry };
                index.remember_names(tool);
                index.acts.push(act::done(&tool.tool().name, tool.tool().description().unwrap_or_default()));
                documents.push(index.frequencies(tool, &siblings, t));
                index.names.push(siblings.thing(t).iter().map(|word| index.terms_of(word)).collect());
                index.things.push(first + siblings.first(t));
                index.positions.push((b, t));
            }
            first += backend.tools().len();
        }
        let lengths: f32 = documents.iter().map(|document| document.length).sum();
        let average = (lengths / documents.len().max(1) as f32).max(1.0);
        for (id, document) in documents.into_iter().enumerate() {
            index.scorer.upsert(&id, document.embedding(average));
        }
        index.found.resize_with(index.terms.len() + index.groups.len(), OnceLock::new);
        index
    }

    fn remember_names(&mut self, tool: ToolRef<'_>) {
        let id = self.positions.len();
        for name in [tool.tool().name.clone(), tool.entry.identifier().to_owned(), tool.path(), tool.spelling()] {
            self.exact.entry(fold(&name)).or_default().insert(id);
        }
    }

    fn frequencies(&mut self, tool: ToolRef<'_>, siblings: &Siblings, t: usize) -> Document {
        let mut document = Document::default();
        let described = tool.tool();
        self.say(&mut document, &described.name, weight::NAME, usize::MAX);
        self.say(&mut document, tool.backend.name(), weight::BACKEND, usize::MAX);
        let title = described.raw().get("title").or_else(|| described.raw().pointer("/annotations/title"));
        self.say(&mut document, title.and_then(Value::as_str).unwrap_or_default(), weight::TITLE, MAX_QUERY_WORDS);
        for tag in tool.backend.tags() {
            self.say(&mut document, tag, weight::TAG, MAX_QUERY_WORDS);
        }
        let description = described.description().unwrap_or_default();
        let (first, rest) = first_sentence(description);
        self.say(&mut document, first, weight::FIRST_SENTENCE, MAX_DESCRIPTION_WORDS);
        self.say(&mut document, rest, weight::DESCRIPTION, MAX_DESCRIPTION_WORDS);
        for name in parameters(tool) {
            self.say(&mut document, name, weight::PARAMETER, MAX_QUERY_WORDS);
        }
        for word in siblings.beside(t) {
            self.say(&mut document, word, weight::SIBLING, MAX_QUERY_WORDS);
        }
        document
    }

    /// A word's own term, and those of its groups.
    fn terms_of(&self, word: &str) -> Vec<Term> {
        self.terms.get(word).copied().into_iter().chain(self.groups_of(word)).collect()
    }

    /// The groups of meaning that a word is in, as far as a tool uses them.
    fn groups_of(&self, word: &str) -> impl Iterator<Item = Term> {
        meaning::groups(word).iter().filter_map(|group| self.groups.get(group).copied())
    }

    /// The words that a word hints at, as far as a tool uses them.
    fn hints_of(&self, word: &str) -> impl Iterator<Item = Term> {
        meaning::hints(word).iter().filter_map(|hint| self.terms.get(hint).copied())
    }

    fn say(&mut self, document: &mut Document, text: &str, weight: f32, most: usize) {
        for word in words(text).into_iter().take(most) {
            document.length += 1.0;
            for group in meaning::groups(&word) {
                let next = self.next_term();
                let term = *self.groups.entry(*group).or_insert(next);
                *document.frequencies.entry(term).or_default() += weight;
            }
            let next = self.next_term();
            let term = *self.terms.entry(word).or_insert(next);
            *document.frequencies.entry(term).or_default() += weight;
        }
    }

    fn next_term(&self) -> Term {
        Term::try_from(self.terms.len() + self.groups.len()).unwrap_or(Term::MAX)
    }

    /// The best `limit` tools for `query`.
    pub(crate) fn search(&self, catalog: &Catalog, query: &str, limit: usize, tag: Option<&str>) -> Vec<Hit> {
        let query = query.char_indices().nth(MAX_QUERY).map_or(query, |(end, _)| &query[..end]);
        let mut scores = self.score(query);
        for id in self.named(query) {
            if let Some(score) = scores.get_mut(id) {
                *score += EXACT;
            }
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().filter(|&(_, score)| score > 0.0).collect();
        sort(&mut ranked);
        self.vary(&mut ranked);
        ranked
            .into_iter()
            .filter_map(|(id, score)| {
                let position = *self.positions.get(id)?;
                let tool = catalog.at(position)?;
                let wanted = tag.is_none_or(|tag| tool.backend.tags().iter().any(|own| own.eq_ignore_ascii_case(tag)));
                wanted.then_some((tool, score))
            })
            .take(limit)
            .map(|(tool, score)| Hit::new(tool, score))
            .collect()
    }

    /// Lets another thing pass where two tools for one thing come before: the third says little that they do not.
    fn vary(&self, ranked: &mut [(usize, f32)]) {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for (id, score) in ranked.iter_mut() {
            let Some(thing) = self.things.get(*id) else { continue };
            let count = seen.entry(*thing).or_default();
            if *count >= 2 {
                *score *= REPEATED;
            }
            *count += 1;
        }
        sort(ranked);
    }

    /// BM25 over the words of `query`, times the share of them that a tool covers, times how its act fits and how much
    /// of its name is asked for. In the order of ids.
    fn score(&self, query: &str) -> Vec<f32> {
        let names = proper_names(query);
        let verb = act::verb(query);
        let mut totals = vec![Total::default(); self.positions.len()];
        let mut known: f32 = 0.0;
        let mut said: BTreeSet<Term> = BTreeSet::new();
        let joined = joined(query).into_iter().filter(|word| self.terms.contains_key(word)).take(MAX_QUERY_WORDS);
        for (word, counted) in asked(query).into_iter().map(|word| (word, 1.0)).chain(joined.map(|word| (word, 0.0))) {
            let weight = if verb.as_ref() == Some(&word) { VERB } else { 1.0 };
            let scores = self.score_word(&word, !names.contains(&word));
            if totals.iter_mut().zip(scores).fold(false, |any, (total, score)| total.add(weight * score) || any) {
                known += counted;
            }
            said.extend(self.terms_of(&word));
            said.extend(self.hints_of(&word));
        }
        let wanted = act::wanted(query);
        let about = self.acts.iter().zip(&self.names);
        let whole = |(total, (done, name)): (Total, (&&[Act], &Vec<Vec<Term>>))| {
            let covered = part(UNCOVERED, total.covered / known.max(1.0));
            total.sum * covered * act::fit(&wanted, done) * part(UNNAMED, share_said(name, &said))
        };
        totals.into_iter().zip(about).map(whole).collect()
    }

    /// What each tool gets for one word. What is no word of any tool `may_be_a_slip`.
    fn score_word(&self, word: &str, may_be_a_slip: bool) -> Vec<f32> {
        let groups: Vec<Term> = self.groups_of(word).collect();
        let hints: Vec<Term> = self.hints_of(word).collect();
        let mut scores = vec![0.0; self.positions.len()];
        for &term in &groups {
            self.add_best(&mut scores, term, MEANING);
        }
        for &term in &hints {
            self.add_best(&mut scores, term, HINT);
        }
        if let Some(&term) = self.terms.get(word) {
            self.add(&mut scores, term, if groups.is_empty() { 1.0 } else { 1.0 - MEANING });
        } else if may_be_a_slip && groups.is_empty() && hints.is_empty() {
            for term in self.rescue(word) {
                self.add_best(&mut scores, term, RESCUED);
            }
        }
        scores
    }

    fn add(&self, scores: &mut [f32], term: Term, weight: f32) {
        for &(id, score) in self.matches(term) {
            if let Some(sum) = scores.get_mut(id) {
                *sum += weight * score;
            }
        }
    }

    fn add_best(&self, scores: &mut [f32], term: Term, weight: f32) {
        for &(id, score) in self.matches(term) {
            if let Some(best) = scores.get_mut(id) {
                *best = best.max(weight * score);
            }
        }
    }

    fn matches(&self, term: Term) -> &[(usize, f32)] {
        let slot = usize::try_from(term).ok().and_then(|term| self.found.get(term));
        slot.map_or(&[], |slot| slot.get_or_init(|| self.look_up(term)))
    }

    fn look_up(&self, term: Term) -> Vec<(usize, f32)> {
        let query = Embedding(vec![TokenEmbedding { index: term, value: 1.0 }]);
        self.scorer.matches(&query).into_iter().map(|found| (found.id, found.score)).collect()
    }

    /// The known words that an unknown one was probably meant to be: the nearest, or those it abbreviates.
    fn rescue(&self, word: &str) -> Vec<Term> {
        const MAX_RESCUES: usize = 5;
        let length = word.chars().count();
        let bound = match length {
            0..=3 => 0,
            4..=6 => 1,
            7..=40 => 2,
            _ => return Vec::new(),
        };
        let mut found: Vec<(usize, &str, Term)> = Vec::new();
        for (known, &term) in &self.terms {
            if let Some(steps) = distance::within(word, known, bound).filter(|_| known.chars().count() > 2) {
                found.push((steps, known, term));
            } else if length >= 3 && known.starts_with(word) || known.len() >= 4 && word.starts_with(known.as_str()) {
                found.push((bound + 1, known, term));
            }
        }
        found.sort();
        let nearest = found.first().map_or(0, |(steps, ..)| *steps);
        found.into_iter().take_while(|(steps, ..)| *steps == nearest).take(MAX_RESCUES).map(|(.., term)| term).collect()
    }

    /// The tools that `query` names: as a whole, or with a word that can only be a name.
    fn named(&self, query: &str) -> BTreeSet<usize> {
        let mut ids = self.exact.get(&fold(query)).cloned().unwrap_or_default();
        for word in query.split_whitespace() {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
            if word.contains(['_', '-', '.']) {
                ids.extend(self.exact.get(&fold(word)).into_iter().flatten());
            }
        }
        ids
    }
}

/// From `least` where `share` is nothing to one where it is everything.
fn part(least: f32, share: f32) -> f32 {
    least + (1.0 - least) * share.min(1.0)
}

/// Best first. Ids follow backend and name, so they settle what the score leaves open.
fn sort(ranked: &mut [(usize, f32)]) {
    ranked.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
}

/// The distinct words of a query, and those for what its values look like.
fn asked(query: &str) -> Vec<String> {
    let mut asked: Vec<String> = Vec::new();
    for word in words(query).into_iter().chain(values::kinds(query)) {
        if !asked.contains(&word) && !word.chars().all(|c| c.is_ascii_digit()) {
            asked.push(word);
        }
    }
    asked.truncate(MAX_QUERY_WORDS);
    asked
}

/// What a tool got so far, and for how many words.
#[derive(Default, Clone, Copy)]
struct Total {
    sum: f32,
    covered: f32,
}

impl Total {
    /// Whether there was something to add.
    fn add(&mut self, score: f32) -> bool {
        let matched = score > 0.0;
        if matched {
            self.sum += score;
            self.covered += 1.0;
        }
        matched
    }
}

/// How much of a name was said. A name that is all verb has nothing to leave unsaid.
fn share_said(name: &[Vec<Term>], said: &BTreeSet<Term>) -> f32 {
    let count = name.iter().filter(|terms| terms.iter().any(|term| said.contains(term))).count();
    if name.is_empty() { 1.0 } else { count as f32 / name.len() as f32 }
}

/// How often a tool says which term, weighted.
#[derive(Default)]
struct Document {
    frequencies: BTreeMap<Term, f32>,
    length: f32,
}

impl Document {
    fn embedding(self, average: f32) -> Embedding<Term> {
        let norm = K1 * (1.0 - B + B * self.length / average);
        let value = |frequency: f32| frequency * (K1 + 1.0) / (frequency + norm);
        let token = |(index, frequency)| TokenEmbedding { index, value: value(frequency) };
        Embedding(self.frequencies.into_iter().map(token).collect())
    }
}

/// A name without case and separators. What has no letter is kept, so that `_` and `🔥` do not all become one.
fn fold(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { name.to_owned() } else { letters }
}

/// Splits after the first sentence or line.
fn first_sentence(text: &str) -> (&str, &str) {
    let end = [". ", ".\n", "\n\n", "! ", "? "].iter().filter_map(|mark| text.find(mark)).min();
    end.and_then(|end| text.split_at_checked(end + 1)).unwrap_or((text, ""))
}
