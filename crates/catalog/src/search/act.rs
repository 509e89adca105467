//! What a task wants done, and what a tool does: create, remove, change, or one of three ways to read.
//!
//! A task's act is in how it begins: a question reads, an order names its verb first. A tool's act is in its name, or
//! else in the first word of its description. Where the two contradict, the tool is held back, never left out: the
//! table of verbs is English and small, and tools are named by anyone.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::words::{plain_words, stem};

/// What a tool that changes something is held back by where the task names no act: the harmless one is meant.
const RESTRAINT: f32 = 0.85;

/// What is done to a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Create,
    Remove,
    Change,
    Get,
    List,
    Find,
}

use Act::{Change, Create, Find, Get, List, Remove};

/// Verbs, and what they may mean as the first word of an order. One with two meanings is in two lines.
const VERBS: &[(Act, &str)] = &[
    (
        Create,
        "add alert allocate announce append arrange ask assemble attach author begin bill book broadcast build buy \
         charge claim collect commit compile compose connect copy create define deploy dial draft duplicate email \
         emit encode enqueue enroll enter establish export file generate give grant import index inform init \
         initialize insert install introduce invite invoice issue join launch learn leave link log mail make \
         memorize mention message new note notify onboard open order page pay ping place plan post prepare produce \
         propose provision publish push put queue raise react recommend record register remember render reply report \
         request reserve save say schedule send set setup share ship spawn spin stage start store submit subscribe \
         tag tell text track transcribe translate upload warn write",
    ),
    (
        Remove,
        "abandon abort ban bin cancel clean clear decommission delete destroy detach discard disconnect dismiss \
         ditch drop eject end erase evict exclude expel expunge flush forget invalidate kick kill leave purge refuse \
         reject remove reset retire revoke scrap shred stop strip sunset terminate throw toss trash uncheck undo \
         unfollow uninstall unlink unpublish unregister unshare unstage unsubscribe untag void wipe withdraw",
    ),
    (
        Change,
        "activate adjust allow alter apply approve archive assign attach block boost bump cap change checkout close \
         complete configure convert correct customize deactivate decrease delay demote disable downgrade edit enable \
         end escalate expire extend finish fix flag format grow hide improve increase label let limit lock lower \
         mark merge migrate modify move mute normalize order organize override overwrite patch pause pin point \
         postpone prioritize promote put raise reassign reduce refine refresh relocate rename reopen reorder replace \
         reschedule resize resolve restart restore restrict restructure resume reverse revert revise rewrite rotate \
         scale set shift shrink silence snooze sort split stop swap switch tag tick toggle transfer turn tweak \
         unarchive unblock unlock unmute update upgrade",
    ),
    (
        Get,
        "access analyze calculate chart check compare compute count describe detect display download estimate \
         examine explain fetch get graph inspect know learn listen load look measure monitor open peek play plot \
         preview print pull read research retrieve return reveal review see show summarize tail validate verify view \
         visualize watch",
    ),
    (List, "browse dump enumerate list see show"),
    (Find, "detect discover filter find grep identify locate look lookup match query scan search seek"),
];

/// Verbs that name what a tool does wherever they stand in its name; others may be the thing it is done to.
const PLAIN: &str =
    "add change create delete edit fetch find get insert list modify read remove search send set show update write";

/// Words that begin a question.
const QUESTIONS: &str = "am any are arent did didnt do does doesnt has have how hows is isnt was were what whats when whens where \
     wheres which who whos whom whose why will";

/// Words that a thing follows: what stands before one is a verb, or else there would be a preposition.
const DETERMINERS: &str =
    "a all an another each every her his my our some someone that the their these this those your";

/// What comes before the task itself.
const LEAD_INS: &str = "can you, can i, could you, go ahead and, help me, how can i, how can we, how could i, how do i, how do we, \
     how do you, how to, i have to, i need to, i need, i want to, i want, i would like to, id like to, let me, \
     lets, now, please, quickly, then, try to, we need to, we want to, would you";

/// What `task` wants done; empty where it does not say.
pub(super) fn wanted(task: &str) -> Vec<Act> {
    let words = plain_words(task);
    let order = after_lead_ins(&words);
    let Some((first, rest)) = order.split_first() else { return Vec::new() };
    if names(QUESTIONS, first) && !causes(order) {
        return asked(order);
    }
    // `give me`, `send us`: what is given to the speaker is read.
    if matches!(rest.first().map(String::as_str), Some("me" | "us")) && !of(first).contains(&Remove) {
        return vec![Get, List, Find];
    }
    if removes(order) {
        return vec![Remove];
    }
    if first == "turn" && rest.iter().any(|word| word == "into") {
        return vec![Create, Change];
    }
    // `refund the customer`: a thing that is done to something is made.
    let verb = rest.first().is_some_and(|next| names(DETERMINERS, next));
    if verb && of(first).is_empty() {
        return vec![Create, Change];
    }
    order.iter().map(|word| of(word)).find(|acts| !acts.is_empty()).unwrap_or_default().to_vec()
}

/// `get rid of it`, `take it out`: verbs that remove only with their particle.
fn removes(order: &[String]) -> bool {
    let says = |wanted: &str| order.iter().any(|word| word == wanted);
    says("rid") || says("take") && (says("out") || says("off") || says("away"))
}

/// The stemmed verb of `task`, where it is an order that begins with one.
pub(super) fn verb(task: &str) -> Option<String> {
    let words = plain_words(task);
    let first = after_lead_ins(&words).first()?;
    (!of(first).is_empty()).then(|| stem(first))
}

/// `have the model answer`: an order to let someone do something, not a question.
fn causes(order: &[String]) -> bool {
    let mut words = order.iter().map(String::as_str);
    words.next() == Some("have") && matches!(words.next(), Some("the" | "a" | "an" | "my" | "our"))
}

/// What a question reads: several things, one that must be found first, or whichever.
fn asked(question: &[String]) -> Vec<Act> {
    let mut words = question.iter().map(String::as_str);
    match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        ("where" | "wheres" | "does" | "do" | "did", _) | ("is" | "are" | "was" | "were", "there") => vec![Find, List],
        ("which" | "any", _) | ("how", "many") => vec![List, Find],
        ("what", next) if is_plural(next) => vec![List, Find],
        _ => vec![Get, List, Find],
    }
}

fn is_plural(word: &str) -> bool {
    word.len() > 4 && word.ends_with('s') && !word.ends_with("ss")
}

fn after_lead_ins(words: &[String]) -> &[String] {
    let mut rest = words;
    while let Some(shorter) = LEAD_INS.split(", ").find_map(|lead_in| after(rest, lead_in)) {
        rest = shorter;
    }
    rest
}

fn after<'w>(words: &'w [String], lead_in: &str) -> Option<&'w [String]> {
    let mut rest = words;
    for expected in lead_in.split(' ') {
        let (first, others) = rest.split_first()?;
        if first != expected {
            return None;
        }
        rest = others;
    }
    Some(rest)
}

/// What a tool of this name and description does; empty where neither says.
pub(super) fn done(name: &str, description: &str) -> &'static [Act] {
    let named = plain_words(name);
    let ends = || named.first().into_iter().chain(named.last());
    let plain = ends().find(|word| names(PLAIN, word));
    let described = plain_words(description.split_whitespace().next().unwrap_or_default());
    let verbs = plain.into_iter().chain(described.first()).chain(ends());
    verbs.map(|word| of(word)).find(|acts| !acts.is_empty()).unwrap_or_default()
}

/// How well what a tool does fits what is wanted.
pub(super) fn fit(wanted: &[Act], done: &[Act]) -> f32 {
    if done.is_empty() {
        return 1.0;
    }
    if wanted.is_empty() {
        return if done.iter().any(|act| act.reads()) { 1.0 } else { RESTRAINT };
    }
    let each = wanted.iter().flat_map(|wanted| done.iter().map(|done| wanted.fit(*done)));
    each.fold(0.0, f32::max)
}

impl Act {
    fn reads(self) -> bool {
        matches!(self, Get | List | Find)
    }

    fn fit(self, done: Self) -> f32 {
        match (self, done) {
            (wanted, done) if wanted == done => 1.2,
            (wanted, done) if wanted.reads() && done.reads() => 1.0,
            (Create, Change) | (Change, Create) | (Remove, Change) => 0.9,
            (Change, Remove) => 0.7,
            (Create, Remove) | (Remove, Create) => 0.5,
            _ => 0.6,
        }
    }
}

/// Whether a stemmed word only says what is done.
pub(super) fn is_plain(stemmed: &str) -> bool {
    static STEMS: OnceLock<HashSet<String>> = OnceLock::new();
    STEMS.get_or_init(|| PLAIN.split_whitespace().map(stem).collect()).contains(stemmed)
}

/// Whether `word` is one of `words`.
fn names(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

/// What a verb may mean, the usual first.
fn of(word: &str) -> &'static [Act] {
    static BY_VERB: OnceLock<HashMap<String, Vec<Act>>> = OnceLock::new();
    let by_verb = BY_VERB.get_or_init(|| {
        let mut by_verb: HashMap<String, Vec<Act>> = HashMap::new();
        for (act, verbs) in VERBS {
            for verb in verbs.split_whitespace() {
                by_verb.entry(stem(verb)).or_default().push(*act);
            }
        }
        by_verb
    });
    by_verb.get(&stem(word)).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(task: &str, expected: &[Act]) {
        assert_eq!(wanted(task), expected);
    }

    #[test]
    fn a_question_reads() {
        check("who may delete the table?", &[Get, List, Find]);
        check("which pods are running", &[List, Find]);
        check("what tables exist", &[List, Find]);
        check("what does it say", &[Get, List, Find]);
        check("Where's the config", &[Find, List]);
        check("is there a bucket for it", &[Find, List]);
    }

    #[test]
    fn an_order_begins_with_its_verb() {
        check("delete the list of files", &[Remove]);
        check("put it there", &[Create, Change]);
        check("please can you find my mail", &[Find]);
        check("how do I rename a branch", &[Change]);
        check("have the list updated", &[Create, Change]);
    }

    #[test]
    fn what_is_given_to_the_speaker_is_read() {
        check("give me the logs", &[Get, List, Find]);
        check("give the user a role", &[Create]);
    }

    #[test]
    fn to_take_something_out_is_to_remove_it() {
        check("take it out of the list", &[Remove]);
        check("get rid of it", &[Remove]);
    }

    #[test]
    fn an_unknown_verb_does_something() {
        check("refund the customer", &[Create, Change]);
        check("refund history", &[]);
        check("", &[]);
    }

    #[test]
    fn a_tool_does_what_its_name_or_else_its_description_says() {
        for (name, description, expected) in [
            ("create_order", "", &[Create][..]),
            ("order_get", "", &[Get]),
            ("git_log", "Shows the commit logs", &[Get, List]),
            ("move_file", "", &[Change]),
            ("forecast", "Weather for a city", &[]),
        ] {
            assert_eq!(done(name, description), expected, "{name}");
        }
    }

    #[test]
    fn the_more_an_act_contradicts_the_less_it_fits() {
        let fits = [Create, Change, Get, Remove].map(|done| fit(&[Create], &[done]));
        assert!(fits.is_sorted_by(|a, b| a > b), "{fits:?}");
        assert!(fit(&[], &[Remove]) < fit(&[], &[Get]));
        assert_eq!(fit(&[Create], &[]), 1.0);
    }
}
