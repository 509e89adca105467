//! An engine for programs that have no Tokio runtime of their own, such as command-line tools and benchmarks.

use tokio::runtime::Runtime;

use crate::{Engine, EngineBuilder, StartError};

/// An engine with the runtime that its host calls wait on.
pub struct EngineWithRuntime {
    // Before the runtime: fields are dropped in this order, and workers end before what answers them.
    /// The engine.
    pub engine: Engine,
    runtime: Runtime,
}

impl EngineWithRuntime {
    /// Waits for what needs the runtime.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    /// Starts an engine. The calling thread stays outside the runtime, so it may block.
    pub fn start(builder: EngineBuilder) -> Result<Self, StartError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let engine = {
            let _inside = runtime.enter();
            builder.build()?
        };
        Ok(Self { engine, runtime })
    }
}
