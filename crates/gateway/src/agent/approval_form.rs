//! Questions about calls as forms that MCP clients show, and what people filled in.
//!
//! Up to three calls have a form each, in which the arguments can be edited; more are one form with a choice for each call, of whatever
//! kind its question is. In it, what a server asks has the fields of the server's form beside the choice.
//! A call whose arguments cannot be shown whole is not asked about here: a person must see what is approved.

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
/// Fields of a server's form that are shown in the one form for many calls; a form with more stands alone.
const MAX_FIELDS: usize = 8;
/// The name of the one form for many calls.
const MANY: &str = "calls";

/// The questions that a form can show, of those that wait.
pub(crate) fn showable(pending: &[PendingView]) -> Vec<&PendingView> {
    let fits = |question: &&PendingView| question.arguments.0.get().chars().nth(MAX_SHOWN).is_none();
    pending.iter().filter(fits).take(MAX_IN_FORM).collect()
}

/// `inputRequests` for these questions.
pub(crate) fn requests(shown: &[&PendingView]) -> Value {
    let is_one_of_many = is_one_of_many(shown);
    let (together, alone): (Vec<&PendingView>, Vec<&PendingView>) =
        shown.iter().copied().partition(|question| is_one_of_many(question));
    let mut requests: Map<String, Value> = alone.iter().map(|question| (key(question), single(question))).collect();
    if !together.is_empty() {
        requests.insert(MANY.to_owned(), many(&together));
    }
    Value::Object(requests)
}

/// Which questions are in the one form: all of more than three, other than long forms of servers. None if only one would be.
fn is_one_of_many(shown: &[&PendingView]) -> impl Fn(&PendingView) -> bool + use<> {
    let are_together = shown.len() > MAX_SINGLE && shown.iter().filter(|question| fits_in_one(question)).count() > 1;
    move |question| are_together && fits_in_one(question)
}

fn fits_in_one(question: &PendingView) -> bool {
    fields_of(question).is_none_or(|fields| fields.len() <= MAX_FIELDS)
}

/// The fields that a server asks for; `None` where a person decides about a call.
fn fields_of(question: &PendingView) -> Option<Map<String, Value>> {
    match &question.about {
        About::Form { schema, .. } => Some(schema["properties"].as_object().cloned().unwrap_or_default()),
        About::Rule | About::UnknownEffect { .. } | About::ChangedSchema { .. } => None,
    }
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
    let message = match &question.login {
        Some(_) => format!(
            "A program's call waits for a login: {}\nLog in, then approve. Deny lets the call fail.",
            sentence(question)
        ),
        None => format!("A program wants to call {}\nApprove it?", sentence(question)),
    };
    let mut properties = object(json!({
        "decision": { "type": "string", "title": "Decision", "enum": ["approve", "deny", "stop"] },
        "reason": { "type": "string", "title": "Reason", "description": "What the program is told when you deny." },
    }));
    if question.about.is_rule() && question.login.is_none() {
        properties.extend(object(json!({
            "arguments": {
                "type": "string", "title": "Arguments", "description": "JSON; change it to send something else.",
                "default": visible_json(question.arguments.0.get()),
            },
            "remember": { "type": "string", "title": "Remember", "enum": ["once", "run", "session", "always"], "default": "once" },
        })));
    }
    form(message, properties, vec!["decision".to_owned()])
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
    let message = format!("{} calls of a program wait for you:\n{}", shown.len(), lines.collect::<Vec<_>>().join("\n"));
    let mut properties = Map::new();
    for question in shown {
        let (title, fields) = (format!("Call {}", question.call_id), fields_of(question));
        let choices = if fields.is_some() { ["answer", "deny", "stop"] } else { ["approve", "deny", "stop"] };
        properties.insert(key(question), json!({ "type": "string", "title": title, "enum": choices }));
        for (name, mut field) in fields.into_iter().flatten() {
            let shown = field["title"].as_str().unwrap_or(&name).to_owned();
            field["title"] = Value::from(format!("{title}: {shown}"));
            properties.insert(field_key(question, &name), field);
        }
    }
    // A field of a server's form is needed only where the form is answered.
    let required = shown.iter().map(|question| key(question)).collect();
    properties.insert("reason".to_owned(), json!({ "type": "string", "title": "Reason for what you deny" }));
    form(message, properties, required)
}

/// The name of a field of a server's form in the one form for many calls.
fn field_key(question: &PendingView, name: &str) -> String {
    format!("{}_{name}", key(question))
}

/// What was filled in for the fields of one server's form in the one form for many calls.
fn fields_in(question: &PendingView, content: &Value) -> Value {
    let names = fields_of(question).unwrap_or_default();
    let filled = names.into_iter().filter_map(|(name, _)| {
        let value = content.get(field_key(question, &name))?.clone();
        Some((name, value))
    });
    Value::Object(filled.collect())
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
    let is_one_of_many = is_one_of_many(shown);
    for question in shown {
        let (key, is_batch) = (key(question), is_one_of_many(question));
        let Some(response) = responses.get(if is_batch { MANY } else { &key }) else {
            filled.unanswered = Unanswered::Dismissed;
            continue;
        };
        let content = &response["content"];
        match response["action"].as_str() {
            Some("accept") => {
                let word = if is_batch { &content[&key] } else { &content["decision"] };
                match decision(question, word, content, is_batch) {
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
    if let About::Form { schema, .. } = &question.about
        && !(is_batch && matches!(word.as_str(), Some("deny" | "stop")))
    {
        let content = match (is_batch, word.as_str()) {
            (true, Some("answer")) => fields_in(question, content),
            (true, _) => return None,
            (false, _) => content.clone(),
        };
        check_answer(schema, &content).ok()?;
        let arguments = Some(serde_json::value::to_raw_value(&content).ok()?);
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

    /// The form of a server with so many fields.
    fn asks_back(call_id: u32, fields: usize) -> PendingView {
        let field = |n: usize| (format!("f{n}"), json!({ "type": "string", "title": format!("Field {n}") }));
        let properties: Map<String, Value> = (0..fields).map(field).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": ["f0"] });
        PendingView { about: About::Form { message: "who?".into(), schema }, ..question(call_id, "{}") }
    }

    #[test]
    fn questions_of_all_kinds_are_in_the_one_form() {
        let login = PendingView { login: Some("toolgate login bank".into()), ..question(3, "{}") };
        let questions = [question(1, "{}"), asks_back(2, 2), login, asks_back(4, 1), asks_back(5, MAX_FIELDS + 1)];
        let all: Vec<&PendingView> = questions.iter().collect();
        let requests = requests(&all);
        assert_eq!(requests.as_object().unwrap().keys().collect::<Vec<_>>(), ["call_5", "calls"]);
        let schema = &requests["calls"]["params"]["requestedSchema"];
        assert_eq!(schema["required"], json!(["call_1", "call_2", "call_3", "call_4"]));
        assert_eq!(schema["properties"]["call_2"]["enum"], json!(["answer", "deny", "stop"]));
        assert_eq!(schema["properties"]["call_2_f1"], json!({ "type": "string", "title": "Call 2: Field 1" }));
        let content = json!({
            "call_1": "approve", "call_2": "answer", "call_2_f0": "Ann", "call_3": "approve", "call_4": "deny", "reason": "r",
        });
        let long = json!({ "action": "accept", "content": { "f0": "x" } });
        let responses = json!({ "calls": { "action": "accept", "content": content }, "call_5": long });
        let filled = read(&all, responses.as_object().unwrap());
        let expected =
            ["1 Approve r", "2 Answer {\"f0\":\"Ann\"}", "3 Approve r", "4 Deny r", "5 Answer {\"f0\":\"x\"}"];
        assert_eq!((shown(&filled), filled.unanswered), (expected.map(str::to_owned).to_vec(), Unanswered::No));
        // An answer that does not fit its form answers nothing, and neither does an approval of a form.
        for content in
            [json!({ "call_2": "answer", "call_2_f1": "x" }), json!({ "call_2": "approve", "call_2_f0": "x" })]
        {
            let responses = json!({ "calls": { "action": "accept", "content": content } });
            let filled = read(&all, responses.as_object().unwrap());
            assert!(filled.decisions.is_empty() && filled.unanswered == Unanswered::Dismissed, "{content}");
        }
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
