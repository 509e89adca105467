//! The reader gives the vectors of the reference reader, and a bounded answer to any text.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Reference {
    text: String,
    tokens: Vec<String>,
    vector: Vec<f32>,
}

fn references() -> Vec<Reference> {
    serde_json::from_str(include_str!("../../../tests/fixtures/search_model_vectors.json")).unwrap()
}

#[test]
fn the_model_has_the_form_that_its_readme_says() {
    let model = Model::read(FILE).unwrap();
    assert_eq!((model.vocabulary.len(), model.rows.len()), (20_000, 20_000 * ROW));
}

#[test]
fn tokens_and_vectors_are_those_of_the_reference_reader() {
    let model = model().unwrap();
    assert_eq!(references().len(), 20);
    for Reference { text, tokens, vector } in references() {
        let mut read = Tokens::new(&model.vocabulary, TextKind::Prose);
        read.read(&text);
        let names: Vec<&str> = read.found().iter().map(|&id| model.vocabulary.name(id)).collect();
        assert_eq!(names, tokens, "{text:?}");
        let ours = model.embed(&text, TextKind::Prose);
        let worst = ours.iter().zip(&vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(vector.len() == DIMENSIONS && worst < 2e-6, "{text:?} differs by {worst}");
    }
}

#[test]
fn a_damaged_file_is_no_model() {
    assert!(Model::read(b"").is_none());
    assert!(Model::read(b"STATEMB4").is_none());
    assert!(Model::read(&FILE[..FILE.len() - 1]).is_none());
    assert!(Model::read(b"STATEMB4\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff").is_none());
}

#[test]
fn a_name_is_cut_at_its_humps() {
    let model = model().unwrap();
    let cut = |text| model.embed(text, TextKind::Name);
    assert_eq!(cut("createGitHub-issue2"), cut("create_git_hub_issue2"));
    assert_ne!(cut("GitHub"), model.embed("GitHub", TextKind::Prose));
}

#[test]
fn a_text_without_words_is_zero() {
    for text in ["", "   ", "東京", "🔥!?", &"-".repeat(1_000_000)] {
        assert_eq!(model().unwrap().embed(text, TextKind::Prose), [0.0; DIMENSIONS]);
    }
}

#[test]
fn a_long_text_counts_as_its_beginning() {
    let model = model().unwrap();
    let (long, short) = ("file ".repeat(1_000_000), "file ".repeat(64));
    assert_eq!(model.embed(&long, TextKind::Prose), model.embed(&short, TextKind::Prose));
    let word = "x".repeat(1_000_000);
    assert_eq!(model.embed(&word, TextKind::Name), model.embed(&word[..48], TextKind::Name));
}

proptest! {
    #[test]
    fn any_text_has_a_vector_of_unit_length_or_none(text in "\\PC{0,80}") {
        for kind in [TextKind::Prose, TextKind::Name] {
            let length = model().unwrap().embed(&text, kind).iter().map(|x| x * x).sum::<f32>().sqrt();
            prop_assert!(length == 0.0 || (length - 1.0).abs() < 1e-4, "{length}");
        }
    }
}
