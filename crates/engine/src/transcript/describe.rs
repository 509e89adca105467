//! What a guest said, in words. For people who look at a difference; nothing decides by it.

use toolgate_wire::foreign_text::clipped_with_length;
use toolgate_wire::frame::{End, FromWorker, Question, Stream};

/// Characters of a text that are shown.
const MAX_SHOWN: usize = 200;

/// Completes the sentence "the program …".
pub fn describe(frame: &FromWorker) -> String {
    match frame {
        FromWorker::Ready { .. } => "was not started".to_owned(),
        FromWorker::Call { target, args, .. } => format!("called {target} with {}", shown(args)),
        FromWorker::Timer { id, delay } => format!("set timer {} to {delay} ms", id.0),
        FromWorker::Cancel { id } => format!("stopped timer {}", id.0),
        FromWorker::Ask(question) => format!("asked for {}", subject(question)),
        FromWorker::Log { stream: Stream::Stdout, text } => format!("printed {}", shown(text.as_bytes())),
        FromWorker::Log { stream: Stream::Stderr, text } => format!("printed an error {}", shown(text.as_bytes())),
        FromWorker::Done { end: End::Returned(json), .. } => format!("returned {}", shown(json)),
        FromWorker::Done { end: End::Failed { code, message, .. }, .. } => {
            format!("failed with {code}: {}", shown(message.as_bytes()))
        }
    }
}

fn subject(question: &Question) -> String {
    match question {
        Question::Backends => "the backends".to_owned(),
        Question::Backend(name) => format!("the backend {name}"),
        Question::Global(name) => format!("the global {name}"),
        Question::InterfaceOf(name) => format!("the interface of {name}"),
        Question::Interface { backend, tool } => format!("the interface of {backend}.{tool}"),
    }
}

/// The beginning of a text, with its whole length where it is cut.
fn shown(bytes: &[u8]) -> String {
    clipped_with_length(&String::from_utf8_lossy(bytes), MAX_SHOWN).into_owned()
}

#[cfg(test)]
mod tests {
    use toolgate_wire::CallId;
    use toolgate_wire::frame::Target;

    use super::*;

    fn call(args: &str) -> FromWorker {
        let target = Target::Tool { backend: "db".into(), tool: "find".into() };
        FromWorker::Call { id: CallId(1), target, args: args.into() }
    }

    #[test]
    fn a_call_is_shown_with_its_arguments() {
        assert_eq!(describe(&call("{\"id\":1}")), "called db.find with {\"id\":1}");
    }

    #[test]
    fn a_long_text_is_cut_and_says_how_long_it_was() {
        let shown = describe(&call(&"x".repeat(100_000)));
        assert!(shown.len() < 300 && shown.ends_with("… (100000 bytes)"), "{shown}");
    }
}
