//! Lays the program out so that its code can be moved to huge pages: see `own_code.rs` of the guest.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // Code begins on the bound of a huge page, and nothing else shares one with it.
        println!("cargo::rustc-link-arg-bins=-Wl,-z,separate-code,-z,max-page-size=2097152");
    }
}
