//! The Model Context Protocol, server side: both eras, over stdio and Streamable HTTP.
//!
//! The door knows the protocol and nothing else; what it offers is a [`Service`].

mod service;

pub use service::{Change, Completion, Fault, Identity, Page, PromptCall, Service, ServiceFuture, ToolCall, View};
