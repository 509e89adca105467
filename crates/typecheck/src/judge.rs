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

mod quoted;

use std::cell::LazyCell;

use serde_json::Value;
use toolgate_catalog::types::check::{Declarations, DeclaredFunction, DeclaredType, RESERVED, TypeOrigin};
use toolgate_plan::suggest::{listed, nearest, question, respelt};
use toolgate_plan::{DependentParts, Finding, FindingCode, Program, ProgramUsage, PropertyAccess, TypeClaims};
use toolgate_wire::foreign_text::one_line;

use self::quoted::{Declared, Kind, Member, Quoted, is_promise, kind_of};
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
    let located: Vec<(usize, &Diagnostic)> = diagnostics
        .iter()
        .filter_map(|one| Some((usage.offset(offset_of(&usage.text, one.line, one.column)?), one)))
        .collect();
    let undeclared = located.iter().filter(|(_, one)| is_about_property(one)).map(|(offset, _)| *offset);
    let dependent = usage.depending_on(undeclared);
    let claims: &dyn Fn() -> TypeClaims = &|| TypeClaims::of(program);
    let judge = Judge { program, usage, declarations, dependent, claims: LazyCell::new(claims) };
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

/// Whether a message says that a value has no such property.
fn is_about_property(diagnostic: &Diagnostic) -> bool {
    matches!(diagnostic.code, 2339 | 2551)
}

struct Judge<'j> {
    program: &'j Program,
    usage: &'j ProgramUsage,
    declarations: &'j Declarations,
    /// The parts of the program that run depending on properties that are not declared.
    dependent: DependentParts,
    /// What the program's own types say, read when a finding depends on it.
    claims: LazyCell<TypeClaims, &'j dyn Fn() -> TypeClaims>,
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
            2461 | 2488 | 2495 | 2548 | 2549 | 2569 => {
                self.promise(offset, quoted.first()?).or_else(|| self.no_list(offset, quoted.first()?))
            }
            // The second line quotes the type.
            2349 => self.no_function(offset, Quoted::of(diagnostic.message.split_once('\n')?.1).first()?),
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
        if written != name || access == PropertyAccess::Written {
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
        if access == PropertyAccess::Probed {
            let is_result =
                !origin(TypeOrigin::Backend) && !origin(TypeOrigin::Functions) && !origin(TypeOrigin::Learned);
            return (is_result && self.is_misspelt(offset, name, &keys)).then(|| {
                let message = format!("Property '{shown}' does not exist on type '{owner}'");
                Opinion::Likely(FindingCode::UnknownProperty, message, suggestion)
            });
        }
        if origin(TypeOrigin::Backend) {
            let message = format!("Backend `{owner}` has no tool `{shown}`");
            return Some(self.unknown_tool(offset, message, suggestion, has_near));
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
        let is_doubtful = access == PropertyAccess::Compared
            || self.dependent.contain(offset)
            || self.usage.is_used_in(offset, &self.dependent)
            || self.claims.have(self.program, offset, name);
        if is_doubtful && !self.is_misspelt(offset, name, &keys) {
            return Some(Opinion::Likely(FindingCode::UnknownProperty, message, suggestion));
        }
        // Without a name that may be meant, the server may send what it does not declare: the checker takes a quoted key as it is.
        let way_out =
            (!has_near).then(|| format!("If the server sends it all the same, write [{}].", Value::from(shown)));
        let suggestion = Some(suggestion.into_iter().chain(way_out).collect::<Vec<_>>().join(" "));
        let suggestion = suggestion.filter(|text| !text.is_empty());
        Some(self.unless_guarded(offset, FindingCode::UnknownProperty, message, suggestion))
    }

    /// The call of a tool that is not there is a promise that is rejected.
    fn unknown_tool(&self, offset: usize, message: String, suggestion: Option<String>, has_near: bool) -> Opinion {
        match self.unless_guarded(offset, FindingCode::UnknownTool, message, suggestion) {
            Opinion::Certain(code, message, suggestion) if self.usage.handles_rejections => {
                Opinion::Likely(code, message, suggestion)
            }
            Opinion::Certain(code, message, suggestion) if !has_near => Opinion::UnlikeAny(code, message, suggestion),
            opinion => opinion,
        }
    }

    /// Whether a name is a key in another spelling, and the program does not ask about that key too, as one does that knows
    /// of both.
    fn is_misspelt(&self, offset: usize, name: &str, keys: &[&str]) -> bool {
        respelt(name, keys.iter().copied()).is_some_and(|key| !self.usage.asks_beside(offset, key))
    }

    /// An object or a number is used as a list.
    fn no_list(&self, offset: usize, of: &str) -> Option<Opinion> {
        let member = self.member(of).filter(|one| !one.is_list && !matches!(one.kind, Declared::Text))?;
        let message = format!("'{}' is no list, and its items are used", member.shown());
        let keys = listed(member.keys()).map(|keys| format!("{keys} Use the items of one of these."));
        self.misuse(offset, &member, message, keys)
    }

    /// Something that is no function is called.
    fn no_function(&self, offset: usize, of: &str) -> Option<Opinion> {
        // Of a declared text or number the compiler quotes what its methods are those of.
        let of = match of.split_once(" & ") {
            Some(("String", _)) => "$tgs",
            Some(("Number", _)) => "$tgn",
            _ => of,
        };
        let member = self.member(of)?;
        let access = self.usage.access_at(offset).map(|(_, access)| access);
        if access.is_some_and(|access| access != PropertyAccess::Read) {
            return None;
        }
        let message = format!("'{}' is no function, and it is called", member.shown());
        self.misuse(offset, &member, message, None)
    }

    /// A value is used as what no value of its type can be: certain where the program does not ask about it first.
    fn misuse(&self, offset: usize, of: &Member<'_>, message: String, suggestion: Option<String>) -> Option<Opinion> {
        let is_open = matches!(of.kind, Declared::Type(declared) if declared.is_open && !of.is_list);
        let is_result = matches!(of.origin(), None | Some(TypeOrigin::Result | TypeOrigin::Learned));
        if is_open || !is_result || self.usage.mentions("iterator") {
            return None;
        }
        let code = FindingCode::UnknownProperty;
        let is_asked = self.usage.is_tested(offset)
            || self.dependent.contain(offset)
            || self.claims.have(self.program, offset, "");
        if is_asked || of.origin() == Some(TypeOrigin::Learned) {
            return Some(Opinion::Likely(code, message, suggestion));
        }
        Some(self.unless_guarded(offset, code, message, suggestion))
    }

    /// A promise is an object, which may be given properties and asked for them.
    fn property_of_promise(&self, offset: usize, name: &str, of: &str) -> Option<Opinion> {
        let access = self.usage.access_at(offset).map_or(PropertyAccess::Read, |(_, access)| access);
        // `call().name` of an undeclared result is nothing rather than an error: it may be meant.
        let is_certain = match access {
            PropertyAccess::Written => return None,
            // `call().name ?? other` is likely a mistake if results have such a key, and runs.
            PropertyAccess::Probed if !self.declarations.has_result_key(name) => return None,
            PropertyAccess::Probed if self.usage.probes(name) => false,
            PropertyAccess::Read | PropertyAccess::Compared | PropertyAccess::Probed => {
                of != "Promise<any>" || self.usage.is_dereferenced(offset)
            }
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

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
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
}
