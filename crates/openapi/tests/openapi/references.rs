//! References to other documents: those beside the first one are read, and nothing else is.

use std::path::Path;

use serde_json::{Value, json};
use toolgate_openapi::{Api, DocumentBundle, DocumentLocation, DocumentReadError, MAX_BUNDLED, read_with_references};
use url::Url;

use crate::{settings, tool};

const ROOT: &str = r#"
openapi: 3.0.3
paths:
  /pets:
    $ref: paths/pets.yaml
  /pets/{id}:
    get:
      operationId: get_pet
      parameters: [{ $ref: "shared.json#/parameters/id" }]
      responses:
        "200": { content: { application/json: { schema: { $ref: "schemas/Pet.yaml" } } } }
components:
  schemas:
    Name: { type: string, maxLength: 40 }
"#;
const PATHS: &str = r#"
post:
  operationId: add_pet
  requestBody: { required: true, content: { application/json: { schema: { $ref: ../schemas/Pet.yaml } } } }
"#;
const PET: &str = r##"
type: object
required: [name]
properties:
  name: { $ref: "../api.yaml#/components/schemas/Name" }
  tag: { $ref: "#/definitions/Tag" }
  mother: { $ref: "./Pet.yaml" }
definitions:
  Tag: { type: string, enum: [cat, dog] }
"##;
const SHARED: &str =
    r#"{ "parameters": { "id": { "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } } } }"#;

fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn pets() -> tempfile::TempDir {
    files(&[("api.yaml", ROOT), ("paths/pets.yaml", PATHS), ("schemas/Pet.yaml", PET), ("shared.json", SHARED)])
}

fn load(file: &Path) -> (Api, Vec<String>) {
    let (text, refused) = read_with_references(file, || false).unwrap();
    (Api::load(&text, settings(&[])).unwrap(), refused.iter().map(ToString::to_string).collect())
}

#[test]
fn files_beside_a_document_are_parts_of_it() {
    let folder = pets();
    let (api, refused) = load(&folder.path().join("api.yaml"));
    assert_eq!(refused, [] as [&str; 0]);
    assert_eq!(api.skipped(), []);
    let input = &tool(&api, "get_pet")["inputSchema"];
    assert_eq!(input["properties"]["id"], json!({ "type": "integer" }));
    let input = tool(&api, "add_pet")["inputSchema"].to_string();
    for part in ["\"maxLength\":40", "[\"cat\",\"dog\"]", "\"required\":[\"name\"]", "\"#/$defs/Pet\""] {
        assert!(input.contains(part), "{part} in {input}");
    }
    assert!(!input.contains("x-toolgate"), "{input}");
    let output = tool(&api, "get_pet")["outputSchema"].to_string();
    assert!(output.contains("\"cat\""), "{output}");
}

#[test]
fn reading_ends_between_two_files_when_it_is_cancelled() {
    let folder = pets();
    for files in 0..4 {
        let asked = std::cell::Cell::new(0);
        let is_cancelled = || asked.replace(asked.get() + 1) == files;
        let read = read_with_references(&folder.path().join("api.yaml"), is_cancelled);
        assert!(matches!(read, Err(DocumentReadError::Cancelled)), "{read:?}");
        assert_eq!(asked.get(), files + 1);
    }
}

#[test]
fn a_document_without_other_documents_stays_as_it_is() {
    let text = r##"{"openapi":"3.0.0","paths":{"/a":{"get":{"parameters":[{"$ref":"#/x"}],"x":{"example":{"$ref" : "#y"}}}}}}"##;
    let bundle = DocumentBundle::new(text, DocumentLocation::Beside(vec!["a.json".into()])).unwrap();
    assert_eq!(bundle.wanted(), None);
    assert_eq!(bundle.finish(), text);
}

#[test]
fn a_reference_in_an_example_is_data() {
    let folder = files(&[(
        "a.json",
        r#"{"openapi":"3.0.0","paths":{"/a":{"get":{"responses":{"200":{"content":{"application/json":{
            "example":{"$ref":"other.json"},"examples":{"x":{"$ref":"/etc/passwd"}},"schema":{"type":"object","default":{"$ref":"b.json"}}}}}}}}}}"#,
    )]);
    let (_, refused) = load(&folder.path().join("a.json"));
    assert_eq!(refused, [] as [&str; 0]);
}

/// The refusals of a document at `location` with one reference.
fn refusals(location: DocumentLocation, reference: &str) -> (Option<String>, Vec<String>) {
    let text = json!({ "openapi": "3.0.0", "paths": { "/a": { "$ref": reference }, "/b": { "get": {} } } });
    let bundle = DocumentBundle::new(&text.to_string(), location).unwrap();
    let refused = bundle.refused().iter().map(ToString::to_string).collect();
    let wanted = bundle.wanted().map(|wanted| match wanted {
        DocumentLocation::Beside(names) => names.join("/"),
        DocumentLocation::Url(url) => url.to_string(),
    });
    (wanted, refused)
}

#[test]
fn a_file_asks_for_files_of_its_folder_alone() {
    let file = || DocumentLocation::Beside(vec!["api.yaml".into()]);
    for (reference, wanted) in
        [("b.yaml", "b.yaml"), ("./x/../b%20c.yaml#/A", "b c.yaml"), ("x/y/../z.json#", "x/z.json")]
    {
        assert_eq!(refusals(file(), reference), (Some(wanted.to_owned()), Vec::new()), "{reference}");
    }
    for reference in [
        "../b.yaml",
        "x/../../b.yaml",
        "%2e%2e/b.yaml",
        "x/%2E%2E/%2e%2e/b.yaml",
        "/etc/passwd",
        "//host/share",
        "%2fetc%2fpasswd",
        "file:///etc/passwd",
        "http://169.254.169.254/latest",
        "https://example.com/a.yaml",
        "..\\b.yaml",
        "a\u{0}b",
        "a%00b",
        "%zz",
        ".",
        "data:application/json,{}",
        ".ssh/config.yaml",
        "x/.env.json",
        "notes.txt",
        "id_rsa",
    ] {
        let (wanted, refused) = refusals(file(), reference);
        assert_eq!((wanted, refused.len()), (None, 1), "{reference}");
        assert!(refused[0].contains("is not followed"), "{refused:?}");
    }
}

#[test]
fn a_url_asks_for_urls_of_its_origin_alone() {
    let url = || DocumentLocation::Url(Url::parse("https://docs.example.com:8443/v1/api.yaml").unwrap());
    for (reference, wanted) in [
        ("b.yaml#/A", "https://docs.example.com:8443/v1/b.yaml"),
        ("../b.yaml", "https://docs.example.com:8443/b.yaml"),
        ("https://docs.example.com:8443/c.json", "https://docs.example.com:8443/c.json"),
        ("//docs.example.com:8443/c.json", "https://docs.example.com:8443/c.json"),
    ] {
        assert_eq!(refusals(url(), reference), (Some(wanted.to_owned()), Vec::new()), "{reference}");
    }
    for reference in [
        "file:///etc/passwd",
        "http://docs.example.com:8443/b.yaml",
        "https://docs.example.com/b.yaml",
        "https://other.example.com:8443/b.yaml",
        "//169.254.169.254/x",
        "https://u:p@docs.example.com:8443/b.yaml",
        "https://docs.example.com.evil.example:8443/b.yaml",
        "data:application/json,{}",
        "https://[::1",
    ] {
        let (wanted, refused) = refusals(url(), reference);
        assert_eq!((wanted, refused.len()), (None, 1), "{reference}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_folder_is_not_followed() {
    let outside = files(&[("secret.yaml", "get: { operationId: leaked }")]);
    let folder = files(&[(
        "api.yaml",
        "openapi: 3.0.0\npaths: { /a: { $ref: link.yaml }, /b: { $ref: inner/c.yaml }, /d: { $ref: dir.yaml }, /e: { get: {} } }",
    )]);
    std::os::unix::fs::symlink(outside.path().join("secret.yaml"), folder.path().join("link.yaml")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("inner")).unwrap();
    std::fs::create_dir(folder.path().join("dir.yaml")).unwrap();
    let (api, refused) = load(&folder.path().join("api.yaml"));
    assert_eq!(api.operations().len(), 1);
    assert_eq!((api.skipped().len(), refused.len()), (3, 3), "{refused:?}");
    assert!(refused[0].contains("out of the folder"), "{refused:?}");
    assert!(api.skipped().iter().all(|it| it.reason.contains("leads out of the document")), "{:?}", api.skipped());
}

#[cfg(unix)]
#[test]
fn a_link_leads_to_what_a_reference_may_name() {
    let folder = files(&[
        (
            "api.yaml",
            "openapi: 3.0.0\npaths: { /a: { $ref: a.yaml }, /b: { $ref: b.yaml }, /c: { $ref: c.yaml }, /d: { $ref: d.yaml }, /e: { $ref: e.yaml } }",
        ),
        (".env", "get: { operationId: leaked_env }"),
        (".hidden.yaml", "get: { operationId: leaked_file }"),
        (".git/config.yaml", "get: { operationId: leaked_folder }"),
        ("id_rsa", "get: { operationId: leaked_key }"),
        ("..2026_11_16/e.yaml", "get: { operationId: mounted }"),
    ]);
    let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
    for (target, name) in [
        (".env", "a.yaml"),
        (".hidden.yaml", "b.yaml"),
        (".git/config.yaml", "c.yaml"),
        ("id_rsa", "d.yaml"),
        ("..2026_11_16", "..data"),
        ("..data/e.yaml", "e.yaml"),
    ] {
        link(target, name);
    }
    let (api, refused) = load(&folder.path().join("api.yaml"));
    let names: Vec<&str> = api.operations().iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["mounted"]);
    let hidden = refused.iter().filter(|it| it.contains("hidden file")).count();
    let others = refused.iter().filter(|it| it.contains("does not end with")).count();
    assert_eq!((hidden, others), (3, 1), "{refused:?}");
}

#[test]
fn what_is_missing_or_no_document_leaves_the_rest() {
    let folder = files(&[
        (
            "api.yaml",
            "openapi: 3.0.0\npaths: { /a: { $ref: gone.yaml }, /b: { $ref: broken.json }, /c: { $ref: 'd.yaml#x' }, /e: { get: {} } }",
        ),
        ("broken.json", "{"),
        ("d.yaml", "get: {}"),
    ]);
    let (api, refused) = load(&folder.path().join("api.yaml"));
    assert_eq!((api.operations().len(), api.skipped().len(), refused.len()), (1, 3, 2), "{refused:?}");
}

#[test]
fn a_document_that_is_missing_is_wanted_once() {
    let location = DocumentLocation::Beside(vec!["api.json".into()]);
    let document = |parts: &[&str]| {
        let paths: serde_json::Map<String, Value> =
            parts.iter().map(|part| (format!("/{part}"), json!({ "$ref": part }))).collect();
        json!({ "openapi": "3.0.0", "paths": paths }).to_string()
    };
    let mut bundle =
        DocumentBundle::new(&document(&["gone.json", "broken.json", "a.json", "b.json"]), location).unwrap();
    let mut asked = Vec::new();
    while let Some(wanted) = bundle.wanted().map(ToString::to_string) {
        match wanted.as_str() {
            "gone.json" => bundle.refuse("gone", 0),
            "broken.json" => bundle.give(b"{"),
            _ => bundle.give(document(&["gone.json", "broken.json"]).as_bytes()),
        }
        asked.push(wanted);
    }
    asked.sort();
    assert_eq!(asked, ["a.json", "b.json", "broken.json", "gone.json"]);
    assert_eq!(bundle.refused().len(), 2);
    assert!(bundle.finish().contains(r#""$ref":"gone.json""#));
}

#[test]
fn documents_that_multiply_stay_within_the_bounds() {
    // Each document asks for the next ten, without end.
    let location = DocumentLocation::Beside(vec!["0.json".into()]);
    let document = |n: usize| {
        let paths: serde_json::Map<String, Value> =
            (1..=10).map(|k| (format!("/{n}/{k}"), json!({ "$ref": format!("{}.json", n * 10 + k) }))).collect();
        json!({ "openapi": "3.0.0", "paths": paths, "get": {} }).to_string()
    };
    let mut bundle = DocumentBundle::new(&document(0), location).unwrap();
    let mut read = 0;
    while let Some(DocumentLocation::Beside(names)) = bundle.wanted() {
        let n: usize = names[0].trim_end_matches(".json").parse().unwrap();
        bundle.give(document(n).as_bytes());
        read += 1;
    }
    assert_eq!(read, MAX_BUNDLED);
    assert!(bundle.refused().iter().any(|it| it.reason.contains("at most")), "{:?}", bundle.refused());
    assert!(bundle.refused().len() <= 20);
    assert_eq!(Api::load(&bundle.finish(), settings(&[])).unwrap().operations().len(), 10);
}

#[test]
fn a_chain_of_documents_and_their_size_are_bounded() {
    let link = |n: usize| json!({ "openapi": "3.0.0", "paths": { "/a": { "$ref": format!("{n}.json") } } }).to_string();
    let location = || DocumentLocation::Beside(vec!["0.json".into()]);
    let mut bundle = DocumentBundle::new(&link(1), location()).unwrap();
    let mut read = 0;
    while bundle.wanted().is_some() {
        read += 1;
        bundle.give(link(read + 1).as_bytes());
    }
    assert_eq!(read, 16);
    assert!(bundle.refused()[0].reason.contains("documents away"), "{:?}", bundle.refused());

    let mut bundle = DocumentBundle::new(&link(1), location()).unwrap();
    let room = bundle.room();
    bundle.give(format!("{{\"x\":\"{}\"}}", "y".repeat(room)).as_bytes());
    assert!(bundle.refused()[0].reason.contains("bytes"), "{:?}", bundle.refused());

    let large = link(1).replacen('{', &format!("{{\"x\":\"{}\",", "y".repeat(room)), 1);
    let bundle = DocumentBundle::new(&large, location()).unwrap();
    assert_eq!((bundle.wanted(), bundle.refused().len()), (None, 1));
    assert_eq!(bundle.finish(), large);
}

/// The room that is left after a part of a document.
fn room_after(part: &[u8]) -> (usize, usize) {
    let root = r#"{"openapi":"3.0.0","paths":{"/a":{"$ref":"a.yaml"},"/b":{"$ref":"b.yaml"}}}"#;
    let mut bundle = DocumentBundle::new(root, DocumentLocation::Beside(vec!["api.json".into()])).unwrap();
    let room = bundle.room();
    bundle.give(part);
    (room, bundle.room())
}

#[test]
fn a_part_that_is_refused_counts_too() {
    let large = "x".repeat(1 << 20);
    for part in [format!("a: [{large}"), format!("{{\"a\": {large}"), format!("# {large}\na: 1")] {
        let (room, left) = room_after(part.as_bytes());
        assert!(left <= room - large.len() && left > 0, "{left} of {room}");
    }
    let (room, left) = room_after(&[0xff; 1_000]);
    assert_eq!(left, room - 1_000);
    // A text of which aliases make more counts as what they made.
    let aliases = |n: usize| format!("a: &a \"{large}\"\nb: [{}]\n", vec!["*a"; n].join(","));
    for part in [aliases(2), format!("{}c: *none", aliases(2))] {
        let (room, left) = room_after(part.as_bytes());
        assert!(left <= room - 3 * large.len() && left > 0, "{left} of {room}");
    }
    assert_eq!(room_after(aliases(100).as_bytes()).1, 0);
}

#[test]
fn no_document_is_wanted_that_cannot_fit() {
    let root = r#"{"openapi":"3.0.0","paths":{"/a":{"$ref":"a.yaml"},"/b":{"$ref":"b.yaml"}}}"#;
    let mut bundle = DocumentBundle::new(root, DocumentLocation::Beside(vec!["api.json".into()])).unwrap();
    bundle.refuse("the server sent too much", bundle.room());
    assert_eq!((bundle.room(), bundle.wanted()), (0, None));
    assert!(bundle.refused()[1].reason.contains("all documents together"), "{:?}", bundle.refused());
}

#[test]
fn documents_that_refer_to_each_other_end() {
    let folder = files(&[
        ("a.yaml", "openapi: 3.0.0\npaths: { /a: { $ref: b.yaml }, /b: { get: {} } }"),
        ("b.yaml", "$ref: a.yaml#/paths/~1a"),
    ]);
    let (api, refused) = load(&folder.path().join("a.yaml"));
    assert_eq!((api.operations().len(), refused.len()), (1, 0));
    assert!(api.skipped()[0].reason.contains("leads to itself"), "{:?}", api.skipped());
}

#[test]
fn a_discriminator_leads_to_other_documents_too() {
    let folder = files(&[
        (
            "a.json",
            r#"{"openapi":"3.0.0","paths":{"/a":{"post":{"operationId":"a","requestBody":{"content":{"application/json":{"schema":{
                "oneOf":[{"$ref":"Cat.yaml"},{"$ref":"Dog.yaml"}],
                "discriminator":{"propertyName":"kind","mapping":{"c":"./Cat.yaml","d":"Dog.yaml"}}}}}}}}}}"#,
        ),
        ("Cat.yaml", "type: object\nproperties: { kind: { type: string }, lives: { type: integer } }"),
        ("Dog.yaml", "type: object\nproperties: { kind: { type: string }, bark: { type: boolean } }"),
    ]);
    let (api, refused) = load(&folder.path().join("a.json"));
    assert_eq!(refused, [] as [&str; 0]);
    let input = tool(&api, "a")["inputSchema"].to_string();
    assert!(input.contains("lives") && input.contains("bark") && input.contains("\"c\""), "{input}");
}

#[test]
fn a_name_that_is_also_a_keyword_is_a_part_of_the_document() {
    let folder = files(&[
        (
            "api.yaml",
            r##"
swagger: "2.0"
paths:
  /pets:
    post:
      operationId: add_pet
      parameters: [{ name: pet, in: body, required: true, schema: { $ref: pet.yaml } }]
      responses: { default: { $ref: "answers.yaml#/responses/default" } }
definitions:
  Tag: { type: integer }
"##,
        ),
        (
            "pet.yaml",
            r##"
type: object
properties:
  default: { $ref: "#/definitions/Tag" }
  mapping: { type: string, description: "and/or", items: { $ref: "#/definitions/Tag" } }
definitions:
  Tag: { type: string, enum: [cat, dog] }
"##,
        ),
        (
            "answers.yaml",
            r##"
responses:
  default: { description: done, schema: { type: object, properties: { example: { $ref: "#/definitions/Tag" } } } }
definitions:
  Tag: { type: string, enum: [done, failed] }
"##,
        ),
    ]);
    let (api, refused) = load(&folder.path().join("api.yaml"));
    assert_eq!(refused, [] as [&str; 0]);
    assert_eq!(api.skipped(), []);
    let tool = tool(&api, "add_pet").to_string();
    assert!(tool.contains("[\"cat\",\"dog\"]") && !tool.contains("\"integer\""), "{tool}");
    assert!(tool.contains("[\"done\",\"failed\"]"), "{tool}");
}
