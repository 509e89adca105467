//! Backends against servers that behave well, and against servers that do not.

mod calls;
mod faults;
mod fixture;
mod http;
mod lifecycle;
mod server;
