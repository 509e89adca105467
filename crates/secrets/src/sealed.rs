//! Encrypted files, for a machine without a keyring.
//!
//! A file is sealed with ChaCha20-Poly1305 under a key in a file of its own, and bound to its name, so that a copied file is
//! of no use alone or under another name. That protects backups and single files, not against who reads the whole folder
//! as this user.

use std::path::Path;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::{SecretError, files};

/// The first byte of a file.
const VERSION: u8 = 1;

pub(crate) fn get(folder: &Path, file: &Path, name: &str) -> Result<Option<String>, SecretError> {
    let damaged = || SecretError::Damaged { name: name.to_owned() };
    match files::read_bounded(file) {
        Ok(bytes) => unseal(&key(folder)?, name, &bytes).map(Some).ok_or_else(damaged),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(damaged()),
        Err(error) => Err(files::failed(folder, &error)),
    }
}

pub(crate) fn set(folder: &Path, file: &Path, name: &str, value: &str) -> Result<(), SecretError> {
    let no_seal = || files::failed(folder, &std::io::Error::other("the secret can't be encrypted"));
    let sealed = seal(&key(folder)?, name, value).ok_or_else(no_seal)?;
    files::write_whole(file, &sealed).map_err(|error| files::failed(folder, &error))
}

/// The key of the folder, made at its first use.
fn key(folder: &Path) -> Result<LessSafeKey, SecretError> {
    let failed = |error: std::io::Error| files::failed(folder, &error);
    let path = folder.join("key");
    if !path.exists() {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        files::write_once(&path, &key).map_err(failed)?;
    }
    let key = files::read_bounded(&path).map_err(failed)?;
    let key = UnboundKey::new(&CHACHA20_POLY1305, &key).map_err(|_| failed(std::io::ErrorKind::InvalidData.into()))?;
    Ok(LessSafeKey::new(key))
}

fn seal(key: &LessSafeKey, name: &str, text: &str) -> Option<Vec<u8>> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).ok()?;
    let mut sealed = text.as_bytes().to_vec();
    let aad = Aad::from(name.as_bytes());
    key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
    Some([&[VERSION][..], &nonce, &sealed].concat())
}

fn unseal(key: &LessSafeKey, name: &str, bytes: &[u8]) -> Option<String> {
    let (version, rest) = bytes.split_first()?;
    let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok().filter(|_| *version == VERSION)?;
    let mut sealed = sealed.to_vec();
    let text = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut sealed).ok()?;
    String::from_utf8(text.to_vec()).ok()
}
