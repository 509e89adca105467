//! From what the compiler says to what is certain.
//!
//! Certain is: a property that no declared type of the value has, a tool that its backend does not have, a host function
//! that is not there, an argument whose kind its schema refuses or that lacks what is required, a promise of a call that is
//! used as its value. And that only
//! where the program keeps to the types that are inferred for it, uses the value rather than asks for it, and does not
//! catch the error. Everything else that the compiler says is a warning or nothing: no program that runs correctly is
//! refused for its style.
//!
//! The compiler's messages are read by their numbers and by the names that they quote, which are names of the program and of
//! our declarations (`$tg12`); what the sentence around them says is not looked at. There is nothing more structured: in
//! TypeScript 7.0.2 a diagnostic of the language server, and of the API that its package calls unstable, is a number, a place
//! and finished text, without the arguments that the text was made of. That API also gives types at positions, by a round
//! trip for each over a channel of its own: dearer than the check, and announced to change. What a message quotes is
//! looked up in the declarations and compared with the program's own text, so a message of another form is nothing.

use serde_json::Value;
use toolgate_catalog::types::check::{Declarations, DeclaredFunction, DeclaredType, RESERVED, TypeOrigin};
use toolgate_plan::suggest::{listed, nearest, question};
use toolgate_plan::{Finding, FindingCode, Program, ProgramUsage, PropertyAccess};
use toolgate_wire::foreign_text::one_line;

use crate::server::{Diagnostic, MAX_DIAGNOSTICS};

/// Length of a quoted name or type, in characters.
const MAX_QUOTED: usize = 80;
/// Findings of each kind.
const MAX_FINDINGS: usize = 20;

/// What is wrong with a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judged {
    /// Certainly wrong.
    pub errors: Vec<TypeFinding>,
    /// Tools that are not there, of names like none that is: wrong unless the call is not made.
    pub unlike_any: Vec<TypeFinding>,
    /// Probably wrong.
    pub warnings: Vec<TypeFinding>,
}

/// One finding.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeFinding {
    /// What is wrong, where, and what to do instead.
    pub finding: Finding,
    /// The callee as written, if the finding is about the arguments of a call: it holds only if the tool's schema can be
    /// used.
    pub arguments_of: Option<String>,
}

/// What is known about one message.
enum Opinion {
    Certain(FindingCode, String, Option<String>),
    UnlikeAny(FindingCode, String, Option<String>),
    Likely(FindingCode, String, Option<String>),
}

pub(crate) fn judge(
    program: &Program,
    usage: &ProgramUsage,
    declarations: &Declarations,
    diagnostics: &[Diagnostic],
) -> Judged {
    let judge = Judge { usage, declarations };
    let located: Vec<(usize, &Diagnostic)> = diagnostics
        .iter()
        .filter_map(|one| Some((usage.offset(offset_of(&usage.text, one.line, one.column)?), one)))
        .collect();
    let is_trusted = judge.is_trusted(&located);
    let mut judged = Judged::default();
    for (offset, diagnostic) in located {
        let Some(opinion) = judge.opinion(offset, diagnostic) else { continue };
        let (code, message, suggestion, list) = match opinion {
            Opinion::Certain(code, message, suggestion) => (code, message, suggestion, &mut judged.errors),
            Opinion::UnlikeAny(code, message, suggestion) => (code, message, suggestion, &mut judged.unlike_any),
            Opinion::Likely(code, message, suggestion) => (code, message, suggestion, &mut judged.warnings),
        };
        let Some(position) = program.position_at(offset) else { continue };
        let is_about_arguments = code == FindingCode::InvalidArguments;
        if !is_trusted && !is_about_arguments && code != FindingCode::MissingAwait {
            continue;
        }
        let arguments_of = usage.global_call_at(offset).filter(|_| is_about_arguments).map(str::to_owned);
        let finding = TypeFinding { finding: Finding { code, message, position, suggestion }, arguments_of };
        let list = if is_trusted { list } else { &mut judged.warnings };
        let is_known = list.iter().any(|known| known.finding.position == finding.finding.position);
        if !is_known && list.len() < MAX_FINDINGS {
            list.push(finding);
        }
    }
    judged
}

/// The offset in bytes of a position in UTF-16 units.
fn offset_of(text: &str, line: u32, column: u32) -> Option<usize> {
    let mut start = 0;
    for _ in 0..line {
        start += text.get(start..)?.find('\n')? + 1;
    }
    let mut units = column as usize;
    let mut offset = start;
    for c in text.get(start..)?.chars() {
        if units < c.len_utf16() {
            break;
        }
        units -= c.len_utf16();
        offset += c.len_utf8();
    }
    Some(offset)
}

struct Judge<'j> {
    usage: &'j ProgramUsage,
    declarations: &'j Declarations,
}

impl Judge<'_> {
    /// Whether the program keeps to inferred types. One that assigns what does not fit, or sets a property that results
    /// have, may have given anything another type.
    fn is_trusted(&self, located: &[(usize, &Diagnostic)]) -> bool {
        let misfit = |(offset, diagnostic): &(usize, &Diagnostic)| {
            let is_assignment = matches!(diagnostic.code, 2322 | 2345 | 2353 | 2559 | 2561 | 2739..=2741 | 2769);
            is_assignment && !self.is_tool_call(*offset)
        };
        // What comes after the last finding that is read may be a misfit.
        self.usage.is_trusted
            && located.len() < MAX_DIAGNOSTICS
            && !self.usage.written_names().any(|name| {
                // `globalThis.tracker = …` replaces a backend.
                self.declarations.has_result_key(name)
                    || self.declarations.is_on_backend(name)
                    || self.declarations.is_function_global(name)
            })
            && !located.iter().any(misfit)
    }

    /// Whether the arguments around an offset are those of a tool or a host function.
    fn is_tool_call(&self, offset: usize) -> bool {
        let is_one = |callee| self.declarations.is_on_backend(callee) || self.declarations.function(callee).is_some();
        self.usage.global_call_at(offset).is_some_and(is_one)
    }

    /// The host function whose arguments are around an offset.
    fn function_at(&self, offset: usize) -> Option<&DeclaredFunction> {
        self.declarations.function(self.usage.global_call_at(offset)?)
    }

    fn opinion(&self, offset: usize, diagnostic: &Diagnostic) -> Option<Opinion> {
        let quoted = Quoted::of(&diagnostic.message);
        match diagnostic.code {
            2339 | 2551 => self.property(offset, quoted.first()?, quoted.second()?),
            // No iterator, no array: spread, `for … of`, destructuring.
            2461 | 2488 | 2495 | 2548 | 2549 | 2569 => self.promise(offset, quoted.first()?),
            2365 => quoted.0.iter().find_map(|one| self.promise(offset, one)),
            2322 => self.value_of_argument(offset, quoted.first()?, quoted.second()?),
            2345 => self.argument(offset, quoted.first()?, quoted.second()?),
            2739..=2741 => self.missing(offset, self.last_declared(&quoted)?),
            2353 | 2561 => self.unknown_argument(offset, &quoted),
            2554 | 2555 => self.number_of_arguments(offset),
            _ => None,
        }
    }

    fn property(&self, offset: usize, name: &str, of: &str) -> Option<Opinion> {
        if is_promise(of) {
            return self.property_of_promise(offset, name, of);
        }
        let types = of.split(" | ").map(|one| self.member(one)).collect::<Option<Vec<_>>>()?;
        // A method that values of one kind have is no mistake where the program knows which it gets.
        let are_of_one_kind = types.windows(2).all(|pair| matches!(pair, [a, b] if a.is_of_kind(b)));
        if !are_of_one_kind || types.iter().any(|one| one.has(name)) {
            return None;
        }
        let (written, access) = self.usage.access_at(offset)?;
        if written != name || access != PropertyAccess::Read {
            return None;
        }
        let shown = one_line(name, MAX_QUOTED);
        let owner: Vec<String> = types.iter().map(Member::shown).collect();
        let owner = owner.join(" or ");
        let keys: Vec<&str> = types.iter().flat_map(Member::keys).collect();
        let near = question(
            &nearest(name, keys.iter().copied()).into_iter().map(|one| one_line(&one, MAX_QUOTED)).collect::<Vec<_>>(),
        );
        let has_near = near.is_some();
        let suggestion = Some([near, listed(keys.iter().copied())].into_iter().flatten().collect::<Vec<_>>().join(" "));
        let suggestion = suggestion.filter(|text| !text.is_empty());
        let origin = |wanted: TypeOrigin| types.iter().any(|one| one.origin() == Some(wanted));
        if origin(TypeOrigin::Backend) {
            let message = format!("Backend `{owner}` has no tool `{shown}`");
            let code = FindingCode::UnknownTool;
            // The call of a tool that is not there is a promise that is rejected.
            return Some(match self.unless_guarded(offset, code, message, suggestion) {
                Opinion::Certain(code, message, suggestion) if self.usage.handles_rejections => {
                    Opinion::Likely(code, message, suggestion)
                }
                Opinion::Certain(code, message, suggestion) if !has_near => {
                    Opinion::UnlikeAny(code, message, suggestion)
                }
                opinion => opinion,
            });
        }
        if origin(TypeOrigin::Functions) {
            let message = format!("`{owner}` has no function `{shown}`");
            return Some(self.unless_guarded(offset, FindingCode::UnknownTool, message, suggestion));
        }
        let message = format!("Property '{shown}' does not exist on type '{owner}'");
        if origin(TypeOrigin::Learned) {
            let message = format!("{message}: no result so far had it");
            return Some(Opinion::Likely(FindingCode::UnknownProperty, message, suggestion));
        }
        // Without a name that may be meant, the server may send what it does not declare: the checker takes a quoted key as it is.
        let way_out =
            (!has_near).then(|| format!("If the server sends it all the same, write [{}].", Value::from(shown)));
        let suggestion = Some(suggestion.into_iter().chain(way_out).collect::<Vec<_>>().join(" "));
        let suggestion = suggestion.filter(|text| !text.is_empty());
        Some(self.unless_guarded(offset, FindingCode::UnknownProperty, message, suggestion))
    }

    /// A promise is an object, which may be given properties and asked for them.
    fn property_of_promise(&self, offset: usize, name: &str, of: &str) -> Option<Opinion> {
        let access = self.usage.access_at(offset).map_or(PropertyAccess::Read, |(_, access)| access);
        // `call().name` of an undeclared result is nothing rather than an error: it may be meant.
        let is_certain = match access {
            PropertyAccess::Written => return None,
            // `call().name ?? other` is likely a mistake if results have such a key, and runs.
            PropertyAccess::Probed if !self.declarations.has_result_key(name) => return None,
            PropertyAccess::Probed => false,
            PropertyAccess::Read => of != "Promise<any>" || self.usage.is_dereferenced(offset),
        };
        match self.promise(offset, of)? {
            Opinion::Certain(code, message, suggestion) if !is_certain => {
                Some(Opinion::Likely(code, message, suggestion))
            }
            opinion => Some(opinion),
        }
    }

    /// One member of a quoted type; `None` if it is not a declared one.
    fn member(&self, text: &str) -> Option<Member<'_>> {
        let text = text.trim_matches(['(', ')']);
        let (of, is_list) = match text.strip_suffix("[]") {
            Some(of) => (of.trim_matches(['(', ')']), true),
            None => (text, false),
        };
        if of.contains("[]") {
            return None;
        }
        let kind = match of {
            "$tgs" => Declared::Text,
            "$tgn" => Declared::Number,
            other => Declared::Type(self.declarations.get(other)?),
        };
        if let Declared::Type(declared) = kind
            && declared.origin == TypeOrigin::Argument
        {
            return None;
        }
        Some(Member { kind, is_list })
    }

    fn promise(&self, offset: usize, of: &str) -> Option<Opinion> {
        if !is_promise(of) {
            return None;
        }
        let message = "A promise is used as if it were its value".to_owned();
        let suggestion = Some("Put `await` before the call.".to_owned());
        Some(self.unless_guarded(offset, FindingCode::MissingAwait, message, suggestion))
    }

    fn unless_guarded(&self, offset: usize, code: FindingCode, message: String, suggestion: Option<String>) -> Opinion {
        if self.usage.is_guarded(offset) {
            Opinion::Likely(code, message, suggestion)
        } else {
            Opinion::Certain(code, message, suggestion)
        }
    }

    /// An opinion about the arguments of a tool or a function, whose refusal the program may handle.
    fn about_arguments(&self, offset: usize, message: String, suggestion: Option<String>) -> Option<Opinion> {
        if !self.is_tool_call(offset) {
            return None;
        }
        let code = FindingCode::InvalidArguments;
        let is_handled = self.usage.handles_rejections || self.usage.is_guarded(offset);
        let is_refused = self.function_at(offset).is_none_or(|function| function.checks_arguments);
        Some(match is_refused && !is_handled {
            true => Opinion::Certain(code, message, suggestion),
            false => Opinion::Likely(code, message, suggestion),
        })
    }

    fn value_of_argument(&self, offset: usize, given: &str, wanted: &str) -> Option<Opinion> {
        let (given, wanted) = (kind_of(given)?, kind_of(wanted).filter(|kind| *kind != Kind::Promise)?);
        if given == wanted {
            return None;
        }
        let message = match given {
            Kind::Promise => format!("A promise is given where {} is wanted", wanted.shown()),
            _ => format!("{} is given where {} is wanted", capital(given.shown()), wanted.shown()),
        };
        let suggestion = (given == Kind::Promise).then(|| "Put `await` before the call.".to_owned());
        self.about_arguments(offset, message, suggestion)
    }

    fn argument(&self, offset: usize, given: &str, wanted: &str) -> Option<Opinion> {
        if !self.usage.is_argument_at(offset) {
            return None;
        }
        let is_function = self.function_at(offset).is_some();
        let Some(wanted) = self.declarations.get(wanted).filter(|wanted| wanted.origin == TypeOrigin::Argument) else {
            return is_function.then(|| self.value_of_argument(offset, given, wanted))?;
        };
        if let Some(missing) = self.missing(offset, wanted) {
            return Some(missing);
        }
        match kind_of(given)? {
            Kind::Object => None,
            Kind::Promise => {
                let suggestion = Some("Put `await` before the call.".to_owned());
                self.about_arguments(offset, "A promise is given as the arguments".to_owned(), suggestion)
            }
            kind if is_function => {
                let message = format!("{} is given where an object is wanted", capital(kind.shown()));
                self.about_arguments(offset, message, None)
            }
            kind => {
                let message = format!("A tool takes one object of arguments, and gets {}", kind.shown());
                self.about_arguments(offset, message, None)
            }
        }
    }

    /// What an object literal lacks, by its own keys.
    fn missing(&self, offset: usize, wanted: &DeclaredType) -> Option<Opinion> {
        let missing = lacking(self.usage.literal_keys(offset)?, wanted);
        if missing.is_empty() {
            return None;
        }
        let shown = one_line(&wanted.shown, MAX_QUOTED);
        let message = format!("{shown} lacks {}", one_line(&missing.join(", "), 200));
        let keys: Vec<&str> = wanted.keys.iter().map(String::as_str).collect();
        self.about_arguments(offset, message, listed(keys.iter().copied()))
    }

    /// The declared type that a message quotes last: the one that is wanted.
    fn last_declared(&self, quoted: &Quoted<'_>) -> Option<&DeclaredType> {
        quoted.0.iter().rev().find_map(|one| self.declarations.get(one))
    }

    fn unknown_argument(&self, offset: usize, quoted: &Quoted<'_>) -> Option<Opinion> {
        let wanted = quoted.0.iter().find_map(|one| self.declarations.get(one))?;
        // `__proto__` in a literal is no property.
        let is_name = |one: &&&str| !one.is_empty() && **one != "__proto__" && !one.starts_with(RESERVED);
        let name = quoted.0.iter().find(is_name)?;
        let beside = self.usage.keys_beside(offset);
        if beside.is_some_and(makes_its_json) {
            return None;
        }
        let keys: Vec<&str> = wanted.keys.iter().map(String::as_str).collect();
        let near = question(&nearest(name, keys.iter().copied()));
        let suggestion = [near, listed(keys.iter().copied())].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let message = format!("{} takes no '{}'", one_line(&wanted.shown, MAX_QUOTED), one_line(name, MAX_QUOTED));
        let suggestion = Some(suggestion).filter(|text| !text.is_empty());
        // A value that is `undefined` is not sent.
        let is_sent = self.usage.is_in_json(offset) || beside.is_some_and(|keys| !lacking(keys, wanted).is_empty());
        match self.about_arguments(offset, message, suggestion)? {
            Opinion::Certain(code, message, suggestion) if !is_sent => Some(Opinion::Likely(code, message, suggestion)),
            opinion => Some(opinion),
        }
    }

    /// Another number of arguments than a tool or a function takes. Too many are no error of a tool.
    fn number_of_arguments(&self, offset: usize) -> Option<Opinion> {
        let given = self.usage.arguments_at(offset)?;
        let callee = one_line(self.usage.global_call_at(offset)?, MAX_QUOTED);
        let Some(function) = self.function_at(offset) else {
            return (given == 0)
                .then(|| self.about_arguments(offset, format!("{callee} needs its arguments"), None))?;
        };
        let message = match (function.parameters.get(given), function.most) {
            (Some(missing), _) if given < function.required => {
                format!("{callee} lacks argument {} `{missing}`", given + 1)
            }
            (_, Some(most)) if given > most => format!("{callee} takes at most {most} arguments, and gets {given}"),
            _ => return None,
        };
        let takes = (!function.parameters.is_empty()).then(|| format!("It takes {}.", function.parameters.join(", ")));
        self.about_arguments(offset, message, takes)
    }
}

/// The required keys that an object literal of these keys lacks.
fn lacking<'w>(given: &[String], wanted: &'w DeclaredType) -> Vec<&'w str> {
    if makes_its_json(given) {
        return Vec::new();
    }
    wanted.required.iter().filter(|name| !given.contains(name)).map(String::as_str).collect()
}

/// Whether an object of these keys decides by itself what it is as JSON.
fn makes_its_json(keys: &[String]) -> bool {
    keys.iter().any(|key| key == "toJSON")
}

fn is_promise(of: &str) -> bool {
    of.strip_prefix("Promise<").is_some_and(|rest| rest.ends_with('>') && !rest.contains(" | "))
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The texts of a message's first line that are in single quotes.
struct Quoted<'m>(Vec<&'m str>);

impl<'m> Quoted<'m> {
    fn of(message: &'m str) -> Self {
        let line = message.lines().next().unwrap_or_default();
        // A quoted type may contain quotes of its own only in texts, which no declared type has.
        Self(line.split('\'').skip(1).step_by(2).collect())
    }

    fn first(&self) -> Option<&&'m str> {
        self.0.first()
    }

    fn second(&self) -> Option<&&'m str> {
        self.0.get(1)
    }
}

#[derive(Clone, Copy)]
enum Declared<'d> {
    Text,
    Number,
    Type(&'d DeclaredType),
}

/// A declared type, or a list of it.
struct Member<'d> {
    kind: Declared<'d>,
    is_list: bool,
}

impl<'d> Member<'d> {
    fn has(&self, name: &str) -> bool {
        let is_open = matches!(self.kind, Declared::Type(declared) if declared.is_open && !self.is_list);
        is_open || self.keys().contains(&name)
    }

    /// Whether the values of both have the same methods.
    fn is_of_kind(&self, other: &Self) -> bool {
        let is_list = self.is_list || other.is_list;
        let same = std::mem::discriminant(&self.kind) == std::mem::discriminant(&other.kind);
        self.is_list == other.is_list && (is_list || same)
    }

    fn keys(&self) -> Vec<&'d str> {
        match self.kind {
            _ if self.is_list => vec!["length"],
            Declared::Text => vec!["length"],
            Declared::Number => Vec::new(),
            Declared::Type(declared) => declared.keys.iter().map(String::as_str).collect(),
        }
    }

    fn shown(&self) -> String {
        let name = match self.kind {
            Declared::Text => "string".to_owned(),
            Declared::Number => "number".to_owned(),
            Declared::Type(declared) => one_line(&declared.shown, MAX_QUOTED),
        };
        // `tracker.list().issues[]` is an item of the list `tracker.list().issues`.
        match (self.is_list, name.strip_suffix("[]")) {
            (true, Some(list)) => list.to_owned(),
            (true, None) => format!("{name}[]"),
            (false, _) => name,
        }
    }

    fn origin(&self) -> Option<TypeOrigin> {
        match self.kind {
            Declared::Type(declared) => Some(declared.origin),
            Declared::Text | Declared::Number => None,
        }
    }
}

/// The kind of a value in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Boolean,
    List,
    Object,
    Promise,
}

impl Kind {
    fn shown(self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Number => "a number",
            Self::Boolean => "a boolean",
            Self::List => "a list",
            Self::Object => "an object",
            Self::Promise => "a promise",
        }
    }
}

/// The kind that a quoted type certainly has as JSON; `None` for everything else, such as a `Date`.
fn kind_of(text: &str) -> Option<Kind> {
    match text {
        "string" | "$tgs" => return Some(Kind::Text),
        "number" | "$tgn" => return Some(Kind::Number),
        "boolean" | "true" | "false" => return Some(Kind::Boolean),
        _ if text.contains(" | ") || text.contains("toJSON") => return None,
        _ => {}
    }
    if is_promise(text) {
        return Some(Kind::Promise);
    }
    if text.ends_with("[]") {
        return Some(Kind::List);
    }
    let is_type = text.strip_prefix(RESERVED).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
    (is_type || text.starts_with("{ ") || text == "{}").then_some(Kind::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf16_units() {
        let text = "a\nü😀b";
        assert_eq!(offset_of(text, 1, 3), Some(text.len() - 1));
        assert_eq!((offset_of(text, 0, 0), offset_of(text, 2, 0)), (Some(0), None));
    }

    #[test]
    fn kinds_are_those_of_json() {
        assert_eq!(
            (kind_of("$tgs"), kind_of("$tgn"), kind_of("$tg3")),
            (Some(Kind::Text), Some(Kind::Number), Some(Kind::Object))
        );
        assert_eq!((kind_of("$tg3[]"), kind_of("Promise<$tg1>")), (Some(Kind::List), Some(Kind::Promise)));
        for unknown in ["Date", "string | number", "{ toJSON(): string; }", "any", "Promise<a> | Promise<b>", "$tgx"] {
            assert_eq!(kind_of(unknown), None, "{unknown}");
        }
    }
}
