//! The values that are secrets of a configuration, to be taken out of what leaves this machine: those that it has itself, and the
//! tokens of the logins at its servers as they are now.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use toolgate_config::Checked;
use toolgate_mcp::client::auth::{SecretText, TokenStore};

use super::spec::kind;

/// The secrets of a configuration. Blocks for as long as the keyring of the system asks its user for a password.
pub fn secret_values(config: &Checked) -> Vec<String> {
    let mut values: Vec<String> = config.secrets.iter().map(str::to_owned).collect();
    // Basic authentication sends `user:password` in Base64.
    let encoded: Vec<String> =
        values.iter().filter(|value| value.contains(':')).map(|value| BASE64_STANDARD.encode(value)).collect();
    values.extend(encoded);
    for (name, backend) in &config.backends {
        let kind = kind(name.as_str(), &backend.transport, &config.settings);
        let login = kind.login().and_then(|login| login.store.load(&login.settings.name).ok().flatten());
        if let Some(login) = login {
            let tokens = login.tokens.iter().flat_map(|it| [Some(&it.access), it.refresh.as_ref()]);
            let secrets = tokens.chain([login.client.secret.as_ref()]).flatten();
            values.extend(secrets.map(SecretText::expose).map(str::to_owned));
        }
    }
    values
}
