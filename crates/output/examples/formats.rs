//! Writes the JSON value on stdin in every output format, as one JSON object; `tests/tokens` counts what each costs a model.

use std::io::Read;

use serde_json::json;
use toolgate_output::{OutputFormat, OutputSettings, shape};

fn main() -> std::io::Result<()> {
    let mut value = String::new();
    std::io::stdin().read_to_string(&mut value)?;
    let text = |format| {
        let settings = OutputSettings { format, auto_chunk_json: false, ..OutputSettings::default() };
        shape(&value, &settings, None, &mut |_| None).text
    };
    let formats = json!({
        "pretty": text(OutputFormat::Pretty), "compact": text(OutputFormat::Compact),
        "table": text(OutputFormat::Table), "auto": text(OutputFormat::Auto),
    });
    serde_json::to_writer(std::io::stdout(), &formats)?;
    Ok(())
}
