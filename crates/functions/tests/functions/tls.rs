//! Encrypted exchanges: a certificate must be vouched for, and for that name.
//!
//! Which authorities there are is fixed when a process first asks, so each case runs in a process of its own. The key under
//! `fixtures/tls` belongs to `secure.example` and to nobody else; its authority's key was thrown away.

use crate::support::{Client, Liar};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Output;
use std::sync::Arc;
use tokio::process::Command;
use toolgate_functions::http::HttpLimits;

const EXPECTED: &str = "TOOLGATE_TEST_EXPECTED";
const HOST: &str = "TOOLGATE_TEST_HOST";

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A server with the certificate of `secure.example`, on a thread that ends with its process.
fn serve() -> SocketAddr {
    let chain = CertificateDer::pem_file_iter(fixture("server.pem")).expect("a file");
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_file(fixture("server.key.pem")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .expect("a sound configuration");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            let mut stream = StreamOwned::new(connection, stream);
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|bytes| bytes > 0) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok");
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    at
}

/// Asks the server in a process of its own, that trusts `authorities` alone.
async fn check(authorities: &str, host: &str, expected: &str) {
    let mut test = Command::new(std::env::current_exe().expect("a path"));
    test.args(["--exact", "tls::one_exchange", "--nocapture"]);
    test.env("SSL_CERT_FILE", authorities).env_remove("SSL_CERT_DIR").env(HOST, host).env(EXPECTED, expected);
    let Output { status, stdout, stderr } = test.output().await.expect("it runs");
    let said = [stdout, stderr].concat();
    assert!(status.success(), "{host} by {authorities}: {}", String::from_utf8_lossy(&said));
}

/// One exchange as the environment asks for it; by itself, with the machine's own authorities, the certificate is refused.
#[tokio::test]
async fn one_exchange() {
    let host = std::env::var(HOST).unwrap_or_else(|_| "secure.example".to_owned());
    let expected = std::env::var(EXPECTED).unwrap_or_else(|_| "UNAVAILABLE".to_owned());
    let client = Client::new(&["127.0.0.1"], Liar::saying(&[&["127.0.0.1"]]), HttpLimits::default());
    let answer = client.send(json!({"url": format!("https://{host}:{}/", serve().port())})).await;
    let found = answer.get("code").or(answer.get("body")).and_then(|text| text.as_str()).unwrap_or_default();
    assert_eq!(found, expected, "{answer}");
}

#[tokio::test]
async fn a_certificate_is_checked_for_authority_and_name() {
    check(&fixture("ca.pem"), "secure.example", "ok").await;
    check(&fixture("ca.pem"), "other.example", "UNAVAILABLE").await;
    check(&fixture("ca.pem"), "127.0.0.1", "UNAVAILABLE").await;
}

#[tokio::test]
async fn a_machine_without_authorities_says_so_and_nothing_breaks() {
    check("/nonexistent", "secure.example", "UNAVAILABLE").await;
}
