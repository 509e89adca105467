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
    /// The digest of the hash of the caller's key at that time. A record of a version that did not write it is that of no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner_key: Option<String>,
}

/// The caller that a session acts for, as it was when the session was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOwner {
    /// The name of its key; empty for the user of this machine.
    pub name: String,
    /// Another one for another key of that name; none for the user of this machine.
    pub key: Option<String>,
}
