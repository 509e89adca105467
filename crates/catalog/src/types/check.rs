//! Declarations for a type checker: what a program can call, in the form in which a checker's findings can be judged.
//!
//! Every type that a schema declares has a name of its own, `$tg` and a number, so that a finding says whether it is about
//! a declared type, and which. Types are wider than the schemas where a correct program could meet the difference: texts
//! with a fixed set of values are texts, arguments take properties that are not named, alternatives of different kinds are
//! `any`. Nothing of a schema is written verbatim: keys are quoted, everything else is ours.

mod kinds;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::Value;

use self::kinds::{common_word, kind_of, merged};
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
    /// What they are, by their names.
    callables: HashMap<String, DeclaredFunction>,
    /// The types by their number.
    types: Vec<DeclaredType>,
    /// The keys of results.
    result_keys: HashSet<String>,
    /// The globals that are backends, or hold them.
    roots: HashSet<String>,
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
    /// Whether a value may have other keys.
    pub is_open: bool,
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
    /// The names of those whose results broke the schema that they declare: such a result may have any type.
    pub broken: HashSet<&'a str>,
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
    /// The names of its parameters.
    pub parameters: Vec<String>,
    /// How many of them must be given.
    pub required: usize,
    /// How many arguments it takes, if not any number.
    pub most: Option<usize>,
    /// Whether it refuses arguments that do not fit.
    pub checks_arguments: bool,
}

fn lengths<'t>(texts: impl IntoIterator<Item = &'t String>) -> usize {
    texts.into_iter().map(String::len).sum()
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
                writer.declarations.roots.insert(one.backend.identifier().to_owned());
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
        backends + types + self.functions.len() + lengths(&self.result_keys)
    }

    /// The declared type of a name such as `$tg12`.
    pub fn get(&self, name: &str) -> Option<&DeclaredType> {
        self.types.get(name.strip_prefix(RESERVED)?.parse::<usize>().ok()?)
    }

    /// Whether a callee such as `tracker.get_issue` is of a backend.
    pub fn is_on_backend(&self, callee: &str) -> bool {
        let root = callee.split(['.', '[', '?', ' ', '\n']).next().unwrap_or_default();
        self.roots.contains(root)
    }

    /// The host function that a callee such as `api.fetch` is. Every one is also under `api`.
    pub fn function(&self, callee: &str) -> Option<&DeclaredFunction> {
        let local = || self.callables.get(callee.strip_prefix("api.")?);
        self.callables.get(callee).or_else(local)
    }

    /// Whether a global of this name is a host function, or holds them.
    pub fn is_function_global(&self, name: &str) -> bool {
        self.callables.contains_key(name) || (name == "api" && !self.callables.is_empty())
    }

    /// Whether a result has this key.
    pub fn has_result_key(&self, key: &str) -> bool {
        self.result_keys.contains(key)
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
    fn declare(&mut self, shown: &str, keys: Keys, origin: TypeOrigin, body: &str) -> String {
        let name = self.reserve(shown, keys, origin);
        self.define(&name, body);
        name
    }

    /// The name of a type that is defined later, because it contains itself.
    fn reserve(&mut self, shown: &str, Keys { named, is_open }: Keys, origin: TypeOrigin) -> String {
        let name = format!("{RESERVED}{}", self.declarations.types.len());
        if matches!(origin, TypeOrigin::Result | TypeOrigin::Learned) {
            self.declarations.result_keys.extend(named.iter().cloned());
        }
        let (shown, required) = (shown.to_owned(), Vec::new());
        self.declarations.types.push(DeclaredType { shown, keys: named, is_open, required, origin });
        name
    }

    fn define(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.pending, "interface {name} {{ {body} }}");
    }

    /// The brand keeps results apart: without it a checker takes one with more keys for a kind of another one with fewer, and
    /// of `full ? await shop.get() : summary` it knows the keys of the summary only.
    fn define_result(&mut self, name: &str, fields: &[Field], body: &str) {
        let is_taken = fields.iter().any(|field| field.name == RESERVED);
        let brand = if is_taken { String::new() } else { format!("readonly {RESERVED}: {}; ", quoted(name)) };
        self.define(name, &format!("{brand}{body}"));
    }

    fn backend(&mut self, one: &CheckedBackend<'_>, learned: &Learned<'_>) -> DeclaredBackend {
        let mut tools = Vec::new();
        let mut keys = Vec::new();
        for &entry in &one.tools {
            let tool = ToolRef { backend: one.backend, entry };
            let argument = self.argument(tool);
            let is_broken = one.broken.contains(entry.tool().name.as_str());
            let result = if is_broken { "any".to_owned() } else { self.result(tool, learned) };
            let signature = format!("({argument}): Promise<{result}>; ");
            let spellings = entry.spellings().into_iter().map(str::to_owned).collect();
            let types = std::mem::take(&mut self.pending);
            self.written += types.len() + signature.len();
            tools.push(DeclaredTool { spellings, types, signature });
            keys.push(entry.identifier().to_owned());
        }
        let identifier = one.backend.identifier();
        DeclaredBackend {
            name: self.reserve(identifier, Keys { named: keys, is_open: one.may_have_more }, TypeOrigin::Backend),
            spellings: [identifier.to_owned(), one.backend.name().to_owned()],
            is_global: one.is_global,
            may_have_more: one.may_have_more,
            tools,
        }
    }

    fn argument(&mut self, tool: ToolRef<'_>) -> String {
        if self.is_full() {
            return "args?: any".to_owned();
        }
        let schema = tool.tool().input_schema();
        let shape = Shaper::new(schema, BOUNDS, References::Inline).shape(schema);
        let Type::Object { fields, omitted: 0, .. } = shape else { return "args?: any".to_owned() };
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
        let name = self.declare(shown, Keys::of(fields, !is_closed), TypeOrigin::Argument, &body);
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
        let name = self.reserve(shown, Keys::of(fields, is_open), origin);
        self.define_result(&name, fields, &body);
        name
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
        if of == "any" { of } else { self.declare(shown, Keys::of(&[], true), origin, &format!("[k: string]: {of}")) }
    }

    /// A type that contains itself has its name before its fields are written.
    fn recursive(&mut self, pointer: &str, of: &Type, shown: &str, origin: TypeOrigin) -> String {
        let Type::Object { fields, omitted, index } = of else { return self.value(of, shown, origin) };
        if fields.is_empty() || self.is_full() {
            return "any".to_owned();
        }
        let is_open = *omitted > 0 || index.is_some();
        let name = self.reserve(shown, Keys::of(fields, is_open), origin);
        self.open.push((pointer.to_owned(), name.clone()));
        let body = self.fields(fields, is_open, shown, origin);
        self.open.pop();
        self.define_result(&name, fields, &body);
        name
    }

    /// Values of different kinds have different methods, of which a program uses those of the one that it knows to get: only
    /// members of one kind are declared.
    fn union(&mut self, members: &[Type], shown: &str, origin: TypeOrigin) -> String {
        let members = || members.iter().filter(|member| **member != Type::Word("null"));
        let mut kinds = members().map(kind_of);
        let first = kinds.next().flatten();
        if first.is_none() || kinds.any(|kind| kind != first) {
            return "any".to_owned();
        }
        let mut types: Vec<String> = Vec::new();
        for member in members() {
            let of = self.value(member, shown, origin);
            if of == "any" {
                return of;
            }
            if !types.contains(&of) {
                types.push(of);
            }
        }
        types.join(" | ")
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
            let name = self.reserve("api", Keys { named: keys, is_open: false }, TypeOrigin::Functions);
            let _ = writeln!(text, "interface {name} {{ {grouped} }}\ndeclare const api: {name};");
        }
        self.declarations.functions = text;
    }

    /// The parameters of a function as TypeScript has them.
    fn parameters(&mut self, function: &CheckedFunction<'_>) -> String {
        let count = |kind: ParameterKind| function.parameters.iter().filter(|it| it.kind == kind).count();
        let is_open = count(ParameterKind::Rest) > 0;
        let declared = DeclaredFunction {
            parameters: function.parameters.iter().map(|one| one.name.to_owned()).collect(),
            required: count(ParameterKind::Required),
            most: (!is_open).then_some(function.parameters.len()),
            checks_arguments: function.checks_arguments,
        };
        self.declarations.callables.insert(function.name.to_owned(), declared);
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

/// The keys of a type.
struct Keys {
    named: Vec<String>,
    /// Whether there may be others.
    is_open: bool,
}

impl Keys {
    fn of(fields: &[Field], is_open: bool) -> Self {
        Keys { named: fields.iter().map(|field| field.name.clone()).collect(), is_open }
    }
}

#[cfg(test)]
mod tests;
