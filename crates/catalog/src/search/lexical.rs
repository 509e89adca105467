//! The ranking by words: BM25 over the words of a query, with synonyms, hints and fuzzy matches, times factors for the
//! share of words that a tool matches, for its operation, and for the share of its name that the query contains.

use super::super::distance;
use super::index::{Index, Posting, Term};
use super::operation;
use super::values;
use super::words::{joined, proper_names, words};

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

/// Maximum number of words of a query.
const MAX_QUERY_WORDS: usize = 32;
/// Maximum number of tools' words that one unknown word is matched to.
const MAX_FUZZY_MATCHES: usize = 5;

impl Index {
    /// The score of each tool by id; 0 if no word matches. `fits` says how well each set of operations fits.
    pub(super) fn word_scores(&self, query: &str, fits: &[f32]) -> Vec<f32> {
        let names = proper_names(query);
        let verb = operation::query_verb(query);
        let mut totals = vec![Total::default(); self.positions.len()];
        let mut scores = WordScores::new(self.positions.len());
        let mut known: f32 = 0.0;
        let mut asked = vec![false; self.postings.len()];
        let joined = joined(query).into_iter().filter(|word| self.terms.contains_key(word)).take(MAX_QUERY_WORDS);
        let all = query_words(query).into_iter().map(|word| (word, 1.0)).chain(joined.map(|word| (word, 0.0)));
        for (word, counted) in all {
            let weight = if verb.as_ref() == Some(&word) { VERB_WEIGHT } else { 1.0 };
            self.score_word(&mut scores, &word, !names.contains(&word));
            let mut any = false;
            scores.take_each(|tool, score| {
                any |= totals.get_mut(tool).is_some_and(|total| total.add(weight * score));
            });
            if any {
                known += counted;
            }
            for term in self.terms_of(&word).into_iter().chain(self.hints_of(&word)) {
                asked.iter_mut().skip(term as usize).take(1).for_each(|asked| *asked = true);
            }
        }
        let asked = self.names.asked(&asked);
        let tools = self.operations.iter().zip(self.names.each());
        let score = |(total, (&operations, name)): (Total, (&usize, &[u32]))| {
            if total.sum == 0.0 {
                return 0.0;
            }
            let coverage = factor(MIN_COVERAGE_FACTOR, total.covered / known.max(1.0));
            let named = factor(MIN_NAME_FACTOR, share_of_name(name, &asked));
            total.sum * coverage * fits.get(operations).unwrap_or(&1.0) * named
        };
        totals.into_iter().zip(tools).map(score).collect()
    }

    /// Adds the score of each tool for one word. `fuzzy` allows similarly spelt words if no tool uses the word.
    fn score_word(&self, scores: &mut WordScores, word: &str, fuzzy: bool) {
        let groups: Vec<Term> = self.groups_of(word).collect();
        let hints: Vec<Term> = self.hints_of(word).collect();
        for &term in &groups {
            self.add_best(scores, term, SYNONYM_WEIGHT);
        }
        for &term in &hints {
            self.add_best(scores, term, HINT_WEIGHT);
        }
        if let Some(&term) = self.terms.get(word) {
            self.add(scores, term, if groups.is_empty() { 1.0 } else { 1.0 - SYNONYM_WEIGHT });
        } else if fuzzy && groups.is_empty() && hints.is_empty() {
            for term in self.fuzzy_match(word) {
                self.add_best(scores, term, FUZZY_WEIGHT);
            }
        }
    }

    fn add(&self, scores: &mut WordScores, term: Term, weight: f32) {
        for &Posting { tool, score } in self.postings(term) {
            scores.change(tool, |sum| sum + weight * score);
        }
    }

    fn add_best(&self, scores: &mut WordScores, term: Term, weight: f32) {
        for &Posting { tool, score } in self.postings(term) {
            scores.change(tool, |best| best.max(weight * score));
        }
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
}

/// Interpolates from `least` at a share of 0 to 1 at a share of 1.
fn factor(least: f32, share: f32) -> f32 {
    least + (1.0 - least) * share.min(1.0)
}

/// The distinct stemmed words of a query without numbers, followed by the words for its values.
fn query_words(query: &str) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for word in words(query).into_iter().chain(values::kinds(query)) {
        if distinct.len() == MAX_QUERY_WORDS {
            break;
        }
        if !distinct.contains(&word) && !word.chars().all(|c| c.is_ascii_digit()) {
            distinct.push(word);
        }
    }
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
        self.sum += score;
        self.covered += f32::from(u8::from(matched));
        matched
    }
}

/// The scores of tools for one word, and which tools have one: most words match few tools.
struct WordScores {
    scores: Vec<f32>,
    matched: Vec<u32>,
}

impl WordScores {
    fn new(tools: usize) -> Self {
        Self { scores: vec![0.0; tools], matched: Vec::new() }
    }

    fn change(&mut self, tool: u32, change: impl FnOnce(f32) -> f32) {
        if let Some(score) = self.scores.get_mut(tool as usize) {
            if *score == 0.0 {
                self.matched.push(tool);
            }
            *score = change(*score);
        }
    }

    /// Calls `take` with each tool that has a score, and forgets the scores.
    fn take_each(&mut self, mut take: impl FnMut(usize, f32)) {
        for tool in self.matched.drain(..) {
            let tool = tool as usize;
            take(tool, self.scores.get_mut(tool).map_or(0.0, std::mem::take));
        }
    }
}

/// The share of a name's words that the query contains; 1 for a name without resource words.
fn share_of_name(name: &[u32], asked: &[bool]) -> f32 {
    let count = name.iter().filter(|word| asked.get(**word as usize) == Some(&true)).count();
    if name.is_empty() { 1.0 } else { count as f32 / name.len() as f32 }
}
