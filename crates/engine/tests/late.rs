//! A program that prepares itself when it has threads already is told so.

use toolgate_engine::{Engine, StartError, take_over_if_asked};

/// As the body of a `#[tokio::main]` function.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn under_tokio_main_the_engine_says_what_to_do() {
    take_over_if_asked();
    let Err(error) = Engine::new() else { panic!("a zygote with threads cannot be confined") };
    assert!(matches!(error, StartError::PreparedLate), "{error}");
    assert!(error.to_string().contains("call it first in a plain fn main"), "{error}");
}
