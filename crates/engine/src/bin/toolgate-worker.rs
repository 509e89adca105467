//! A program that does nothing but become a worker: what tests and embedders name as their worker command.

fn main() {
    toolgate_guest::take_over_if_asked();
    eprintln!("toolgate-worker is started by an engine, never by hand");
    std::process::exit(2);
}
