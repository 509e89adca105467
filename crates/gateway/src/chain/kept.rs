//! Computing on a result that was kept, where it is: only what the function gives comes back.

use serde_json::Value;
use toolgate_engine::{ComputeOptions, Engine};
use toolgate_wire::Report;

use toolgate_output::results::{Kind, ReadError, ResultStore};

/// Applies a function such as `(data) => data.items.length` to a kept result. A kept text is data as a string.
///
/// # Errors
/// If the text is no id, or nothing is kept under it (any more). What is wrong with the function is in the report.
pub async fn query(
    engine: &Engine,
    results: &ResultStore,
    id: &str,
    code: &str,
    options: ComputeOptions,
) -> Result<Report, ReadError> {
    let whole = results.get(id)?;
    let data = match whole.kind {
        Kind::Json => whole.text.to_string(),
        Kind::Text => Value::from(whole.text.as_str()).to_string(),
    };
    Ok(engine.compute(code, data, options).await)
}
