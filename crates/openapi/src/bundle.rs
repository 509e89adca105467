//! Documents that are written as several files: one text of all that a document refers to.
//!
//! A reference such as `schemas/pet.yaml#/Pet` leads to another document. A [`DocumentBundle`] says which documents are
//! wanted, is given their texts, and writes them into the first one, where every reference leads to a place of the same
//! text. It reads nothing itself.
//!
//! A document says where it is read from, so what it may ask for is bounded: beside a file, files of the same folder and
//! below; beside a URL, URLs of the same origin. Number, depth and size of documents are bounded too. A reference beyond
//! that stays as it is, and whatever needs it is no tool, with a sentence.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toolgate_wire::foreign_text::escaped;
use toolgate_wire::http_text::percent_decode;
use url::Url;

use crate::api::{LoadError, as_json, json_text};
use crate::bounds::{MAX_BUNDLE_BYTES, MAX_BUNDLE_DEPTH, MAX_BUNDLED, MAX_DOCUMENT_BYTES, MAX_SHOWN};
use crate::references::{is_file_name, visit};
use crate::yaml::Conversion;

/// The member of the first document that holds the others.
pub(crate) const MEMBER: &str = "x-toolgate-documents";
/// Most refusals that are told.
const MAX_REFUSALS: usize = 20;

/// Why a file is refused whose name begins with a dot.
const HIDDEN: &str = "it is a hidden file";
/// Why a file is refused that is no document by its name.
const OTHER_ENDING: &str = "its name does not end with .json, .yaml or .yml";

/// Where a document is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DocumentLocation {
    /// A file, by the names of its folders and its own below the folder of the first document.
    Beside(Vec<String>),
    /// A URL without a fragment.
    Url(Url),
}

impl fmt::Display for DocumentLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Beside(names) => write!(f, "{}", escaped(&names.join("/"), MAX_SHOWN)),
            Self::Url(url) => write!(f, "{}", escaped(url.as_str(), MAX_SHOWN)),
        }
    }
}

/// A reference that is not followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the reference {reference} is not followed: {reason}")]
pub struct RefusedReference {
    /// The reference, shortened.
    pub reference: String,
    /// Why.
    pub reason: String,
}

/// A document and the documents that it refers to.
#[derive(Debug)]
pub struct DocumentBundle {
    /// The text of the first document, if it refers to no other.
    alone: Option<String>,
    /// The documents in the order of their numbers; the first one has the number 0. `None` for one that is not there.
    parts: Vec<Option<Value>>,
    locations: Vec<DocumentLocation>,
    /// Their names in the one text: a definition that is a whole document is called after it.
    keys: Vec<String>,
    numbers: HashMap<DocumentLocation, usize>,
    /// Documents that are not there. They are wanted once.
    missing: HashSet<DocumentLocation>,
    /// Documents that are wanted, each with its distance from the first one.
    waiting: VecDeque<(usize, usize)>,
    bytes: usize,
    refused: Vec<RefusedReference>,
}

impl DocumentBundle {
    /// Begins with the text of the first document, which is at `location`: for a file, its name alone.
    ///
    /// # Errors
    /// If the text is too large, or neither JSON nor YAML.
    pub fn new(text: &str, location: DocumentLocation) -> Result<Self, LoadError> {
        let json = json_text(text)?;
        let is_split = has_other_documents(&json);
        let bytes = text.len().max(json.len());
        let is_small = bytes <= MAX_BUNDLE_BYTES;
        let parsed = if is_split && is_small { serde_json::from_str::<Value>(&json).ok() } else { None };
        let mut bundle = Self {
            alone: None,
            parts: vec![None],
            locations: vec![location.clone()],
            keys: vec![String::new()],
            numbers: HashMap::from([(location, 0)]),
            missing: HashSet::new(),
            waiting: VecDeque::new(),
            bytes,
            refused: Vec::new(),
        };
        match parsed {
            Some(first) => bundle.take(0, 0, first),
            // A document that cannot be parsed as a whole is read part by part, and then it refers to no other.
            None => bundle.alone = Some(json.into_owned()),
        }
        if is_split && !is_small {
            let reason = format!("a document of more than {MAX_BUNDLE_BYTES} bytes is read alone");
            bundle.refuse_reference("to other documents", reason);
        }
        Ok(bundle)
    }

    /// The document that is wanted next.
    pub fn wanted(&self) -> Option<&DocumentLocation> {
        self.waiting.front().and_then(|(number, _)| self.locations.get(*number))
    }

    /// Gives the bytes of the document that [`wanted`](Self::wanted) said. They count also if they are no document.
    pub fn give(&mut self, body: &[u8]) {
        let Some((number, depth)) = self.waiting.pop_front() else { return };
        match self.read(body) {
            Ok(document) => self.take(number, depth, document),
            Err(reason) => self.refuse_location(number, reason),
        }
        self.end_if_full();
    }

    /// Says why that document cannot be had, and how many bytes were read to know it.
    pub fn refuse(&mut self, reason: &str, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some((number, _)) = self.waiting.pop_front() {
            self.refuse_location(number, reason.to_owned());
        }
        self.end_if_full();
    }

    /// The bytes that the document may have which [`wanted`](Self::wanted) said.
    pub fn room(&self) -> usize {
        MAX_BUNDLE_BYTES.saturating_sub(self.bytes)
    }

    /// The references that are not followed.
    pub fn refused(&self) -> &[RefusedReference] {
        &self.refused
    }

    /// One text of all documents.
    pub fn finish(mut self) -> String {
        if let Some(text) = self.alone {
            return text;
        }
        let mut parts = std::mem::take(&mut self.parts);
        for (number, part) in parts.iter_mut().enumerate() {
            let Some(document) = part else { continue };
            visit(document, &mut |reference| {
                if let Some(inside) = self.inside(number, reference) {
                    *reference = inside;
                }
            });
        }
        let mut parts = parts.into_iter();
        let mut first = parts.next().flatten().unwrap_or_default();
        let others = self.keys.into_iter().skip(1).zip(parts).filter_map(|(key, part)| Some((key, part?)));
        let others = Value::Object(others.collect());
        if let Some(members) = first.as_object_mut() {
            members.insert(MEMBER.to_owned(), others);
        }
        first.to_string()
    }

    /// Counts a document and parses it. What counts is the larger of its text and its JSON, so that what is refused late
    /// costs as much as what is used.
    fn read(&mut self, body: &[u8]) -> Result<Value, String> {
        let room = self.room();
        self.bytes = self.bytes.saturating_add(body.len());
        if body.len() > room {
            return Err(too_many_bytes());
        }
        let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8")?;
        let Conversion { json, written } = as_json(text, room);
        self.bytes = self.bytes.saturating_add(written.saturating_sub(body.len()));
        if written > room {
            return Err(too_many_bytes());
        }
        serde_json::from_str(&json?).map_err(|error| error.to_string())
    }

    /// Wants no further document if none fits.
    fn end_if_full(&mut self) {
        while self.room() == 0
            && let Some((number, _)) = self.waiting.pop_front()
        {
            self.refuse_location(number, too_many_bytes());
        }
    }

    /// The place inside the one text that a reference of a document leads to; `None` if it stays as it is.
    fn inside(&self, number: usize, reference: &str) -> Option<String> {
        let (place, fragment) = split(reference);
        let target = match place {
            "" if number == 0 => return None,
            "" => number,
            place => *self.numbers.get(&resolve(self.locations.get(number)?, self.locations.first()?, place).ok()?)?,
        };
        let is_pointer = fragment.is_empty() || fragment.starts_with('/') || fragment.starts_with("%2F");
        match (is_pointer, target) {
            (false, _) => None,
            (true, 0) => Some(format!("#{fragment}")),
            (true, target) => Some(format!("#/{MEMBER}/{}{fragment}", self.keys.get(target)?)),
        }
    }

    /// A name for a document that no other has: that of its file.
    fn key(&self, location: &DocumentLocation) -> String {
        let last = match location {
            DocumentLocation::Beside(names) => names.last().map(String::as_str).unwrap_or_default(),
            DocumentLocation::Url(url) => url.path().rsplit('/').next().unwrap_or_default(),
        };
        let stem = last.split('.').next().unwrap_or_default();
        let plain: String =
            stem.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(60).collect();
        let base = if plain.is_empty() { "document".to_owned() } else { plain };
        let mut names = (1..).map(|n| if n == 1 { base.clone() } else { format!("{base}_{n}") });
        names.find(|name| !self.keys.contains(name)).unwrap_or(base.clone())
    }

    /// Takes in a document and notes which others it wants.
    fn take(&mut self, number: usize, depth: usize, mut document: Value) {
        let mut references = Vec::new();
        visit(&mut document, &mut |reference| references.push(reference.clone()));
        for reference in references {
            self.want(number, depth, &reference);
        }
        if let Some(part) = self.parts.get_mut(number) {
            *part = Some(document);
        }
    }

    fn want(&mut self, from: usize, depth: usize, reference: &str) {
        let (place, _) = split(reference);
        if place.is_empty() {
            return;
        }
        let (Some(own), Some(first)) = (self.locations.get(from), self.locations.first()) else { return };
        let location = match resolve(own, first, place) {
            Ok(location) if self.numbers.contains_key(&location) || self.missing.contains(&location) => return,
            Ok(location) => location,
            Err(reason) => return self.refuse_reference(reference, reason.to_owned()),
        };
        if self.locations.len() > MAX_BUNDLED {
            return self.refuse_reference(reference, format!("at most {MAX_BUNDLED} other documents are read"));
        }
        if depth >= MAX_BUNDLE_DEPTH {
            return self.refuse_reference(reference, format!("it is more than {MAX_BUNDLE_DEPTH} documents away"));
        }
        let number = self.locations.len();
        self.keys.push(self.key(&location));
        self.locations.push(location.clone());
        self.parts.push(None);
        self.numbers.insert(location, number);
        self.waiting.push_back((number, depth + 1));
    }

    /// Notes that a document is not there, so that references to it stay as they are.
    fn refuse_location(&mut self, number: usize, reason: String) {
        let Some(location) = self.locations.get(number).cloned() else { return };
        self.numbers.remove(&location);
        self.refuse_reference(&location.to_string(), reason);
        self.missing.insert(location);
    }

    fn refuse_reference(&mut self, reference: &str, reason: String) {
        let reference = escaped(reference, MAX_SHOWN).to_string();
        let is_known = self.refused.iter().any(|known| known.reference == reference);
        if !is_known && self.refused.len() < MAX_REFUSALS {
            self.refused.push(RefusedReference { reference, reason });
        }
    }
}

/// Whether a JSON text may have a reference to another document. Looks at the text alone, which is quick.
fn has_other_documents(json: &str) -> bool {
    let mut rest = json;
    while let Some((_, after)) = rest.split_once("\"$ref\"") {
        rest = after;
        let value = after.trim_start().strip_prefix(':').map(str::trim_start).and_then(|it| it.strip_prefix('"'));
        if value.is_some_and(|value| !value.starts_with('#')) {
            return true;
        }
    }
    false
}

/// Why a document is refused that does not fit.
fn too_many_bytes() -> String {
    format!("all documents together have more than {MAX_BUNDLE_BYTES} bytes")
}

/// The document of a reference, and the place in it.
fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// Where a reference of the document at `own` leads, if that is a place that the document at `first` may name.
fn resolve(own: &DocumentLocation, first: &DocumentLocation, place: &str) -> Result<DocumentLocation, &'static str> {
    match (own, first) {
        (DocumentLocation::Url(own), DocumentLocation::Url(first)) => beside_url(own, first, place),
        (DocumentLocation::Beside(own), _) => beside_file(own, place),
        (DocumentLocation::Url(_), DocumentLocation::Beside(_)) => Err("a file refers to files"),
    }
}

fn beside_url(own: &Url, first: &Url, place: &str) -> Result<DocumentLocation, &'static str> {
    let mut url = own.join(place).map_err(|_| "it is no URL")?;
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https") || url.origin() != first.origin() {
        return Err("it leads to another origin than the document's");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it has credentials");
    }
    Ok(DocumentLocation::Url(url))
}

fn beside_file(own: &[String], place: &str) -> Result<DocumentLocation, &'static str> {
    let outside = "it leads out of the folder of the document";
    let place = percent_decode(place).ok_or("it is no path")?;
    if Url::parse(&place).is_ok() || place.starts_with("//") {
        return Err("it is a URL, and the document is a file");
    }
    if place.starts_with('/') || place.contains(['\\', '\0']) {
        return Err(outside);
    }
    let mut names: Vec<String> = own.iter().take(own.len().saturating_sub(1)).cloned().collect();
    for name in place.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop().ok_or(outside)?),
            // A folder may hold more than the parts of a document: keys, tokens, settings.
            name if name.starts_with('.') => return Err(HIDDEN),
            name => names.push(name.to_owned()),
        }
    }
    match names.last() {
        Some(last) if is_file_name(last) => Ok(DocumentLocation::Beside(names)),
        _ => Err(OTHER_ENDING),
    }
}

/// Reads a document that is a file, with the files of its folder that it refers to. Links out of the folder, to hidden
/// files and to files that are no documents by their names are not followed.
/// `is_cancelled` is asked before each file, since a task that blocks cannot be stopped from outside.
///
/// # Errors
/// If the file itself cannot be read, or is no document; or if reading is cancelled.
pub fn read_with_references(
    file: &Path,
    is_cancelled: impl Fn() -> bool,
) -> Result<(String, Vec<RefusedReference>), DocumentReadError> {
    let check = || if is_cancelled() { Err(DocumentReadError::Cancelled) } else { Ok(()) };
    check()?;
    let path = std::path::absolute(file)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let text = String::from_utf8(read_bounded(&path, MAX_DOCUMENT_BYTES)?).map_err(std::io::Error::other)?;
    let mut bundle = DocumentBundle::new(&text, DocumentLocation::Beside(vec![name]))?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    while let Some(wanted) = bundle.wanted() {
        check()?;
        match read_beside(&folder, wanted, bundle.room()) {
            Ok(body) => bundle.give(&body),
            Err(reason) => bundle.refuse(&reason, 0),
        }
    }
    check()?;
    let refused = bundle.refused().to_vec();
    Ok((bundle.finish(), refused))
}

/// Why a document that is a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DocumentReadError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It is no document.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its text is not needed any more.
    #[error("reading it was cancelled")]
    Cancelled,
}

fn read_beside(folder: &Path, wanted: &DocumentLocation, room: usize) -> Result<Vec<u8>, String> {
    let DocumentLocation::Beside(names) = wanted else { return Err("it is a URL".to_owned()) };
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let path = folder.join(names.iter().collect::<PathBuf>());
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    let below = path.strip_prefix(&folder).map_err(|_| "it leads out of the folder of the document")?;
    check_target(below)?;
    read_bounded(&path, room).map_err(|error| error.to_string())
}

/// Refuses a link to what a reference may not name. Folders that begin with two dots are accepted: Kubernetes mounts the
/// files of a volume as links to such a folder (`..data`).
fn check_target(below: &Path) -> Result<(), &'static str> {
    let names: Vec<_> = below.iter().map(|name| name.to_string_lossy()).collect();
    let Some((file, folders)) = names.split_last() else { return Err(OTHER_ENDING) };
    let is_hidden = |folder: &str| folder.starts_with('.') && !folder.starts_with("..");
    if file.starts_with('.') || folders.iter().any(|folder| is_hidden(folder)) {
        return Err(HIDDEN);
    }
    if is_file_name(file) { Ok(()) } else { Err(OTHER_ENDING) }
}

/// Reads a regular file of at most `max` bytes; anything else could be without end. Of a file that became larger meanwhile
/// it reads one byte more.
fn read_bounded(path: &Path, max: usize) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind, Read};
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "it is no file"));
    }
    if metadata.len() > max as u64 {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("it has more than {max} bytes")));
    }
    let mut body = Vec::new();
    std::fs::File::open(path)?.take(max as u64 + 1).read_to_end(&mut body)?;
    Ok(body)
}
