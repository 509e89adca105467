//! The tools as they are listed, in an order that never changes.

use serde_json::{Value, json};

/// Every tool.
pub(super) fn all() -> Vec<Value> {
    vec![
        tool("list_issues", "Lists issues of the project by number, page by page.", READS)
            .takes(filters(json!({})), &[])
            .gives(page_of_issues()),
        tool("search_issues", "Searches issues for all words of a query in title, text and labels.", READS)
            .takes(filters(json!({ "query": text("Words that must all occur.") })), &["query"])
            .gives(page_of_issues()),
        tool("get_issue", "Gives one issue with its text.", READS)
            .takes(json!({ "number": number() }), &["number"])
            .gives(issue(&["body"])),
        tool("update_issue", "Changes state, priority, assignee or title of an issue.", WRITES)
            .takes(
                json!({
                    "number": number(), "state": state(), "priority": priority(),
                    "assignee": text("Who does it; empty for nobody."), "title": text("A new title."),
                }),
                &["number"],
            )
            .gives(issue(&["body"])),
        tool("create_note", "Saves a note under a name, in place of an earlier one.", WRITES)
            .takes(json!({ "name": text("Its name."), "text": text("What it says.") }), &["name", "text"])
            .gives(object(json!({ "saved": text("The name."), "uri": text("Where it is read.") }), &["saved", "uri"])),
        tool("read_note", "Reads a note.", READS)
            .takes(json!({ "name": text("Its name.") }), &["name"])
            .gives(object(json!({ "name": text("Its name."), "text": text("What it says.") }), &["name", "text"])),
        tool("list_notes", "Lists all notes with their sizes.", READS).takes(json!({}), &[]).gives(notes()),
        tool("delete_note", "Deletes a note for good.", DESTROYS)
            .takes(json!({ "name": text("Its name.") }), &["name"])
            .gives(object(json!({ "deleted": text("The name.") }), &["deleted"])),
        tool("current_time", "Tells the time.", READS)
            .takes(json!({ "utc_offset_minutes": { "type": "integer", "description": "Minutes east of UTC.", "default": 0 } }), &[])
            .gives(object(json!({ "iso": text("As RFC 3339 writes it."), "unix": { "type": "integer" } }), &["iso", "unix"])),
        tool("slow_task", "Works for some seconds and reports its progress; can be cancelled.", READS)
            .takes(
                json!({
                    "seconds": { "type": "number", "minimum": 0, "maximum": 600, "description": "How long it takes." },
                    "steps": { "type": "integer", "minimum": 1, "maximum": 1000, "default": 10 },
                }),
                &["seconds"],
            )
            .gives(object(json!({ "steps": { "type": "integer" }, "seconds": { "type": "number" } }), &["steps", "seconds"])),
        tool("always_fails", "Fails, always, to show what a failure looks like.", READS)
            .takes(json!({ "message": text("What it says.") }), &[])
            .0,
        tool("show_logo", "Shows the project's logo and links its readme.", READS).takes(json!({}), &[]).0,
    ]
}

/// What a tool does to the world: reads it, changes it, or takes from it.
#[derive(Clone, Copy)]
struct Effect {
    reads_only: bool,
    destroys: bool,
}

const READS: Effect = Effect { reads_only: true, destroys: false };
const WRITES: Effect = Effect { reads_only: false, destroys: false };
const DESTROYS: Effect = Effect { reads_only: false, destroys: true };

struct Tool(Value);

fn tool(name: &str, description: &str, effect: Effect) -> Tool {
    let title = name.replace('_', " ");
    Tool(json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {},
        "annotations": {
            "title": title,
            "readOnlyHint": effect.reads_only,
            "destructiveHint": effect.destroys,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    }))
}

impl Tool {
    fn takes(mut self, properties: Value, required: &[&str]) -> Self {
        self.0["inputSchema"] = object(properties, required);
        self
    }

    fn gives(mut self, schema: Value) -> Value {
        self.0["outputSchema"] = schema;
        self.0
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 1, "description": "The issue's number." })
}

fn state() -> Value {
    json!({ "type": "string", "enum": ["open", "closed"] })
}

fn priority() -> Value {
    json!({ "type": "string", "enum": ["low", "medium", "high", "critical"] })
}

fn filters(mut properties: Value) -> Value {
    properties["state"] = state();
    properties["priority"] = priority();
    properties["assignee"] = text("Only issues of this person.");
    properties["label"] = text("Only issues with this label, such as bug or security.");
    properties["offset"] = json!({ "type": "integer", "minimum": 0, "default": 0 });
    properties["limit"] = json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 30 });
    properties
}

fn issue(further: &[&str]) -> Value {
    let mut properties = json!({
        "number": number(), "title": text("What it is about."), "state": state(), "priority": priority(),
        "assignee": { "type": ["string", "null"] },
        "labels": { "type": "array", "items": { "type": "string" } },
        "comments": { "type": "integer" },
        "created_at": text("The day, as YYYY-MM-DD."),
    });
    for name in further {
        properties[name] = json!({ "type": "string" });
    }
    let mut required = vec!["number", "title", "state", "priority", "assignee", "labels", "comments", "created_at"];
    required.extend(further);
    object(properties, &required)
}

fn page_of_issues() -> Value {
    let next = json!({ "type": ["integer", "null"], "description": "The offset of the next page, if there is one." });
    let total = json!({ "type": "integer", "description": "How many there are in all." });
    let issues = json!({ "type": "array", "items": issue(&[]) });
    object(json!({ "issues": issues, "total": total, "next_offset": next }), &["issues", "total", "next_offset"])
}

fn notes() -> Value {
    let note = object(json!({ "name": text("Its name."), "bytes": { "type": "integer" } }), &["name", "bytes"]);
    object(json!({ "notes": { "type": "array", "items": note } }), &["notes"])
}
