//! Converts literals to JSON, exactly as evaluating and serialising them would.
//!
//! `None` means that only an engine can tell: a name, a spread, a computed key, a hole in an array, a number that JSON
//! cannot represent, a lone surrogate. Everything that might give another value in an engine is `None`.

use crate::parse::with_parsed;
use oxc::{ast::ast::*, span::GetSpan, syntax::operator::UnaryOperator};
use serde_json::{Map, Number, Value};

/// Nesting of a literal that is converted. A deeper one is left to the engine.
const MAX_DEPTH: usize = 64;

/// The value of a text that is one expression of literals, as a program would write the argument of a call.
pub fn literal_arguments(text: &str) -> Option<Value> {
    let source = format!("({text}\n)");
    let read = with_parsed(&source, |parsed| match parsed.program.body.as_slice() {
        [Statement::ExpressionStatement(only)] => Ok(value(&only.expression)),
        _ => Ok(None),
    });
    read.ok()?
}

/// The value of an expression that consists of literals only.
pub(crate) fn value(expression: &Expression<'_>) -> Option<Value> {
    value_at(expression, MAX_DEPTH)
}

fn value_at(expression: &Expression<'_>, depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    match expression.get_inner_expression() {
        Expression::NullLiteral(_) => Some(Value::Null),
        Expression::BooleanLiteral(it) => Some(Value::Bool(it.value)),
        Expression::NumericLiteral(it) => number(it.value).map(Value::Number),
        Expression::StringLiteral(it) => string(it).map(|text| Value::String(text.to_owned())),
        Expression::TemplateLiteral(it) => template(it).map(|text| Value::String(text.to_owned())),
        Expression::UnaryExpression(it) => signed(it).map(Value::Number),
        Expression::ArrayExpression(it) => {
            it.elements.iter().map(|one| value_at(one.as_expression()?, depth)).collect::<Option<_>>().map(Value::Array)
        }
        Expression::ObjectExpression(it) => object(it, depth),
        _ => None,
    }
}

fn string<'s>(it: &'s StringLiteral<'_>) -> Option<&'s str> {
    (!it.lone_surrogates).then_some(it.value.as_str())
}

fn template<'s>(it: &'s TemplateLiteral<'_>) -> Option<&'s str> {
    match it.quasis.as_slice() {
        [only] if it.expressions.is_empty() && !only.lone_surrogates => {
            only.value.cooked.as_ref().map(|text| text.as_str())
        }
        _ => None,
    }
}

fn signed(it: &UnaryExpression<'_>) -> Option<Number> {
    let Expression::NumericLiteral(literal) = it.argument.get_inner_expression() else { return None };
    match it.operator {
        UnaryOperator::UnaryNegation => number(-literal.value),
        UnaryOperator::UnaryPlus => number(literal.value),
        _ => None,
    }
}

/// Whole numbers become integers, as in the text that `JSON.stringify` writes; minus zero becomes zero.
fn number(number: f64) -> Option<Number> {
    const LARGEST_SIGNED: f64 = 9_223_372_036_854_775_808.0; // 2^63
    const LARGEST_UNSIGNED: f64 = 18_446_744_073_709_551_616.0; // 2^64
    match number {
        n if n.fract() == 0.0 && n.abs() < LARGEST_SIGNED => Some(Number::from(n as i64)),
        n if n.fract() == 0.0 && n > 0.0 && n < LARGEST_UNSIGNED => Some(Number::from(n as u64)),
        n => Number::from_f64(n),
    }
}

fn object(it: &ObjectExpression<'_>, depth: usize) -> Option<Value> {
    let mut map = Map::new();
    for property in &it.properties {
        let (key, expression) = plain_property(property)?;
        // A repeated key keeps its first position and its last value, as in JavaScript.
        map.insert(key, value_at(expression, depth)?);
    }
    Some(Value::Object(in_property_order(map)))
}

/// The key and the value of a property `key: value`.
pub(crate) fn plain_property<'p, 'a>(property: &'p ObjectPropertyKind<'a>) -> Option<(String, &'p Expression<'a>)> {
    let ObjectPropertyKind::ObjectProperty(property) = property else { return None };
    if property.kind != PropertyKind::Init || property.method || property.computed {
        return None;
    }
    let key = match &property.key {
        PropertyKey::StaticIdentifier(id) => id.name.to_string(),
        PropertyKey::StringLiteral(it) => string(it)?.to_owned(),
        PropertyKey::NumericLiteral(it) => array_index(it.value)?.to_string(),
        _ => return None,
    };
    // `__proto__: x` sets the prototype; only the shorthand `{ __proto__ }` makes a property.
    (key != "__proto__").then_some((key, &property.value))
}

fn array_index(number: f64) -> Option<u32> {
    let index = number as u32;
    (f64::from(index) == number && index < u32::MAX).then_some(index)
}

/// Keys that are array indices come first and in numeric order.
fn in_property_order(map: Map<String, Value>) -> Map<String, Value> {
    let index = |key: &str| key.parse::<u32>().ok().filter(|n| *n < u32::MAX && n.to_string() == key);
    if !map.keys().any(|key| index(key).is_some()) {
        return map;
    }
    let (mut indices, names): (Vec<_>, Vec<_>) = map.into_iter().partition(|(key, _)| index(key).is_some());
    indices.sort_by_key(|(key, _)| index(key));
    indices.into_iter().chain(names).collect()
}

/// The value of a string literal, such as the key in `x["key"]`.
pub(crate) fn text<'s>(expression: &'s Expression<'_>) -> Option<&'s str> {
    match expression.get_inner_expression() {
        Expression::StringLiteral(it) => string(it),
        Expression::TemplateLiteral(it) => template(it),
        _ => None,
    }
}

/// What is known about an argument before it is evaluated.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// Its value.
    Known(Value),
    /// It is an object, and some of its properties are known.
    Partial {
        /// Properties with a literal value.
        literals: Map<String, Value>,
        /// Properties whose value is known only at run time.
        dynamic: Vec<String>,
        /// Whether a spread or a computed key may add or change properties.
        open: bool,
    },
    /// Nothing.
    Unknown,
}

/// What is known about the arguments of a call.
pub(crate) fn arguments(call: &CallExpression<'_>) -> Arguments {
    match call.arguments.as_slice() {
        [] => Arguments::Known(Value::Object(Map::new())),
        [only] => match only.as_expression() {
            Some(expression) => argument(expression),
            None => Arguments::Unknown,
        },
        _ => Arguments::Unknown,
    }
}

fn argument(expression: &Expression<'_>) -> Arguments {
    if let Some(known) = value(expression) {
        return Arguments::Known(known);
    }
    let Expression::ObjectExpression(it) = expression.get_inner_expression() else { return Arguments::Unknown };
    let (mut literals, mut dynamic, mut open) = (Map::new(), Vec::new(), false);
    for property in &it.properties {
        match plain_property(property) {
            Some((key, expression)) => match value(expression) {
                Some(known) => drop(literals.insert(key, known)),
                None => {
                    literals.shift_remove(&key);
                    dynamic.push(key);
                }
            },
            None => open = true,
        }
    }
    Arguments::Partial { literals, dynamic, open }
}

/// The start of the call's argument, or of the call if it has none.
pub(crate) fn argument_start(call: &CallExpression<'_>) -> u32 {
    call.arguments.first().map_or(call.span.start, |first| first.span().start)
}

#[cfg(test)]
mod tests {
    use crate::parse::with_parsed;
    use oxc::ast::ast::Statement;

    fn read(code: &str) -> Option<String> {
        with_parsed(&format!("x = {code}"), |parsed| {
            let Some(Statement::ExpressionStatement(it)) = parsed.program.body.first() else { panic!("{code}") };
            let oxc::ast::ast::Expression::AssignmentExpression(it) = &it.expression else { panic!("{code}") };
            Ok(super::value(&it.right).map(|value| value.to_string()))
        })
        .expect(code)
    }

    #[track_caller]
    fn check(code: &str, json: &str) {
        assert_eq!(read(code).as_deref(), Some(json), "{code}");
    }

    #[track_caller]
    fn doubtful(code: &str) {
        assert_eq!(read(code), None, "{code}");
    }

    #[test]
    fn literals_of_every_kind_are_read() {
        check("{ a: 1, 'b': \"x\", `c`: 1 }".replace("`c`: 1", "c: `y`").as_str(), r#"{"a":1,"b":"x","c":"y"}"#);
        check("[null, true, false, [], {},]", "[null,true,false,[],{}]");
        check("({ a: (1 as number), b: [1] as const })", r#"{"a":1,"b":[1]}"#);
        check("'\\u00e9\\n\\x41\\u{1F600}'", "\"é\\nA😀\"");
        check("`a\\tb\r\nc`", "\"a\\tb\\nc\"");
    }

    #[test]
    fn numbers_follow_javascript() {
        check("0x1f", "31");
        check("0b101", "5");
        check("0o17", "15");
        check("1_000", "1000");
        check("1e3", "1000");
        check("1.50", "1.5");
        check(".5", "0.5");
        check("-3", "-3");
        check("+3", "3");
        check("-0", "0");
        check("9007199254740993", "9007199254740992");
        check("4294967296", "4294967296");
        check("1e21", "1e+21");
        doubtful("1e400");
        doubtful("-1e400");
        doubtful("10n");
        doubtful("- -1");
        doubtful("~1");
    }

    #[test]
    fn keys_keep_the_order_that_javascript_gives_them() {
        check("{ b: 1, a: 2, b: 3 }", r#"{"b":3,"a":2}"#);
        check("{ x: 0, 10: 1, '2': 2, '01': 3 }", r#"{"2":2,"10":1,"x":0,"01":3}"#);
        check("{ 4294967295: 1 }".replace("4294967295", "'4294967295'").as_str(), r#"{"4294967295":1}"#);
        doubtful("{ 1.5: 1 }");
    }

    #[test]
    fn what_only_an_engine_knows_is_left_to_it() {
        for code in [
            "undefined",
            "a",
            "{ a }",
            "{ a: b }",
            "{ ...a }",
            "{ [a]: 1 }",
            "{ ['a']: 1 }",
            "{ a() {} }",
            "{ get a() { return 1 } }",
            "[, 1]",
            "[...a]",
            "NaN",
            "Infinity",
            "`${1}`",
            "a`b`",
            "/x/",
            "{ __proto__: {} }",
            "{ '__proto__': null }",
            "'\\ud800'",
            "`\\ud800`",
            "() => 1",
            "new Date()",
            "1 + 1",
            "!0",
            "void 0",
            "{ a: undefined }",
        ] {
            doubtful(code);
        }
        doubtful(&format!("{}{}", "[".repeat(100), "]".repeat(100)));
    }
}
