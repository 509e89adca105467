//! What every client of an HTTP API has to know of the protocol's texts.

/// Headers that the client sets itself, and headers for the connection. A request of a program or a document has none of
/// them.
pub const CONNECTION_HEADERS: [&str; 11] = [
    "host",
    "connection",
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
];

/// Whether a header is for the connection or for a proxy; in any case of its letters.
pub fn is_connection_header(name: &str) -> bool {
    let is_for_proxy = name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("proxy-"));
    is_for_proxy || CONNECTION_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The text that percent-encoded text stands for; `None` if an escape is malformed or the bytes are not UTF-8.
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_are_known_in_any_case() {
        for name in ["host", "Transfer-Encoding", "PROXY-Authorization", "proxy-"] {
            assert!(is_connection_header(name), "{name}");
        }
        for name in ["accept", "proxy", "x-host", "", "prox\u{e9}-x"] {
            assert!(!is_connection_header(name), "{name}");
        }
    }

    #[test]
    fn a_malformed_escape_stands_for_nothing() {
        assert_eq!(percent_decode("a%20b%C3%a4"), Some("a bä".to_owned()));
        assert_eq!(percent_decode(""), Some(String::new()));
        for wrong in ["%", "%2", "%zz", "%ff", "a%2"] {
            assert_eq!(percent_decode(wrong), None, "{wrong}");
        }
    }
}
