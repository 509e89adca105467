//! Starts the browser of this user: the command that `BROWSER` has, or that of the desktop.
//!
//! Used for pages that a person must see; each of them is printed as well, so that a machine without a browser lacks nothing.

use std::process::{Command, Stdio};

/// Starts a browser with an address or a file.
///
/// # Errors
/// If this machine seems to have no browser, or it does not start.
pub(crate) fn open(target: &str) -> std::io::Result<()> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let has_display = set("DISPLAY").or_else(|| set("WAYLAND_DISPLAY")).is_some();
    let missing = || std::io::Error::other("there is no display, and BROWSER is not set");
    let words = words(set("BROWSER").as_deref(), has_display, target).ok_or_else(missing)?;
    let Some((program, arguments)) = words.split_first() else { return Err(missing()) };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    // Waited for, so that it does not stay behind as a zombie.
    std::thread::Builder::new().name("browser".into()).spawn(move || drop(child.wait()))?;
    Ok(())
}

/// The command with its arguments: `%s` in `BROWSER` stands for the target, which is otherwise the last argument.
fn words(browser: Option<&str>, has_display: bool, target: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = match browser {
        Some(browser) => browser.split_whitespace().map(str::to_owned).collect(),
        None if cfg!(target_os = "macos") => vec!["open".to_owned()],
        None if cfg!(windows) => vec!["rundll32".to_owned(), "url.dll,FileProtocolHandler".to_owned()],
        None if has_display => vec!["xdg-open".to_owned()],
        None => return None,
    };
    match words.iter_mut().skip(1).find(|word| word.contains("%s")) {
        Some(place) => *place = place.replace("%s", target),
        None => words.push(target.to_owned()),
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(browser: Option<&str>, has_display: bool, expected: &[&str]) {
        let found = words(browser, has_display, "PAGE").unwrap_or_default();
        assert_eq!(found, expected, "{browser:?}");
    }

    #[test]
    fn browser_is_a_command_with_arguments_and_a_place_for_the_page() {
        check(Some("firefox"), false, &["firefox", "PAGE"]);
        check(Some("firefox --new-window"), true, &["firefox", "--new-window", "PAGE"]);
        check(Some(" firefox  --new-window %s --quiet"), false, &["firefox", "--new-window", "PAGE", "--quiet"]);
        check(Some("browse --url=%s"), false, &["browse", "--url=PAGE"]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_browser_and_display_none_is_started() {
        check(None, true, &["xdg-open", "PAGE"]);
        check(None, false, &[]);
    }
}
