//! The keyring of the system: Secret Service on Linux, Keychain on macOS, Credential Manager on Windows.
//!
//! A keyring may ask the user for a password and may never answer, so every request runs in a thread of its own and has
//! a time limit. On Linux nothing is tried unless there is a session bus, because a machine without one has no keyring.

use std::sync::mpsc::channel;
use std::time::Duration;

use keyring::v1::{Entry, Error};

use crate::SecretError;

/// How long the keyring may take, which includes the user's answer to a question of it.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(20);

/// Whether this machine may have a keyring. Answered without asking for one.
pub(crate) fn is_likely() -> bool {
    if !cfg!(all(unix, not(target_os = "macos"))) {
        return true;
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let socket = set("XDG_RUNTIME_DIR").map(|folder| std::path::Path::new(&folder).join("bus"));
    set("DBUS_SESSION_BUS_ADDRESS").is_some() || socket.is_some_and(|socket| socket.exists())
}

pub(crate) fn get(service: &'static str, name: &str) -> Result<Option<String>, SecretError> {
    let name = name.to_owned();
    request(move || match Entry::new(service, &name)?.get_password() {
        Ok(secret) => Ok(Some(secret)),
        Err(Error::NoEntry) => Ok(None),
        Err(error) => Err(error),
    })
}

pub(crate) fn set(service: &'static str, name: &str, value: &str) -> Result<(), SecretError> {
    let (name, value) = (name.to_owned(), value.to_owned());
    request(move || Entry::new(service, &name)?.set_password(&value))
}

pub(crate) fn remove(service: &'static str, name: &str) -> Result<(), SecretError> {
    let name = name.to_owned();
    request(move || match Entry::new(service, &name)?.delete_credential() {
        Ok(()) | Err(Error::NoEntry) => Ok(()),
        Err(error) => Err(error),
    })
}

fn request<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, SecretError> {
    let failed = |reason: &str| SecretError::Keyring { reason: reason.to_owned() };
    if !is_likely() {
        return Err(failed("there is no session bus"));
    }
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("keyring".to_owned());
    thread.spawn(move || drop(sender.send(work()))).map_err(|error| failed(&error.to_string()))?;
    match receiver.recv_timeout(KEYRING_TIMEOUT) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(failed(reason(&error))),
        Err(_) => Err(failed("it does not answer")),
    }
}

/// What is wrong, in words of our own: an error of the keyring may hold the secret.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::NoStorageAccess(_) => "it is locked, or it can't be reached",
        Error::NoDefaultStore => "there is none",
        Error::TooLong(..) => "the secret is too long for it",
        Error::Ambiguous(_) => "it has several secrets of this name",
        Error::BadEncoding(_) => "it has another kind of secret under this name",
        _ => "it failed",
    }
}
