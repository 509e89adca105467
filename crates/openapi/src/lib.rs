//! OpenAPI documents as tools: every operation of a document is a tool with arguments, a result and hints.
//!
//! Documents of versions 2.0, 3.0, 3.1 and 3.2, in JSON or YAML. Reading is lenient (real documents have defects) and
//! bounded (a document is foreign text). No network: a [`ApiTransport`] sends what this crate builds.
//!
//! # Layout
//! - `bounds`: the limits of everything
//! - `bundle`: a document that is written as several, as one text; `references`: where a document refers to another
//! - `yaml`, `document`: from text to values that are found by reference; `work`: how much of that a document may cause
//! - `schema`, `discriminator`: schemas of the document as JSON Schema; `names`: names that must differ
//! - `read`, `body`, `result_schema`, `servers`, `filter`, `security`: from the document to [`Operation`]s
//! - `logins`: the OAuth logins that a document describes
//! - `operation`: how an operation is called
//! - `encode`, `style`, `multipart`, `idempotency`: from arguments to an [`ApiRequest`]
//! - `transport`: the seam to the network; `answer`, `header_text`, `read_back`: from an [`ApiAnswer`] to a result
//! - `pages`: all pages of a list
//! - `api`: [`Api`], which has all of it
//!
//! Deliberately absent: fetching documents, flows that obtain tokens, policy, retries.

#![forbid(unsafe_code)]

mod answer;
mod api;
mod body;
mod bounds;
mod bundle;
mod discriminator;
mod document;
mod encode;
mod filter;
mod header_text;
mod idempotency;
mod logins;
mod multipart;
mod names;
mod operation;
mod pages;
mod read;
mod read_back;
mod references;
mod result_schema;
mod schema;
mod security;
mod servers;
mod style;
mod transport;
mod work;
mod yaml;

pub use answer::META_KEY;
pub use api::{Api, ApiCallError, ApiSettings, DocumentSummary, LoadError, summary};
pub use bounds::{MAX_ANSWER_BYTES, MAX_BUNDLED, MAX_DOCUMENT_BYTES, MAX_OPERATIONS, MAX_REQUEST_BYTES};
pub use bundle::{DocumentBundle, DocumentLocation, DocumentReadError, RefusedReference, read_with_references};
pub use document::{ReferenceError, Version};
pub use encode::ArgumentError;
pub use filter::{BadRule, OperationFilter};
pub use logins::{DocumentLogin, LoginPlace, logins};
pub use operation::Operation;
pub use read::SkippedOperation;
pub use security::Credentials;
pub use transport::{AnswerFuture, ApiAnswer, ApiRequest, ApiTransport, TransportError};
