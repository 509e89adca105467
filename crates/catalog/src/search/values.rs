//! Derives words from the form of values in a query: `notes.md` adds `file`, an address with `@` adds `email`.

use super::words::stem;

/// File extensions that mark a word as a file name.
const EXTENSIONS: &[&str] = &[
    "bat", "bmp", "c", "cfg", "conf", "cpp", "cs", "css", "csv", "doc", "docx", "env", "gif", "go", "gz", "h", "hpp",
    "html", "ini", "ipynb", "java", "jpeg", "jpg", "js", "json", "jsx", "kt", "lock", "log", "lua", "md", "mp3", "mp4",
    "pdf", "php", "png", "proto", "ps1", "py", "rb", "rs", "scss", "sh", "sql", "svg", "swift", "tar", "tex", "toml",
    "ts", "tsv", "tsx", "txt", "wav", "webp", "xls", "xlsx", "xml", "yaml", "yml", "zip",
];

/// The stemmed words for the kinds of value that occur in `query`.
pub(super) fn kinds(query: &str) -> Vec<String> {
    query.split_whitespace().filter_map(kind).map(stem).collect()
}

fn kind(word: &str) -> Option<&'static str> {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '/' | '~'));
    let word = word.trim_end_matches('.');
    if word.starts_with("http://") || word.starts_with("https://") {
        return Some("url");
    }
    if word.split_once('@').is_some_and(|(name, host)| !name.is_empty() && host.contains('.')) {
        return Some("email");
    }
    if word.rsplit_once('.').is_some_and(|(_, ending)| EXTENSIONS.contains(&ending)) {
        return Some("file");
    }
    if word.starts_with("~/") || word.starts_with("./") || word.starts_with("../") {
        return Some("path");
    }
    is_time(word).then_some("time")
}

/// `3pm`, `11:30`.
fn is_time(word: &str) -> bool {
    let hour = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let clock = word.strip_suffix("am").or_else(|| word.strip_suffix("pm"));
    clock.is_some_and(hour) || word.split_once(':').is_some_and(|(hours, minutes)| hour(hours) && hour(minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(task: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|kind| stem(kind)).collect();
        assert_eq!(kinds(task), expected);
    }

    #[test]
    fn a_value_says_what_kind_it_is() {
        check("put it into notes.md.", &["file"]);
        check("every **/*.tsx", &["file"]);
        check("write to anna@example.com", &["email"]);
        check("see https://example.com/a.html", &["url"]);
        check("at 3pm or 11:30", &["time", "time"]);
        check("in ../src", &["path"]);
    }

    #[test]
    fn what_only_resembles_a_value_is_none() {
        check("version 2.0, e.g. this. And @anna, 300pm and a:b", &[]);
    }
}
