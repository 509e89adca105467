//! The declarations of the language, as one document.
//!
//! The compiler has them in some ninety files that extend each other's types. For every program that it checks it merges
//! the globals of all files anew; what one file declares is merged once, when the file is read. So the files that
//! `lib.esnext.d.ts` refers to are put together here. A compiler whose files are not found is left to read its own.

use std::io::Read;
use std::path::Path;

/// The library that programs are checked with.
pub(crate) const LIBRARY: &str = "esnext";
/// Maximum number of files.
const MAX_FILES: usize = 300;
/// Maximum size of all files together, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// How a file refers to another.
const REFERENCE: &str = "/// <reference lib=\"";

/// A document of declarations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The declarations of the language that lie beside a compiler; `None` if one of their files cannot be read.
pub(crate) fn library(compiler: &Path) -> Option<Vec<Document>> {
    let folder = compiler.parent()?;
    let mut reader = LibraryReader::default();
    reader.add(LIBRARY, &|name| {
        let mut text = String::new();
        let file = std::fs::File::open(folder.join(format!("lib.{name}.d.ts"))).ok()?;
        file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text).ok()?;
        Some(text)
    })?;
    reader.documents.push(Document { name: "library.d.ts".to_owned(), text: reader.text });
    Some(reader.documents)
}

#[derive(Default)]
struct LibraryReader {
    read: Vec<String>,
    bytes: usize,
    text: String,
    /// Files that are modules, which cannot be joined with others.
    documents: Vec<Document>,
}

impl LibraryReader {
    /// Adds a file after those that it refers to.
    fn add(&mut self, name: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<()> {
        if self.read.iter().any(|known| known == name) {
            return Some(());
        }
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
        if !is_plain || self.read.len() >= MAX_FILES {
            return None;
        }
        self.read.push(name.to_owned());
        let text = read(name)?;
        self.bytes += text.len();
        if self.bytes > MAX_BYTES {
            return None;
        }
        for line in text.lines() {
            if let Some((referred, _)) = line.strip_prefix(REFERENCE).and_then(|rest| rest.split_once('"')) {
                self.add(referred, read)?;
            }
        }
        let is_module = |line: &str| line.starts_with("export ") || line.starts_with("import ");
        let joined: String =
            text.lines().filter(|line| !line.starts_with("/// <")).flat_map(|line| [line, "\n"]).collect();
        if text.lines().any(is_module) {
            self.documents.push(Document { name: format!("library.{name}.d.ts"), text: joined });
        } else {
            self.text.push_str(&joined);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Option<Vec<Document>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(format!("lib.{name}.d.ts")), text).unwrap();
        }
        library(&folder.path().join("tsc"))
    }

    #[test]
    fn a_file_comes_once_and_after_those_that_it_refers_to() {
        let documents = read(&[
            ("esnext", "/// <reference lib=\"a\" />\n/// <reference lib=\"b.c\" />\ninterface E {}\n"),
            ("a", "/// <reference lib=\"b.c\" />\ninterface A {}"),
            ("b.c", "/// <reference no-default-lib=\"true\"/>\n/// <reference lib=\"esnext\" />\ninterface B {}\n"),
        ]);
        let documents = documents.unwrap();
        assert_eq!(documents.len(), 1);
        assert_eq!(documents[0].text, "interface B {}\ninterface A {}\ninterface E {}\n");
    }

    #[test]
    fn a_module_stays_a_document_of_its_own() {
        let documents = read(&[
            ("esnext", "/// <reference lib=\"it\" />\ninterface E {}\n"),
            ("it", "export {};\ndeclare global { interface I {} }\n"),
        ]);
        let documents = documents.unwrap();
        let names: Vec<&str> = documents.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["library.it.d.ts", "library.d.ts"]);
        assert!(documents[0].text.contains("global") && documents[1].text == "interface E {}\n");
    }

    #[test]
    fn what_cannot_be_read_is_left_to_the_compiler() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[("esnext", "/// <reference lib=\"gone\" />\n")]), None);
        assert_eq!(read(&[("esnext", "/// <reference lib=\"../../etc\" />\n")]), None);
        assert_eq!(read(&[("esnext", &"x".repeat(MAX_BYTES + 1))]), None);
    }
}
