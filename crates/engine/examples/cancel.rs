//! Taking a request back while it runs: the process is gone, the engine serves the next call.

#![allow(clippy::print_stdout, reason = "an example prints")]

use toolgate_engine::wire::Profile;
use toolgate_engine::{CancellationToken, Engine, Observer, Request, take_over_if_asked};

/// Cancels as soon as the program has said that it runs.
struct CancelAtFirstLine(CancellationToken);

impl Observer for CancelAtFirstLine {
    fn logged(&self, _: toolgate_engine::wire::frame::Stream, _: &str) {
        self.0.cancel();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before any thread exists: the engine starts this same program again to get its zygote.
    take_over_if_asked();
    tokio::runtime::Runtime::new()?.block_on(example())
}

async fn example() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    let cancel = CancellationToken::new();
    let request = Request {
        cancel: cancel.clone(),
        observer: Some(std::sync::Arc::new(CancelAtFirstLine(cancel))),
        ..Request::new(Profile::Chain, "console.log('running'); while (true) {}")
    };
    let cancelled = engine.run(request).await;
    println!("{}", cancelled.failure().map(ToString::to_string).unwrap_or_default());
    let next = engine.run(Request::new(Profile::Chain, "return 'the next run is fine'")).await;
    println!("{}", next.value().map_or("failed", |value| value.get()));
    Ok(())
}
