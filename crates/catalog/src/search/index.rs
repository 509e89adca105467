//! The search index of one catalog snapshot: built once, then read-only.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::super::backend::ToolRef;
use super::super::snapshot::Catalog;
use super::meaning;
use super::operation::{self, Operation};
use super::resource::{RelatedTools, parameters};
use super::vectors::ToolVectors;
use super::words::{beginning, plain_words, words_of};

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

/// Maximum number of indexed words of a part of a description.
const MAX_DESCRIPTION_WORDS: usize = 300;
/// Maximum number of indexed words of a name, a title, a tag or a parameter.
const MAX_NAME_WORDS: usize = 32;

/// Bytes of different words that one backend may bring into the index, each with [`WORD_OVERHEAD`]: some 25,000 words, while 10,000
/// tools of real servers have less than half of that. Memory and the search for similar words grow with them.
const MAX_BACKEND_WORD_BYTES: usize = 1 << 20;
/// What a word takes beside its letters, about.
const WORD_OVERHEAD: usize = 32;

/// A word or a synonym group, as a number.
pub(super) type Term = u32;

/// A tool that has a term, and the BM25 score of the term in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Posting {
    pub(super) tool: u32,
    pub(super) score: f32,
}

/// The index over all tools of a snapshot. A tool's id is its position in the order of backend and name.
pub(crate) struct Index {
    /// Sorted, so that fuzzy matches are deterministic.
    pub(super) terms: BTreeMap<String, Term>,
    pub(super) groups: HashMap<usize, Term>,
    /// For each term, the tools that have it, by id.
    pub(super) postings: Vec<Vec<Posting>>,
    pub(super) positions: Vec<(usize, usize)>,
    pub(super) names: NameWords,
    /// For each tool, the id of the first tool of its backend for the same resource.
    pub(super) resources: Vec<usize>,
    /// The sets of operations that tools have, and for each tool the position of its set.
    pub(super) operation_sets: Vec<&'static [Operation]>,
    pub(super) operations: Vec<usize>,
    /// From a name without case and separators to the tools of that name.
    pub(super) exact: HashMap<String, BTreeSet<u32>>,
    pub(super) vectors: ToolVectors,
}

/// The resource words of all tools' names. Each different word is kept once with the terms that match it, so that a
/// search looks at a word once and at a tool's name as some numbers side by side.
#[derive(Default)]
pub(super) struct NameWords {
    words: Vec<Vec<Term>>,
    /// The words of all names, one name after another, as positions in `words`.
    all: Vec<u32>,
    /// Where the words of each tool's name end in `all`.
    ends: Vec<usize>,
}

impl NameWords {
    fn new(names: &[Vec<String>], terms_of: impl Fn(&str) -> Vec<Term>) -> Self {
        let mut names_words = Self::default();
        let mut known: HashMap<&str, u32> = HashMap::new();
        for name in names {
            for word in name {
                let position = *known.entry(word).or_insert_with(|| {
                    names_words.words.push(terms_of(word));
                    number(names_words.words.len() - 1)
                });
                names_words.all.push(position);
            }
            names_words.ends.push(names_words.all.len());
        }
        names_words
    }

    /// For each different word, whether one of its terms is asked for.
    pub(super) fn asked(&self, asked: &[bool]) -> Vec<bool> {
        let is_asked = |term: &Term| asked.get(*term as usize) == Some(&true);
        self.words.iter().map(|terms| terms.iter().any(is_asked)).collect()
    }

    /// The words of each tool's name, by the tool's id.
    pub(super) fn each(&self) -> impl Iterator<Item = &[u32]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| self.all.get(begin..end).unwrap_or_default())
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("tools", &self.positions.len()).field("terms", &self.terms.len()).finish()
    }
}

impl Index {
    pub(crate) fn new(catalog: &Catalog) -> Self {
        let mut builder = Builder::default();
        let mut documents = Vec::new();
        let mut first = 0;
        for (b, backend) in catalog.backends().iter().enumerate() {
            let related = RelatedTools::of(backend);
            builder.word_room = MAX_BACKEND_WORD_BYTES;
            for (t, entry) in backend.tools().iter().enumerate() {
                let tool = ToolRef { backend, entry };
                builder.add_exact_names(tool);
                let description = tool.tool().description().unwrap_or_default();
                builder.add_operations(operation::tool_operations(&tool.tool().name, description));
                documents.push(builder.document(tool, &related, t));
                builder.resources.push(first + related.group(t));
                builder.positions.push((b, t));
                builder.resource_words.push(related.resource(t).to_vec());
            }
            first += backend.tools().len();
        }
        builder.finish(documents, ToolVectors::new(catalog))
    }

    /// The terms that match a word: its own and those of its synonym groups.
    pub(super) fn terms_of(&self, word: &str) -> Vec<Term> {
        self.terms.get(word).copied().into_iter().chain(self.groups_of(word)).collect()
    }

    /// The synonym groups of a word that occur in the index.
    pub(super) fn groups_of(&self, word: &str) -> impl Iterator<Item = Term> {
        meaning::groups(word).iter().filter_map(|group| self.groups.get(group).copied())
    }

    /// The words that a word hints at and that occur in the index.
    pub(super) fn hints_of(&self, word: &str) -> impl Iterator<Item = Term> {
        meaning::hints(word).iter().filter_map(|hint| self.terms.get(hint).copied())
    }

    /// How well each set of operations fits a query that asks for `wanted`.
    pub(super) fn fits(&self, wanted: &[Operation]) -> Vec<f32> {
        self.operation_sets.iter().map(|set| operation::fit(wanted, set)).collect()
    }

    /// The tools that have a term.
    pub(super) fn postings(&self, term: Term) -> &[Posting] {
        self.postings.get(term as usize).map_or(&[], Vec::as_slice)
    }
}

/// An index before its terms are scored.
#[derive(Default)]
struct Builder {
    terms: BTreeMap<String, Term>,
    groups: HashMap<usize, Term>,
    /// For each word as it is written, the number of indexed words that it is and the terms of them all.
    seen: HashMap<String, (f32, Vec<Term>)>,
    /// Bytes of new words that the current backend may still add.
    word_room: usize,
    positions: Vec<(usize, usize)>,
    resource_words: Vec<Vec<String>>,
    resources: Vec<usize>,
    operation_sets: Vec<&'static [Operation]>,
    operations: Vec<usize>,
    exact: HashMap<String, BTreeSet<u32>>,
}

impl Builder {
    fn finish(self, documents: Vec<Document>, vectors: ToolVectors) -> Index {
        let postings = postings(documents, self.terms.len() + self.groups.len());
        let mut index = Index {
            terms: self.terms,
            groups: self.groups,
            postings,
            positions: self.positions,
            names: NameWords::default(),
            resources: self.resources,
            operation_sets: self.operation_sets,
            operations: self.operations,
            exact: self.exact,
            vectors,
        };
        index.names = NameWords::new(&self.resource_words, |word| index.terms_of(word));
        index
    }

    fn add_operations(&mut self, operations: &'static [Operation]) {
        let known = self.operation_sets.iter().position(|set| *set == operations);
        self.operations.push(known.unwrap_or(self.operation_sets.len()));
        if known.is_none() {
            self.operation_sets.push(operations);
        }
    }

    fn add_exact_names(&mut self, tool: ToolRef<'_>) {
        let id = number(self.positions.len());
        for name in [tool.tool().name.clone(), tool.entry.identifier().to_owned(), tool.path(), tool.spelling()] {
            self.exact.entry(fold(&name)).or_default().insert(id);
        }
    }

    fn document(&mut self, tool: ToolRef<'_>, related: &RelatedTools, t: usize) -> Document {
        let mut document = Document::default();
        let described = tool.tool();
        self.index_text(&mut document, &described.name, weight::NAME, MAX_NAME_WORDS);
        self.index_text(&mut document, tool.backend.name(), weight::BACKEND, MAX_NAME_WORDS);
        self.index_text(&mut document, &described.texts().title, weight::TITLE, MAX_NAME_WORDS);
        for tag in tool.backend.tags() {
            self.index_text(&mut document, tag, weight::TAG, MAX_NAME_WORDS);
        }
        let (first, rest) = first_sentence(beginning(described.description().unwrap_or_default()));
        self.index_text(&mut document, first, weight::FIRST_SENTENCE, MAX_DESCRIPTION_WORDS);
        self.index_text(&mut document, rest, weight::DESCRIPTION, MAX_DESCRIPTION_WORDS);
        for name in parameters(described) {
            self.index_text(&mut document, name, weight::PARAMETER, MAX_NAME_WORDS);
        }
        for word in related.parameters_of_others(t) {
            self.index_text(&mut document, word, weight::RELATED_PARAMETER, MAX_NAME_WORDS);
        }
        document
    }

    /// Adds up to about `max_words` words of `text` to `document`, with their synonym groups.
    fn index_text(&mut self, document: &mut Document, text: &str, weight: f32, max_words: usize) {
        let mut room = max_words as f32;
        for word in plain_words(beginning(text)) {
            if room <= 0.0 {
                break;
            }
            let Some((count, terms)) = self.terms_of(word) else { continue };
            room -= count;
            document.length += count;
            document.frequencies.extend(terms.iter().map(|&term| (term, weight)));
        }
    }

    /// The terms of a word; `None` for a new one for which its backend has no room left.
    fn terms_of(&mut self, plain: String) -> Option<&(f32, Vec<Term>)> {
        if !self.seen.contains_key(&plain) {
            self.word_room = self.word_room.checked_sub(plain.len() + WORD_OVERHEAD)?;
        }
        let (terms, groups) = (&mut self.terms, &mut self.groups);
        let found = self.seen.entry(plain).or_insert_with_key(|plain| {
            let mut found = (0.0, Vec::new());
            for word in words_of(plain) {
                for group in meaning::groups(&word) {
                    let next = number(terms.len() + groups.len());
                    found.1.push(*groups.entry(*group).or_insert(next));
                }
                let next = number(terms.len() + groups.len());
                found.1.push(*terms.entry(word).or_insert(next));
                found.0 += 1.0;
            }
            found
        });
        Some(found)
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The weighted terms of one tool.
#[derive(Default)]
struct Document {
    frequencies: Vec<(Term, f32)>,
    length: f32,
}

impl Document {
    /// The frequency of each term, once.
    fn summed(mut self) -> Vec<(Term, f32)> {
        self.frequencies.sort_by_key(|(term, _)| *term);
        self.frequencies.dedup_by(|(term, weight), (kept, sum)| {
            let same = term == kept;
            if same {
                *sum += *weight;
            }
            same
        });
        self.frequencies
    }
}

/// BM25: for each term its tools, with the saturated frequency times the inverse document frequency.
fn postings(documents: Vec<Document>, terms: usize) -> Vec<Vec<Posting>> {
    let count = documents.len() as f32;
    let lengths: f32 = documents.iter().map(|document| document.length).sum();
    let average = (lengths / count.max(1.0)).max(1.0);
    let mut postings: Vec<Vec<Posting>> = vec![Vec::new(); terms];
    for (id, document) in documents.into_iter().enumerate() {
        let norm = K1 * (1.0 - B + B * document.length / average);
        for (term, frequency) in document.summed() {
            let score = frequency * (K1 + 1.0) / (frequency + norm);
            if let Some(tools) = postings.get_mut(term as usize) {
                tools.push(Posting { tool: number(id), score });
            }
        }
    }
    for tools in &mut postings {
        let having = tools.len() as f32;
        let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
        tools.iter_mut().for_each(|posting| posting.score *= rarity);
    }
    postings
}

/// Removes case and separators from a name. A name without letters and digits is kept, so that `_` and `🔥` stay distinct.
pub(super) fn fold(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { name.to_owned() } else { letters }
}

/// Splits after the first sentence or paragraph.
fn first_sentence(text: &str) -> (&str, &str) {
    let end = [". ", ".\n", "\n\n", "! ", "? "].iter().filter_map(|mark| text.find(mark)).min();
    end.and_then(|end| text.split_at_checked(end + 1)).unwrap_or((text, ""))
}
