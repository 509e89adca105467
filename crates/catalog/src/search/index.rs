//! The search index of one catalog snapshot: built once, then read-only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::OnceLock;

use bm25::{Embedding, Scorer, TokenEmbedding};
use serde_json::Value;

use super::super::backend::ToolRef;
use super::super::distance;
use super::super::snapshot::Catalog;
use super::operation::{self, Operation};
use super::resource::{RelatedTools, parameters};
use super::words::{joined, proper_names, words};
use super::{Hit, meaning, values};

/// The BM25 parameters: term frequency saturation and length normalisation.
const K1: f32 = 1.2;
const B: f32 = 0.4;

/// The weight of a word, by where it occurs in a tool.
mod weight {
    pub(super) const NAME: f32 = 4.0;
    pub(super) const TITLE: f32 = 2.0;
    pub(super) const BACKEND: f32 = 2.5;
    pub(super) const TAG: f32 = 2.0;
    pub(super) const FIRST_SENTENCE: f32 = 1.5;
    pub(super) const DESCRIPTION: f32 = 0.7;
    pub(super) const PARAMETER: f32 = 0.6;
    pub(super) const RELATED_PARAMETER: f32 = 0.2;
}

/// Weight of a synonym match. A word that has synonyms gets the rest of its weight from an exact match.
const SYNONYM_WEIGHT: f32 = 0.5;
/// Weight of a match of a hint.
const HINT_WEIGHT: f32 = 0.5;
/// Weight of a fuzzy match.
const FUZZY_WEIGHT: f32 = 0.7;
/// Weight of the verb that a query begins with: the other words name the resource, which matters more.
const VERB_WEIGHT: f32 = 0.6;
/// Score factor of a tool that matches none of the query's words; rises to 1 with the share of matched words.
const MIN_COVERAGE_FACTOR: f32 = 0.3;
/// Score factor of a tool none of whose name's words the query contains; rises to 1 with their share.
const MIN_NAME_FACTOR: f32 = 0.7;
/// Score factor from the third tool for one resource on.
const REPEATED_RESOURCE_FACTOR: f32 = 0.8;
/// Added for an exact name. Greater than any sum of word scores.
const EXACT_NAME_SCORE: f32 = 10_000.0;

/// Maximum number of indexed words of a description.
const MAX_DESCRIPTION_WORDS: usize = 300;
/// Maximum number of words of a query, a title or a tag.
const MAX_QUERY_WORDS: usize = 32;
/// Maximum number of characters of a query.
const MAX_QUERY_CHARS: usize = 2_000;
/// Maximum number of tools' words that one unknown word is matched to.
const MAX_FUZZY_MATCHES: usize = 5;

/// A word or a synonym group, as a number.
type Term = u32;

/// The index over all tools of a snapshot. A tool's id is its position in the order of backend and name.
pub(crate) struct Index {
    /// Sorted, so that fuzzy matches are deterministic.
    terms: BTreeMap<String, Term>,
    groups: HashMap<usize, Term>,
    scorer: Scorer<usize, Term>,
    /// Score cache: for each term the matching tools with their scores, filled when a query first uses the term.
    matches: Vec<OnceLock<Vec<(usize, f32)>>>,
    positions: Vec<(usize, usize)>,
    /// For each tool, the resource words of its name, each as the terms that match it.
    names: Vec<Vec<Vec<Term>>>,
    /// For each tool, the id of the first tool of its backend for the same resource.
    resources: Vec<usize>,
    /// For each tool, its operations.
    operations: Vec<&'static [Operation]>,
    /// From a name without case and separators to the tools of that name.
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
            matches: Vec::new(),
            positions: Vec::new(),
            names: Vec::new(),
            resources: Vec::new(),
            operations: Vec::new(),
            exact: HashMap::new(),
        };
        let mut documents = Vec::new();
        let mut first = 0;
        for (b, backend) in catalog.backends().iter().enumerate() {
            let related = RelatedTools::of(backend);
            for (t, entry) in backend.tools().iter().enumerate() {
                let tool = ToolRef { backend, entry };
                index.add_exact_names(tool);
                let description = tool.tool().description().unwrap_or_default();
                index.operations.push(operation::tool_operations(&tool.tool().name, description));
                documents.push(index.document(tool, &related, t));
                index.names.push(related.resource(t).iter().map(|word| index.terms_of(word)).collect());
                index.resources.push(first + related.group(t));
                index.positions.push((b, t));
            }
            first += backend.tools().len();
        }
        let lengths: f32 = documents.iter().map(|document| document.length).sum();
        let average = (lengths / documents.len().max(1) as f32).max(1.0);
        for (id, document) in documents.into_iter().enumerate() {
            index.scorer.upsert(&id, document.embedding(average));
        }
        index.matches.resize_with(index.terms.len() + index.groups.len(), OnceLock::new);
        index
    }

    fn add_exact_names(&mut self, tool: ToolRef<'_>) {
        let id = self.positions.len();
        for name in [tool.tool().name.clone(), tool.entry.identifier().to_owned(), tool.path(), tool.spelling()] {
            self.exact.entry(fold(&name)).or_default().insert(id);
        }
    }

    fn document(&mut self, tool: ToolRef<'_>, related: &RelatedTools, t: usize) -> Document {
        let mut document = Document::default();
        let described = tool.tool();
        self.index_text(&mut document, &described.name, weight::NAME, usize::MAX);
        self.index_text(&mut document, tool.backend.name(), weight::BACKEND, usize::MAX);
        let title = described.raw().get("title").or_else(|| described.raw().pointer("/annotations/title"));
        self.index_text(
            &mut document,
            title.and_then(Value::as_str).unwrap_or_default(),
            weight::TITLE,
            MAX_QUERY_WORDS,
        );
        for tag in tool.backend.tags() {
            self.index_text(&mut document, tag, weight::TAG, MAX_QUERY_WORDS);
        }
        let description = described.description().unwrap_or_default();
        let (first, rest) = first_sentence(description);
        self.index_text(&mut document, first, weight::FIRST_SENTENCE, MAX_DESCRIPTION_WORDS);
        self.index_text(&mut document, rest, weight::DESCRIPTION, MAX_DESCRIPTION_WORDS);
        for name in parameters(tool) {
            self.index_text(&mut document, name, weight::PARAMETER, MAX_QUERY_WORDS);
        }
        for word in related.parameters_of_others(t) {
            self.index_text(&mut document, word, weight::RELATED_PARAMETER, MAX_QUERY_WORDS);
        }
        document
    }

    /// The terms that match a word: its own and those of its synonym groups.
    fn terms_of(&self, word: &str) -> Vec<Term> {
        self.terms.get(word).copied().into_iter().chain(self.groups_of(word)).collect()
    }

    /// The synonym groups of a word that occur in the index.
    fn groups_of(&self, word: &str) -> impl Iterator<Item = Term> {
        meaning::groups(word).iter().filter_map(|group| self.groups.get(group).copied())
    }

    /// The words that a word hints at and that occur in the index.
    fn hints_of(&self, word: &str) -> impl Iterator<Item = Term> {
        meaning::hints(word).iter().filter_map(|hint| self.terms.get(hint).copied())
    }

    /// Adds up to `max_words` words of `text` to `document`, with their synonym groups.
    fn index_text(&mut self, document: &mut Document, text: &str, weight: f32, max_words: usize) {
        for word in words(text).into_iter().take(max_words) {
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
        let query = query.char_indices().nth(MAX_QUERY_CHARS).map_or(query, |(end, _)| &query[..end]);
        let mut scores = self.score(query);
        for id in self.named(query) {
            if let Some(score) = scores.get_mut(id) {
                *score += EXACT_NAME_SCORE;
            }
        }
        let mut ranked: Vec<(usize, f32)> = scores.into_iter().enumerate().filter(|&(_, score)| score > 0.0).collect();
        sort(&mut ranked);
        self.diversify(&mut ranked);
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

    /// Lowers the score of a tool that follows two better ones for the same resource, so that other resources appear.
    fn diversify(&self, ranked: &mut [(usize, f32)]) {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for (id, score) in ranked.iter_mut() {
            let Some(resource) = self.resources.get(*id) else { continue };
            let count = seen.entry(*resource).or_default();
            if *count >= 2 {
                *score *= REPEATED_RESOURCE_FACTOR;
            }
            *count += 1;
        }
        sort(ranked);
    }

    /// The score of each tool, by id: BM25 over the words of `query`, times factors for the share of words that the tool
    /// matches, for its operation, and for the share of its name that the query contains.
    fn score(&self, query: &str) -> Vec<f32> {
        let names = proper_names(query);
        let verb = operation::query_verb(query);
        let mut totals = vec![Total::default(); self.positions.len()];
        let mut known: f32 = 0.0;
        let mut query_terms: BTreeSet<Term> = BTreeSet::new();
        let joined = joined(query).into_iter().filter(|word| self.terms.contains_key(word)).take(MAX_QUERY_WORDS);
        for (word, counted) in
            query_words(query).into_iter().map(|word| (word, 1.0)).chain(joined.map(|word| (word, 0.0)))
        {
            let weight = if verb.as_ref() == Some(&word) { VERB_WEIGHT } else { 1.0 };
            let scores = self.score_word(&word, !names.contains(&word));
            if totals.iter_mut().zip(scores).fold(false, |any, (total, score)| total.add(weight * score) || any) {
                known += counted;
            }
            query_terms.extend(self.terms_of(&word));
            query_terms.extend(self.hints_of(&word));
        }
        let wanted = operation::query_operations(query);
        let tools = self.operations.iter().zip(&self.names);
        let score = |(total, (operations, name)): (Total, (&&[Operation], &Vec<Vec<Term>>))| {
            let coverage = factor(MIN_COVERAGE_FACTOR, total.covered / known.max(1.0));
            let named = factor(MIN_NAME_FACTOR, share_of_name(name, &query_terms));
            total.sum * coverage * operation::fit(&wanted, operations) * named
        };
        totals.into_iter().zip(tools).map(score).collect()
    }

    /// The score of each tool for one word. `fuzzy` allows similarly spelt words if no tool uses the word.
    fn score_word(&self, word: &str, fuzzy: bool) -> Vec<f32> {
        let groups: Vec<Term> = self.groups_of(word).collect();
        let hints: Vec<Term> = self.hints_of(word).collect();
        let mut scores = vec![0.0; self.positions.len()];
        for &term in &groups {
            self.add_best(&mut scores, term, SYNONYM_WEIGHT);
        }
        for &term in &hints {
            self.add_best(&mut scores, term, HINT_WEIGHT);
        }
        if let Some(&term) = self.terms.get(word) {
            self.add(&mut scores, term, if groups.is_empty() { 1.0 } else { 1.0 - SYNONYM_WEIGHT });
        } else if fuzzy && groups.is_empty() && hints.is_empty() {
            for term in self.fuzzy_match(word) {
                self.add_best(&mut scores, term, FUZZY_WEIGHT);
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
        let slot = usize::try_from(term).ok().and_then(|term| self.matches.get(term));
        slot.map_or(&[], |slot| slot.get_or_init(|| self.look_up(term)))
    }

    fn look_up(&self, term: Term) -> Vec<(usize, f32)> {
        let query = Embedding(vec![TokenEmbedding { index: term, value: 1.0 }]);
        self.scorer.matches(&query).into_iter().map(|found| (found.id, found.score)).collect()
    }

    /// The indexed words that an unknown word probably means: the nearest by edit distance, or those it abbreviates.
    fn fuzzy_match(&self, word: &str) -> Vec<Term> {
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
        found
            .into_iter()
            .take_while(|(steps, ..)| *steps == nearest)
            .take(MAX_FUZZY_MATCHES)
            .map(|(.., term)| term)
            .collect()
    }

    /// The tools whose name is the whole query or a word of it with `_`, `-` or `.`.
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

/// Interpolates from `least` at a share of 0 to 1 at a share of 1.
fn factor(least: f32, share: f32) -> f32 {
    least + (1.0 - least) * share.min(1.0)
}

/// Sorts best first. Equal scores are ordered by id, which is the order of backend and name.
fn sort(ranked: &mut [(usize, f32)]) {
    ranked.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
}

/// The distinct stemmed words of a query without numbers, followed by the words for its values.
fn query_words(query: &str) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for word in words(query).into_iter().chain(values::kinds(query)) {
        if !distinct.contains(&word) && !word.chars().all(|c| c.is_ascii_digit()) {
            distinct.push(word);
        }
    }
    distinct.truncate(MAX_QUERY_WORDS);
    distinct
}

/// The score of a tool over the words so far, and the number of words that matched.
#[derive(Default, Clone, Copy)]
struct Total {
    sum: f32,
    covered: f32,
}

impl Total {
    /// Adds the score of one word; returns whether the word matched.
    fn add(&mut self, score: f32) -> bool {
        let matched = score > 0.0;
        if matched {
            self.sum += score;
            self.covered += 1.0;
        }
        matched
    }
}

/// The share of a name's words that the query contains; 1 for a name without resource words.
fn share_of_name(name: &[Vec<Term>], query: &BTreeSet<Term>) -> f32 {
    let count = name.iter().filter(|terms| terms.iter().any(|term| query.contains(term))).count();
    if name.is_empty() { 1.0 } else { count as f32 / name.len() as f32 }
}

/// The weighted term frequencies of one tool.
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

/// Removes case and separators from a name. A name without letters and digits is kept, so that `_` and `🔥` stay distinct.
fn fold(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { name.to_owned() } else { letters }
}

/// Splits after the first sentence or paragraph.
fn first_sentence(text: &str) -> (&str, &str) {
    let end = [". ", ".\n", "\n\n", "! ", "? "].iter().filter_map(|mark| text.find(mark)).min();
    end.and_then(|end| text.split_at_checked(end + 1)).unwrap_or((text, ""))
}
