//! Programs that once were far slower than their size: large context, many tools, large replies.

use std::sync::Arc;

use toolgate_engine::host::HeldBytes;
use toolgate_engine::wire::CallId;
use toolgate_engine::{Engine, EngineWithRuntime, Host, HostCall, HostFuture, Request};
use toolgate_wire::Profile;

use super::data::customers;
use super::hosts::ManyTools;
use super::meter::{Meter, Samples, timed};

/// A `context` of 10,000 records, of which the program looks at none.
pub(super) fn context(meter: &Meter) -> anyhow::Result<Samples> {
    let (data, _) = customers(10_000);
    let request = Request::new(Profile::Chain, "return context.length");
    measure(meter, &Request { data: Some(data), ..request }, "10000")
}

/// The names of all tools of one backend.
pub(super) fn keys(meter: &Meter, tools: usize) -> anyhow::Result<Samples> {
    let request = Request::new(Profile::Chain, "return Object.keys(backend_0).length");
    measure(meter, &Request { host: ManyTools::new(1, tools), ..request }, &tools.to_string())
}

/// One call that is answered with a megabyte of records.
pub(super) fn reply(meter: &Meter) -> anyhow::Result<Samples> {
    let (reply, _) = customers(1_000_000 / 150);
    let host = Arc::new(LargeReply(reply));
    let request = Request::new(Profile::Chain, "return (await api.records()).length");
    measure(meter, &Request { host, ..request }, &(1_000_000 / 150).to_string())
}

/// One function, `records`, that answers at once.
struct LargeReply(String);

impl Host for LargeReply {
    fn call(&self, _: HostCall) -> HostFuture {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn functions(&self) -> Vec<String> {
        vec!["records".into()]
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

fn measure(meter: &Meter, request: &Request, expected: &str) -> anyhow::Result<Samples> {
    let started = EngineWithRuntime::start(Engine::builder())?;
    meter.sample(|| {
        let request = request.clone();
        timed(expected, || started.engine.run_blocking(request))
    })
}
