//! The guarded HTTP client for sandboxed programs.
//!
//! The checked address is the address of the connection: the guard is the resolver of the client, so there is no second
//! lookup that could give another address. Literal addresses bypass the resolver and are checked when the URL is parsed.
//! Redirects are followed by our own code, and every hop passes both checks. No proxy, no cookies, no credentials.
//!
//! Deliberately absent: checks of the response's content, rate limits (the bridge counts calls), and a guard for URLs from
//! the configuration (see [`super::endpoint`]).
//!
//! # Layout
//! `toolgate_wire::addresses` classifies addresses as public or not; [`AllowList`] has the configured exceptions; [`Guard`]
//! combines both and [`Egress`]
//! with a [`Resolver`]; `request`, `redirect` and `response` are the stages of one exchange, and [`Fetcher`] runs them.

mod allow;
mod client;
mod error;
mod fetcher;
mod guard;
mod headers;
mod redirect;
mod request;
mod response;

pub use allow::{AllowList, BadAllowEntry};
pub use error::FetchError;
pub use fetcher::{Fetcher, HttpLimits};
pub use guard::{Egress, Guard, Lookup, RefusedHost, Resolver};
pub use request::HttpRequest;
pub use response::{Content, HttpResponse, RawResponse};
pub use toolgate_wire::addresses::AddressClass;

pub(super) use client::TrustedClient;
pub(super) use request::is_safe;
pub(super) use response::{read_body, retry_after};
