//! What holds for every file of the repository: heads, names, and documents that lead somewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Words that a reader would have to learn; names say the technical term instead.
const METAPHORS: &str = "desk party shelf porter warden patient patience farewell reception understudy keeper taker tape \
                         judge breath glance";

/// Words that a constant needs more of to say what it bounds.
const BARE_CONSTANTS: &[&str] =
    &["MOST", "SHOWN", "LOOK", "REST", "PATIENCE", "LINGER", "PULSE", "QUICK", "LAST_RESORT", "SOON"];

/// The items whose names are checked.
const ITEMS: &[&str] = &["struct", "enum", "trait", "type", "union", "fn", "const", "static", "mod"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every file below a folder whose name ends so, as a path from the root, in order.
fn files(folder: &str, ending: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}")) {
        let entry = entry.expect("an entry");
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.path() {
            below if below.is_dir() && !path.ends_with("/target") => found.extend(files(&path, ending)),
            file if file.is_file() && path.ends_with(ending) => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}

fn documents() -> Vec<String> {
    let above = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(str::to_owned);
    above.into_iter().chain(files("docs", ".md")).collect()
}

#[test]
fn every_source_file_has_a_head() {
    let sources: Vec<String> = ["crates", "fuzz"].iter().flat_map(|folder| files(folder, ".rs")).collect();
    assert!(sources.len() > 300, "{} files", sources.len());
    let without: Vec<&String> = sources.iter().filter(|file| !read(file).starts_with("//! ")).collect();
    assert!(without.is_empty(), "no module head in {without:#?}");
}

/// Every item that a text declares as `pub`, as its kind and its name. What a macro declares is not seen: the raw
/// settings of `config` have the names of the checked ones on purpose.
fn public_items(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter(|line| !line.contains('$')).filter_map(|line| {
        let mut words = line.trim_start().strip_prefix("pub ")?.split(|c: char| !c.is_alphanumeric() && c != '_');
        let kind = words.find(|word| ITEMS.contains(word))?;
        let name = words.find(|word| !word.is_empty())?;
        // `pub const fn name`
        match (kind, name) {
            ("const", "fn") => Some(("fn", words.find(|word| !word.is_empty())?)),
            item => Some(item),
        }
    })
}

fn crates() -> Vec<String> {
    let manifests = files("crates", "/Cargo.toml");
    manifests.iter().filter_map(|path| path.strip_suffix("/Cargo.toml")).map(str::to_owned).collect()
}

#[test]
fn a_crate_has_one_public_type_of_a_name() {
    let mut twice = Vec::new();
    for folder in crates() {
        let mut places: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for file in files(&format!("{folder}/src"), ".rs") {
            let text = read(&file);
            let types = public_items(&text).filter(|(kind, _)| ["struct", "enum", "trait", "union"].contains(kind));
            for (_, name) in types {
                places.entry(name.to_owned()).or_default().insert(file.clone());
            }
        }
        twice.extend(places.into_iter().filter(|(_, files)| files.len() > 1));
    }
    assert!(twice.is_empty(), "public types of one name in one crate: {twice:#?}");
}

/// Public types of several crates that have one name: each is the one that its crate is about, or the same thing seen from
/// two layers. Every other type gets a name of its own, so that a search finds one thing.
const SHARED_TYPE_NAMES: &[&str] =
    &["Backend", "BackendState", "Call", "Entry", "Fault", "FunctionName", "Text", "Value"];

#[test]
fn a_public_type_name_means_one_thing_in_all_crates() {
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in crates() {
        for file in files(&format!("{folder}/src"), ".rs") {
            let text = read(&file);
            let types = public_items(&text).filter(|(kind, _)| ["struct", "enum", "trait", "union"].contains(kind));
            types.for_each(|(_, name)| {
                owners.entry(name.to_owned()).or_default().insert(folder.clone());
            });
        }
    }
    owners.retain(|name, crates| crates.len() > 1 && !SHARED_TYPE_NAMES.contains(&name.as_str()));
    assert!(owners.is_empty(), "public types of one name in several crates; qualify one of them: {owners:#?}");
}

#[test]
fn foreign_text_is_made_harmless_in_one_place() {
    // A JUnit report replaces what XML does not permit, which is another set of characters.
    let others = ["crates/wire/src/foreign_text.rs", "crates/cli/src/commands/test.rs"];
    let sources = crates().into_iter().flat_map(|folder| files(&format!("{folder}/src"), ".rs"));
    let by_hand = |file: &String| {
        let text = read(file);
        ["is_control(", ".escape_debug(", ".escape_default("].iter().any(|call| text.contains(call))
    };
    let found: Vec<String> = sources.filter(|file| !others.contains(&file.as_str()) && by_hand(file)).collect();
    assert!(found.is_empty(), "use toolgate_wire::foreign_text in {found:#?}");
}

/// With `pipefail` a reader that stops early ends the script, and only when the writer is slow enough to notice.
#[test]
fn no_script_pipes_into_a_reader_that_stops_early() {
    let above = ["check", ".ci/run", "packaging/build", "fuzz/run", "fuzz/instrument"].map(str::to_owned);
    let scripts = files("tests", "/run").into_iter().filter(|file| !file.contains("node_modules")).chain(above);
    let stops_early = |line: &str| {
        line.replace("||", ";").split('|').skip(1).map(str::trim_start).any(|command| {
            let grep_stops = command.starts_with("grep -")
                && command[5..].split_whitespace().next().is_some_and(|flags| flags.contains(['q', 'm']));
            command.starts_with("head") || grep_stops
        })
    };
    assert!(
        stops_early("list | grep -q x")
            && stops_early("a | b | head -1")
            && !stops_early("a | grep -v x || grep -q y z")
    );
    let found: Vec<String> = scripts
        .flat_map(|file| {
            read(&file)
                .lines()
                .filter(|line| stops_early(line))
                .map(|line| format!("{file}: {line}"))
                .collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "read all of it, for example by `grep … >/dev/null`: {found:#?}");
}

/// `HttpOptions` and `http_options` as `http` and `options`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        let starts = letter == '_' || (letter.is_uppercase() && name.chars().any(char::is_lowercase));
        if starts {
            words.push(String::new());
        }
        if let (Some(word), true) = (words.last_mut(), letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn no_public_name_is_a_metaphor() {
    let mut found = Vec::new();
    for file in crates().iter().flat_map(|folder| files(&format!("{folder}/src"), ".rs")) {
        let text = read(&file);
        for (kind, name) in public_items(&text) {
            if words_of(name).iter().any(|word| METAPHORS.split(' ').any(|known| known == word)) {
                found.push(format!("{file}: {kind} {name}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(words_of("HttpOptions"), ["http", "options"]);
    assert_eq!(words_of("MAX_NAME"), ["max", "name"]);
    assert_eq!(words_of("idle_workers"), ["idle", "workers"]);
    let text = "pub struct A<T> {\n    pub async fn b(&self)\npub(crate) fn c()\npub const fn d()\npub enum $name {\n";
    assert_eq!(public_items(text).collect::<Vec<_>>(), [("struct", "A"), ("fn", "b"), ("fn", "d")]);
}

#[test]
fn every_test_that_any_document_names_exists() {
    let mut missing = Vec::new();
    for document in documents() {
        // Code spans are every second part; those that name a test look like `path/to/file.rs::name`.
        let text = read(&document);
        for (file, test) in text.split('`').skip(1).step_by(2).filter_map(|span| span.split_once(".rs::")) {
            let source = fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
            if !source.contains(&format!("fn {test}(")) {
                missing.push(format!("{document}: {file}.rs::{test}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_decision_is_in_the_index() {
    let index = read("docs/decisions/README.md");
    let pages = files("docs/decisions", ".md");
    let pages: Vec<&str> = pages.iter().filter_map(|path| path.strip_prefix("docs/decisions/")).collect();
    let decisions: Vec<&str> = pages.into_iter().filter(|name| *name != "README.md").collect();
    assert!(decisions.len() >= 12, "{decisions:?}");
    let mut numbers = BTreeSet::new();
    for name in decisions {
        assert!(index.contains(&format!("({name})")), "{name} is not in docs/decisions/README.md");
        assert!(numbers.insert(name.split('-').next()), "{name} has the number of another decision");
    }
}

/// The crates of the workspace that a manifest names outside its tests, on any platform.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&format!("{folder}/Cargo.toml"));
    let sections = manifest.split("\n[").filter_map(|section| section.split_once("]\n"));
    let is_own =
        |head: &str| head == "dependencies" || (head.starts_with("target.") && head.ends_with(".dependencies"));
    let own = sections.filter(|(head, _)| is_own(head));
    let names = own.flat_map(|(_, lines)| lines.lines()).filter_map(|line| line.strip_prefix("toolgate-"));
    names.map(|rest| rest.chars().take_while(char::is_ascii_alphabetic).collect()).collect()
}

#[test]
fn the_table_of_crates_is_what_the_manifests_say() {
    let text = read("docs/ARCHITECTURE.md");
    let (_, table) = text.split_once("## Crates").expect("a table of crates");
    for folder in crates() {
        let name = folder.trim_start_matches("crates/");
        let row = table.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/ARCHITECTURE.md has no row for {name}"));
        let named = row.split('|').nth(3).unwrap_or_default().split('`').skip(1).step_by(2);
        assert_eq!(named.map(str::to_owned).collect::<BTreeSet<_>>(), dependencies(&folder), "{name}");
    }
}

/// The relative links of a document: `[text](target)`, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut code = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    });
    // Outside of code spans, which are every second part.
    let prose = lines.map(|line| line.split('`').step_by(2).collect::<Vec<_>>().join("code"));
    let targets = prose.flat_map(|line| {
        let rests = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        rests.map(|(target, _)| target.to_owned()).collect::<Vec<_>>()
    });
    targets.filter(|target| !target.contains("://")).collect()
}

/// Code spans that are paths of the repository: `crates/…` in any document, and below `crates/` in the glossary.
fn paths_in(document: &str, text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    let is_path = |span: &&str| span.chars().all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c));
    let in_glossary = document == "docs/GLOSSARY.md";
    let paths = spans.filter(is_path).filter(|span| span.contains('/') && !span.starts_with('/'));
    paths
        .filter(|span| in_glossary || span.starts_with("crates/"))
        .map(|span| if span.starts_with("crates/") { span.to_owned() } else { format!("crates/{span}") })
        .collect()
}

#[test]
fn paths_in_documents_exist() {
    let mut missing = Vec::new();
    for document in documents().into_iter().filter(|document| document != "CHANGELOG.md") {
        let text = read(&document);
        missing.extend(paths_in(&document, &text).into_iter().filter(|path| !root().join(path).exists()));
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// The anchor that a heading gets: lower case, without punctuation, hyphens for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn links_in_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let folder = Path::new(&document).parent().unwrap_or(Path::new(""));
        for link in links(&read(&document)) {
            let (path, wanted) = link.split_once('#').map_or((link.as_str(), None), |(path, part)| (path, Some(part)));
            let file = if path.is_empty() { root().join(&document) } else { root().join(folder).join(path) };
            let leads = match wanted {
                None => file.exists(),
                Some(wanted) => {
                    let text = fs::read_to_string(&file).unwrap_or_default();
                    text.lines().filter_map(|line| line.split_once("# ")).any(|(_, heading)| anchor(heading) == wanted)
                }
            };
            if !leads {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn constants_say_what_they_bound() {
    let mut found = Vec::new();
    for file in crates().iter().flat_map(|folder| files(folder, ".rs")) {
        for line in read(&file).lines() {
            let Some((_, declared)) = line.split_once("const ") else { continue };
            if declared.split_once(':').is_some_and(|(name, _)| BARE_CONSTANTS.contains(&name)) {
                found.push(format!("{file}: {}", line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
