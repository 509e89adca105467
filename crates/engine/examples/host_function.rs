//! A program that calls an async Rust closure by name.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use serde_json::json;
use toolgate_engine::wire::Profile;
use toolgate_engine::{Engine, Functions, HostError, Request, take_over_if_asked};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before any thread exists: the engine starts this same program again to get its zygote.
    take_over_if_asked();
    tokio::runtime::Runtime::new()?.block_on(example())
}

async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    let functions = Functions::new().with("priceOf", |args| async move {
        match args[0].as_str() {
            Some("apple") => Ok(json!({ "cents": 120 })),
            other => Err(HostError::new("NOT_FOUND", format!("no price for {other:?}"))),
        }
    });
    let code = r#"
        const apple = await priceOf("apple");
        const pear = await priceOf("pear").catch((error) => error.message);
        return { apple, pear };
    "#;
    let request = Request { host: Arc::new(functions), ..Request::new(Profile::Snippet, code) };
    println!("{}", serde_json::to_string_pretty(&engine.run(request).await)?);
    Ok(())
}
