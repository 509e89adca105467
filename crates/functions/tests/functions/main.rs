//! Host functions over real sockets: nothing here is mocked but the names a resolver answers.

mod effects;
mod exchange;
mod limits;
mod redirects;
mod ssrf;
mod support;
mod tls;
mod trusted;
