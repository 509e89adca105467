//! The sandbox of a server as it is written: `true`, or a section that says what it may do.

use serde_json::{Value as Json, json};

use super::reader::section;
use super::{Located, Location, RawSetting, RawText, Reader};
use crate::text::tree::{Node, Value};
use crate::values::Bytes;

section! {
    /// What a server in a sandbox may do besides what every one may.
    Refused ServerSandbox {
        /// Files and folders that it may read, besides the system's, its working directory, and those that its command and its arguments name.
        read: Vec<Located<RawText<String>>>,
        /// Files and folders that it may read and write, besides its working directory and a home of its own.
        write: Vec<Located<RawText<String>>>,
        /// Let it use the network. Unix sockets are closed to it in any case.
        network: bool,
        /// Maximum memory: of all its processes where a cgroup can be made, otherwise of each.
        memory: RawText<Bytes>,
        /// Maximum number of its processes and threads, where a cgroup can be made.
        processes: u64,
    }
}

/// The sandbox of one server.
#[derive(Debug, Clone)]
pub(crate) enum RawSandbox {
    /// With the defaults, or none.
    Switch(bool),
    /// With settings of its own.
    Settings(Box<ServerSandbox>),
}

impl RawSetting for RawSandbox {
    fn read(node: &Node, place: &Location, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Bool(switch) => Some(Self::Switch(*switch)),
            Value::Map(_) => ServerSandbox::read(node, place, reader).map(|it| Self::Settings(Box::new(it))),
            _ => {
                reader.wrong(place, format!("must be true, false or an object, not {}", node.kind()));
                None
            }
        }
    }

    fn schema() -> Json {
        json!({"anyOf": [bool::schema(), ServerSandbox::schema()]})
    }
}
