//! What outlives a request: kept in memory, or shared through a database.

pub mod sessions;
