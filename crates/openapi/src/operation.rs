//! One operation: how its arguments become a request. Plain data that the reader fills and the encoder follows.

use serde_json::value::RawValue;

use crate::security::Requirement;

/// An operation of a document, ready to be called.
#[derive(Debug)]
pub struct Operation {
    /// The tool's name.
    pub name: String,
    /// The method, in upper case.
    pub method: String,
    /// The path as the document writes it.
    pub path: String,
    /// The tool as `tools/list` gives it.
    pub tool: Box<RawValue>,
    pub(crate) plan: Plan,
}

/// How an operation is called.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The path of the server that the operation belongs to, if it is not the configured one.
    pub(crate) base_path: Option<String>,
    pub(crate) template: Vec<Segment>,
    /// A query that the path itself has.
    pub(crate) query: Option<String>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
    pub(crate) security: Requirement,
    pub(crate) accept: String,
    pub(crate) result: ResultForm,
    /// The argument that asks for all pages of a list.
    pub(crate) all_pages: Option<String>,
}

/// A part of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    Text(String),
    /// The name of a path parameter.
    Variable(String),
}

/// A parameter in the path, the query, a header or a cookie.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    /// The argument that it is.
    pub(crate) argument: String,
    pub(crate) name: String,
    pub(crate) place: ParameterPlace,
    pub(crate) encoding: Encoding,
    /// The members that the document describes, of a whole query that is written as a form (3.2).
    pub(crate) fields: Vec<Field>,
    pub(crate) required: bool,
}

/// Where a parameter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterPlace {
    Path,
    Query,
    /// The whole query (3.2).
    QueryString,
    Header,
    Cookie,
}

impl ParameterPlace {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query | Self::QueryString => "query",
            Self::Header => "header",
            Self::Cookie => "cookie",
        }
    }
}

/// How the value of a parameter is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Style {
        style: Style,
        explode: bool,
        allow_reserved: bool,
    },
    /// As JSON text.
    Json,
}

/// The styles of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    /// As the form style, but nothing is escaped (3.2).
    Cookie,
    Space,
    Pipe,
    /// Swagger 2.0 only.
    Tab,
    DeepObject,
}

impl Style {
    /// What stands between the pieces of a value that is one text.
    pub(crate) fn separator(self) -> char {
        match self {
            Self::Space => ' ',
            Self::Pipe => '|',
            Self::Tab => '\t',
            Self::Simple | Self::Label | Self::Matrix | Self::Form | Self::Cookie | Self::DeepObject => ',',
        }
    }
}

/// The body of a request.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) media_type: String,
    pub(crate) kind: BodyKind,
    pub(crate) form: BodyForm,
    pub(crate) required: bool,
}

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Json,
    UrlEncoded,
    Multipart,
    Text,
    Binary,
}

/// Which arguments are the body.
#[derive(Debug)]
pub(crate) enum BodyForm {
    /// One argument. Of a form, with the members that the document describes.
    Whole { argument: String, fields: Vec<Field> },
    /// One argument for each property.
    Fields(Vec<Field>),
}

/// A field of a form, or a property of another body that is an argument of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) argument: String,
    pub(crate) name: String,
    /// The encoding that the document sets for a field of a form.
    pub(crate) encoding: Option<Encoding>,
    /// The content type of a part, where it is not that of its value.
    pub(crate) content_type: Option<String>,
    /// Whether a part is a file.
    pub(crate) is_file: bool,
}

/// How an answer is put into a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultForm {
    /// An object is the structured content itself.
    Plain,
    /// The structured content is `{"result": value}`, because the value may be something else than an object.
    Wrapped,
}
