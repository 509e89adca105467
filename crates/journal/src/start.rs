//! The message that began a run: the program with everything that its worker was told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use toolgate_wire::frame::Seed;
use toolgate_wire::{LimitFault, LimitRequest, Limits, Profile, Start};

use crate::entry::{hex, unhex};
use crate::text::{Blobs, MissingBlob, Text};

/// The program with everything that its worker was told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StartMessage {
    /// Limits of the run. The wall time is what the worker had left.
    pub limits: LimitValues,
    /// Seed of `Math.random`, in hexadecimal digits.
    pub seed: String,
    /// Key of `crypto`, in hexadecimal digits.
    pub crypto: String,
    /// The guest's clock.
    pub now: f64,
    /// The compiled program.
    pub compiled: Text,
    /// The data of a computation, or the global `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Text>,
    /// Names of the host functions.
    pub functions: Vec<String>,
    /// Whether there are tools.
    pub tools: bool,
    /// Answers about names that the program uses, sent ahead.
    pub named: Vec<(String, Text)>,
}

/// The limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitValues {
    wall_ms: u64,
    memory: u64,
    stack: u64,
    code: u64,
    result: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_depth: Option<u32>,
    log_lines: u64,
    calls: u64,
    calls_in_flight: u64,
}

impl From<&Limits> for LimitValues {
    fn from(limits: &Limits) -> Self {
        LimitValues {
            wall_ms: u64::try_from(limits.wall.as_millis()).unwrap_or(u64::MAX),
            memory: limits.memory,
            stack: limits.stack,
            code: limits.code,
            result: limits.result,
            result_depth: limits.result_depth,
            log_lines: limits.log_lines,
            calls: limits.calls,
            calls_in_flight: limits.calls_in_flight,
        }
    }
}

impl LimitValues {
    /// A request for the same limits.
    pub fn request(&self) -> LimitRequest {
        LimitRequest {
            wall: Some(Duration::from_millis(self.wall_ms)),
            memory: Some(self.memory),
            stack: Some(self.stack),
            code: Some(self.code),
            result: Some(self.result),
            result_depth: self.result_depth,
            log_lines: Some(self.log_lines),
            calls: Some(self.calls),
            calls_in_flight: Some(self.calls_in_flight),
        }
    }

    /// The limits themselves, but for the wall time, which is the profile's: a worker's may be any rest of a run's.
    ///
    /// # Errors
    /// If a value is out of its range: a record may come from anywhere.
    pub fn limits(&self, profile: Profile) -> Result<Limits, LimitFault> {
        LimitRequest { wall: None, ..self.request() }.resolve(profile).map(|resolved| resolved.limits)
    }
}

impl StartMessage {
    /// The message of this start and the data that follows it; with the bytes that they add.
    pub fn of(start: &Start, data: Option<&str>, blobs: &mut Blobs) -> (Self, usize) {
        let mut bytes = 0;
        let mut keep = |text: &str| {
            let (text, added) = blobs.keep(text);
            bytes += added;
            text
        };
        let named = start.named.iter().map(|(name, answer)| (name.clone(), keep(&String::from_utf8_lossy(answer))));
        let named = named.collect();
        let message = StartMessage {
            limits: LimitValues::from(&start.limits),
            seed: format!("{:016x}", start.seed.math),
            crypto: hex(&start.seed.crypto),
            now: start.now,
            compiled: keep(&start.code),
            data: data.map(&mut keep),
            functions: start.functions.clone(),
            tools: start.tools,
            named,
        };
        (message, bytes)
    }

    /// The start again.
    ///
    /// # Errors
    /// If a text is missing, a limit is out of range, or a seed is none.
    pub fn start(&self, profile: Profile, blobs: &Blobs) -> Result<(Start, Option<String>), NoStart> {
        let data = self.data.as_ref().map(|data| blobs.text(data)).transpose()?.map(str::to_owned);
        let named = self.named.iter().map(|(name, answer)| Ok((name.clone(), blobs.text(answer)?.into())));
        let seed = Seed {
            math: u64::from_str_radix(&self.seed, 16).map_err(|_| NoStart::Seed)?,
            crypto: unhex(&self.crypto).ok_or(NoStart::Seed)?,
        };
        let start = Start {
            profile,
            limits: self.limits.limits(profile)?,
            seed,
            now: self.now,
            code: blobs.text(&self.compiled)?.to_owned(),
            data: data.as_ref().map(|data| data.len() as u64),
            functions: self.functions.clone(),
            tools: self.tools,
            named: named.collect::<Result<_, MissingBlob>>()?,
        };
        Ok((start, data))
    }
}

/// Why a recorded start is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoStart {
    /// A text is missing.
    #[error(transparent)]
    Missing(#[from] MissingBlob),
    /// A limit is out of range.
    #[error(transparent)]
    Limit(#[from] LimitFault),
    /// A seed has another form.
    #[error("the seed of the random numbers has another form")]
    Seed,
}
