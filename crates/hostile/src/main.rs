//! A worker that is controlled by an attacker: locked down like every other, but what runs in it is native code that tries to
//! escape or to harm its host.
//!
//! The program's text names what to try. It is never part of a shipped program: a crate of its own
//! keeps it out of all dependencies.
//!
//! # Layout
//! - `calls`: system calls that a worker must not have
//! - `frames`: frames that an honest worker never sends
//! - `leftovers`: what a run leaves behind for the next one in the same process

mod calls;
mod frames;
mod leftovers;

fn main() {
    leftovers::note_mappings();
    toolgate_guest::take_over_as_test_worker(act);
    eprintln!("toolgate-hostile-worker is started by a test");
    std::process::exit(2);
}

/// The planner has checked the text as JavaScript; the order is in its first string that starts with `do`.
fn act(program: &str) {
    let Some(order) = program.split('"').find(|part| part.starts_with("do ")) else { return frames::done("no order") };
    let mut words = order.split(' ').skip(1);
    let (what, number) = (words.next().unwrap_or_default(), words.next().and_then(|word| word.parse().ok()));
    match what {
        "call" => calls::by_number(number.unwrap_or(-1)),
        "try" => calls::by_name(order.rsplit(' ').next().unwrap_or_default()),
        "leave" => leftovers::leave(order.rsplit(' ').next().unwrap_or_default()),
        "find" => {
            let mut words = order.split(' ').skip(2);
            let (what, hint) = (words.next().unwrap_or_default(), words.next().and_then(|hint| hint.parse().ok()));
            leftovers::find(what, hint.unwrap_or_default());
        }
        "say" => frames::send_dishonest(order.rsplit(' ').next().unwrap_or_default()),
        _ => frames::done("an order that is not known"),
    }
}
