//! Serves `tools/call`, and forwards the progress of the call until it ends.
//!
//! Arguments and results are passed on unchanged; of a result only what it requests of a legacy client is read.

use serde_json::{Map, Number, Value};
use tokio::sync::mpsc;

use super::dispatcher::{Dispatcher, RequestContext};
use super::era;
use super::message::{RpcError, is_id};
use super::questions;
use super::service::{Fault, ServiceAnswer, ToolCall};
use crate::interaction::Progress;

/// Progress reports queued for sending; a call that reports faster loses some and is not delayed.
const MAX_QUEUED_PROGRESS: usize = 16;

/// Serves `tools/call`. A legacy client that shows forms is asked what the result requests, and the call is made again.
pub(super) async fn call(
    dispatcher: &Dispatcher,
    context: &RequestContext,
) -> Result<Result<ServiceAnswer, Fault>, RpcError> {
    let request = &context.request;
    let (sender, reports) = mpsc::channel(MAX_QUEUED_PROGRESS);
    let mut reporter = Reporter::new(context, reports);
    let mut call = ToolCall {
        name: request.text("name")?.to_owned(),
        arguments: request.object("arguments")?,
        scope: context.scope.clone(),
        cancel: context.cancel.clone(),
        withdrawn: context.withdrawn.clone(),
        progress: reporter.is_some().then_some(sender),
        caller: context.client.number,
        capabilities: era::capabilities(request),
        interactive_client: era::interactive_client(context.era, request)
            .or_else(|| questions::legacy_client(context, &Map::new())),
        origin: context.origin.clone(),
    };
    let may_ask = questions::legacy_client(context, &Map::new()).is_some();
    for _ in 0..questions::MAX_ROUNDS {
        // Arguments may be large: they are kept where the call may be made again.
        let again = may_ask.then(|| call.clone());
        let result = match once(dispatcher, &mut reporter, call).await {
            Ok(result) => result,
            Err(fault) => return Ok(Err(fault)),
        };
        let (Some(again), ServiceAnswer::Value(asked)) = (again, &result) else { return Ok(Ok(result)) };
        let Some(answers) = questions::ask(context, asked).await else { return Ok(Ok(result)) };
        call = ToolCall { interactive_client: questions::legacy_client(context, &answers), ..again };
    }
    Ok(Err(Fault::Internal("the tool asks without end".to_owned())))
}

/// Makes the call, and forwards its progress.
async fn once(
    dispatcher: &Dispatcher,
    reporter: &mut Option<Reporter<'_>>,
    call: ToolCall,
) -> Result<ServiceAnswer, Fault> {
    let mut outcome = dispatcher.service.call(call);
    let Some(reporter) = reporter else { return outcome.await };
    loop {
        tokio::select! {
            biased;
            Some(progress) = reporter.reports.recv() => reporter.report(progress),
            outcome = &mut outcome => {
                while let Ok(progress) = reporter.reports.try_recv() {
                    reporter.report(progress);
                }
                return outcome;
            }
        }
    }
}

/// Forwards progress to a client that requested it by a `progressToken`.
struct Reporter<'a> {
    context: &'a RequestContext,
    token: Value,
    reports: mpsc::Receiver<Progress>,
    furthest: Option<f64>,
}

impl<'a> Reporter<'a> {
    fn new(context: &'a RequestContext, reports: mpsc::Receiver<Progress>) -> Option<Self> {
        let token = context.request.meta()?.get("progressToken")?.clone();
        let wanted = context.sink.is_open() && is_id(&token);
        wanted.then_some(Self { context, token, reports, furthest: None })
    }

    /// The protocol requires progress to increase, so reports that do not are dropped. So are those for which the client's queue has no
    /// room: waiting for a client that does not read would hold back the result of the call.
    fn report(&mut self, report: Progress) {
        if !report.progress.is_finite() || self.furthest.is_some_and(|furthest| report.progress <= furthest) {
            return;
        }
        self.furthest = Some(report.progress);
        let mut params = Map::new();
        params.insert("progressToken".to_owned(), self.token.clone());
        params.insert("progress".to_owned(), number(report.progress));
        params.extend(report.total.filter(|total| total.is_finite()).map(|total| ("total".to_owned(), number(total))));
        params.extend(report.message.map(|message| ("message".to_owned(), message.into())));
        self.context.sink.notify_if_room("notifications/progress", Value::Object(params));
    }
}

/// Writes a whole number without a fraction.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
