//! Questions about calls as forms that MCP clients show, and what people filled in.
//!
//! Up to three calls have a form each, in which the arguments can be edited; more are one form with a choice for each call.
//! A call whose arguments cannot be shown whole is not asked about here: nobody approves what they cannot see.

use serde_json::{Map, Value, json};
use toolgate_wire::foreign_text;

use toolgate_bridge::check_answer;
use toolgate_run::durable::{About, CallDecision, DecisionKind, PendingView};

/// Calls that have a form each.
const MAX_SINGLE: usize = 3;
/// Calls in one form; the others come in the next round.
const MAX_IN_FORM: usize = 20;
/// Characters of arguments that a form shows.
const MAX_SHOWN: usize = 2_000;
/// Characters of a reason that a person gives.
const MAX_REASON: usize = 500;
/// The name of the one form for many calls.
const MANY: &str = "calls";

/// The questions that a form can show, of those that wait.
pub(crate) fn showable(pending: &[PendingView]) -> Vec<&PendingView> {
    let fits = |question: &&PendingView| question.arguments.0.get().chars().nth(MAX_SHOWN).is_none();
    pending.iter().filter(fits).take(MAX_IN_FORM).collect()
}

/// `inputRequests` for these questions.
pub(crate) fn requests(shown: &[&PendingView]) -> Value {
    if !is_batch(shown) {
        return Value::Object(shown.iter().map(|question| (key(question), single(question))).collect());
    }
    json!({ MANY: many(shown) })
}

/// Whether the questions are one form. What a server asks is a form of its own.
fn is_batch(shown: &[&PendingView]) -> bool {
    shown.len() > MAX_SINGLE && shown.iter().all(|question| !matches!(question.about, About::Form { .. }))
}

fn key(question: &PendingView) -> String {
    format!("call_{}", question.call_id)
}

fn form(message: String, properties: Map<String, Value>, required: Vec<String>) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": message,
            "requestedSchema": { "type": "object", "properties": properties, "required": required },
        },
    })
}

/// What is asked about a call. Its parts come from a program and a server, so nothing in them may look like ours.
fn sentence(question: &PendingView) -> String {
    let name = match &question.backend {
        Some(backend) => format!("{backend}.{}", question.tool),
        None => question.tool.clone(),
    };
    let reason = foreign_text::one_line(&question.reason, 300);
    let arguments = foreign_text::one_line(question.arguments.0.get(), MAX_SHOWN);
    format!("{} ({reason})\narguments: {arguments}", foreign_text::one_line(&name, 200))
}

fn single(question: &PendingView) -> Value {
    if let About::Form { schema, .. } = &question.about {
        let message = format!("A program's call is not done before you answer: {}", sentence(question));
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        return json!({ "method": "elicitation/create", "params": params });
    }
    let message = format!("A program wants to call {}\nApprove it?", sentence(question));
    let properties = json!({
        "decision": { "type": "string", "title": "Decision", "enum": ["approve", "deny", "stop"] },
        "arguments": {
            "type": "string", "title": "Arguments", "description": "JSON; change it to send something else.",
            "default": visible_json(question.arguments.0.get()),
        },
        "reason": { "type": "string", "title": "Reason", "description": "What the program is told when you deny." },
        "remember": { "type": "string", "title": "Remember", "enum": ["once", "run", "session", "always"], "default": "once" },
    });
    form(message, object(properties), vec!["decision".to_owned()])
}

/// The same JSON with every character escaped that must not be shown as it is. White space aside, these stand in strings only.
fn visible_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if foreign_text::is_hazard(character) && !matches!(character, '\n' | '\r' | '\t') {
            let mut units = [0; 2];
            text.extend(character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(character);
        }
    }
    text
}

fn many(shown: &[&PendingView]) -> Value {
    let lines = shown.iter().map(|question| format!("{}: {}", question.call_id, sentence(question)));
    let message = format!("A program wants to make {} calls:\n{}", shown.len(), lines.collect::<Vec<_>>().join("\n"));
    let choice = |question: &&PendingView| {
        let title = format!("Call {}", question.call_id);
        (key(question), json!({ "type": "string", "title": title, "enum": ["approve", "deny", "stop"] }))
    };
    let mut properties: Map<String, Value> = shown.iter().map(choice).collect();
    let required = properties.keys().cloned().collect();
    properties.insert("reason".to_owned(), json!({ "type": "string", "title": "Reason for what you deny" }));
    form(message, properties, required)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// What people filled in.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// Decisions about calls that were shown.
    pub(crate) decisions: Vec<CallDecision>,
    /// The calls whose forms were declined.
    pub(crate) declined: Vec<u32>,
    /// Whether a form came back without an answer: dismissed, or declined.
    pub(crate) unanswered: Unanswered,
}

/// Whether a person did not answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// All forms were filled in.
    #[default]
    No,
    /// One was dismissed.
    Dismissed,
    /// One was declined.
    Declined,
}

/// Reads `inputResponses`. Only calls that were shown can be decided.
pub(crate) fn read(shown: &[&PendingView], responses: &Map<String, Value>) -> Filled {
    let mut filled = Filled::default();
    let many = responses.get(MANY).filter(|_| is_batch(shown));
    for question in shown {
        let key = key(question);
        let Some(response) = many.or_else(|| responses.get(&key)) else {
            filled.unanswered = Unanswered::Dismissed;
            continue;
        };
        let content = &response["content"];
        match response["action"].as_str() {
            Some("accept") => {
                let word = if many.is_some() { &content[&key] } else { &content["decision"] };
                match decision(question, word, content, many.is_some()) {
                    Some(decision) => filled.decisions.push(decision),
                    None => filled.unanswered = Unanswered::Dismissed,
                }
            }
            Some("decline") => {
                filled.declined.push(question.call_id);
                filled.unanswered = Unanswered::Declined;
            }
            _ => filled.unanswered = Unanswered::Dismissed,
        }
    }
    filled
}

fn decision(question: &PendingView, word: &Value, content: &Value, is_batch: bool) -> Option<CallDecision> {
    if let About::Form { schema, .. } = &question.about {
        check_answer(schema, content).ok()?;
        let arguments = Some(serde_json::value::to_raw_value(content).ok()?);
        return Some(CallDecision { decision: DecisionKind::Answer, arguments, reason: None, ..declined(question) });
    }
    let text = |name: &str| content[name].as_str().map(str::trim).filter(|text| !text.is_empty());
    let edited = text("arguments").filter(|_| !is_batch).filter(|edited| !is_same(edited, question.arguments.0.get()));
    let (kind, arguments) = match (word.as_str()?, edited) {
        ("approve", None) => (DecisionKind::Approve, None),
        ("approve", Some(edited)) => {
            (DecisionKind::Edit, Some(serde_json::value::RawValue::from_string(edited.to_owned()).ok()?))
        }
        ("deny", _) => (DecisionKind::Deny, None),
        ("stop", _) => (DecisionKind::Stop, None),
        _ => return None,
    };
    let remember = text("remember").filter(|_| !is_batch && kind == DecisionKind::Approve);
    Some(CallDecision {
        call_id: question.call_id,
        decision: kind,
        arguments,
        reason: text("reason").map(|reason| foreign_text::one_line(reason, MAX_REASON)),
        remember: remember.map(Value::from),
        by: String::new(),
        at: 0,
    })
}

fn is_same(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || (read(one).is_some() && read(one) == read(other))
}

/// The decision that stands for a declined form, after which the program may go on.
pub(crate) fn declined(question: &PendingView) -> CallDecision {
    CallDecision {
        call_id: question.call_id,
        decision: DecisionKind::Deny,
        arguments: None,
        reason: Some("the person declined".to_owned()),
        remember: None,
        by: String::new(),
        at: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;
    use toolgate_run::durable::RawJson;

    fn question(call_id: u32, arguments: &str) -> PendingView {
        PendingView {
            call_id,
            backend: Some("bank".into()),
            tool: "pay".into(),
            arguments: Box::new(RawJson(RawValue::from_string(arguments.into()).unwrap())),
            reason: "because".into(),
            rule: None,
            rule_key: None,
            asked_input: None,
            approvers: Vec::new(),
            login: None,
            asked_at: 0,
            expires_at: 0,
            about: Default::default(),
            staged: None,
        }
    }

    fn shown(filled: &Filled) -> Vec<String> {
        let one = |it: &CallDecision| {
            let arguments = it.arguments.as_ref().map(|json| json.get().to_owned()).unwrap_or_default();
            format!("{} {:?} {arguments}{}", it.call_id, it.decision, it.reason.as_deref().unwrap_or_default())
        };
        filled.decisions.iter().map(one).collect()
    }

    #[test]
    fn up_to_three_calls_have_a_form_each_and_more_have_one() {
        let questions: Vec<PendingView> = (1..=4).map(|id| question(id, "{\"amount\":1}")).collect();
        let all: Vec<&PendingView> = questions.iter().collect();
        let keys = |count: usize| requests(&all[..count]).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(1), ["call_1"]);
        assert_eq!(keys(3), ["call_1", "call_2", "call_3"]);
        assert_eq!(keys(4), ["calls"]);
        let form = &requests(&all[..1])["call_1"];
        assert_eq!(form["method"], "elicitation/create");
        let message = form["params"]["message"].as_str().unwrap();
        assert!(message.contains("bank.pay (because)\narguments: {\"amount\":1}"), "{message}");
        assert_eq!(requests(&all)["calls"]["params"]["requestedSchema"]["required"].as_array().unwrap().len(), 4);
    }

    #[test]
    fn answers_decide_calls_that_were_shown_and_no_others() {
        let questions: Vec<PendingView> = (1..=3).map(|id| question(id, "{\"amount\":1}")).collect();
        let all: Vec<&PendingView> = questions.iter().collect();
        let responses = json!({
            "call_1": { "action": "accept", "content": { "decision": "approve", "arguments": "{ \"amount\": 1 }" } },
            "call_2": { "action": "accept", "content": { "decision": "approve", "arguments": "{\"amount\":2}" } },
            "call_3": { "action": "accept", "content": { "decision": "deny", "reason": "no\nway" } },
            "call_9": { "action": "accept", "content": { "decision": "approve" } },
            "calls": { "action": "accept", "content": { "call_1": "stop" } },
        });
        let filled = read(&all, responses.as_object().unwrap());
        assert_eq!(shown(&filled), ["1 Approve ", "2 Edit {\"amount\":2}", "3 Deny no way"]);
        assert_eq!(filled.unanswered, Unanswered::No);
        let declined = json!({ "call_1": { "action": "decline" } });
        assert_eq!(read(&all[..1], declined.as_object().unwrap()).unanswered, Unanswered::Declined);
        for odd in [
            json!({}),
            json!({ "call_1": 7 }),
            json!({ "call_1": { "action": "accept", "content": { "decision": "yes" } } }),
        ] {
            let filled = read(&all[..1], odd.as_object().unwrap());
            assert!(filled.decisions.is_empty() && filled.unanswered == Unanswered::Dismissed, "{odd}");
        }
    }

    #[test]
    fn a_batch_is_decided_call_by_call() {
        let questions: Vec<PendingView> = (1..=5).map(|id| question(id, "{}")).collect();
        let all: Vec<&PendingView> = questions.iter().collect();
        let content =
            json!({ "call_1": "approve", "call_2": "approve", "call_3": "deny", "call_4": "stop", "reason": "r" });
        let responses = json!({ "calls": { "action": "accept", "content": content } });
        let filled = read(&all, responses.as_object().unwrap());
        assert_eq!(shown(&filled), ["1 Approve r", "2 Approve r", "3 Deny r", "4 Stop r"]);
        assert_eq!(filled.unanswered, Unanswered::Dismissed, "the fifth was not decided");
    }

    #[test]
    fn what_cannot_be_shown_whole_is_not_asked_about() {
        let long = format!("{{\"text\":\"{}\"}}", "x".repeat(MAX_SHOWN));
        let questions = [question(1, &long), question(2, "{}")];
        assert_eq!(showable(&questions).iter().map(|it| it.call_id).collect::<Vec<_>>(), [2]);
        let hostile = question(1, "{\"a\":\"\u{202e}x\"}");
        let form = requests(&[&hostile])["call_1"]["params"]["message"].as_str().unwrap().to_owned();
        assert!(!form.contains('\u{202e}'), "{form}");
    }

    #[test]
    fn the_arguments_to_edit_hide_nothing_and_are_the_same_where_they_are_not_edited() {
        let hidden = "{\"a\":\"\u{202e}x\u{200b}y\u{2066}\u{e0041}é\"}";
        let question = question(1, hidden);
        let form = requests(&[&question]);
        let default = &form["call_1"]["params"]["requestedSchema"]["properties"]["arguments"]["default"];
        let default = default.as_str().unwrap();
        assert_eq!(default, "{\"a\":\"\\u202ex\\u200by\\u2066\\udb40\\udc41é\"}");
        let content = json!({ "decision": "approve", "arguments": default });
        let responses = json!({ "call_1": { "action": "accept", "content": content } });
        assert_eq!(shown(&read(&[&question], responses.as_object().unwrap())), ["1 Approve "]);
    }
}
