//! The vectors of tools: what each is about, and how near a query is to each.
//!
//! A tool's own vector, from its name, description and parameter names, is made when a search first needs it and stays
//! with the tool, so that the next snapshot does not make it again. An index adds the backend's name and keeps all
//! vectors side by side, at eight bits a dimension.

use super::super::snapshot::Catalog;
use super::super::tool::Tool;
use super::embedding::{DIMENSIONS, TextKind, Vector, model, unit};
use toolgate_wire::foreign_text::head;

/// The weight of each part of a tool in its vector, and the part of its description that counts.
mod weight {
    pub(super) const NAME: f32 = 1.0;
    pub(super) const DESCRIPTION: f32 = 1.5;
    pub(super) const BACKEND: f32 = 0.5;
    pub(super) const PARAMETERS: f32 = 0.3;
}
const MAX_DESCRIPTION_CHARS: usize = 300;

/// A query's dimensions as 16-bit integers: the products with 8-bit ones, summed, stay within 32 bits.
const QUERY_SCALE: f32 = 16_383.0;

/// Dimensions that are multiplied at a time. Measured over 10,000 tools: 251 us with 16, 146 with 32, 266 with 64.
const BLOCK: usize = 32;

/// A vector of any length at eight bits a dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct QuantisedVector {
    scale: f32,
    values: [i8; DIMENSIONS],
}

impl QuantisedVector {
    fn new(vector: &Vector) -> Self {
        let greatest = vector.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        let scale = greatest / 127.0;
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        #[allow(clippy::cast_possible_truncation, reason = "scaled to -127..=127")]
        let values = vector.map(|x| rounded(x * inverse) as i8);
        Self { scale, values }
    }

    /// What the tool is about, by its own texts.
    pub(crate) fn of(tool: &Tool) -> Self {
        let Some(model) = model() else { return Self::new(&[0.0; DIMENSIONS]) };
        let mut sum = [0.0; DIMENSIONS];
        add(&mut sum, weight::NAME, &model.embed(&tool.name, TextKind::Name));
        let beginning = head(tool.description().unwrap_or_default(), MAX_DESCRIPTION_CHARS);
        add(&mut sum, weight::DESCRIPTION, &model.embed(beginning, TextKind::Prose));
        let parameters = tool.texts().parameters.iter().map(String::as_str);
        add(&mut sum, weight::PARAMETERS, &model.embed_each(parameters, TextKind::Name));
        Self::new(&sum)
    }

    fn vector(&self) -> Vector {
        self.values.map(|value| f32::from(value) * self.scale)
    }
}

/// A number whose integer part is the nearest integer. `f32::round` is a call of the mathematics library.
fn rounded(x: f32) -> f32 {
    x + 0.5_f32.copysign(x)
}

fn add(sum: &mut Vector, weight: f32, part: &Vector) {
    sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += weight * part);
}

/// The vectors of a snapshot's tools, in the order of their ids.
pub(super) struct ToolVectors {
    scales: Vec<f32>,
    values: Vec<i8>,
}

impl ToolVectors {
    pub(super) fn new(catalog: &Catalog) -> Self {
        let mut vectors = Self { scales: Vec::new(), values: Vec::new() };
        let Some(model) = model() else { return vectors };
        for backend in catalog.backends() {
            let name = model.embed(backend.name(), TextKind::Name);
            for entry in backend.tools() {
                let mut sum = entry.tool().vector().vector();
                add(&mut sum, weight::BACKEND, &name);
                let vector = QuantisedVector::new(&unit(sum));
                vectors.scales.push(vector.scale);
                vectors.values.extend(vector.values);
            }
        }
        vectors
    }

    /// The cosine of a query with each tool; `None` if the model knows none of its words.
    pub(super) fn cosines(&self, query: &str) -> Option<Vec<f32>> {
        let model = model().filter(|model| model.knows(query))?;
        let vector = model.embed(query, TextKind::Prose);
        #[allow(clippy::cast_possible_truncation, reason = "a dimension of a unit vector is within -1..=1")]
        let query: [i16; DIMENSIONS] = vector.map(|x| rounded(x * QUERY_SCALE) as i16);
        let rows = self.values.chunks_exact(DIMENSIONS).zip(&self.scales);
        Some(rows.map(|(row, scale)| dot(row, &query) as f32 * scale / QUERY_SCALE).collect())
    }
}

/// Widens blocks first, so that the multiplication is one vector instruction for eight pairs of 16-bit integers. Not
/// inlined, so that what the compiler makes of it does not depend on the loop around it.
#[inline(never)]
fn dot(row: &[i8], query: &[i16; DIMENSIONS]) -> i32 {
    let mut sum = 0;
    for (row, query) in row.chunks_exact(BLOCK).zip(query.chunks_exact(BLOCK)) {
        let mut wide = [0_i16; BLOCK];
        wide.iter_mut().zip(row).for_each(|(wide, value)| *wide = i16::from(*value));
        sum += wide.iter().zip(query).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::super::{BackendState, Listing};
    use super::*;

    #[test]
    fn eight_bits_are_as_good_as_the_model() {
        let about = ["Read the contents of a file.", "Send a message to a channel.", "Weather forecast for a city."];
        let tool = |(text, name): (&&str, &str)| serde_json::json!({ "name": name, "description": text });
        let tools = about.iter().zip(["a", "b", "c"]).map(tool).filter_map(Tool::from_raw);
        let listing =
            Listing { name: "…".into(), state: BackendState::Ready, tools: tools.collect(), tags: Vec::new() };
        let catalog = Catalog::new(vec![listing]);
        let query = "what does the file say";
        let cosines = ToolVectors::new(&catalog).cosines(query).unwrap();
        let model = model().unwrap();
        let asked = model.embed(query, TextKind::Prose);
        for ((text, name), cosine) in about.iter().zip(["a", "b", "c"]).zip(cosines) {
            let mut sum = model.embed(name, TextKind::Name).map(|x| x * weight::NAME);
            add(&mut sum, weight::DESCRIPTION, &model.embed(text, TextKind::Prose));
            let exact: f32 = unit(sum).iter().zip(&asked).map(|(a, b)| a * b).sum();
            assert!((exact - cosine).abs() < 0.01, "{text}: {exact} and {cosine}");
        }
    }

    #[test]
    fn a_product_is_the_sum_of_all_dimensions() {
        for seed in 0..50_usize {
            let row: [i8; DIMENSIONS] = std::array::from_fn(|n| (((n * 7 + seed * 131) % 255) as i16 - 127) as i8);
            let query: [i16; DIMENSIONS] =
                std::array::from_fn(|n| (((n * 7919 + seed * 104_729) % 32_767) as i32 - 16_383) as i16);
            let exact: i64 = row.iter().zip(&query).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum();
            assert_eq!(i64::from(dot(&row, &query)), exact, "{seed}");
        }
        assert_eq!(dot(&[-127; DIMENSIONS], &[16_383; DIMENSIONS]), -127 * 16_383 * DIMENSIONS as i32);
    }

    #[test]
    fn a_query_that_the_model_does_not_know_has_no_cosines() {
        let vectors = ToolVectors::new(&Catalog::default());
        for query in ["", "the of and", "東京", "qqqqxqqq"] {
            assert_eq!(vectors.cosines(query), None, "{query:?}");
        }
        assert_eq!(vectors.cosines("file"), Some(Vec::new()));
    }
}
