//! Nothing inside is reached: by address, by name, by spelling, by rebinding, by redirect.

use crate::support::{Client, Liar, serve_raw};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use toolgate_functions::http::HttpLimits;

/// Every way to write an address that is not public. `PORT` is where a server waits on 127.0.0.1 that nobody may reach.
const REFUSED_URLS: &[&str] = &[
    // Loopback, in all spellings of IPv4.
    "http://127.0.0.1:PORT/",
    "https://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0x7f.1:PORT/",
    "http://127.0.0.0x:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://017700000001:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.255.255.254:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://１２７.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "HTTP://127.0.0.1:PORT/",
    "  http://127.0.0.1:PORT/  ",
    // "This host".
    "http://0.0.0.0:PORT/",
    "http://0:PORT/",
    "http://0.1.2.3:PORT/",
    // Private, shared, link-local, metadata.
    "http://10.0.0.1/",
    "http://10.255.255.255/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://168.63.129.16/",
    "http://192.0.0.192/opc/v2/",
    // Reserved, documentation, multicast, broadcast.
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://198.18.0.1/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    // IPv6.
    "http://[::]:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::10.0.0.1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:db8::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[fd20:ce::254]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[100::1]/",
    // Other schemes and URLs with credentials.
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_x",
    "data:text/plain,x",
    "blob:http://127.0.0.1:PORT/x",
    "ws://127.0.0.1:PORT/",
    "javascript:1",
    "http://user@127.0.0.1:PORT/",
    "http://user:pass@example.com/",
    "http://example.com:80@127.0.0.1:PORT/",
];

/// URLs that are none: refused before anything is looked up.
const INVALID_URLS: &[&str] = &[
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://127.0.0.1\r\n:PORT/",
    "http://127.0.\t0.1:PORT/",
    "http://256.256.256.256/",
    "http://0x100000000/",
    "http://127.0.0.1:99999/",
    "http://1.2.3.4.5/",
    "http://",
    "http:///",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "http://a\u{0}b/",
    "http://exa mple/",
    "http://ex%00ample/",
];

/// Addresses a name may claim to have.
const REFUSED_ANSWERS: &[&[&str]] = &[
    &["127.0.0.1"],
    &["0.0.0.0"],
    &["10.1.2.3"],
    &["172.20.0.1"],
    &["192.168.1.1"],
    &["100.64.9.9"],
    &["169.254.169.254"],
    &["192.0.0.192"],
    &["198.18.0.1"],
    &["224.0.0.251"],
    &["255.255.255.255"],
    &["::"],
    &["::1"],
    &["::ffff:127.0.0.1"],
    &["::127.0.0.1"],
    &["64:ff9b::7f00:1"],
    &["2002:7f00:1::"],
    &["2001:0:1::1"],
    &["fd00:ec2::254"],
    &["fe80::1"],
    &["ff02::1"],
    // One bad address spoils the answer, wherever it stands.
    &["93.184.216.34", "127.0.0.1"],
    &["127.0.0.1", "93.184.216.34"],
    &["2606:4700:4700::1111", "::1"],
];

/// A server on this address that no refused request may reach.
async fn canary(address: &str) -> (SocketAddr, Arc<AtomicUsize>) {
    serve_raw(address, |mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret").await;
    })
    .await
}

async fn check_urls(urls: &[&str], expected: &str) {
    let (at, reached) = canary("127.0.0.1:0").await;
    let resolver = Liar::saying(&[&["127.0.0.1"]]);
    let client = Client::new(&[], resolver.clone(), HttpLimits::default());
    for url in urls {
        let url = url.replace("PORT", &at.port().to_string());
        assert_eq!(client.verdict(&url).await, expected, "{url:?}");
    }
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 0, "an address needs no resolver");
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the canary was reached");
}

#[tokio::test]
async fn no_spelling_of_an_inner_address_is_reached() {
    check_urls(REFUSED_URLS, "REFUSED").await;
}

#[tokio::test]
async fn what_is_no_url_is_not_guessed_at() {
    check_urls(INVALID_URLS, "INVALID_ARGUMENTS").await;
}

#[tokio::test]
async fn no_name_leads_to_an_inner_address() {
    let (at, reached) = canary("127.0.0.1:0").await;
    for answer in REFUSED_ANSWERS {
        let client = Client::new(&[], Liar::saying(&[answer]), HttpLimits::default());
        for host in [
            "public.example",
            "localhost",
            "127.0.0.1.nip.example",
            "metadata.google.internal.",
            "a.example\\@b.example",
        ] {
            let url = format!("http://{host}:{}/", at.port());
            assert_eq!(client.verdict(&url).await, "REFUSED", "{host} -> {answer:?}");
        }
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the canary was reached");
}

#[tokio::test]
async fn a_refusal_does_not_tell_the_address() {
    let client = Client::new(&[], Liar::saying(&[&["10.11.12.13"]]), HttpLimits::default());
    let answer = client.send(json!({"url": "http://db.corp.example/"})).await;
    assert_eq!(answer["message"], "db.corp.example resolves to a private address, which is not allowed");
}

#[tokio::test]
async fn a_name_is_resolved_once_for_check_and_connection() {
    // 127.0.0.2 stands for the public address; 127.0.0.1 at the same port is what the attacker wants.
    let (inner, reached) = canary("127.0.0.1:0").await;
    let (outer, _) = canary(&format!("127.0.0.2:{}", inner.port())).await;
    assert_eq!(outer.port(), inner.port());
    let resolver = Liar::saying(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let client = Client::new(&["127.0.0.2"], resolver.clone(), HttpLimits::default());
    let url = format!("http://rebind.example:{}/", outer.port());
    assert_eq!(client.verdict(&url).await, 200, "the first answer is good, and it is the one connected to");
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1, "a second look-up would be the rebinding");
    assert_eq!(client.verdict(&url).await, "REFUSED", "the next connection is checked again");
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the canary was reached");
}

#[tokio::test]
async fn a_name_without_an_address_is_an_error() {
    let client = Client::new(&[], Liar::saying(&[&[]]), HttpLimits::default());
    assert_eq!(client.verdict("http://nowhere.example/").await, "UNAVAILABLE");
}

async fn check_allowed(allow: &[&str], host: &str, expected: serde_json::Value) {
    let (at, _) = canary("127.0.0.1:0").await;
    let client = Client::new(allow, Liar::saying(&[&["127.0.0.1"]]), HttpLimits::default());
    assert_eq!(client.verdict(&format!("http://{host}:{}/", at.port())).await, expected, "{host} by {allow:?}");
}

#[tokio::test]
async fn the_allow_list_opens_what_it_names_and_nothing_more() {
    check_allowed(&["127.0.0.0/8"], "127.0.0.1", json!(200)).await;
    check_allowed(&["127.0.0.0/8"], "any.example", json!(200)).await;
    check_allowed(&["127.0.0.0/8"], "[::ffff:127.0.0.1]", json!("REFUSED")).await;
    check_allowed(&["inner.example"], "inner.example", json!(200)).await;
    check_allowed(&["inner.example"], "INNER.example.", json!(200)).await;
    check_allowed(&["inner.example"], "other.example", json!("REFUSED")).await;
    check_allowed(&["inner.example"], "127.0.0.1", json!("REFUSED")).await;
    check_allowed(&["*.inner.example"], "a.inner.example", json!(200)).await;
    check_allowed(&["10.0.0.0/8"], "127.0.0.1", json!("REFUSED")).await;
}

#[tokio::test]
async fn a_redirect_is_no_way_in() {
    let (inner, reached) = canary("127.0.0.1:0").await;
    let port = inner.port();
    for location in [
        format!("http://127.0.0.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("//127.1:{port}/"),
        format!("http://inner.example:{port}/"),
        format!("http://user:pass@outer.example:{port}/"),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
    ] {
        let answer =
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let talk = move |mut stream: tokio::net::TcpStream, _| {
            let answer = answer.clone();
            async move {
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        };
        let (outer, _) = serve_raw("127.0.0.2:0", talk).await;
        let resolver = Liar::saying(&[&["127.0.0.2"], &["127.0.0.1"]]);
        let client = Client::new(&["127.0.0.2"], resolver, HttpLimits::default());
        let verdict = client.verdict(&format!("http://outer.example:{}/", outer.port())).await;
        assert_eq!(verdict, "REFUSED", "{location}");
    }
    assert_eq!(reached.load(Ordering::SeqCst), 0, "the canary was reached");
}
