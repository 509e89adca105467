//! stub
pub mod data;
