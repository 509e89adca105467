//! A worker as an attacker would have it: sealed like every other, but what runs in it is native
//! code that tries to get out or to hurt its host.
//!
//! The program's text names what to try. It is never part of a shipped program: a crate of its own
//! keeps it out of everyone's dependencies.
//!
//! # Layout
//! - `calls`: system calls that a worker must not have
//! - `frames`: what a worker may say to its host, and should not

mod calls;
mod frames;

fn main() {
    toolgate_guest::take_over_to_test_the_seal(act);
    eprintln!("toolgate-hostile-worker is started by a test");
    std::process::exit(2);
}

/// The text is JavaScript to everyone before us: what to do stands in its first string.
fn act(program: &str) {
    let Some(order) = program.split('"').find(|part| part.starts_with("do ")) else { return frames::done("no order") };
    let mut words = order.split(' ').skip(1);
    let (what, number) = (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse().ok()));
    match what {
        "call" => calls::by_number(number.unwrap_or(-1)),
        "try" => calls::by_name(order.rsplit(' ').next().unwrap_or_default()),
        "say" => frames::say(order.rsplit(' ').next().unwrap_or_default()),
        _ => frames::done("an order that is not known"),
    }
}
