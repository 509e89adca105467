//! What outlives a request: in memory, on disk, or shared through a database.
//!
//! - [`results`]: whole results of which an answer showed a part
//! - [`sessions`]: who may call which host functions from outside

pub mod results;
pub mod sessions;
