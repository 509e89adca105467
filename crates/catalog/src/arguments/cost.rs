//! How much work a check may be, told before it begins.
//!
//! A schema of a few lines can ask for exponential work: references that each lead to two more, or a recursive type that
//! tries the same value in several ways at every level. And a program can send millions of values to a schema that tries
//! each in hundreds of ways. The validator can't be interrupted, so a check that could take long is not begun.
//!
//! [`Cost`] is the schema reduced to what takes time. [`Cost::allows`] walks it along the arguments as the validator will,
//! applies every subschema that could apply, adds up what each keyword takes at most, and gives up at [`MAX_WORK`]. Every
//! keyword that the validator implements has a line in `Compiler::keyword`.
//!
//! References other than `#` and `#/pointer` are not followed, so a schema with one is not used.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::tool::tree_bytes;
use super::super::types::reference;
use super::pattern_cost::PatternCost;

/// Schemas within a schema with all references followed; far above any honest tool.
const MAX_SCHEMAS: u64 = 50_000;
/// Deepest nesting of a schema, references followed.
const MAX_DEPTH: usize = 60;
/// Deepest nesting of a check: of the arguments, and of the schemas for each value.
const MAX_CHECK_DEPTH: usize = 400;
/// What one check may take, in steps of the validator: some tens of milliseconds.
const MAX_WORK: u64 = 2_000_000;
/// A check of so many steps takes less than a millisecond.
const QUICK_WORK: u64 = 10_000;
/// Bytes of a string that are looked at in one step.
const STEP_BYTES: usize = 64;
/// How often `unevaluatedProperties` and `unevaluatedItems` make the validator look at what stands beside them.
const UNEVALUATED_PASSES: u64 = 4;
/// Different regular expressions of one schema: each takes memory.
const MAX_PATTERNS: usize = 200;
/// What one compiled schema inside a schema takes, with its keywords.
const SCHEMA_BYTES: u64 = 2 << 10;
/// The validator repeats a check this often, with each outcome of the matches that it could not finish.
const MAX_REPEATED_CHECKS: u64 = 64;

/// What a check of some arguments may cost.
#[derive(Debug)]
pub(crate) struct Cost {
    schemas: Vec<Schema>,
    /// What the compiled schema may take.
    bytes: u64,
}

/// Place of a schema in [`Cost::schemas`].
type SchemaId = usize;

/// What takes time in one schema.
#[derive(Debug, Default)]
struct Schema {
    /// Steps for any value.
    steps: u64,
    /// Keywords that read a whole string.
    reads_text: u64,
    /// `uniqueItems`.
    compares_items: bool,
    pattern: Option<PatternCost>,
    /// Schemas for the same value.
    in_place: Vec<SchemaId>,
    /// `unevaluatedProperties` or `unevaluatedItems` stands here.
    has_unevaluated: bool,
    properties: HashMap<String, SchemaId>,
    pattern_properties: Vec<(PatternCost, SchemaId)>,
    /// For properties that `properties` does not name.
    other_properties: Vec<SchemaId>,
    property_names: Option<SchemaId>,
    /// For items, by their place.
    positions: Vec<SchemaId>,
    /// For all items.
    items: Vec<SchemaId>,
}

impl Cost {
    /// Walks `schema`; `Err` says why it can't be used at all.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut compiler = Compiler::new(schema);
        compiler.schema(schema, Place { depth: 0, copies: 1 })?;
        if compiler.has_inner_id && compiler.has_reference {
            return Err("it has references and schemas with ids of their own".to_owned());
        }
        let patterns = compiler.patterns.values().map(|pattern| pattern.bytes());
        // The validator keeps a copy of the schema.
        let copy = tree_bytes(&schema.to_string());
        compiler.cost.bytes = copy + compiler.compiled * SCHEMA_BYTES + patterns.sum::<u64>();
        Ok(compiler.cost)
    }

    /// Bytes that the compiled schema may take.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the check of `arguments` is certain to end soon.
    pub(super) fn allows(&self, arguments: &Value) -> bool {
        self.takes_at_most(MAX_WORK, arguments)
    }

    /// Whether the check of `arguments` is so short that no thread needs to be left to others meanwhile.
    pub(super) fn is_quick(&self, arguments: &Value) -> bool {
        self.takes_at_most(QUICK_WORK, arguments)
    }

    fn takes_at_most(&self, most: u64, arguments: &Value) -> bool {
        let mut meter = Meter { cost: self, most, work: 0, unfinished: 0 };
        meter.value(0, arguments, Pass { factor: 1, depth: 0 }).is_some() && meter.with_repeated_checks() <= most
    }
}

/// Where in a schema a schema stands.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// How often the validator compiles it, because of `unevaluatedProperties` above it.
    copies: u64,
}

impl Place {
    fn below(self) -> Self {
        Place { depth: self.depth + 1, ..self }
    }
}

/// Builds a [`Cost`].
struct Compiler<'a> {
    root: &'a Value,
    cost: Cost,
    /// Schemas that the validator compiles so far.
    compiled: u64,
    /// The deepest place so far.
    deepest: usize,
    targets: HashMap<String, Target>,
    patterns: HashMap<&'a str, PatternCost>,
    has_reference: bool,
    /// A schema inside the schema changes what references are relative to.
    has_inner_id: bool,
}

/// The target of a reference.
#[derive(Clone, Copy)]
struct Target {
    id: SchemaId,
    /// `None` until it is complete.
    size: Option<TargetSize>,
}

#[derive(Clone, Copy)]
struct TargetSize {
    schemas: u64,
    height: usize,
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value) -> Self {
        let cost = Cost { schemas: Vec::new(), bytes: 0 };
        Compiler {
            root,
            cost,
            compiled: 0,
            deepest: 0,
            targets: HashMap::new(),
            patterns: HashMap::new(),
            has_reference: false,
            has_inner_id: false,
        }
    }

    fn schema(&mut self, schema: &'a Value, place: Place) -> Result<SchemaId, String> {
        let id = self.cost.schemas.len();
        self.cost.schemas.push(Schema::default());
        self.count(place.copies)?;
        self.reach(place.depth)?;
        if let Value::Object(keywords) = schema {
            self.object(id, keywords, place)?;
        }
        self.cost.schemas[id].steps += 1;
        Ok(id)
    }

    fn count(&mut self, schemas: u64) -> Result<(), String> {
        self.compiled = self.compiled.saturating_add(schemas);
        if self.compiled > MAX_SCHEMAS { Err("it is too large".to_owned()) } else { Ok(()) }
    }

    fn reach(&mut self, depth: usize) -> Result<(), String> {
        self.deepest = self.deepest.max(depth);
        if depth > MAX_DEPTH { Err("it is nested too deeply".to_owned()) } else { Ok(()) }
    }

    fn object(&mut self, id: SchemaId, keywords: &'a Map<String, Value>, place: Place) -> Result<(), String> {
        let has_id = ["$id", "id"].iter().any(|name| keywords.get(*name).is_some_and(Value::is_string));
        self.has_inner_id |= id > 0 && has_id;
        let has_unevaluated = ["unevaluatedProperties", "unevaluatedItems"].iter().any(|it| keywords.contains_key(*it));
        let passes = if has_unevaluated { UNEVALUATED_PASSES } else { 1 };
        let beside = Place { copies: place.copies.saturating_mul(passes), ..place.below() };
        let mut built = Schema { has_unevaluated, ..Schema::default() };
        for (name, value) in keywords {
            // Of named properties only the names are looked at again.
            let inside = if name == "properties" { place.below() } else { beside };
            self.keyword(&mut built, name, value, inside)?;
        }
        self.cost.schemas[id] = built;
        Ok(())
    }

    /// Adds the cost of one keyword. A keyword that is not listed has a fixed cost, or the validator ignores it.
    fn keyword(&mut self, into: &mut Schema, name: &str, value: &'a Value, place: Place) -> Result<(), String> {
        into.steps += 1;
        match name {
            "$ref" => into.in_place.push(self.reference(value, place)?),
            "$dynamicRef" | "$recursiveRef" => {
                return Err("it has a reference that is known only in a check".to_owned());
            }
            "allOf" | "anyOf" | "oneOf" => into.in_place.extend(self.list(value, place)?),
            "not" | "if" | "then" | "else" => into.in_place.push(self.schema(value, place)?),
            "dependentSchemas" | "dependencies" | "dependentRequired" => {
                into.steps += weight(value);
                let schemas = members(value).filter(|(_, dependent)| !dependent.is_array());
                for (_, dependent) in schemas {
                    into.in_place.push(self.schema(dependent, place)?);
                }
            }
            "properties" => {
                for (property, schema) in members(value) {
                    into.steps += 1;
                    into.properties.insert(property.clone(), self.schema(schema, place)?);
                }
            }
            "patternProperties" => {
                for (pattern, schema) in members(value) {
                    into.steps += 1;
                    let pattern = self.pattern(pattern)?;
                    into.pattern_properties.push((pattern, self.schema(schema, place)?));
                }
            }
            "additionalProperties" | "unevaluatedProperties" => into.other_properties.push(self.schema(value, place)?),
            "propertyNames" => into.property_names = Some(self.schema(value, place)?),
            "prefixItems" => into.positions.extend(self.list(value, place)?),
            "items" if value.is_array() => into.positions.extend(self.list(value, place)?),
            "items" | "additionalItems" | "unevaluatedItems" | "contains" => {
                into.items.push(self.schema(value, place)?);
            }
            "uniqueItems" => into.compares_items |= *value == Value::Bool(true),
            "pattern" => into.pattern = value.as_str().map(|pattern| self.pattern(pattern)).transpose()?,
            "enum" | "const" => {
                into.steps += weight(value);
                into.reads_text += 1;
            }
            "required" | "type" => into.steps += weight(value),
            "minLength" | "maxLength" => into.reads_text += 1,
            // Of drafts 6 and 7: the text is decoded and parsed. Formats are parsed too.
            "contentMediaType" | "contentEncoding" | "format" => into.reads_text += 8,
            _ => {}
        }
        Ok(())
    }

    fn list(&mut self, value: &'a Value, place: Place) -> Result<Vec<SchemaId>, String> {
        value.as_array().into_iter().flatten().map(|schema| self.schema(schema, place)).collect()
    }

    fn reference(&mut self, value: &'a Value, place: Place) -> Result<SchemaId, String> {
        self.has_reference = true;
        let text = value.as_str().unwrap_or_default();
        let Some((pointer, target)) = reference::resolve(self.root, text) else {
            return Err("it has a reference that leads out of it".to_owned());
        };
        if pointer.is_empty() {
            return Ok(0);
        }
        let Some(Target { id, size }) = self.targets.get(&pointer).copied() else {
            return self.target(pointer, target, place.below());
        };
        // Without a size it leads back to a schema that it is part of.
        if let Some(size) = size {
            self.count(size.schemas.saturating_mul(place.copies))?;
            self.reach(place.depth + size.height)?;
        }
        Ok(id)
    }

    /// Compiles the target of a reference, once.
    fn target(&mut self, pointer: String, target: &'a Value, place: Place) -> Result<SchemaId, String> {
        let id = self.cost.schemas.len();
        self.targets.insert(pointer.clone(), Target { id, size: None });
        let (compiled, deepest) = (self.compiled, std::mem::take(&mut self.deepest));
        self.schema(target, place)?;
        let schemas = (self.compiled - compiled).div_ceil(place.copies.max(1));
        let size = TargetSize { schemas, height: self.deepest + 1 - place.depth };
        self.deepest = self.deepest.max(deepest);
        self.targets.insert(pointer, Target { id, size: Some(size) });
        Ok(id)
    }

    fn pattern(&mut self, pattern: &'a str) -> Result<PatternCost, String> {
        let cost = *self.patterns.entry(pattern).or_insert_with(|| PatternCost::of(pattern));
        if self.patterns.len() > MAX_PATTERNS {
            return Err("it has too many regular expressions".to_owned());
        }
        Ok(cost)
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Steps of a comparison with all of `value`.
fn weight(value: &Value) -> u64 {
    let mut steps = 0_u64;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        steps += 1;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => {
                steps += entries.keys().map(|key| text_steps(key)).sum::<u64>();
                open.extend(entries.values());
            }
            Value::String(text) => steps += text_steps(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    steps
}

fn text_steps(text: &str) -> u64 {
    (text.len() / STEP_BYTES) as u64
}

/// How a value is looked at.
#[derive(Clone, Copy)]
struct Pass {
    /// How often.
    factor: u64,
    depth: usize,
}

impl Pass {
    fn below(self) -> Self {
        Pass { depth: self.depth + 1, ..self }
    }
}

/// Adds up the steps of one check.
struct Meter<'a> {
    cost: &'a Cost,
    /// Steps at which it gives up.
    most: u64,
    work: u64,
    /// Matches that may end without an outcome.
    unfinished: u32,
}

/// `None`: the check could take too long.
type InBounds = Option<()>;

impl Meter<'_> {
    fn spend(&mut self, steps: u64, pass: Pass) -> InBounds {
        self.work = self.work.saturating_add(steps.saturating_mul(pass.factor));
        (self.work <= self.most).then_some(())
    }

    /// The validator repeats a check for each combination of outcomes.
    fn with_repeated_checks(&self) -> u64 {
        let combinations = 1_u64.checked_shl(self.unfinished).unwrap_or(u64::MAX).min(MAX_REPEATED_CHECKS);
        self.work.saturating_mul(combinations)
    }

    fn value(&mut self, id: SchemaId, value: &Value, pass: Pass) -> InBounds {
        if pass.depth > MAX_CHECK_DEPTH {
            return None;
        }
        let cost = self.cost;
        let schema = &cost.schemas[id];
        self.spend(schema.steps, pass)?;
        let passes = if schema.has_unevaluated { UNEVALUATED_PASSES } else { 1 };
        let beside = Pass { factor: pass.factor.saturating_mul(passes), ..pass.below() };
        for in_place in &schema.in_place {
            self.value(*in_place, value, beside)?;
        }
        match value {
            Value::String(text) => self.text(schema, text, pass),
            Value::Array(items) => self.items(schema, items, beside),
            Value::Object(entries) => self.entries(schema, entries, pass.below(), beside),
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
        }
    }

    fn text(&mut self, schema: &Schema, text: &str, pass: Pass) -> InBounds {
        self.spend(schema.reads_text * text_steps(text), pass)?;
        schema.pattern.map_or(Some(()), |pattern| self.pattern(pattern, text, pass))
    }

    fn pattern(&mut self, pattern: PatternCost, text: &str, pass: Pass) -> InBounds {
        self.unfinished += u32::from(pattern.may_backtrack());
        self.spend(pattern.steps(text.len()), pass)
    }

    fn items(&mut self, schema: &Schema, items: &[Value], pass: Pass) -> InBounds {
        if schema.compares_items {
            items.iter().try_for_each(|item| self.spend(comparison_steps(item, items.len()), pass))?;
        }
        for (item, id) in items.iter().zip(&schema.positions) {
            self.value(*id, item, pass)?;
        }
        for id in &schema.items {
            items.iter().try_for_each(|item| self.value(*id, item, pass))?;
        }
        Some(())
    }

    /// `beside` is how often names are looked at, and values of which only the names are not known.
    fn entries(&mut self, schema: &Schema, entries: &Map<String, Value>, pass: Pass, beside: Pass) -> InBounds {
        let looks_at_names = schema.has_unevaluated
            || !schema.other_properties.is_empty()
            || !schema.pattern_properties.is_empty()
            || schema.property_names.is_some();
        if !looks_at_names {
            return schema.properties.iter().try_for_each(|(name, id)| match entries.get(name) {
                Some(value) => self.value(*id, value, pass),
                None => Some(()),
            });
        }
        for (name, value) in entries {
            self.spend(1 + text_steps(name), beside)?;
            match schema.properties.get(name) {
                Some(id) => self.value(*id, value, pass)?,
                None => schema.other_properties.iter().try_for_each(|id| self.value(*id, value, beside))?,
            }
            self.by_name(schema, name, value, beside)?;
        }
        Some(())
    }

    fn by_name(&mut self, schema: &Schema, name: &str, value: &Value, pass: Pass) -> InBounds {
        for (pattern, id) in &schema.pattern_properties {
            // Once for the pattern's own schema, once for `additionalProperties`.
            self.pattern(*pattern, name, Pass { factor: pass.factor.saturating_mul(2), ..pass })?;
            self.value(*id, value, pass)?;
        }
        match schema.property_names {
            Some(id) => self.name(id, name, pass),
            None => Some(()),
        }
    }

    /// A name as a value.
    fn name(&mut self, id: SchemaId, name: &str, pass: Pass) -> InBounds {
        self.spend(1, pass)?;
        self.value(id, &Value::String(name.to_owned()), pass)
    }
}

/// Steps in which an item of a list is found to be no other one's equal.
///
/// A short list is compared pair by pair, a long one by hash. The hash of a list or object leaves out its shape, and that of
/// a large integer its last digits, so all of these may collide.
fn comparison_steps(item: &Value, items: usize) -> u64 {
    let collides = match item {
        Value::Array(_) | Value::Object(_) => true,
        Value::Number(number) => {
            number.as_i64().is_none_or(|number| number.unsigned_abs() > MAX_SAFE_INTEGER) && !number.is_f64()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    };
    let others = if collides { items as u64 } else { PAIRWISE_ITEMS.min(items as u64) };
    weight(item).saturating_mul(others)
}

/// Items of the longest list that is compared pair by pair.
const PAIRWISE_ITEMS: u64 = 15;
/// The largest integer below which each has a floating-point number of its own.
const MAX_SAFE_INTEGER: u64 = 1 << 53;

/// Whether `value` holds at most `most` values, itself included.
pub(super) fn has_few_nodes(value: &Value, most: usize) -> bool {
    let mut left = most;
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        if left == 0 {
            return false;
        }
        left -= 1;
        match value {
            Value::Array(items) if items.len() > left => return false,
            Value::Object(entries) if entries.len() > left => return false,
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => open.extend(entries.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    true
}
