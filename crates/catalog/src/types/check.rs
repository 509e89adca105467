//! Declarations for a type checker: what a program can call, in the form in which a checker's findings can be judged.
//!
//! Every type that a schema declares has a name of its own, `$tg` and a number, so that a finding says whether it is about
//! a declared type, and which. Types are wider than the schemas where a correct program could meet the difference: texts
//! with a fixed set of values are texts, arguments take properties that are not named, alternatives of different kinds are
//! `any`. Nothing of a schema is written verbatim: keys are quoted, everything else is ours.

use std::fmt::Write as _;

use serde_json::Value;

use super::learned::LearnedType;
use super::result_schema;
use super::shape::{Bounds, Field, References, Shaper, Type};
use crate::{Backend, ToolEntry, ToolRef};

/// The beginning of every name in the declarations that is not a global. A program that has it is not checked.
pub const RESERVED: &str = "$tg";

const BOUNDS: Bounds = Bounds { depth: 12, nodes: 1_000, fields: 200, literals: 100 };
/// Bytes of declarations beyond which the types of further results and arguments are `any`.
const MAX_TEXT: usize = 4 << 20;
/// How deep a learned type is declared.
const LEARNED_DEPTH: usize = 8;

/// Declarations, and what their names mean.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Declarations {
    backends: Vec<DeclaredBackend>,
    /// The declarations of host functions.
    functions: String,
    /// What they are.
    callables: Vec<DeclaredFunction>,
    /// The types by their number.
    types: Vec<DeclaredType>,
    /// The globals that are backends, or hold them.
    roots: Vec<String>,
}

/// The declarations of a backend, tool by tool.
#[derive(Debug, Clone, PartialEq)]
struct DeclaredBackend {
    /// The name of its type.
    name: String,
    /// Its names in the registry of backends.
    spellings: [String; 2],
    is_global: bool,
    may_have_more: bool,
    tools: Vec<DeclaredTool>,
}

/// The declarations of a tool.
#[derive(Debug, Clone, PartialEq)]
struct DeclaredTool {
    /// The names that a program may call it by.
    spellings: Vec<String>,
    /// The types that it needs, one a line.
    types: String,
    /// Its arguments and its result, as a method has them.
    signature: String,
}

impl DeclaredTool {
    /// Whether a program that mentions these names may mean the tool. A name that does not begin like an identifier may be
    /// written as a number.
    fn is_mentioned(&self, mentioned: &dyn Fn(&str) -> bool) -> bool {
        let begins = |name: &str| name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$'));
        self.spellings.iter().any(|name| !begins(name) || mentioned(name))
    }
}

/// A type of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredType {
    /// What it is the type of, as a program would write it: `tracker.list_issues().issues[]`.
    pub shown: String,
    /// Its keys.
    pub keys: Vec<String>,
    /// Those that arguments must have.
    pub required: Vec<String>,
    /// Where it comes from.
    pub origin: TypeOrigin,
}

/// Where a declared type comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypeOrigin {
    /// It is a backend, and its keys are tools.
    Backend,
    /// It is `api`, and its keys are host functions.
    Functions,
    /// The schema of a tool's arguments.
    Argument,
    /// The schema of a tool's result.
    Result,
    /// The results of a tool that declares none.
    Learned,
}

/// A backend that a program names, with the tools that its caller may use.
pub struct CheckedBackend<'a> {
    /// The backend.
    pub backend: &'a Backend,
    /// Its tools.
    pub tools: Vec<&'a ToolEntry>,
    /// Whether it may have more tools than these.
    pub may_have_more: bool,
    /// Whether a global variable of its name is this backend, and not something of the language or a function.
    pub is_global: bool,
}

/// A host function that a program names.
pub struct CheckedFunction<'a> {
    /// Its name, such as `getWeather` or `api.fetch`.
    pub name: &'a str,
    /// Its positional parameters.
    pub parameters: Vec<CheckedParameter<'a>>,
    /// JSON Schema of its result.
    pub result: &'a Value,
    /// Whether it refuses arguments that do not fit its parameters. Otherwise what it calls may take them.
    pub checks_arguments: bool,
}

/// A positional parameter of a host function.
pub struct CheckedParameter<'a> {
    /// Its name, which is an identifier.
    pub name: &'a str,
    /// JSON Schema of the argument, or of each one.
    pub schema: &'a Value,
    /// Whether it must be given.
    pub kind: ParameterKind,
}

/// Whether a parameter of a host function must be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// It must be given.
    Required,
    /// It may be left out.
    Optional,
    /// It takes all further arguments.
    Rest,
}

/// A host function that is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredFunction {
    name: String,
    /// The names of its parameters.
    pub parameters: Vec<String>,
    /// How many of them must be given.
    pub required: usize,
    /// How many arguments it takes, if not any number.
    pub most: Option<usize>,
    /// Whether it refuses arguments that do not fit.
    pub checks_arguments: bool,
}

fn lengths(texts: &[String]) -> usize {
    texts.iter().map(String::len).sum()
}

/// What is known of the result of a tool that declares none.
pub type Learned<'a> = dyn Fn(&str, &str) -> Option<LearnedType> + 'a;

impl Declarations {
    /// The declarations for programs that name these backends and functions.
    pub fn new(backends: &[CheckedBackend<'_>], functions: &[CheckedFunction<'_>], learned: &Learned<'_>) -> Self {
        let mut writer = Writer { declarations: Self::default(), written: 0, pending: String::new(), open: Vec::new() };
        for one in backends {
            let declared = writer.backend(one, learned);
            if one.is_global {
                writer.declarations.roots.push(one.backend.identifier().to_owned());
            }
            writer.declarations.backends.push(declared);
        }
        writer.declarations.roots.extend(REGISTRIES.map(str::to_owned));
        writer.functions(functions);
        writer.declarations
    }

    /// The text of a `.d.ts` file for a program: of the tools, those whose name the program mentions. What a checker does
    /// for each program costs as much as there are declarations, and a program uses few tools.
    ///
    /// `mentioned` must accept every identifier and every text literal of the program. Any other key is just a `string` to
    /// a checker, which then knows nothing of the value.
    pub fn text_for(&self, mentioned: &dyn Fn(&str) -> bool) -> String {
        let mut text = GLOBALS.to_owned();
        let mut registry = String::new();
        for backend in &self.backends {
            backend.write(&mut text, mentioned);
            let [identifier, name] = &backend.spellings;
            for spelling in [identifier, name] {
                let _ = write!(registry, "{}: {}; ", quoted(spelling), backend.name);
            }
        }
        for global in REGISTRIES {
            let _ = writeln!(text, "declare const {global}: {{ {registry}[k: string]: any }};");
        }
        text.push_str(&self.functions);
        text
    }

    /// About how many bytes it holds.
    pub fn bytes(&self) -> usize {
        let of_tool = |tool: &DeclaredTool| tool.types.len() + tool.signature.len() + lengths(&tool.spellings);
        let of_backend = |backend: &DeclaredBackend| backend.tools.iter().map(of_tool).sum::<usize>();
        let of_type = |one: &DeclaredType| one.shown.len() + lengths(&one.keys) + lengths(&one.required);
        let backends: usize = self.backends.iter().map(of_backend).sum();
        let types: usize = self.types.iter().map(of_type).sum();
        backends + types + self.functions.len()
    }

    /// The declared type of a name such as `$tg12`.
    pub fn get(&self, name: &str) -> Option<&DeclaredType> {
        self.types.get(name.strip_prefix(RESERVED)?.parse::<usize>().ok()?)
    }

    /// Whether a callee such as `tracker.get_issue` is of a backend.
    pub fn is_on_backend(&self, callee: &str) -> bool {
        let root = callee.split(['.', '[', '?', ' ', '\n']).next().unwrap_or_default();
        self.roots.iter().any(|one| one == root)
    }

    /// The host function that a callee such as `api.fetch` is. Every one is also under `api`.
    pub fn function(&self, callee: &str) -> Option<&DeclaredFunction> {
        let local = |name: &str| name.strip_prefix("api.").map(str::to_owned);
        let is_same =
            |one: &&DeclaredFunction| one.name == callee || local(callee).is_some_and(|name| one.name == name);
        self.callables.iter().find(is_same)
    }

    /// Whether a global of this name is a host function, or holds them.
    pub fn is_function_global(&self, name: &str) -> bool {
        self.callables.iter().any(|one| one.name == name) || (name == "api" && !self.callables.is_empty())
    }

    /// Whether a result has this key.
    pub fn has_result_key(&self, key: &str) -> bool {
        let is_result = |one: &&DeclaredType| matches!(one.origin, TypeOrigin::Result | TypeOrigin::Learned);
        self.types.iter().filter(is_result).any(|one| one.keys.iter().any(|own| own == key))
    }
}

impl DeclaredBackend {
    fn write(&self, text: &mut String, mentioned: &dyn Fn(&str) -> bool) {
        // No two backends are of one type, whatever tools of them are declared.
        let mut body = format!("readonly $tg: {}; ", quoted(&self.name));
        for tool in self.tools.iter().filter(|tool| tool.is_mentioned(mentioned)) {
            text.push_str(&tool.types);
            for spelling in &tool.spellings {
                let _ = write!(body, "{}{}", quoted(spelling), tool.signature);
            }
        }
        if self.may_have_more {
            body.push_str("[k: string]: any");
        }
        let _ = writeln!(text, "interface {} {{ {body} }}", self.name);
        if self.is_global {
            let [identifier, _] = &self.spellings;
            let _ = writeln!(text, "declare const {identifier}: {};", self.name);
        }
    }
}

/// The globals that hold all backends.
const REGISTRIES: [&str; 2] = ["tools", "__backends"];

/// Declared texts and numbers have names, so that they can be told from those that a program makes.
const GLOBALS: &str = "\
type $tgs = string & { readonly $tg?: never };
type $tgn = number & { readonly $tg?: never };
declare const context: any;
declare const console: any;
declare function sleep(ms?: any): Promise<void>;
declare function __getToolInterface(name?: any): any;
declare const __interfaces: any;
";

fn quoted(name: &str) -> String {
    Value::from(name).to_string()
}

struct Writer {
    declarations: Declarations,
    /// The bytes of the tools' types so far.
    written: usize,
    /// The types of the tool or function that is being written.
    pending: String,
    /// The pointers and names of recursive types that are being written.
    open: Vec<(String, String)>,
}

impl Writer {
    fn is_full(&self) -> bool {
        self.written + self.pending.len() > MAX_TEXT
    }

    /// The name of a new type.
    fn declare(&mut self, shown: &str, keys: Vec<String>, origin: TypeOrigin, body: &str) -> String {
        let name = self.reserve(shown, keys, origin);
        self.define(&name, body);
        name
    }

    /// The name of a type that is defined later, because it contains itself.
    fn reserve(&mut self, shown: &str, keys: Vec<String>, origin: TypeOrigin) -> String {
        let name = format!("{RESERVED}{}", self.declarations.types.len());
        let (shown, required) = (shown.to_owned(), Vec::new());
        self.declarations.types.push(DeclaredType { shown, keys, required, origin });
        name
    }

    fn define(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.pending, "interface {name} {{ {body} }}");
    }

    fn backend(&mut self, one: &CheckedBackend<'_>, learned: &Learned<'_>) -> DeclaredBackend {
        let mut tools = Vec::new();
        let mut keys = Vec::new();
        for &entry in &one.tools {
            let tool = ToolRef { backend: one.backend, entry };
            let signature = format!("({}): Promise<{}>; ", self.argument(tool), self.result(tool, learned));
            let mut spellings = vec![entry.identifier().to_owned(), entry.tool().name.clone()];
            spellings.dedup();
            let types = std::mem::take(&mut self.pending);
            self.written += types.len() + signature.len();
            tools.push(DeclaredTool { spellings, types, signature });
            keys.push(entry.identifier().to_owned());
        }
        let identifier = one.backend.identifier();
        DeclaredBackend {
            name: self.reserve(identifier, keys, TypeOrigin::Backend),
            spellings: [identifier.to_owned(), one.backend.name().to_owned()],
            is_global: one.is_global,
            may_have_more: one.may_have_more,
            tools,
        }
    }

    fn argument(&mut self, tool: ToolRef<'_>) -> String {
        let schema = tool.tool().input_schema();
        let shape = Shaper::new(schema, BOUNDS, References::Inline).shape(schema);
        let Type::Object { fields, omitted: 0, .. } = shape else { return "args?: any".to_owned() };
        if self.is_full() {
            return "args?: any".to_owned();
        }
        let optional = if fields.iter().all(|field| field.optional) { "?" } else { "" };
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false))
            && schema.get("patternProperties").is_none();
        let shown = format!("{}(args)", tool.spelling());
        format!("args{optional}: {}", self.argument_object(&shown, &fields, is_closed))
    }

    fn argument_object(&mut self, shown: &str, fields: &[Field], is_closed: bool) -> String {
        let mut body = String::new();
        for field in fields {
            let optional = if field.optional { "?" } else { "" };
            let of = self.argument_type(&field.shape, &format!("{shown}.{}", field.name));
            let _ = write!(body, "{}{optional}: {of}; ", quoted(&field.name));
        }
        if !is_closed {
            body.push_str("[k: string]: any");
        }
        let name = self.declare(shown, keys_of(fields), TypeOrigin::Argument, &body);
        if let Some(declared) = self.declarations.types.last_mut() {
            let required = fields.iter().filter(|field| !field.optional);
            declared.required = required.map(|field| field.name.clone()).collect();
        }
        name
    }

    fn argument_type(&mut self, shape: &Type, shown: &str) -> String {
        match shape {
            Type::Word(word @ ("string" | "number" | "boolean")) => (*word).to_owned(),
            Type::Literal(_) => "any".to_owned(),
            Type::Array(items) => format!("{}[]", self.argument_type(items, &format!("{shown}[]"))),
            Type::Object { fields, omitted: 0, .. } if !fields.is_empty() && !self.is_full() => {
                self.argument_object(shown, fields, false)
            }
            Type::Union(members) => common_word(members).unwrap_or("any").to_owned(),
            _ => "any".to_owned(),
        }
    }

    fn result(&mut self, tool: ToolRef<'_>, learned: &Learned<'_>) -> String {
        if self.is_full() {
            return "any".to_owned();
        }
        let shown = format!("{}()", tool.spelling());
        if let (Some(root), Some(schema)) = (tool.tool().output_schema(), result_schema(tool.tool())) {
            let shape = Shaper::new(root, BOUNDS, References::Mark).shape(schema);
            // A schema that says nothing declares nothing.
            if shape.is_telling() {
                return self.value(&shape, &shown, TypeOrigin::Result);
            }
        }
        match learned(tool.backend.name(), &tool.tool().name) {
            Some(learned) => self.value(&learned.shape_for_check(LEARNED_DEPTH), &shown, TypeOrigin::Learned),
            None => "any".to_owned(),
        }
    }

    /// The type of a value that a program receives.
    fn value(&mut self, shape: &Type, shown: &str, origin: TypeOrigin) -> String {
        match shape {
            // What was only seen so far says little about a single text or number.
            Type::Word(_) | Type::Literal(_) if origin == TypeOrigin::Learned => "any".to_owned(),
            Type::Word("string") => "$tgs".to_owned(),
            Type::Word("number") => "$tgn".to_owned(),
            Type::Word(word @ ("boolean" | "null")) => (*word).to_owned(),
            Type::Literal(text) if text.starts_with('"') => "$tgs".to_owned(),
            Type::Literal(text) if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => "$tgn".to_owned(),
            Type::Literal(_) => "boolean".to_owned(),
            Type::Array(items) => format!("({})[]", self.value(items, &format!("{shown}[]"), origin)),
            Type::Object { fields, omitted, index } if !fields.is_empty() && !self.is_full() => {
                let is_open = *omitted > 0 || index.is_some();
                self.object(fields, is_open, shown, origin)
            }
            Type::Object { fields, omitted: 0, index: Some(of) } if fields.is_empty() && !self.is_full() => {
                self.dictionary(of, shown, origin)
            }
            Type::Union(members) => self.union(members, shown, origin),
            Type::Intersection(members) => match merged(members) {
                Some((fields, is_open)) => self.object(&fields, is_open, shown, origin),
                None => "any".to_owned(),
            },
            Type::Recursive { pointer, of } => self.recursive(pointer, of, shown, origin),
            Type::Named(pointer) => {
                let known = self.open.iter().rfind(|(open, _)| open == pointer);
                known.map_or_else(|| "any".to_owned(), |(_, name)| name.clone())
            }
            _ => "any".to_owned(),
        }
    }

    fn object(&mut self, fields: &[Field], is_open: bool, shown: &str, origin: TypeOrigin) -> String {
        let body = self.fields(fields, is_open, shown, origin);
        self.declare(shown, keys_of(fields), origin, &body)
    }

    fn fields(&mut self, fields: &[Field], is_open: bool, shown: &str, origin: TypeOrigin) -> String {
        let mut body = String::new();
        for field in fields {
            let of = self.value(&field.shape, &format!("{shown}.{}", field.name), origin);
            let _ = write!(body, "{}: {of}; ", quoted(&field.name));
        }
        if is_open {
            body.push_str("[k: string]: any");
        }
        body
    }

    /// An object whose keys are data: every one leads to the same type.
    fn dictionary(&mut self, of: &Type, shown: &str, origin: TypeOrigin) -> String {
        let of = self.value(of, &format!("{shown}[key]"), origin);
        if of == "any" { of } else { self.declare(shown, Vec::new(), origin, &format!("[k: string]: {of}")) }
    }

    /// A type that contains itself has its name before its fields are written.
    fn recursive(&mut self, pointer: &str, of: &Type, shown: &str, origin: TypeOrigin) -> String {
        let Type::Object { fields, omitted, index } = of else { return self.value(of, shown, origin) };
        if fields.is_empty() || self.is_full() {
            return "any".to_owned();
        }
        let name = self.reserve(shown, keys_of(fields), origin);
        self.open.push((pointer.to_owned(), name.clone()));
        let body = self.fields(fields, *omitted > 0 || index.is_some(), shown, origin);
        self.open.pop();
        self.define(&name, &body);
        name
    }

    fn union(&mut self, members: &[Type], shown: &str, origin: TypeOrigin) -> String {
        let mut types: Vec<String> = Vec::new();
        for member in members.iter().filter(|member| **member != Type::Word("null")) {
            let of = self.value(member, shown, origin);
            if of == "any" {
                return of;
            }
            if !types.contains(&of) {
                types.push(of);
            }
        }
        if types.is_empty() { "any".to_owned() } else { types.join(" | ") }
    }

    fn functions(&mut self, functions: &[CheckedFunction<'_>]) {
        let (mut text, mut grouped, mut keys) = (String::new(), String::new(), Vec::new());
        for function in functions {
            let taken = self.parameters(function);
            let shape = Shaper::new(function.result, BOUNDS, References::Inline).shape(function.result);
            let of = self.value(&shape, &format!("{}()", function.name), TypeOrigin::Result);
            text.push_str(&std::mem::take(&mut self.pending));
            // Each is under `api` too, whatever its name.
            let local = function.name.strip_prefix("api.").unwrap_or(function.name);
            if local == function.name {
                let _ = writeln!(text, "declare function {local}({taken}): Promise<{of}>;");
            }
            let _ = write!(grouped, "{}({taken}): Promise<{of}>; ", quoted(local));
            keys.push(local.to_owned());
        }
        if !grouped.is_empty() {
            let name = self.reserve("api", keys, TypeOrigin::Functions);
            let _ = writeln!(text, "interface {name} {{ {grouped} }}\ndeclare const api: {name};");
        }
        self.declarations.functions = text;
    }

    /// The parameters of a function as TypeScript has them.
    fn parameters(&mut self, function: &CheckedFunction<'_>) -> String {
        let count = |kind: ParameterKind| function.parameters.iter().filter(|it| it.kind == kind).count();
        let is_open = count(ParameterKind::Rest) > 0;
        self.declarations.callables.push(DeclaredFunction {
            name: function.name.to_owned(),
            parameters: function.parameters.iter().map(|one| one.name.to_owned()).collect(),
            required: count(ParameterKind::Required),
            most: (!is_open).then_some(function.parameters.len()),
            checks_arguments: function.checks_arguments,
        });
        let mut taken = Vec::new();
        for (n, one) in function.parameters.iter().enumerate() {
            let shape = Shaper::new(one.schema, BOUNDS, References::Inline).shape(one.schema);
            let shown = format!("{}({})", function.name, one.name);
            let of = match &shape {
                Type::Object { fields, omitted: 0, .. } if !fields.is_empty() && !self.is_full() => {
                    let is_closed = one.schema.get("additionalProperties") == Some(&Value::Bool(false))
                        && one.schema.get("patternProperties").is_none();
                    self.argument_object(&shown, fields, is_closed)
                }
                other => self.argument_type(other, &shown),
            };
            taken.push(match one.kind {
                ParameterKind::Required => format!("a{n}: {of}"),
                ParameterKind::Optional => format!("a{n}?: {of}"),
                ParameterKind::Rest => format!("...a{n}: ({of})[]"),
            });
        }
        taken.join(", ")
    }
}

fn keys_of(fields: &[Field]) -> Vec<String> {
    fields.iter().map(|field| field.name.clone()).collect()
}

/// The one kind that all members have, `null` aside: `"open" | "closed"` are texts.
fn common_word(members: &[Type]) -> Option<&'static str> {
    let mut words = members.iter().filter(|member| **member != Type::Word("null")).map(|member| match member {
        Type::Word(word @ ("string" | "number" | "boolean")) => Some(*word),
        Type::Literal(text) if text.starts_with('"') => Some("string"),
        _ => None,
    });
    let first = words.next()??;
    words.all(|word| word == Some(first)).then_some(first)
}

/// The fields of all members, if all are objects, and whether there may be others.
fn merged(members: &[Type]) -> Option<(Vec<Field>, bool)> {
    let mut fields: Vec<Field> = Vec::new();
    let mut is_open = false;
    for member in members {
        let Type::Object { fields: own, omitted, index } = member else { return None };
        is_open |= *omitted > 0 || index.is_some() || own.is_empty();
        for field in own {
            if fields.iter().any(|known| known.name == field.name) {
                return None;
            }
            fields.push(field.clone());
        }
    }
    (!fields.is_empty()).then_some((fields, is_open))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendState, Catalog, Listing, Tool};
    use serde_json::json;

    fn catalog(tools: Vec<Value>) -> Catalog {
        let tools = tools.into_iter().filter_map(Tool::from_raw).collect();
        Catalog::new(vec![Listing { name: "my-b".into(), state: BackendState::Ready, tools, tags: Vec::new() }])
    }

    fn declared(tools: Vec<Value>, learned: Option<&str>) -> Declarations {
        let catalog = catalog(tools);
        let backends: Vec<CheckedBackend<'_>> = catalog
            .backends()
            .iter()
            .map(|backend| CheckedBackend {
                backend,
                tools: backend.tools().iter().collect(),
                may_have_more: false,
                is_global: true,
            })
            .collect();
        let learned = learned.map(|json| LearnedType::of(json).unwrap());
        Declarations::new(&backends, &[], &|_, _| learned.clone())
    }

    /// The text for a program that mentions everything.
    fn whole(declarations: &Declarations) -> String {
        declarations.text_for(&|_| true)
    }

    #[test]
    fn declared_types_have_names_that_are_theirs() {
        let declarations = declared(
            vec![json!({
                "name": "get-issue",
                "inputSchema": { "type": "object", "required": ["id"], "properties": {
                    "id": { "type": "integer" }, "state": { "enum": ["open", "closed"] }, "any": {},
                } },
                "outputSchema": { "type": "object", "properties": {
                    "title": { "type": "string" }, "tags": { "type": "array", "items": { "type": "string" } },
                    "author": { "type": ["object", "null"], "properties": { "login": { "type": "string" } } },
                    "extra": { "type": "object" }, "either": { "anyOf": [{ "type": "string" }, {}] },
                } },
            })],
            None,
        );
        let text = whole(&declarations);
        let text = text.strip_prefix(GLOBALS).unwrap();
        insta::assert_snapshot!(text, @r#"
        interface $tg0 { "id": number; "state"?: string; "any"?: any; [k: string]: any }
        interface $tg1 { "login": $tgs;  }
        interface $tg2 { "title": $tgs; "tags": ($tgs)[]; "author": $tg1; "extra": any; "either": any;  }
        interface $tg3 { readonly $tg: "$tg3"; "get_issue"(args: $tg0): Promise<$tg2>; "get-issue"(args: $tg0): Promise<$tg2>;  }
        declare const my_b: $tg3;
        declare const tools: { "my_b": $tg3; "my-b": $tg3; [k: string]: any };
        declare const __backends: { "my_b": $tg3; "my-b": $tg3; [k: string]: any };
        "#);
        let author = declarations.get("$tg1").unwrap();
        assert_eq!((author.shown.as_str(), author.origin), ("my_b.get_issue().author", TypeOrigin::Result));
        assert_eq!(declarations.get("$tg3").unwrap().keys, ["get_issue"]);
        assert!(declarations.get("$tgs").is_none() && declarations.get("$tg4").is_none());
        assert!(declarations.has_result_key("login") && !declarations.has_result_key("id"));
    }

    #[test]
    fn a_type_that_contains_itself_and_a_dictionary_are_declared() {
        let tree = json!({ "type": "object", "required": ["name"], "properties": {
            "name": { "type": "string" }, "kids": { "type": "array", "items": { "$ref": "#/$defs/tree" } },
        } });
        let declarations = declared(
            vec![json!({
                "name": "t",
                "outputSchema": { "type": "object", "$defs": { "tree": tree, "loop": { "$ref": "#/$defs/loop" } }, "properties": {
                    "root": { "$ref": "#/$defs/tree" }, "loop": { "$ref": "#/$defs/loop" },
                    "by_id": { "type": "object", "additionalProperties": { "type": "object", "properties": { "n": { "type": "number" } } } },
                    "free": { "type": "object", "additionalProperties": true },
                } },
            })],
            None,
        );
        let text = whole(&declarations);
        let text = text.strip_prefix(GLOBALS).unwrap();
        let types: Vec<&str> = text.lines().filter(|line| !line.contains("Promise")).take(5).collect();
        insta::assert_snapshot!(types.join("\n"), @r#"
        interface $tg0 { [k: string]: any }
        interface $tg1 { "name": $tgs; "kids": ($tg1)[];  }
        interface $tg2 { "n": $tgn;  }
        interface $tg3 { [k: string]: $tg2 }
        interface $tg4 { "root": $tg1; "loop": any; "by_id": $tg3; "free": any;  }
        "#);
        assert_eq!(declarations.get("$tg1").unwrap().shown, "my_b.t().root");
        assert_eq!(declarations.get("$tg2").unwrap().shown, "my_b.t().by_id[key]");
    }

    #[test]
    fn a_program_gets_the_tools_that_it_mentions() {
        let result = json!({ "type": "object", "properties": { "n": { "type": "number" } } });
        let tool = |name: &str| json!({ "name": name, "outputSchema": result });
        let declarations = declared(vec![tool("one"), tool("two-parts"), tool("three"), tool("1e3")], None);
        let text_for = |mentioned: &[&str]| declarations.text_for(&|name| mentioned.contains(&name));
        let text = text_for(&["three"]);
        assert!(text.contains("\"three\"(") && !text.contains("\"one\"") && !text.contains("two"), "{text}");
        // `my_b[1000]` is the tool `1e3`, so to speak; a name that may be a number is declared for all.
        assert!(text.contains("\"1e3\"("), "{text}");
        for spelling in ["two_parts", "two-parts"] {
            let text = text_for(&[spelling]);
            assert!(text.contains("\"two_parts\"(") && text.contains("\"two-parts\"("), "{text}");
        }
        // A name means the same type in every text.
        let (whole, part) = (whole(&declarations), text_for(&["three"]));
        assert!(part.lines().filter(|line| line.contains("\"n\"")).all(|line| whole.contains(line)), "{part}");
        assert!(part.len() < whole.len());
    }

    #[test]
    fn a_result_schema_that_says_nothing_is_none() {
        for schema in [json!({}), json!({ "description": "anything" }), json!({ "type": "object" })] {
            let tool = json!({ "name": "list", "outputSchema": schema });
            let text = whole(&declared(vec![tool], Some(r#"[{"id":1}]"#)));
            assert!(text.contains("Promise<($tg1)[]>"), "{text}");
        }
    }

    #[test]
    fn learned_types_say_nothing_of_single_values() {
        let declarations = declared(vec![json!({ "name": "list" })], Some(r#"[{"id":1,"name":"a"}]"#));
        let text = whole(&declarations);
        assert!(text.contains(r#"interface $tg1 { "id": any; "name": any;  }"#), "{text}");
        assert!(text.contains("Promise<($tg1)[]>"), "{text}");
        assert_eq!(declarations.get("$tg1").unwrap().origin, TypeOrigin::Learned);
    }

    #[test]
    fn names_of_a_schema_break_out_of_nothing() {
        let hostile = "a\": any } declare const x: any; interface y { \"\\\n*/";
        let properties = json!({ hostile: { "type": "string" } });
        let declarations = declared(
            vec![json!({
                "name": hostile,
                "inputSchema": { "type": "object", "properties": properties },
                "outputSchema": { "type": "object", "properties": properties },
            })],
            None,
        );
        let text = whole(&declarations);
        let allocator = oxc::allocator::Allocator::default();
        let parsed = oxc::parser::Parser::new(&allocator, &text, oxc::span::SourceType::d_ts()).parse();
        assert!(!parsed.panicked && parsed.diagnostics.is_empty(), "{text}");
        let constants = parsed.program.body.iter().filter(|it| it.is_declaration()).count();
        assert_eq!(constants, text.lines().count(), "one declaration a line");
    }
}
