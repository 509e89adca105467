//! What a store keeps of a session.

use super::TokenHash;
use serde::{Deserialize, Serialize};

/// What a store keeps of a session. As JSON in Redis, where replicas of other versions read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecord {
    /// The hash of its token.
    pub token_hash: TokenHash,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: u64,
    /// The names of the functions it grants.
    pub functions: Vec<String>,
    /// Who opened it: the only one who may revoke it.
    pub owner: String,
}
