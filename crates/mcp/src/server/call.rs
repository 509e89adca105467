//! Calls of tools: their progress goes out while they run, and stops when they end.

use serde_json::{Map, Number, Value};
use tokio::sync::mpsc;

use super::desk::{Asked, Desk};
use super::era;
use super::message::RpcError;
use super::service::{Fault, ToolCall};
use crate::interaction::Progress;

/// News of progress that may wait to be sent; a call that reports faster is not held up.
const PROGRESS: usize = 16;

/// Serves `tools/call`.
pub(super) async fn call(desk: &Desk, asked: &Asked) -> Result<Result<Value, Fault>, RpcError> {
    let request = &asked.request;
    let (sink, news) = mpsc::channel(PROGRESS);
    let mut reporter = Reporter::new(asked, news);
    let call = ToolCall {
        name: request.text("name")?.to_owned(),
        arguments: request.object("arguments")?,
        scope: asked.scope.clone(),
        cancel: asked.cancel.clone(),
        progress: reporter.is_some().then_some(sink),
        caller: asked.party.caller,
        capabilities: era::capabilities(request),
        partner: era::partner(asked.era, request),
    };
    let mut outcome = desk.service.call(call);
    let Some(reporter) = &mut reporter else { return Ok(outcome.await) };
    loop {
        tokio::select! {
            biased;
            Some(progress) = reporter.news.recv() => reporter.report(progress).await,
            outcome = &mut outcome => {
                while let Ok(progress) = reporter.news.try_recv() {
                    reporter.report(progress).await;
                }
                return Ok(outcome);
            }
        }
    }
}

/// Passes progress on to a client that asked for it.
struct Reporter<'a> {
    asked: &'a Asked,
    token: Value,
    news: mpsc::Receiver<Progress>,
    furthest: Option<f64>,
}

impl<'a> Reporter<'a> {
    fn new(asked: &'a Asked, news: mpsc::Receiver<Progress>) -> Option<Self> {
        let token = asked.request.meta()?.get("progressToken")?.clone();
        let wanted = asked.outlet.is_open() && (token.is_string() || token.is_number());
        wanted.then_some(Self { asked, token, news, furthest: None })
    }

    /// Progress only ever grows; what doesn't is left out.
    async fn report(&mut self, news: Progress) {
        if !news.progress.is_finite() || self.furthest.is_some_and(|furthest| news.progress <= furthest) {
            return;
        }
        self.furthest = Some(news.progress);
        let mut params = Map::new();
        params.insert("progressToken".to_owned(), self.token.clone());
        params.insert("progress".to_owned(), number(news.progress));
        params.extend(news.total.filter(|total| total.is_finite()).map(|total| ("total".to_owned(), number(total))));
        params.extend(news.message.map(|message| ("message".to_owned(), message.into())));
        self.asked.outlet.notify("notifications/progress", Value::Object(params)).await;
    }
}

/// A whole number without a fraction.
fn number(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}
