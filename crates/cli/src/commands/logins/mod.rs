//! Commands about logins and secrets.

pub(crate) mod literal;
pub(crate) mod login;
pub(crate) mod secret;
