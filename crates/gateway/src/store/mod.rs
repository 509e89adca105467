//! What outlives a request: kept in memory, or shared through a database.

pub mod sessions;
//! What outlives a call.
//!
//! - [`results`]: whole results of which an answer showed a part

pub mod results;
