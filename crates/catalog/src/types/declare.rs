//! Declarations on several lines: of one tool, or a `.d.ts` file of all tools.

use serde_json::Value;

use super::super::Catalog;
use super::super::backend::{Backend, ToolRef};
use super::learned::LearnedTypes;
use super::print::{Layout, doc, key, line, print, text_lines};
use super::shape::{Bounds, Declared, References, Shaper, Type, UNKNOWN, pascal};
use super::signature::{argument, parameter_name};
use super::{print, result_schema};

const BOUNDS: Bounds = Bounds { depth: 24, nodes: 3_000, fields: 500, literals: 100 };

/// The declarations of the sandbox's globals, which do not depend on the backends.
const GLOBALS: &str = "\
/** What a tool takes, as its backend describes it. */
interface ToolInterface {
  name: string;
  description: string | null;
  input_schema: any;
}

/** What a failing tool throws. */
declare class ToolError extends Error {
  readonly backend: string;
  readonly tool: string;
  readonly code: string;
  readonly data: any;
}

/** Resolves after that many milliseconds. */
declare function sleep(ms: number): Promise<void>;

/** The interface of `backend.tool`, or of a tool name that only one backend has; null when unknown. */
declare function __getToolInterface(name: string): ToolInterface | null;

/** All interfaces: of tools by backend and tool, of host functions by name. */
declare const __interfaces: { readonly [backendOrFunction: string]: any };
";

/// The declarations of every tool of `catalog` and of the sandbox's own globals, as the text of a `.d.ts` file.
pub fn declaration(catalog: &Catalog) -> String {
    declaration_with(catalog, &LearnedTypes::default())
}

/// The same with learned types for results that are not declared.
pub fn declaration_with(catalog: &Catalog, learned: &LearnedTypes) -> String {
    let mut types = Declared::new();
    for backend in catalog.backends() {
        types.taken.insert(backend.identifier().to_owned());
    }
    types.taken.extend(["ToolInterface".to_owned(), "ToolError".to_owned()]);
    let mut out = GLOBALS.to_owned();
    for backend in catalog.backends() {
        out.push('\n');
        backend_declaration(&mut out, backend, &mut types, learned);
    }
    for registry in ["tools", "__backends"] {
        out.push('\n');
        registry_declaration(&mut out, registry, catalog);
    }
    out
}

/// The declaration of one tool and of the types it needs.
pub fn tool_declaration(tool: ToolRef<'_>) -> String {
    tool_declaration_with(tool, &LearnedTypes::default())
}

/// The same with the learned type of its result, if it declares none.
pub fn tool_declaration_with(tool: ToolRef<'_>, learned: &LearnedTypes) -> String {
    let mut types = Declared::new();
    types.taken.insert(tool.backend.identifier().to_owned());
    let mut named = String::new();
    let mut method = String::new();
    tool_member(&mut method, &mut named, tool, &mut types, learned);
    format!("{named}declare const {}: {{{method}\n}};\n", tool.backend.identifier())
}

fn backend_declaration(out: &mut String, backend: &Backend, types: &mut Declared, learned: &LearnedTypes) {
    let mut named = String::new();
    let mut methods = String::new();
    for entry in backend.tools() {
        tool_member(&mut methods, &mut named, ToolRef { backend, entry }, types, learned);
    }
    out.push_str(&named);
    if backend.identifier() != backend.name() {
        doc(out, &text_lines(&format!("Backend {:?}.", backend.name())), 0);
    }
    out.push_str(&format!("declare const {}: {{{methods}\n}};\n", backend.identifier()));
}

/// Appends the method to `out`, and the types that its schemas name to `named`.
fn tool_member(out: &mut String, named: &mut String, tool: ToolRef<'_>, types: &mut Declared, learned: &LearnedTypes) {
    let prefix = format!("{}{}", pascal(tool.backend.identifier()), pascal(tool.entry.identifier()));
    let input = tool.tool().input_schema();
    types.enter(prefix.clone());
    let argument_shape = Shaper::new(input, BOUNDS, References::Declare(types)).shape(input);
    write_pending(named, input, types);
    let output = tool.tool().output_schema().zip(result_schema(tool.tool())).map(|(root, schema)| {
        types.enter(format!("{prefix}Result"));
        let shape = Shaper::new(root, BOUNDS, References::Declare(types)).shape(schema);
        write_pending(named, root, types);
        shape
    });
    line(out, 1);
    doc(out, &documentation(tool), 1);
    out.push_str(&format!("{}({}", tool.entry.identifier(), parameter_name(&argument_shape)));
    print(out, &argument(argument_shape), Layout::Block(1));
    out.push_str("): Promise<");
    let learned = learned.get(tool.backend.name(), &tool.tool().name).filter(|learned| learned.results() > 0);
    match (output.filter(|shape| *shape != UNKNOWN), learned) {
        (Some(output), learned) if learned.is_none() || output.is_telling() => {
            print(out, &output, Layout::Block(1));
            out.push_str(">;");
        }
        (_, Some(learned)) => out.push_str(&format!("{}>; {}", learned.whole_typescript(), learned.remark())),
        (_, None) => out.push_str("any>;"),
    }
}

fn documentation(tool: ToolRef<'_>) -> Vec<String> {
    let mut lines: Vec<String> = tool.tool().description().into_iter().flat_map(text_lines).collect();
    if tool.entry.identifier() != tool.tool().name {
        lines.extend(text_lines(&format!("Tool {:?}.", print::cut(&tool.tool().name, 100))));
    }
    lines
}

/// Writes the pending named types and the types that these name.
fn write_pending(out: &mut String, root: &Value, types: &mut Declared) {
    while let Some((name, pointer)) = types.pending.pop() {
        let shape = Shaper::new(root, BOUNDS, References::Declare(types)).body(&pointer);
        if let Some(schema) = root.pointer(&pointer) {
            doc(out, &print::doc_lines(&super::shape::notes(schema)), 0);
        }
        if matches!(shape, Type::Object { .. }) {
            out.push_str(&format!("interface {name} "));
            print(out, &shape, Layout::Block(0));
            out.push_str("\n\n");
        } else {
            out.push_str(&format!("type {name} = "));
            print(out, &shape, Layout::Block(0));
            out.push_str(";\n\n");
        }
    }
}

/// `tools` and `__backends`: every backend under its identifier and its original name.
fn registry_declaration(out: &mut String, registry: &str, catalog: &Catalog) {
    out.push_str(&format!("declare const {registry}: {{"));
    for backend in catalog.backends() {
        let mut spellings = vec![backend.identifier()];
        if backend.name() != backend.identifier() {
            spellings.push(backend.name());
        }
        for spelling in spellings {
            line(out, 1);
            out.push_str("readonly ");
            key(out, spelling);
            out.push_str(&format!(": typeof {};", backend.identifier()));
        }
    }
    out.push_str("\n};\n");
}
