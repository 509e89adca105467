//! Commands about logins and secrets.

mod client;
pub(crate) mod literal;
pub(crate) mod login;
pub(crate) mod secret;
