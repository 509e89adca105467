//! Lays the program out so that its code can be moved to huge pages: see `hugepages.rs` of the guest.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // No huge page's place has both code and something else.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,max-page-size=2097152");
    }
}
