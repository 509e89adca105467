//! Reads the operations of a document, each with its tool.
//!
//! An operation that cannot be called is skipped with a sentence, and the others stay. Defects of real documents that
//! leave no doubt are repaired: a variable of the path that is not declared is a required text, a repeated `operationId`
//! gives way to method and path.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use url::Url;

use crate::body::{self, DraftBody};
use crate::bounds::{
    MAX_CONTENT_TYPES, MAX_DESCRIPTION, MAX_INPUT_BYTES, MAX_NAME, MAX_OPERATIONS, MAX_OUTPUT_BYTES, MAX_PARAMETERS,
    MAX_SHOWN,
};
use crate::document::{Document, TOO_MUCH_WORK, Version};
use crate::filter::OperationFilter;
use crate::idempotency;
use crate::names::FreeNames;
use crate::operation::{Encoding, Operation, Parameter, ParameterPlace, Plan, Segment, Style};
use crate::pages;
use crate::result_schema;
use crate::schema::{Converted, Direction, Schemas, shortened};
use crate::security::{Requirement, Security, is_token};
use toolgate_wire::foreign_text::{clipped, escaped, stripped};
use toolgate_wire::http_text::is_connection_header;

/// An operation of the document that is no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedOperation {
    /// Method and path.
    pub operation: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// Headers that the client sets, and those that credentials use; beside those of the connection.
const RESERVED_HEADERS: [&str; 5] = ["accept", "authorization", "content-type", "cookie", "user-agent"];

const METHODS: [&str; 8] = ["get", "head", "options", "post", "put", "patch", "delete", "query"];

/// The reader of one document.
pub(crate) struct Reader<'d, 'a> {
    pub(crate) document: &'d Document<'a>,
    pub(crate) schemas: Schemas<'d, 'a>,
    pub(crate) security: &'d Security,
    pub(crate) filter: &'d OperationFilter,
    pub(crate) base: &'d Url,
    default_security: Requirement,
    default_servers: Vec<Value>,
    consumes: Vec<String>,
    produces: Vec<String>,
    names: FreeNames,
    pub(crate) operations: Vec<Operation>,
    pub(crate) skipped: Vec<SkippedOperation>,
}

/// The parameters of an operation as the document has them.
#[derive(Debug, Default)]
struct Declared {
    parameters: Vec<Rc<Value>>,
    /// Those of Swagger 2.0 that are the body.
    body: Vec<Rc<Value>>,
}

/// An argument before its final name is known.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) name: String,
    pub(crate) prefix: &'static str,
    pub(crate) required: bool,
    pub(crate) schema: Converted,
}

impl<'d, 'a> Reader<'d, 'a> {
    pub(crate) fn new(
        document: &'d Document<'a>,
        security: &'d Security,
        filter: &'d OperationFilter,
        base: &'d Url,
    ) -> Self {
        let texts = |key: &str| texts(document.top(key).as_ref());
        Self {
            document,
            schemas: Schemas::new(document),
            security,
            filter,
            base,
            default_security: default_security(document, security),
            default_servers: document.top("servers").and_then(|it| it.as_array().cloned()).unwrap_or_default(),
            consumes: texts("consumes"),
            produces: texts("produces"),
            names: FreeNames::default(),
            operations: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Reads all operations; ends early if reading is cancelled.
    pub(crate) fn read(&mut self) -> Result<(), String> {
        for (path, raw) in self.document.paths()? {
            if self.document.work.is_cancelled() {
                break;
            }
            if path.starts_with("x-") {
                continue;
            }
            match serde_json::from_str::<Value>(raw.get()).map_err(|error| error.to_string()) {
                Ok(item) => self.path_item(&path, item),
                Err(error) => self.skip("*", &path, format!("the path item cannot be parsed: {error}")),
            }
        }
        Ok(())
    }

    fn skip(&mut self, method: &str, path: &str, reason: String) {
        let shown = clipped(path, 200);
        self.skipped.push(SkippedOperation { operation: format!("{method} {shown}"), reason });
    }

    fn path_item(&mut self, path: &str, item: Value) {
        let item = match self.document.follow_whole(Rc::new(item)) {
            Ok((item, _)) => item,
            Err(error) => return self.skip("*", path, error.to_string()),
        };
        let Some(members) = item.as_object() else { return };
        for (key, operation) in members {
            let lower = key.to_ascii_lowercase();
            if METHODS.contains(&lower.as_str()) && operation.is_object() {
                self.one(&lower.to_ascii_uppercase(), path, &item, operation);
            } else if lower == "trace" && operation.is_object() {
                self.skip("TRACE", path, "the method TRACE is never sent".to_owned());
            } else if key == "additionalOperations" {
                for (method, operation) in operation.as_object().into_iter().flatten() {
                    self.additional(method, path, &item, operation);
                }
            }
        }
    }

    /// An operation with a method of its own (3.2).
    fn additional(&mut self, method: &str, path: &str, item: &Value, operation: &Value) {
        let is_token = !method.is_empty() && method.len() <= 32 && method.bytes().all(|byte| byte.is_ascii_uppercase());
        if !is_token || matches!(method, "CONNECT" | "TRACE") {
            let shown = escaped(method, 32);
            return self.skip(&shown, path, "the method is never sent".to_owned());
        }
        self.one(method, path, item, operation);
    }

    fn one(&mut self, method: &str, path: &str, item: &Value, operation: &Value) {
        let tags = operation.get("tags").and_then(Value::as_array).into_iter().flatten();
        let tags: Vec<&str> = tags.filter_map(Value::as_str).collect();
        if !self.filter.takes(method, path, &tags) {
            return;
        }
        if self.operations.len() >= MAX_OPERATIONS {
            return self.skip(method, path, format!("the document has more than {MAX_OPERATIONS} operations"));
        }
        match self.operation(method, path, item, operation) {
            Ok(operation) => self.operations.push(operation),
            Err(reason) => self.skip(method, path, reason),
        }
    }

    /// Charges work of an operation, which is no tool if there is none left.
    fn charge(&self, bytes: usize) -> Result<(), String> {
        if self.document.work.charge(bytes) { Ok(()) } else { Err(TOO_MUCH_WORK.to_owned()) }
    }

    fn operation(&mut self, method: &str, path: &str, item: &Value, operation: &Value) -> Result<Operation, String> {
        self.charge(1)?;
        let (template, query) = template(path)?;
        let base_path = self.server(item, operation)?;
        let security = match operation.get("security") {
            Some(own) => Security::requirement(own),
            None => self.default_security.clone(),
        };
        let declared = self.declared(item, operation)?;
        let mut drafts = Vec::new();
        let mut parameters = Vec::new();
        for parameter in &declared.parameters {
            if let Some((draft, parameter)) = self.parameter(parameter, &security, &template)? {
                drafts.push(draft);
                parameters.push(parameter);
            }
        }
        add_undeclared(&template, &mut drafts, &mut parameters);
        let body = match self.document.version {
            Version::V2 => body::read_v2(self, operation, &declared.body)?,
            Version::V30 | Version::V31 | Version::V32 => body::read(self, operation)?,
        };
        let first_field = drafts.len();
        let (body_drafts, body) = body.map_or((Vec::new(), None), |DraftBody { drafts, body }| (drafts, Some(body)));
        drafts.extend(body_drafts);
        let produces = operation.get("produces").map(|it| texts(Some(it))).unwrap_or_else(|| self.produces.clone());
        let answer = result_schema::read(self.document, &mut self.schemas, operation, &produces);
        let has_pages = method == "GET" && answer.has_pages;
        drafts.extend(has_pages.then(pages::argument));
        if drafts.len() > MAX_PARAMETERS {
            return Err(format!("it has more than {MAX_PARAMETERS} parameters"));
        }
        let arguments = argument_names(&drafts);
        for (parameter, argument) in parameters.iter_mut().zip(&arguments) {
            parameter.argument.clone_from(argument);
        }
        let body = body.map(|body| body.named(arguments.get(first_field..).unwrap_or_default()));
        let all_pages = arguments.last().filter(|_| has_pages).cloned();
        let name = self.name(method, path, operation);
        let input = self.input_schema(drafts, &arguments);
        let output = answer.schema.map(|it| self.schemas.compose(&it.schema, &it.references, MAX_OUTPUT_BYTES));
        let tool = tool_text(&name, method, path, operation, &input, output.as_deref())?;
        self.charge(tool.get().len())?;
        let (accept, result) = (answer.accept, answer.form);
        let plan = Plan { base_path, template, query, parameters, body, security, accept, result, all_pages };
        Ok(Operation { name, method: method.to_owned(), path: path.to_owned(), tool, plan })
    }

    /// The path of the operation's own server. One at another origin than the configured base is refused: credentials and
    /// data go where the configuration says and nowhere else.
    fn server(&self, item: &Value, operation: &Value) -> Result<Option<String>, String> {
        let own = operation.get("servers").or_else(|| item.get("servers")).and_then(Value::as_array);
        let Some(own) = own.filter(|own| !own.is_empty()) else { return Ok(None) };
        if own.iter().any(|server| self.default_servers.contains(server)) {
            return Ok(None);
        }
        for server in own {
            if let Ok(url) = self.base.join(&crate::servers::with_defaults(server))
                && url.origin() == self.base.origin()
            {
                return Ok(Some(url.path().trim_end_matches('/').to_owned()));
            }
        }
        let shown = own.first().map(crate::servers::with_defaults).unwrap_or_default();
        let shown = clipped(&shown, 100);
        Err(format!("its own server {shown} is not the configured base"))
    }

    /// Parameters of the path item and the operation; the operation's come first and stand above the others.
    fn declared(&self, item: &Value, operation: &Value) -> Result<Declared, String> {
        let mut seen = HashSet::new();
        let Declared { mut parameters, mut body } = Declared::default();
        for source in [operation, item] {
            for parameter in source.get("parameters").and_then(Value::as_array).into_iter().flatten() {
                let parameter = self.document.follow_whole(Rc::new(parameter.clone()));
                let (parameter, _) = parameter.map_err(|it| it.to_string())?;
                let text = |key| parameter.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                let (name, place) = (text("name"), text("in"));
                if place == "body" && self.document.version == Version::V2 {
                    if seen.insert((String::new(), place)) {
                        body.push(parameter);
                    }
                } else if !name.is_empty() && seen.insert((name, place.clone())) {
                    if place == "formData" { body.push(parameter) } else { parameters.push(parameter) }
                }
            }
        }
        Ok(Declared { parameters, body })
    }

    fn parameter(
        &mut self,
        raw: &Value,
        security: &Requirement,
        template: &[Segment],
    ) -> Result<Option<(Draft, Parameter)>, String> {
        let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        let place = match text("in") {
            "path" if template.contains(&Segment::Variable(name.clone())) => ParameterPlace::Path,
            "query" => ParameterPlace::Query,
            "querystring" => ParameterPlace::QueryString,
            "header" => ParameterPlace::Header,
            "cookie" => ParameterPlace::Cookie,
            // A path parameter that the path does not have cannot be sent.
            "path" => return Ok(None),
            other => {
                return Err(format!("the parameter `{name}` is in `{}`, which is no place", escaped(other, MAX_SHOWN)));
            }
        };
        let is_reserved = place == ParameterPlace::Header
            && (RESERVED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) || is_connection_header(&name));
        if is_reserved || self.security.occupies(security, place.word(), &name) {
            return Ok(None);
        }
        if matches!(place, ParameterPlace::Header | ParameterPlace::Cookie) && !is_token(&name) {
            return Err(format!("`{}` is no name of a header or cookie", escaped(&name, MAX_SHOWN)));
        }
        let content = raw.get("content").and_then(Value::as_object).and_then(|it| it.iter().next());
        let media = content.map(|(_, media)| self.document.media_type(media)).transpose();
        let media = media.map_err(|error| error.to_string())?;
        let schema = match (self.document.version, &media) {
            (Version::V2, _) => raw.clone(),
            (_, Some(media)) => media.get("schema").cloned().unwrap_or_default(),
            (_, None) => raw.get("schema").cloned().unwrap_or_default(),
        };
        let fields = match &media {
            Some(media) if place == ParameterPlace::QueryString => body::query_fields(self.document, media)?,
            _ => Vec::new(),
        };
        let encoding = match content {
            Some((media_type, _)) if body::is_json(media_type) => Encoding::Json,
            _ if place == ParameterPlace::QueryString => {
                Encoding::Style { style: Style::Form, explode: true, allow_reserved: false }
            }
            _ => encoding(raw, place, self.document.version)?,
        };
        let mut converted = self.schemas.convert(&schema, Direction::Input);
        if let (Some(described), Some(schema)) =
            (raw.get("description").and_then(Value::as_str), converted.schema.as_object_mut())
        {
            let described = shortened(described.trim(), crate::bounds::MAX_PROPERTY_DESCRIPTION);
            schema.insert("description".to_owned(), described.into());
        }
        // Made for each call that gives none, so that it need not be given.
        let is_made = idempotency::is_key(place, &name);
        let required = place == ParameterPlace::Path || (raw.get("required") == Some(&Value::Bool(true)) && !is_made);
        let draft = Draft { name: name.clone(), prefix: place.word(), required, schema: converted };
        Ok(Some((draft, Parameter { argument: String::new(), name, place, encoding, fields, required })))
    }

    /// The tool's name: the operation's id, else method and path.
    fn name(&mut self, method: &str, path: &str, operation: &Value) -> String {
        let id = operation.get("operationId").and_then(Value::as_str).map(str::trim).unwrap_or_default();
        let id: String = stripped(id).chars().filter(|c| !matches!(c, '\n' | '\t')).take(MAX_NAME).collect();
        if !id.is_empty() && self.names.claim(&id) {
            return id;
        }
        let mut base = method.to_ascii_lowercase();
        for word in path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
            base.push('_');
            base.push_str(word);
        }
        base.truncate(MAX_NAME);
        self.names.take(base)
    }

    fn input_schema(&mut self, drafts: Vec<Draft>, arguments: &[String]) -> String {
        let mut references = Vec::new();
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (draft, argument) in drafts.into_iter().zip(arguments) {
            references.extend(draft.schema.references);
            properties.insert(argument.clone(), draft.schema.schema);
            if draft.required {
                required.push(argument.clone());
            }
        }
        let mut schema = Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), Value::Object(properties)),
        ]);
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
        self.schemas.compose(&Value::Object(schema), &references, MAX_INPUT_BYTES)
    }

    /// The content types that the operation takes, in Swagger 2.0.
    pub(crate) fn consumes(&self, operation: &Value) -> Vec<String> {
        operation.get("consumes").map(|it| texts(Some(it))).unwrap_or_else(|| self.consumes.clone())
    }
}

/// What operations need that do not say it themselves.
fn default_security(document: &Document<'_>, security: &Security) -> Requirement {
    if let Some(declared) = document.top("security") {
        return Security::requirement(&declared);
    }
    // Any mention counts, also one in a schema: then the document may know what it leaves open.
    let is_mentioned = |raw: &RawValue| raw.get().contains("\"security\"");
    let is_elsewhere = document.other_documents().is_some_and(is_mentioned);
    match is_elsewhere || document.paths().is_ok_and(|paths| paths.iter().any(|(_, raw)| is_mentioned(raw))) {
        true => Requirement::new(),
        false => security.assumed(),
    }
}

/// Content types of Swagger 2.0.
fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).take(MAX_CONTENT_TYPES).map(str::to_owned).collect()
}

/// The parts of a path, and the query that it may have. What follows a `#` only tells operations apart.
fn template(path: &str) -> Result<(Vec<Segment>, Option<String>), String> {
    let path = path.split('#').next().unwrap_or_default();
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query.to_owned())));
    let is_step = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    if path.starts_with("//")
        || path.contains('\\')
        || path.chars().any(char::is_control)
        || path.split('/').any(is_step)
    {
        return Err("its path leaves the base".to_owned());
    }
    let mut segments = Vec::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, after)) = after.split_once('}') else { break };
        if !before.is_empty() {
            segments.push(Segment::Text(before.to_owned()));
        }
        segments.push(Segment::Variable(name.to_owned()));
        rest = after;
    }
    if !rest.is_empty() {
        segments.push(Segment::Text(rest.to_owned()));
    }
    Ok((segments, query))
}

/// Variables of the path without a parameter are required texts.
fn add_undeclared(template: &[Segment], drafts: &mut Vec<Draft>, parameters: &mut Vec<Parameter>) {
    for segment in template {
        let Segment::Variable(name) = segment else { continue };
        if parameters.iter().any(|known| known.place == ParameterPlace::Path && known.name == *name) {
            continue;
        }
        let schema = Converted { schema: json!({ "type": "string", "minLength": 1 }), references: Vec::new() };
        drafts.insert(parameters.len(), Draft { name: name.clone(), prefix: "path", required: true, schema });
        let encoding = Encoding::Style { style: Style::Simple, explode: false, allow_reserved: false };
        let (argument, fields, place) = (String::new(), Vec::new(), ParameterPlace::Path);
        parameters.push(Parameter { argument, name: name.clone(), place, encoding, fields, required: true });
    }
}

/// The style of a parameter or of a field of a form.
pub(crate) fn encoding(raw: &Value, place: ParameterPlace, version: Version) -> Result<Encoding, String> {
    let in_query = matches!(place, ParameterPlace::Query | ParameterPlace::QueryString | ParameterPlace::Cookie);
    let default = if in_query { Style::Form } else { Style::Simple };
    // 3.2 allows it in every place where values are escaped, earlier versions in the query alone.
    let allow_reserved = raw.get("allowReserved") == Some(&Value::Bool(true))
        && (place == ParameterPlace::Query || version == Version::V32);
    if version == Version::V2 {
        let (style, explode) = match raw.get("collectionFormat").and_then(Value::as_str) {
            Some("ssv") => (Style::Space, false),
            Some("tsv") => (Style::Tab, false),
            Some("pipes") => (Style::Pipe, false),
            Some("multi") => (Style::Form, true),
            _ => (default, false),
        };
        return Ok(Encoding::Style { style, explode, allow_reserved });
    }
    let style = match raw.get("style").and_then(Value::as_str) {
        None | Some("") => default,
        Some("simple") => Style::Simple,
        Some("label") => Style::Label,
        Some("matrix") => Style::Matrix,
        Some("cookie") if place == ParameterPlace::Cookie => Style::Cookie,
        Some("form" | "cookie") => Style::Form,
        Some("spaceDelimited") => Style::Space,
        Some("pipeDelimited") => Style::Pipe,
        Some("deepObject") => Style::DeepObject,
        Some(other) => return Err(format!("the style `{}` is unknown", escaped(other, MAX_SHOWN))),
    };
    let explode = raw.get("explode").and_then(Value::as_bool).unwrap_or(matches!(style, Style::Form | Style::Cookie));
    Ok(Encoding::Style { style, explode, allow_reserved })
}

/// The arguments' names: those of the document; where two are equal, each with the place that it belongs to.
fn argument_names(drafts: &[Draft]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    drafts.iter().for_each(|draft| *counts.entry(draft.name.as_str()).or_default() += 1);
    let mut names = FreeNames::default();
    for draft in drafts.iter().filter(|draft| counts.get(draft.name.as_str()) == Some(&1)) {
        names.claim(&draft.name);
    }
    let name = |draft: &Draft| match counts.get(draft.name.as_str()) {
        Some(1) => draft.name.clone(),
        _ => names.take(format!("{}_{}", draft.prefix, draft.name)),
    };
    drafts.iter().map(name).collect()
}

/// The tool as JSON text.
fn tool_text(
    name: &str,
    method: &str,
    path: &str,
    operation: &Value,
    input: &str,
    output: Option<&str>,
) -> Result<Box<RawValue>, String> {
    let text = |key: &str| operation.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let mut described = match (text("summary"), text("description")) {
        (Some(summary), Some(long)) if long.starts_with(summary) => long.to_owned(),
        (Some(summary), Some(long)) => format!("{summary}\n\n{long}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => format!("{method} {path}"),
    };
    if operation.get("deprecated") == Some(&Value::Bool(true)) {
        described = format!("Deprecated. {described}");
    }
    let mut tool = Map::from_iter([("name".to_owned(), json!(name))]);
    if let Some(title) = text("summary") {
        tool.insert("title".to_owned(), shortened(title, 200).into());
    }
    tool.insert("description".to_owned(), shortened(&described, MAX_DESCRIPTION).into());
    tool.insert("annotations".to_owned(), annotations(method));
    let head = Value::Object(tool).to_string();
    let head = head.strip_suffix('}').unwrap_or_default();
    let output = output.map(|output| format!(",\"outputSchema\":{output}")).unwrap_or_default();
    RawValue::from_string(format!("{head},\"inputSchema\":{input}{output}}}")).map_err(|error| error.to_string())
}

/// What the method says about the effect of a call.
fn annotations(method: &str) -> Value {
    match method {
        "GET" | "HEAD" | "OPTIONS" | "QUERY" => json!({ "readOnlyHint": true, "openWorldHint": true }),
        "DELETE" => {
            json!({ "readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": true })
        }
        "PUT" => json!({ "readOnlyHint": false, "idempotentHint": true, "openWorldHint": true }),
        _ => json!({ "readOnlyHint": false, "openWorldHint": true }),
    }
}
