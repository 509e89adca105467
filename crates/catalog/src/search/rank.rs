//! From a query to ranked tools: fuses the ranking by words with the ranking by meaning.
//!
//! Both give every tool a score, and the scores are added, because a rank forgets how far ahead the first one is. The
//! cosine counts in standard deviations over all tools, the word score as a share of the best word score.
//!
//! A tool whose exact name is in the query goes first. A query of several steps ("read the log and post a summary") is
//! also searched step by step, and the best tools of each step follow the first hits.

use std::collections::{BTreeSet, HashMap};
use toolgate_wire::foreign_text::head;

use super::super::backend::ToolRef;
use super::super::snapshot::Catalog;
use super::Hit;
use super::index::{Index, fold};
use super::operation;
use super::steps::searches;

/// Score of the tool with the best word score, in standard deviations of the cosine; others get their share of it.
const WORDS_WEIGHT: f32 = 4.0;
/// Weight of the logarithm of how well a tool's operation fits: the model knows resources better than operations.
const OPERATION_WEIGHT: f32 = 2.0;
/// Taken from the score of the third and every further tool for one resource.
const REPEATED_RESOURCE_PENALTY: f32 = 1.0;
/// Added for an exact name. Greater than any other score.
const EXACT_NAME_SCORE: f32 = 10_000.0;

/// Mean and deviation of the cosines of unrelated texts, and the number of tools that they count as: in a catalog of few
/// tools their own mean and deviation say little.
const USUAL_MEAN: f32 = 0.07;
const USUAL_DEVIATION: f32 = 0.09;
const USUAL_COUNT: f32 = 10.0;
/// Minimum deviations and cosine of a tool that no word of the query matches.
const MIN_DEVIATIONS: f32 = 1.5;
const MIN_COSINE: f32 = 0.25;

/// Maximum number of characters of a query.
const MAX_QUERY_CHARS: usize = 2_000;
/// The number of tools that are ordered at least, so that the first hits do not depend on the limit.
const MIN_ORDERED: usize = 200;
/// The first hits of a query of several steps that stay in front of the steps' own.
const FIRST_HITS: usize = 3;
/// The number of tools that follow for each step.
const HITS_PER_STEP: usize = 3;

/// A tool's id and its score.
type Ranked = (u32, f32);

impl Index {
    /// The best `limit` tools for `query` of those that `accept` takes.
    pub(crate) fn search(
        &self,
        catalog: &Catalog,
        query: &str,
        limit: usize,
        accept: &dyn Fn(ToolRef<'_>) -> bool,
    ) -> Vec<Hit> {
        let query = head(query, MAX_QUERY_CHARS);
        let accepted = |id: u32| self.tool(catalog, id).is_some_and(accept);
        let mut ranked = self.rank(query, limit, &accepted);
        let searches = searches(query);
        if searches.len() > 1 {
            let by_step = searches.iter().map(|step| self.rank(step, limit, &accepted)).collect();
            ranked = with_steps(ranked, by_step);
        }
        let hits = ranked.into_iter().take(limit);
        hits.filter_map(|(id, score)| Some(Hit::new(self.tool(catalog, id)?, score))).collect()
    }

    fn tool<'c>(&self, catalog: &'c Catalog, id: u32) -> Option<ToolRef<'c>> {
        catalog.at(*self.positions.get(id as usize)?)
    }

    /// The best tools for a query, best first: at least `limit`, if there are as many.
    fn rank(&self, query: &str, limit: usize, accepted: &dyn Fn(u32) -> bool) -> Vec<Ranked> {
        let mut related = self.related(query);
        for id in self.named(query) {
            match related.binary_search_by_key(&id, |(id, _)| *id) {
                Ok(at) => related.iter_mut().skip(at).take(1).for_each(|(_, score)| *score += EXACT_NAME_SCORE),
                Err(at) => related.insert(at, (id, EXACT_NAME_SCORE)),
            }
        }
        let mut ranked = best(&mut related, limit.max(MIN_ORDERED), accepted);
        self.diversify(&mut ranked);
        ranked
    }

    /// The tools that have to do with the query, by id, each with its score.
    fn related(&self, query: &str) -> Vec<Ranked> {
        let fits = self.fits(&operation::query_operations(query));
        let words = self.word_scores(query, &fits);
        let best = words.iter().copied().fold(0.0, f32::max);
        let share = |score: f32| if best > 0.0 { WORDS_WEIGHT * score / best } else { 0.0 };
        let Some(cosines) = self.vectors.cosines(query) else {
            let tools = (0..).zip(words).filter(|(_, score)| *score > 0.0);
            return tools.map(|(id, score)| (id, share(score))).collect();
        };
        let usual = Usual::of(&cosines);
        let bonuses: Vec<f32> = fits.iter().map(|fit| OPERATION_WEIGHT * fit.ln()).collect();
        let mut related = Vec::with_capacity(words.len());
        for (id, ((words, cosine), operations)) in (0..).zip(words.into_iter().zip(cosines).zip(&self.operations)) {
            let deviations = usual.deviations(cosine);
            if words > 0.0 || deviations >= MIN_DEVIATIONS && cosine >= MIN_COSINE {
                related.push((id, deviations + share(words) + bonuses.get(*operations).unwrap_or(&0.0)));
            }
        }
        related
    }

    /// Lowers the score of a tool that follows two better ones for the same resource, so that other resources appear.
    fn diversify(&self, ranked: &mut [Ranked]) {
        let mut seen: HashMap<usize, usize> = HashMap::new();
        for (id, score) in ranked.iter_mut() {
            let Some(resource) = self.resources.get(*id as usize) else { continue };
            let count = seen.entry(*resource).or_default();
            if *count >= 2 {
                *score -= REPEATED_RESOURCE_PENALTY;
            }
            *count += 1;
        }
        ranked.sort_by(order);
    }

    /// The tools whose name is the whole query or a word of it with `_`, `-` or `.`.
    fn named(&self, query: &str) -> BTreeSet<u32> {
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

/// The mean and the deviation of cosines.
struct Usual {
    mean: f32,
    deviation: f32,
}

impl Usual {
    fn of(cosines: &[f32]) -> Self {
        let count = cosines.len() as f32 + USUAL_COUNT;
        let mean = (cosines.iter().sum::<f32>() + USUAL_COUNT * USUAL_MEAN) / count;
        let squares: f32 = cosines.iter().map(|cosine| (cosine - mean).powi(2)).sum();
        let deviation = ((squares + USUAL_COUNT * USUAL_DEVIATION.powi(2)) / count).sqrt();
        Self { mean, deviation }
    }

    fn deviations(&self, cosine: f32) -> f32 {
        (cosine - self.mean) / self.deviation
    }
}

/// Best first. Equal scores are ordered by id, which is the order of backend and name.
fn order((a, x): &Ranked, (b, y): &Ranked) -> std::cmp::Ordering {
    y.total_cmp(x).then(a.cmp(b))
}

/// The best `count` that are accepted, in order. Asks only about those that are good enough: the rest is not even sorted.
fn best(candidates: &mut [Ranked], count: usize, accepted: &dyn Fn(u32) -> bool) -> Vec<Ranked> {
    let mut kept: Vec<Ranked> = Vec::with_capacity(count.min(candidates.len()));
    let (mut left, mut size) = (candidates, count);
    while kept.len() < count && !left.is_empty() {
        if left.len() > size {
            left.select_nth_unstable_by(size, order);
        }
        let (first, others) = left.split_at_mut(size.min(left.len()));
        first.sort_unstable_by(order);
        let missing = count - kept.len();
        kept.extend(first.iter().filter(|(id, _)| accepted(*id)).take(missing));
        // With few that are accepted, fewer rounds follow.
        (left, size) = (others, size.saturating_mul(2));
    }
    kept
}

/// The first hits of the whole query and the tools that it names, then the best tools of each step in turn, then the rest
/// of the whole query.
fn with_steps(whole: Vec<Ranked>, by_step: Vec<Vec<Ranked>>) -> Vec<Ranked> {
    let named = whole.iter().take_while(|(_, score)| *score > EXACT_NAME_SCORE / 2.0).count();
    let (first, rest) = whole.split_at(named.max(FIRST_HITS).min(whole.len()));
    let turns = (0..HITS_PER_STEP).flat_map(|turn| by_step.iter().filter_map(move |step| step.get(turn)));
    let mut seen = BTreeSet::new();
    let mut merged: Vec<Ranked> = Vec::new();
    for &(id, score) in first.iter().chain(turns).chain(rest) {
        if seen.insert(id) {
            // A score never rises down the list, whichever ranking it is from.
            let before = merged.last().map_or(f32::INFINITY, |(_, score)| *score);
            merged.push((id, score.min(before)));
        }
    }
    merged
}
