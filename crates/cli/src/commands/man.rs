//! `toolgate man`: the manual page, made from the same description of commands and options as `--help`.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};

use super::Exit;
use crate::args::Cli;
use crate::print::out;

/// Prints the page in the format of `man`.
pub(crate) fn man() -> anyhow::Result<Exit> {
    out(page(&Cli::command()).trim_end())?;
    Ok(Exit::Done)
}

fn page(command: &Command) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(".TH TOOLGATE 1 \"\" \"toolgate {version}\" \"User Commands\"\n");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let _ = write!(text, ".SH NAME\ntoolgate \\- {}\n", escaped(about.trim_end_matches('.')));
    text.push_str(".SH SYNOPSIS\n.B toolgate\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH DESCRIPTION\n");
    text.push_str(&paragraphs(&command.get_long_about().map(ToString::to_string).unwrap_or(about)));
    text.push_str(".SH COMMANDS\n");
    for command in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        add_command(&mut text, command, "toolgate");
    }
    if let Some(examples) = command.get_after_help() {
        let _ = write!(text, ".SH EXAMPLES AND EXIT CODES\n.nf\n{}\n.fi\n", escaped(&examples.to_string()));
    }
    text.push_str(".SH FILES\n.TP\n~/.config/toolgate/toolgate.json\nThe configuration.\n");
    text.push_str(".TP\n~/.local/state/toolgate/\nThe token of this machine, logs, the audit log.\n");
    text
}

fn add_command(text: &mut String, command: &Command, before: &str) {
    let name = format!("{before} {}", command.get_name());
    let _ = writeln!(text, ".SS {}", escaped(&name));
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    text.push_str(&paragraphs(&about));
    for argument in command.get_arguments().filter(|it| !it.is_hide_set() && it.get_id() != "help") {
        let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
        let _ = write!(text, ".TP\n\\fB{}\\fR\n{}", escaped(&spelling(argument)), paragraphs(&help));
    }
    command.get_subcommands().filter(|it| it.get_name() != "help").for_each(|it| add_command(text, it, &name));
}

/// `-n, --lines N`, or `FILE`.
fn spelling(argument: &Arg) -> String {
    let values = argument.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    let values: Vec<String> = values.filter(|_| argument.get_action().takes_values()).collect();
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    format!("{} {}", names.join(", "), values.join(" ")).trim().to_owned()
}

fn paragraphs(text: &str) -> String {
    let parts: Vec<String> = text.split("\n\n").map(|part| escaped(&part.replace('\n', " "))).collect();
    format!("{}\n", parts.join("\n.PP\n"))
}

/// Text in which nothing is a request to the formatter.
fn escaped(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_no_stray_request() {
        let (command, text) = (Cli::command(), page(&Cli::command()));
        for name in command.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name) {
            assert!(text.contains(&format!(".SS toolgate {}", escaped(name))), "{name}");
        }
        let requests = [".TH", ".SH", ".SS", ".TP", ".B", ".I", ".PP", ".nf", ".fi"];
        for line in text.lines().filter(|line| line.starts_with(['.', '\''])) {
            assert!(requests.contains(&line.split(' ').next().unwrap_or_default()), "{line}");
        }
        assert_eq!(escaped(".a\\b"), "\\&.a\\eb");
    }
}
