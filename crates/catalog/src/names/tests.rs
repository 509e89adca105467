//! Names become identifiers, and every spelling leads to one tool.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(original: &str, expected: &str) {
    assert_eq!(sanitise(original, NameScope::Global), expected);
}

#[track_caller]
fn check_table(originals: &[&str], expected: &[(&str, &str)]) {
    let table = NameTable::new(originals.iter().copied(), NameScope::Global);
    let pairs: Vec<(&str, &str)> = table.names().iter().map(|n| (n.original.as_str(), n.identifier.as_str())).collect();
    assert_eq!(pairs, expected);
}

#[test]
fn what_no_identifier_may_contain_becomes_an_underscore() {
    check("my-search-backend", "my_search_backend");
    check("has.dots", "has_dots");
    check("\"];evil//", "___evil__");
    check("größe", "gr__e");
    check("🔥", "_");
    check("a\0b\nc", "a_b_c");
}

#[test]
fn a_leading_digit_and_an_empty_name_get_an_underscore_in_front() {
    check("123start", "_123start");
    check("", "_");
}

#[test]
fn reserved_words_get_an_underscore_behind() {
    for word in ["delete", "await", "yield", "let", "static", "eval", "arguments", "implements", "undefined", "NaN"] {
        check(word, &format!("{word}_"));
    }
}

#[test]
fn globals_of_the_sandbox_get_an_underscore_behind() {
    for word in ["Object", "Promise", "console", "Math", "tools", "globalThis", "api", "context", "sleep", "URL"] {
        check(word, &format!("{word}_"));
    }
}

#[test]
fn names_that_javascript_looks_up_by_itself_get_an_underscore_behind() {
    for word in ["__proto__", "constructor", "then", "toString", "toJSON"] {
        check(word, &format!("{word}_"));
        assert_eq!(sanitise(word, NameScope::Member), format!("{word}_"));
    }
}

#[test]
fn a_tool_may_be_called_like_a_global() {
    assert_eq!(sanitise("fetch", NameScope::Member), "fetch");
    assert_eq!(sanitise("delete", NameScope::Member), "delete_");
}

#[test]
fn a_very_long_name_is_cut_and_ends_in_its_hash() {
    let long = sanitise(&"a".repeat(10_000), NameScope::Global);
    assert_eq!(long.len(), MAX_IDENTIFIER_LENGTH);
    assert_ne!(long, sanitise(&"a".repeat(10_001), NameScope::Global));
}

#[test]
fn names_that_collide_are_numbered_in_the_order_of_the_originals() {
    check_table(&["a.b", "a b", "a-b"], &[("a b", "a_b"), ("a-b", "a_b_2"), ("a.b", "a_b_3")]);
}

#[test]
fn a_name_that_is_an_identifier_keeps_it() {
    check_table(&["a-b", "a_b"], &[("a-b", "a_b_2"), ("a_b", "a_b")]);
}

#[test]
fn a_number_never_lands_on_another_name() {
    check_table(&["a-b", "a_b", "a_b_2"], &[("a-b", "a_b_3"), ("a_b", "a_b"), ("a_b_2", "a_b_2")]);
    check_table(&["delete", "delete_"], &[("delete", "delete__2"), ("delete_", "delete_")]);
}

#[test]
fn an_exact_original_wins_over_the_identifier_of_another() {
    let table = NameTable::new(["x-y", "x_y"], NameScope::Global);
    let original = |spelling: &str| table.resolve(spelling).map(|at| table.names()[at].original.as_str());
    assert_eq!(original("x_y"), Some("x_y"));
    assert_eq!(original("x-y"), Some("x-y"));
    assert_eq!(original("x_y_2"), Some("x-y"));
    assert_eq!(original("x.y"), None);
}

#[test]
fn a_variable_never_hides_a_built_in() {
    let table = NameTable::new(["Math", "exa"], NameScope::Global);
    assert_eq!(table.resolve_variable("Math"), None);
    assert_eq!(table.resolve_variable("Math_"), table.resolve("Math"));
    assert!(table.resolve_variable("exa").is_some());
}

#[test]
fn a_keyword_is_the_name_of_a_global() {
    let table = NameTable::new(["delete", "undefined", "eval", "class_"], NameScope::Global);
    assert_eq!(table.resolve_variable("delete"), table.resolve("delete"));
    assert_eq!(table.resolve_variable("delete_"), table.resolve("delete"));
    assert_eq!(table.resolve_variable("class"), None, "there is no such backend");
    assert_eq!((table.resolve_variable("undefined"), table.resolve_variable("eval")), (None, None));
}

#[test]
fn thousands_of_colliding_names_are_no_burden() {
    let originals: Vec<String> = (0..5_000u32).map(|n| char::from_u32(0x4e00 + n).unwrap().to_string()).collect();
    let table = NameTable::new(originals, NameScope::Member);
    assert_eq!(table.names().len(), 5_000);
    assert_eq!(table.names()[4_999].identifier, "__5000");
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab_.\\-0-9]{0,4}",
        "\\PC{0,12}",
        proptest::sample::select(words::RESERVED_WORDS).prop_map(str::to_owned),
        proptest::sample::select(words::OBJECT_MEMBERS).prop_map(|word| format!("{word}_")),
        ("[a-b]_[2-4]", Just(())).prop_map(|(name, ())| name),
        "[ab-]{60,70}",
    ]
}

proptest! {
    #[test]
    fn every_identifier_is_valid_distinct_and_resolves_to_its_own(
        originals in proptest::collection::vec(any_name(), 0..40),
        member in any::<bool>(),
    ) {
        let scope = if member { NameScope::Member } else { NameScope::Global };
        let table = NameTable::new(originals.clone(), scope);
        let distinct: HashSet<&str> = table.names().iter().map(|n| n.identifier.as_str()).collect();
        prop_assert_eq!(distinct.len(), table.names().len());
        for (at, name) in table.names().iter().enumerate() {
            prop_assert!(is_identifier(&name.identifier), "{:?}", name);
            prop_assert!(!scope.reserves(&name.identifier), "{:?}", name);
            prop_assert_eq!(table.resolve(&name.identifier), Some(at));
            prop_assert_eq!(table.resolve(&name.original), Some(at));
        }
    }

    #[test]
    fn the_order_of_arrival_changes_nothing(
        (one, other) in proptest::collection::vec(any_name(), 0..30)
            .prop_flat_map(|names| (Just(names.clone()), Just(names).prop_shuffle())),
    ) {
        let table = NameTable::new(one, NameScope::Global);
        let shuffled = NameTable::new(other, NameScope::Global);
        prop_assert_eq!(table.names(), shuffled.names());
    }
}
