//! The signature of a tool on one line.

use serde_json::Value;

use super::super::backend::ToolRef;
use super::print::{Layout, print};
use super::result_schema;
use super::shape::{Bounds, References, Shaper, Type};

/// Maximum length of a signature without the tool's name, in bytes.
pub(super) const MAX_SIGNATURE: usize = 600;

/// Levels of detail, most detailed first; the first that fits is used.
const ATTEMPTS: [Bounds; 4] = [
    Bounds { depth: 6, nodes: 200, fields: 40, literals: 12 },
    Bounds { depth: 3, nodes: 80, fields: 24, literals: 6 },
    Bounds { depth: 1, nodes: 40, fields: 16, literals: 4 },
    Bounds { depth: 1, nodes: 10, fields: 6, literals: 1 },
];

/// `web_search(args: { query: string; limit?: number /* default 10 */ }): Promise<any>`.
pub fn signature(tool: ToolRef<'_>) -> String {
    let name = tool.entry.identifier();
    let fits = |text: &String| text.len() <= MAX_SIGNATURE + name.len();
    ATTEMPTS
        .iter()
        .map(|&bounds| format!("{name}({}): {}", parameter(tool, bounds), result(tool, bounds)))
        .find(fits)
        .unwrap_or_else(|| format!("{name}(args: object): Promise<any>"))
}

/// Maximum length of the types of a brief signature, in bytes.
pub(super) const MAX_BRIEF: usize = 180;

/// Levels of detail of a brief signature, most detailed first.
const BRIEF_ATTEMPTS: [Bounds; 5] = [
    Bounds { depth: 4, nodes: 60, fields: 12, literals: 5 },
    Bounds { depth: 2, nodes: 40, fields: 8, literals: 4 },
    Bounds { depth: 1, nodes: 20, fields: 6, literals: 3 },
    Bounds { depth: 1, nodes: 10, fields: 4, literals: 1 },
    Bounds { depth: 1, nodes: 6, fields: 2, literals: 1 },
];

/// What follows a tool's name in a brief signature: `({ query: string; limit?: number }): Promise<Item[]>`. Required fields
/// first if not all fit; a result that is not declared is left out.
pub(crate) fn brief_types(tool: ToolRef<'_>) -> String {
    let returned = |bounds| match result(tool, bounds) {
        any if any == "Promise<any>" => String::new(),
        declared => format!(": {declared}"),
    };
    let taken = |bounds: Bounds| {
        let schema = tool.tool().input_schema();
        let shape = argument(Shaper::new(schema, bounds, References::Inline).shape(schema));
        let mut out = String::new();
        if shape != (Type::Object { fields: Vec::new(), omitted: 0, index: None }) {
            print(&mut out, &shape, Layout::Line);
        }
        format!("({out})")
    };
    let least = BRIEF_ATTEMPTS[BRIEF_ATTEMPTS.len() - 1];
    let attempts = BRIEF_ATTEMPTS.iter().map(|&bounds| format!("{}{}", taken(bounds), returned(bounds)));
    // A long result goes first: the arguments are what a call needs.
    attempts
        .chain([format!("{}: Promise<object>", taken(least)), taken(least)])
        .find(|text| text.len() <= MAX_BRIEF)
        .unwrap_or_else(|| "(/* see tool_info */)".to_owned())
}

/// The type that `schema` requires, shortened for an error message.
pub(crate) fn expected(root: &Value, schema: &Value) -> String {
    let shape = Shaper::new(root, ATTEMPTS[2], References::Inline).shape(schema);
    let mut text = String::new();
    print(&mut text, &shape, Layout::Line);
    super::print::cut(&text, 120)
}

fn parameter(tool: ToolRef<'_>, bounds: Bounds) -> String {
    let schema = tool.tool().input_schema();
    let shape = Shaper::new(schema, bounds, References::Inline).shape(schema);
    let mut out = parameter_name(&shape).to_owned();
    print(&mut out, &argument(shape), Layout::Line);
    out
}

/// `args: `, or `args?: ` if all fields are optional.
pub(super) fn parameter_name(shape: &Type) -> &'static str {
    let optional = match shape {
        Type::Object { fields, .. } => fields.iter().all(|field| field.optional),
        // A schema that says nothing requires nothing.
        other => *other == super::shape::UNKNOWN,
    };
    if optional { "args?: " } else { "args: " }
}

/// The printed type of the argument: `{}` instead of an index signature for a schema without properties.
pub(super) fn argument(shape: Type) -> Type {
    match shape {
        Type::Object { fields, omitted, index: Some(index) }
            if fields.is_empty() && *index == super::shape::UNKNOWN =>
        {
            Type::Object { fields, omitted, index: None }
        }
        other if other == super::shape::UNKNOWN => Type::Object { fields: Vec::new(), omitted: 0, index: None },
        other => other,
    }
}

fn result(tool: ToolRef<'_>, bounds: Bounds) -> String {
    let Some(schema) = result_schema(tool.tool()) else { return "Promise<any>".to_owned() };
    // `$ref` is resolved from the root of the document even if only a part of it is printed.
    let root = tool.tool().output_schema().unwrap_or(schema);
    let shape = Shaper::new(root, bounds, References::Inline).shape(schema);
    if shape == super::shape::UNKNOWN {
        return "Promise<any>".to_owned();
    }
    let mut out = "Promise<".to_owned();
    print(&mut out, &shape, Layout::Line);
    out.push('>');
    out
}
