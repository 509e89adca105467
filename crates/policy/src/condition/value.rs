//! What an expression gives: borrowed from the arguments where it can be.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::evaluate::Budget;
use super::{ConditionError, compile::Literal};

/// A value of CEL.
#[derive(Debug, Clone)]
pub(super) enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Cow<'a, str>),
    List(ListVal<'a>),
    Map(MapVal<'a>),
}

/// A list of the arguments, or one that the expression made.
#[derive(Debug, Clone)]
pub(super) enum ListVal<'a> {
    Json(&'a [Value]),
    Made(Rc<Vec<Val<'a>>>),
}

/// An object of the arguments, or a map that the expression made.
#[derive(Debug, Clone)]
pub(super) enum MapVal<'a> {
    Json(&'a Map<String, Value>),
    Made(Rc<Vec<(Val<'a>, Val<'a>)>>),
}

impl<'a> Val<'a> {
    pub(super) fn of(json: &'a Value) -> Self {
        match json {
            Value::Null => Val::Null,
            Value::Bool(value) => Val::Bool(*value),
            Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(number), _) => Val::Int(number),
                (None, Some(number)) => Val::Uint(number),
                (None, None) => Val::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Val::Text(Cow::Borrowed(text)),
            Value::Array(items) => Val::List(ListVal::Json(items)),
            Value::Object(fields) => Val::Map(MapVal::Json(fields)),
        }
    }

    pub(super) fn literal(literal: &'a Literal) -> Self {
        match literal {
            Literal::Null => Val::Null,
            Literal::Bool(value) => Val::Bool(*value),
            Literal::Int(value) => Val::Int(*value),
            Literal::Uint(value) => Val::Uint(*value),
            Literal::Double(value) => Val::Double(*value),
            Literal::Text(text) => Val::Text(Cow::Borrowed(text)),
        }
    }

    /// The name of its kind in messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Val::Null => "null",
            Val::Bool(_) => "a boolean",
            Val::Int(_) => "an integer",
            Val::Uint(_) => "an unsigned integer",
            Val::Double(_) => "a number with a fraction",
            Val::Text(_) => "a text",
            Val::List(_) => "a list",
            Val::Map(_) => "an object",
        }
    }

    /// Whether both are the same value; numbers are compared across their kinds.
    pub(super) fn equals(&self, other: &Val<'_>, budget: &mut Budget) -> Result<bool, ConditionError> {
        budget.step()?;
        Ok(match (self, other) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(one), Val::Bool(other)) => one == other,
            (Val::Text(one), Val::Text(other)) => {
                budget.bytes(one.len().min(other.len()))?;
                one == other
            }
            (Val::List(one), Val::List(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (one, other) in one.items().zip(other.items()) {
                    if !one.equals(&other, budget)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Val::Map(one), Val::Map(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for key in one.keys() {
                    let same = match (one.get(&key, budget)?, other.get(&key, budget)?) {
                        (Some(one), Some(other)) => one.equals(&other, budget)?,
                        _ => false,
                    };
                    if !same {
                        return Ok(false);
                    }
                }
                true
            }
            _ => self.compare_numbers(other) == Some(Ordering::Equal),
        })
    }

    /// Whether a map may have such a key, or a number that equals one.
    pub(super) fn can_be_key(&self) -> bool {
        matches!(self, Val::Text(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) | Val::Double(_))
    }

    /// The order of two numbers of any kinds; `None` if one is no number.
    pub(super) fn compare_numbers(&self, other: &Val<'_>) -> Option<Ordering> {
        match (self, other) {
            (Val::Int(one), Val::Int(other)) => Some(one.cmp(other)),
            (Val::Uint(one), Val::Uint(other)) => Some(one.cmp(other)),
            (Val::Int(one), Val::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Val::Uint(one), Val::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Val::Double(one), Val::Double(other)) => one.partial_cmp(other),
            (Val::Int(one), Val::Double(other)) => whole_and_fraction(i128::from(*one), *other),
            (Val::Uint(one), Val::Double(other)) => whole_and_fraction(i128::from(*one), *other),
            (Val::Double(one), Val::Int(other)) => whole_and_fraction(i128::from(*other), *one).map(Ordering::reverse),
            (Val::Double(one), Val::Uint(other)) => whole_and_fraction(i128::from(*other), *one).map(Ordering::reverse),
            _ => None,
        }
    }
}

/// Compares exactly: a cast of the integer would lose digits.
fn whole_and_fraction(whole: i128, other: f64) -> Option<Ordering> {
    if other.is_nan() {
        return None;
    }
    // Every integer of 64 bits lies between.
    if other >= 1e20 {
        return Some(Ordering::Less);
    }
    if other <= -1e20 {
        return Some(Ordering::Greater);
    }
    let floor = other.floor();
    Some(match whole.cmp(&(floor as i128)) {
        Ordering::Equal if other > floor => Ordering::Less,
        order => order,
    })
}

impl<'a> ListVal<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            ListVal::Json(items) => items.len(),
            ListVal::Made(items) => items.len(),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<Val<'a>> {
        match self {
            ListVal::Json(items) => items.get(index).map(Val::of),
            ListVal::Made(items) => items.get(index).cloned(),
        }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = Val<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl<'a> MapVal<'a> {
    pub(super) fn len(&self) -> usize {
        match self {
            MapVal::Json(fields) => fields.len(),
            MapVal::Made(entries) => entries.len(),
        }
    }

    /// The value of a key. Keys of the arguments are texts.
    pub(super) fn get(&self, key: &Val<'_>, budget: &mut Budget) -> Result<Option<Val<'a>>, ConditionError> {
        match (self, key) {
            (MapVal::Json(fields), Val::Text(key)) => {
                budget.bytes(key.len())?;
                Ok(fields.get(key.as_ref()).map(Val::of))
            }
            (MapVal::Json(_), _) => Ok(None),
            (MapVal::Made(entries), key) => {
                for (known, value) in entries.iter() {
                    if known.equals(key, budget)? {
                        return Ok(Some(value.clone()));
                    }
                }
                Ok(None)
            }
        }
    }

    pub(super) fn field(&self, name: &str, budget: &mut Budget) -> Result<Option<Val<'a>>, ConditionError> {
        match self {
            MapVal::Json(fields) => Ok(fields.get(name).map(Val::of)),
            MapVal::Made(_) => self.get(&Val::Text(Cow::Borrowed(name)), budget),
        }
    }

    pub(super) fn keys(&self) -> Box<dyn Iterator<Item = Val<'a>> + '_> {
        match self {
            MapVal::Json(fields) => Box::new(fields.keys().map(|key| Val::Text(Cow::Borrowed(key.as_str())))),
            MapVal::Made(entries) => Box::new(entries.iter().map(|(key, _)| key.clone())),
        }
    }
}
