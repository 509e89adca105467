//! A client that opens RPC sessions, calls a function in each, and checks that only its own token opens it.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::gateway::{Connection, ECHO};
use crate::load::{Load, Tally};

/// Every so many sessions, another token is tried. Not at each: wrong tokens slow their address down.
const STRANGER_INTERVAL: u64 = 20;

/// How one session went.
enum Went {
    Right,
    /// Something that it needed was killed; the code says what the answer was.
    Disturbed(String),
    Wrong(String),
}

impl Load<'_> {
    /// Opens one session after the other until it is told to stop.
    pub(crate) fn use_sessions_until_told(&self) -> Tally {
        let mut tally = Tally::default();
        let mut connection = None;
        let mut number = 0_u64;
        while !self.stop.load(Ordering::Relaxed) {
            number += 1;
            if connection.is_none() {
                connection = self.reconnect();
            }
            let Some((open, kills)) = connection.as_mut() else {
                tally.wrong.push(format!("session {number}: no gateway"));
                return tally;
            };
            match self.use_session(open, number) {
                Ok(Went::Right) => tally.sessions += 1,
                Ok(Went::Disturbed(code)) => *tally.disturbed.entry(format!("session {code}")).or_default() += 1,
                Ok(Went::Wrong(what)) => tally.wrong.push(format!("session {number}: {what}")),
                Err(error) => {
                    if !self.gateway_was_killed_since(*kills) {
                        tally.wrong.push(format!("session {number}: the connection ended ({error})"));
                    }
                    connection = None;
                }
            }
        }
        tally
    }

    fn use_session(&self, connection: &mut Connection, number: u64) -> std::io::Result<Went> {
        let redis_kills = self.redis_kills.load(Ordering::SeqCst);
        let (status, opened) = connection.post("/v1/sessions", &json!({ "functions": [ECHO], "ttlMs": 60_000 }))?;
        let text = |key: &str| opened.get(key).and_then(Value::as_str).map(str::to_owned);
        let (Some(id), Some(token)) = (text("executionId"), text("token")) else {
            return Ok(self.refused(status, &opened, redis_kills));
        };
        let path = format!("/rpc/{id}/{ECHO}");
        let expected = format!("{number}");
        let arguments = json!({ "args": [{ "id": expected }] });
        let stranger: String = token.chars().rev().collect();
        if number.is_multiple_of(STRANGER_INTERVAL) && stranger != token {
            let (status, answer) = connection.post_as(&path, &arguments, Some(&stranger))?;
            if status == 200 {
                return Ok(Went::Wrong(format!("another token opened it: {answer}")));
            }
        }
        let (status, answer) = connection.post_as(&path, &arguments, Some(&token))?;
        Ok(match answer.pointer("/result/id").and_then(Value::as_str) {
            Some(id) if id == expected => Went::Right,
            Some(other) => Went::Wrong(format!("the answer of another call: {other}")),
            // The server of the function may have been killed.
            None if status == 200 && answer.get("error").is_some() => Went::Disturbed("call".to_owned()),
            None => self.refused(status, &answer, redis_kills),
        })
    }

    /// A session that cannot be opened or is forgotten: where Redis was killed, or took too long on a busy machine.
    fn refused(&self, status: u16, answer: &Value, redis_kills: u64) -> Went {
        let killed_meanwhile = self.redis_kills.load(Ordering::SeqCst) != redis_kills;
        match status {
            503 => Went::Disturbed("UNAVAILABLE".to_owned()),
            401 if killed_meanwhile || redis_kills % 2 == 1 => Went::Disturbed("UNAUTHORIZED".to_owned()),
            // Too many wrong tokens slow their address down.
            429 => Went::Disturbed("slowed".to_owned()),
            _ => Went::Wrong(format!("status {status}: {answer}")),
        }
    }
}
