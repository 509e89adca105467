//! Classifies queries and tools by operation: create, remove, change, or one of three ways to read.
//!
//! The beginning of a query decides: a question reads, an imperative names its verb first. For a tool its name decides,
//! otherwise the first word of its description. A tool whose operation contradicts the query scores lower but is never
//! removed, because the verb table is small and English only.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::words::{beginning, is_stop_word, plain_words, stem};

/// Score factor of a tool that writes, for a query without a recognised operation: prefer tools that read.
const WRITE_WITHOUT_VERB: f32 = 0.85;

/// What a tool does to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Create,
    Remove,
    Change,
    Get,
    List,
    Find,
}

use Operation::{Change, Create, Find, Get, List, Remove};

/// The verbs of each operation. A verb with two meanings is listed under both.
const VERBS: &[(Operation, &str)] = &[
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

/// Verbs that mean the operation at either end of a tool's name; other verbs may be the resource (`log`, `order`).
const UNAMBIGUOUS_VERBS: &str =
    "add change create delete edit fetch find get insert list modify read remove search send set show update write";

/// First words of a question.
const QUESTION_WORDS: &str = "am any are arent did didnt do does doesnt has have how hows is isnt was were what whats when whens where \
     wheres which who whos whom whose why will";

/// Words that precede a noun. A first word that is followed by one of these is a verb.
const DETERMINERS: &str =
    "a all an another each every her his my our some someone that the their these this those your";

/// Words that precede a noun and no name of a resource. An unknown word that is followed by one of these is a verb.
const ARTICLES: &str = "a all an each every her his my our the their your";

/// Verbs of two words that mean to read.
const READING_VERBS_OF_TWO_WORDS: &str = "dig into, dig through, go over, go through, work through";

/// Words that are skipped at the beginning of a step, besides numbers: `First, read the log files`.
const OPENERS: &str = "after first firstly having last lastly once second secondly step that third thirdly";

/// Phrases that are skipped at the beginning of a query.
const LEAD_INS: &str = "can you, can i, could you, go ahead and, help me, how can i, how can we, how could i, how do i, how do we, \
     how do you, how to, i can, i have to, i need to, i need, i want to, i want, i would like to, id like to, let me, \
     lets, now, please, quickly, then, try to, we can, we need to, we want to, would you, you can";

/// The operations that `query` may ask for; empty if none is recognised.
pub(super) fn query_operations(query: &str) -> Vec<Operation> {
    let words = plain_words(query);
    let imperative = after_lead_ins(&words);
    let Some((first, rest)) = imperative.split_first() else { return Vec::new() };
    if contains_word(QUESTION_WORDS, first) && !is_causative(imperative) {
        return question_operations(imperative);
    }
    // `give me`, `send us`: the speaker receives, so the operation reads.
    if matches!(rest.first().map(String::as_str), Some("me" | "us")) && !operations_of(first).contains(&Remove) {
        return vec![Get, List, Find];
    }
    if removes(imperative) {
        return vec![Remove];
    }
    if first == "turn" && rest.iter().any(|word| word == "into") {
        return vec![Create, Change];
    }
    // `refund the customer`: an unknown verb writes.
    let verb = rest.first().is_some_and(|next| contains_word(DETERMINERS, next));
    if verb && operations_of(first).is_empty() {
        return vec![Create, Change];
    }
    imperative.iter().map(|word| operations_of(word)).find(|found| !found.is_empty()).unwrap_or_default().to_vec()
}

/// `get rid of it`, `take it out`: verbs that mean removal only with their particle.
fn removes(imperative: &[String]) -> bool {
    let says = |wanted: &str| imperative.iter().any(|word| word == wanted);
    says("rid") || says("take") && (says("out") || says("off") || says("away"))
}

/// The stemmed verb of `query`, if the query begins with a known verb.
pub(super) fn query_verb(query: &str) -> Option<String> {
    let words = plain_words(query);
    let first = after_lead_ins(&words).first()?;
    (!operations_of(first).is_empty()).then(|| stem(first))
}

/// Whether `text` begins with a verb and says more than that: `post a summary`, `scrape the page`.
pub(super) fn is_imperative(text: &str) -> bool {
    let words = plain_words(text);
    let words = imperative(&words);
    let [first, second, ..] = words else { return false };
    let is_unknown_verb = || contains_word(ARTICLES, second) && !is_stop_word(first);
    let is_of_two_words = || after_reading_verb(words).is_some();
    !operations_of(first).is_empty() || is_unknown_verb() || is_of_two_words()
}

/// A step with a known verb in place of one of two words: `go through the logs` is `read the logs`.
pub(super) fn in_known_words(step: &str) -> Option<String> {
    let words = plain_words(step);
    after_reading_verb(imperative(&words)).map(|rest| format!("read {}", rest.join(" ")))
}

fn after_reading_verb(words: &[String]) -> Option<&[String]> {
    READING_VERBS_OF_TWO_WORDS.split(", ").find_map(|verb| after(words, verb))
}

/// The words from the verb on, if they have one.
pub(super) fn imperative(words: &[String]) -> &[String] {
    after_lead_ins(after_openers(words))
}

fn after_openers(words: &[String]) -> &[String] {
    let mut numbers = 0;
    let mut is_opener = |word: &str| {
        let is_number = word.chars().all(|c| c.is_ascii_digit());
        numbers += usize::from(is_number);
        // `2.` counts a step, `1,000 files` counts files.
        if is_number { numbers == 1 } else { contains_word(OPENERS, word) }
    };
    let skipped = words.iter().take_while(|word| is_opener(word)).count();
    words.get(skipped..).unwrap_or_default()
}

/// `have the model answer` is an imperative although it begins with a question word.
fn is_causative(imperative: &[String]) -> bool {
    let mut words = imperative.iter().map(String::as_str);
    words.next() == Some("have") && matches!(words.next(), Some("the" | "a" | "an" | "my" | "our"))
}

/// The operations that answer a question, by its first words.
fn question_operations(question: &[String]) -> Vec<Operation> {
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

/// The operations of a tool by its name and description; empty if neither contains a known verb.
pub(super) fn tool_operations(name: &str, description: &str) -> &'static [Operation] {
    let named = plain_words(beginning(name));
    let ends = || named.first().into_iter().chain(named.last());
    let unambiguous = ends().find(|word| contains_word(UNAMBIGUOUS_VERBS, word));
    let described = plain_words(beginning(description.split_whitespace().next().unwrap_or_default()));
    let verbs = unambiguous.into_iter().chain(described.first()).chain(ends());
    verbs.map(|word| operations_of(word)).find(|found| !found.is_empty()).unwrap_or_default()
}

/// Score factor for a tool with the operations `tool` and a query that asks for `query`.
pub(super) fn fit(query: &[Operation], tool: &[Operation]) -> f32 {
    if tool.is_empty() {
        return 1.0;
    }
    if query.is_empty() {
        return if tool.iter().any(|operation| operation.reads()) { 1.0 } else { WRITE_WITHOUT_VERB };
    }
    let each = query.iter().flat_map(|query| tool.iter().map(|tool| query.fit(*tool)));
    each.fold(0.0, f32::max)
}

impl Operation {
    fn reads(self) -> bool {
        matches!(self, Get | List | Find)
    }

    fn fit(self, tool: Self) -> f32 {
        match (self, tool) {
            (query, tool) if query == tool => 1.2,
            (query, tool) if query.reads() && tool.reads() => 1.0,
            (Create, Change) | (Change, Create) | (Remove, Change) => 0.9,
            (Change, Remove) => 0.7,
            (Create, Remove) | (Remove, Create) => 0.5,
            _ => 0.6,
        }
    }
}

/// Whether a stemmed word is one of [`UNAMBIGUOUS_VERBS`].
pub(super) fn is_unambiguous_verb(stemmed: &str) -> bool {
    static STEMS: OnceLock<HashSet<String>> = OnceLock::new();
    STEMS.get_or_init(|| UNAMBIGUOUS_VERBS.split_whitespace().map(stem).collect()).contains(stemmed)
}

/// Whether `word` is one of the space-separated `words`.
fn contains_word(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

/// The operations that a verb may mean, in the order of [`VERBS`]; empty for a word that is no known verb.
fn operations_of(word: &str) -> &'static [Operation] {
    static BY_VERB: OnceLock<HashMap<String, Vec<Operation>>> = OnceLock::new();
    let by_verb = BY_VERB.get_or_init(|| {
        let mut by_verb: HashMap<String, Vec<Operation>> = HashMap::new();
        for (operation, verbs) in VERBS {
            for verb in verbs.split_whitespace() {
                by_verb.entry(stem(verb)).or_default().push(*operation);
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
    fn check(query: &str, expected: &[Operation]) {
        assert_eq!(query_operations(query), expected);
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
    fn an_imperative_begins_with_its_verb() {
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
    fn an_unknown_verb_before_a_determiner_writes() {
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
            assert_eq!(tool_operations(name, description), expected, "{name}");
        }
    }

    #[test]
    fn a_contradicting_operation_lowers_the_score() {
        let fits = [Create, Change, Get, Remove].map(|tool| fit(&[Create], &[tool]));
        assert!(fits.is_sorted_by(|a, b| a > b), "{fits:?}");
        assert!(fit(&[], &[Remove]) < fit(&[], &[Get]));
        assert_eq!(fit(&[Create], &[]), 1.0);
    }
}
