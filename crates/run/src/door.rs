//! The doors that requests come by, as statistics, log lines and records name them.
//!
//! A name is a label of counters, so the names that records of durable runs can add are bounded.

use parking_lot::Mutex;

/// The door that a request came by, as statistics name it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Door {
    /// The Rust API.
    #[default]
    Api,
    /// The command line.
    CommandLine,
    /// `POST /v1/run` and `POST /v1/compute`.
    Http,
    /// `GET /v1/run/ws`.
    WebSocket,
    /// `POST /rpc/{session}/{function}`: one call of a host function.
    Rpc,
    /// An MCP tool, by its name.
    Mcp(&'static str),
    /// A durable run whose record does not say which door it came by.
    Durable,
}

/// Names of MCP tools in records of durable runs. A gateway has fewer than these; another version may have others.
const MAX_RECORDED_NAMES: usize = 64;
/// The longest of them.
const MAX_NAME_BYTES: usize = 64;

/// Names of MCP tools that were read from records. They live as long as the process, as those in the code do.
struct RecordedNames(Mutex<Vec<&'static str>>);

static RECORDED_NAMES: RecordedNames = RecordedNames(Mutex::new(Vec::new()));

impl Door {
    /// The doors with a name of their own.
    const NAMED: [Door; 6] = [Door::Api, Door::CommandLine, Door::Http, Door::WebSocket, Door::Rpc, Door::Durable];

    /// Its name in statistics.
    pub fn name(self) -> &'static str {
        match self {
            Door::Api => "api",
            Door::CommandLine => "cli",
            Door::Http => "http",
            Door::WebSocket => "websocket",
            Door::Rpc => "rpc",
            Door::Mcp(tool) => tool,
            Door::Durable => "durable",
        }
    }

    /// The door of this name in the record of a durable run.
    pub(super) fn recorded(name: &str) -> Self {
        let own = Door::NAMED.into_iter().find(|door| door.name() == name);
        own.or_else(|| RECORDED_NAMES.keep(name).map(Door::Mcp)).unwrap_or(Door::Durable)
    }
}

impl RecordedNames {
    /// The same name for the whole life of the process; none for a text that is no such name, or if there are too many.
    fn keep(&self, name: &str) -> Option<&'static str> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_part) {
            return None;
        }
        let mut names = self.0.lock();
        if let Some(known) = names.iter().find(|known| **known == name) {
            return Some(known);
        }
        (names.len() < MAX_RECORDED_NAMES).then(|| {
            let kept: &'static str = Box::leak(name.into());
            names.push(kept);
            kept
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Door) {
        assert_eq!(Door::recorded(name), expected, "{name}");
    }

    #[test]
    fn a_door_is_read_again_by_its_name() {
        for door in Door::NAMED.into_iter().chain([Door::Mcp("call_tool_chain"), Door::Mcp("fix_run")]) {
            check(door.name(), door);
        }
        // Records of earlier versions have no door.
        check("", Door::Durable);
    }

    #[test]
    fn a_text_that_is_no_name_adds_no_label() {
        for name in ["two words", "a\"b", "line\nbreak", "ü", &"x".repeat(MAX_NAME_BYTES + 1)] {
            check(name, Door::Durable);
        }
    }

    #[test]
    fn the_names_that_records_add_are_bounded() {
        let names = RecordedNames(Mutex::default());
        let kept = (0..10 * MAX_RECORDED_NAMES).filter_map(|it| names.keep(&format!("tool-{it}")));
        assert_eq!(kept.count(), MAX_RECORDED_NAMES);
        assert_eq!((names.keep("tool-0"), names.keep("another")), (Some("tool-0"), None));
    }
}
