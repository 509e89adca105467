//! What outlives a call.
//!
//! - [`results`]: whole results of which an answer showed a part

pub mod results;
