//! Guarded HTTP: what sandboxed code may fetch, and how.
//!
//! The address that was checked is the address that is connected to: the check sits in the resolver of the client itself, so
//! there is no second look-up that could answer differently. Literal addresses never reach a resolver and are checked when the
//! URL is parsed; redirects are followed by hand and every hop goes through the same two gates. No proxy, no cookies, no
//! credentials of ours.
//!
//! What it deliberately does not do: judge the content that comes back, rate-limit (the bridge counts calls), or guard URLs
//! that the user wrote into the configuration (see [`super::endpoint`]).
//!
//! # Layout
//! `addresses` classifies addresses as public or not; [`AllowList`] has the configured exceptions; [`Guard`] combines both
//! with a [`Resolver`]; `request`, `redirect` and `response` are the stages of one exchange, and [`Fetcher`] runs them.

mod addresses;
mod allow;
mod client;
mod error;
mod fetcher;
mod guard;
mod headers;
mod redirect;
mod request;
mod response;

pub use addresses::AddressClass;
pub use allow::{AllowList, BadAllowEntry};
pub use error::FetchError;
pub use fetcher::{Fetcher, HttpLimits};
pub use guard::{Guard, Lookup, Refusal, Resolver, SystemResolver};
pub use request::HttpRequest;
pub use response::{Content, HttpResponse};

pub(super) use client::TrustedClient;
pub(super) use response::{read_body, retry_after};
