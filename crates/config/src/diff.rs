//! Compares two configurations, so that only the changed servers are restarted.

use super::checked::Checked;
use super::values::BackendName;

/// The difference of two configurations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Servers to start.
    pub added: Vec<BackendName>,
    /// Servers to stop.
    pub removed: Vec<BackendName>,
    /// Servers whose transport changed: stop and start.
    pub changed: Vec<BackendName>,
    /// Servers of which only limits, filters or tags changed: they continue to run.
    pub retuned: Vec<BackendName>,
    /// Whether Toolgate's own settings changed.
    pub settings_changed: bool,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two configurations. A disabled server counts as absent.
pub fn diff(old: &Checked, new: &Checked) -> Changes {
    let mut changes = Changes { settings_changed: old.settings != new.settings, ..Changes::default() };
    for (name, backend) in &new.backends {
        match old.backends.get(name) {
            None => changes.added.push(name.clone()),
            Some(before) if before.transport != backend.transport => changes.changed.push(name.clone()),
            Some(before) if before.policy != backend.policy => changes.retuned.push(name.clone()),
            Some(_) => {}
        }
    }
    changes.removed = old.backends.keys().filter(|name| !new.backends.contains_key(*name)).cloned().collect();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Format, Source};
    use crate::{Env, check};

    fn read(text: &str) -> Checked {
        let source = Source::new("toolgate.json".as_ref(), Format::Json, text);
        check(source, &Env::new(None, "/w")).unwrap()
    }

    #[test]
    fn only_what_changed_is_named() {
        let old = read(
            r#"{"mcpServers": {"same": {"command": "a"}, "args": {"command": "a"}, "tags": {"command": "a"},
                "gone": {"command": "a"}, "off": {"command": "a"}}}"#,
        );
        let new = read(
            r#"{"mcpServers": {"same": {"command": "a", "type": "stdio"}, "args": {"command": "a", "args": ["1"]},
                "tags": {"command": "a"}, "new": {"command": "a"}, "off": {"command": "a", "disabled": true}},
                "toolgate": {"backends": {"tags": {"tags": ["x"]}}}}"#,
        );
        let names = |names: &[BackendName]| names.iter().map(BackendName::to_string).collect::<Vec<_>>().join(" ");
        let changes = diff(&old, &new);
        assert_eq!(names(&changes.added), "new");
        assert_eq!(names(&changes.removed), "gone off");
        assert_eq!(names(&changes.changed), "args");
        assert_eq!(names(&changes.retuned), "tags");
        assert!(!changes.settings_changed);
        assert!(diff(&old, &old).is_empty());
    }

    #[test]
    fn a_setting_changes_no_backend() {
        let old = read(r#"{"mcpServers": {"a": {"command": "a"}}}"#);
        let new = read(r#"{"mcpServers": {"a": {"command": "a"}}, "toolgate": {"output": {"intent": false}}}"#);
        assert_eq!(diff(&old, &new), Changes { settings_changed: true, ..Changes::default() });
    }
}
