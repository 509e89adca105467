//! Computation delegation: the function travels, the records stay.

#![allow(clippy::print_stdout, reason = "an example prints")]

use toolgate_engine::{ComputeOptions, Engine, take_over_if_asked};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before any thread exists: the engine starts this same program again to get its zygote.
    take_over_if_asked();
    tokio::runtime::Runtime::new()?.block_on(example())
}

async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    let customers = r#"[{"name":"Ada","risk":95},{"name":"Bob","risk":12},{"name":"Cyd","risk":91}]"#;
    let code = "(data) => data.filter(d => d.risk > 90).map(d => d.name)";
    let report = engine.compute(code, customers, ComputeOptions::default()).await;
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}
