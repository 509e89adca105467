//! The stored form of a session.
//!
//! Contains no secret: the token is stored as its hash.

use super::TokenHash;
use serde::{Deserialize, Serialize};

/// The stored form of a session. In Redis it is JSON that replicas of other versions read.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The hash of its token.
    pub token_hash: TokenHash,
    /// When it expires, in milliseconds since 1970.
    pub expires_at: u64,
    /// The names of the functions it grants.
    pub functions: Vec<String>,
    /// The caller that opened it; only this caller may revoke it.
    pub owner: String,
}
