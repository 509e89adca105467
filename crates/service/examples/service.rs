//! The HTTP service in a program of one's own: `cargo run -p toolgate-service --example service -- 127.0.0.1:7878`.
//!
//! Ends when its standard input does.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tokio::io::AsyncReadExt;
use toolgate_bridge::Bridge;
use toolgate_catalog::CatalogHandle;
use toolgate_config::checked::Http;
use toolgate_config::values::HttpAuth;
use toolgate_engine::Engine;
use toolgate_functions::http::{AllowList, Fetcher, Guard, HttpLimits};
use toolgate_functions::weather::WeatherSettings;
use toolgate_functions::{HostFunction, builtin};
use toolgate_run::{FixedEnvironment, Runner};
use toolgate_service::rpc_sessions::{MemorySessionStore, RpcSessions, SystemClock};
use toolgate_service::{
    AdmissionRules, HttpService, ServerLimits, ServiceLimits, ServiceParts, Shutdown, listen, serve,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The engine starts this program again to get its sandboxes.
    toolgate_engine::take_over_if_asked();
    let at: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:7878").parse()?;
    tokio::runtime::Runtime::new()?.block_on(run(at))
}

async fn run(at: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
    let fetcher = Fetcher::new(Guard::new(AllowList::none()), HttpLimits::default());
    let mut functions = builtin::registry(Some(&fetcher), Some(&WeatherSettings::default()))?;
    functions.insert(
        HostFunction::builder("greet")
            .describe("Says hello.")
            .required("name", json!({"type": "string"}), "whom to greet")
            .returns(json!({"type": "string"}))
            .handle(|_, args| async move {
                let name = args.first().and_then(|name| name.as_str()).unwrap_or_default();
                Ok(json!(format!("Hello, {name}!")))
            })?,
    );
    let clock = Arc::new(SystemClock);
    // Without keys, only this machine may connect; an example asks it for no token.
    let http = Http { auth: HttpAuth::None, ..Http::default() };
    let shutdown = Shutdown::default();
    let bridge = Arc::new(Bridge::new(CatalogHandle::default()));
    let environment = FixedEnvironment { functions, ..FixedEnvironment::default() };
    let service = HttpService::new(ServiceParts {
        runner: Runner::new(Engine::new()?, bridge, Arc::new(environment)),
        sessions: Arc::new(RpcSessions::new(Arc::new(MemorySessionStore::new(clock.clone())), clock)),
        rules: AdmissionRules::new(http, None),
        shutdown: shutdown.clone(),
        limits: ServiceLimits::default(),
        public_url: None,
    });
    let listener = listen(at)?;
    println!("listening on http://{}", listener.local_addr()?);
    let end = shutdown.begin.clone();
    tokio::spawn(async move {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        end.cancel();
    });
    serve(listener, service.router(), shutdown, ServerLimits::default()).await?;
    service.close().await?;
    Ok(())
}
