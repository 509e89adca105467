//! The bounds of everything that a document or an API can make large. A document is foreign text: it is read
//! within these bounds or refused with a sentence that names the bound.

/// Maximum size of a document, in bytes, after YAML became JSON.
pub const MAX_DOCUMENT_BYTES: usize = 64 << 20;
/// Maximum size of a document with all that it refers to, in bytes: they are parsed as a whole.
pub(crate) const MAX_BUNDLE_BYTES: usize = 8 << 20;
/// Maximum number of other documents that a document refers to, directly or by others.
pub const MAX_BUNDLED: usize = 200;
/// Maximum number of documents from one to the next.
pub(crate) const MAX_BUNDLE_DEPTH: usize = 16;
/// Maximum number of operations of a document; the rest are skipped.
pub const MAX_OPERATIONS: usize = 5_000;
/// Maximum number of parameters of an operation, fields of a flattened body included.
pub(crate) const MAX_PARAMETERS: usize = 500;
/// Maximum number of properties of a body that is flattened; a larger one is one argument.
pub(crate) const MAX_FLATTENED: usize = 200;
/// Maximum number of references that lead from one to the next.
pub(crate) const MAX_REFERENCE_HOPS: usize = 16;
/// Maximum number of steps of a reference from the top of the document.
pub(crate) const MAX_POINTER_SEGMENTS: usize = 64;
/// Maximum length of a reference, in bytes.
pub(crate) const MAX_POINTER_BYTES: usize = 2 << 10;
/// Maximum bytes that reading a document reads again, in multiples of the document, beside [`MIN_WORK_BYTES`].
pub(crate) const MAX_WORK_FACTOR: usize = 32;
/// The part of the work that documents of any size may take, in bytes.
pub(crate) const MIN_WORK_BYTES: usize = 64 << 20;
/// Maximum number of parts of schemas that are looked at to see the body or the result of one operation as an object.
pub(crate) const MAX_SCHEMA_VISITS: usize = 2_000;
/// Maximum number of parts of `allOf` that describe one property of a body that is flattened.
pub(crate) const MAX_MERGED: usize = 16;
/// Maximum nesting of a schema within one definition; what lies deeper accepts anything.
pub(crate) const MAX_SCHEMA_DEPTH: usize = 48;
/// Maximum size of the schema of one definition, in bytes; a larger one accepts anything of its type.
pub(crate) const MAX_DEFINITION_BYTES: usize = 64 << 10;
/// Maximum size of all definitions that one tool's arguments refer to. Definitions beyond accept anything of their type.
pub(crate) const MAX_INPUT_BYTES: usize = 24 << 10;
/// The same for a tool's result.
pub(crate) const MAX_OUTPUT_BYTES: usize = 8 << 10;
/// Maximum number of alternatives of `security`.
pub(crate) const MAX_ALTERNATIVES: usize = 100;
/// Maximum number of security schemes that one alternative needs together.
pub(crate) const MAX_SCHEMES: usize = 20;
/// Maximum length of the name of a security scheme that is asked for, in bytes.
pub(crate) const MAX_SCHEME_BYTES: usize = 256;
/// Maximum number of content types of `consumes` and `produces`.
pub(crate) const MAX_CONTENT_TYPES: usize = 100;
/// Maximum length of a description, in characters.
pub(crate) const MAX_DESCRIPTION: usize = 1_000;
/// Maximum length of the description of a property, in characters.
pub(crate) const MAX_PROPERTY_DESCRIPTION: usize = 300;
/// Maximum length of a tool's name, in characters.
pub(crate) const MAX_NAME: usize = 128;
/// Most characters of a document's text in a message.
pub(crate) const MAX_SHOWN: usize = 64;
/// Maximum length of the URL of a request, in bytes.
pub(crate) const MAX_URL_BYTES: usize = 8 << 10;
/// Maximum size of the body of a request, in bytes.
pub const MAX_REQUEST_BYTES: usize = 8 << 20;
/// Maximum size of the body of an answer, in bytes.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;
/// Maximum number of redirects within the API's own origin.
pub(crate) const MAX_REDIRECTS: usize = 5;
/// Maximum number of pages of a list that one call follows.
pub(crate) const MAX_PAGES: usize = 100;
/// Maximum size of an error's body in a failure, in bytes.
pub(crate) const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum nesting of YAML collections.
pub(crate) const MAX_YAML_DEPTH: usize = 200;
