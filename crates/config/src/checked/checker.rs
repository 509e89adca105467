//! Collects problems during validation, and converts raw settings to values.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::commands::Commands;
use super::parts::FileParts;
use super::secret_values::SecretValues;
use crate::problem::Problem;
use crate::raw::{Located, Location, Raw, RawText};
use crate::text::Source;
use crate::values::{Bytes, Period, Setting};
use crate::vars::{self, Env, Missing, Sources};

/// The state of a validation.
pub(crate) struct Checker<'a> {
    source: &'a Source,
    pub(crate) env: &'a Env,
    folder: PathBuf,
    problems: Vec<Problem>,
    /// The parts of the file without which the rest can be used.
    pub(super) parts: FileParts,
    allows_commands: bool,
    commands: Commands,
    /// Files besides the configuration's own that values came from.
    pub(crate) files: BTreeSet<PathBuf>,
    /// Values that are secrets.
    pub(super) secrets: SecretValues,
}

/// What a validation found beside the settings.
pub(super) struct Findings {
    pub(super) problems: Vec<Problem>,
    pub(super) parts: FileParts,
    /// The files that values came from.
    pub(super) files: BTreeSet<PathBuf>,
    pub(super) secrets: SecretValues,
}

/// Where values come from: files are noted, commands are run where that is allowed.
struct ValueSources<'a> {
    env: &'a Env,
    allows_commands: bool,
    commands: &'a mut Commands,
    files: &'a mut BTreeSet<PathBuf>,
    secrets: &'a mut SecretValues,
}

impl Sources for ValueSources<'_> {
    fn command(&mut self, line: &str) -> Result<String, Missing> {
        match (self.allows_commands, self.env.runs_commands()) {
            (false, _) => Err(Missing::CommandsOff),
            (true, false) => Err(Missing::CommandNotRun),
            (true, true) => self.commands.output(line).map_err(Missing::Command),
        }
    }

    fn reads(&mut self, file: &Path) {
        self.files.insert(file.to_owned());
    }

    fn variable(&mut self, name: &str, value: &str) {
        self.secrets.add_named(name, value);
    }

    fn secret(&mut self, value: &str) {
        self.secrets.add(value);
    }
}

impl<'a> Checker<'a> {
    pub(crate) fn new(raw: &'a Raw, env: &'a Env) -> Self {
        let file = env.cwd().join(raw.source.file());
        let folder = file.parent().unwrap_or(env.cwd()).to_owned();
        let secrets = raw.file.toolgate.as_ref().and_then(|toolgate| toolgate.value.secrets.as_ref());
        let allows_commands = secrets.is_some_and(|secrets| super::flag(&secrets.value.commands, false));
        let problems = raw.problems.clone();
        let (parts, commands) = (FileParts::default(), Commands::default());
        let (files, secrets) = (BTreeSet::new(), SecretValues::default());
        Self { source: &raw.source, env, folder, problems, parts, allows_commands, commands, files, secrets }
    }

    /// What was found beside the settings.
    pub(super) fn finish(self) -> Findings {
        let Checker { problems, parts, files, secrets, .. } = self;
        Findings { problems, parts, files, secrets }
    }

    /// Grows with every value that is the output of a command.
    pub(crate) fn command_uses(&self) -> usize {
        self.commands.uses()
    }

    /// Adds an error.
    pub(crate) fn wrong(&mut self, place: &Location, message: impl Into<String>, help: impl Into<String>) {
        let problem = self.problem(place, message, help);
        self.problems.push(problem);
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, place: &Location, message: impl Into<String>, help: impl Into<String>) {
        let problem = self.problem(place, message, help).warning();
        self.problems.push(problem);
    }

    fn problem(&self, place: &Location, message: impl Into<String>, help: impl Into<String>) -> Problem {
        let at = self.source.position(place.span.start);
        let problem = Problem::of_file(self.source.file(), message).at(at).on(&place.path);
        match help.into() {
            help if help.is_empty() => problem,
            help => problem.help(help),
        }
    }

    /// The text with its variables substituted.
    pub(crate) fn text<T>(&mut self, written: &Located<RawText<T>>) -> Option<String> {
        let Self { env, allows_commands, commands, files, secrets, folder, .. } = self;
        let mut sources = ValueSources { env, allows_commands: *allows_commands, commands, files, secrets };
        match vars::fill(&written.value.text, env, folder, &mut sources) {
            Ok(text) => Some(text),
            Err(missing) => {
                for one in missing {
                    let mut problem = self.problem(&written.place, one.message(), one.help());
                    problem.unset = one.unset();
                    self.problems.push(problem);
                }
                None
            }
        }
    }

    /// The value of a setting.
    pub(crate) fn parse<T: Setting>(&mut self, written: &Located<RawText<T>>) -> Option<T> {
        let text = self.text(written)?;
        T::parse(&text).map_err(|message| self.wrong(&written.place, message, "")).ok()
    }

    /// The value of a setting that may be absent.
    pub(crate) fn get<T: Setting>(&mut self, setting: &Option<Located<RawText<T>>>) -> Option<T> {
        self.parse(setting.as_ref()?)
    }

    /// The values of a list; `None` if it is absent.
    pub(crate) fn list<T: Setting>(&mut self, setting: &Option<Located<Vec<Located<RawText<T>>>>>) -> Option<Vec<T>> {
        let items = &setting.as_ref()?.value;
        Some(items.iter().filter_map(|item| self.parse(item)).collect())
    }

    /// A duration.
    pub(crate) fn period(&mut self, setting: &Option<Located<RawText<Period>>>) -> Option<Duration> {
        self.get(setting).map(Period::get)
    }

    /// A duration within a range.
    pub(crate) fn period_within(
        &mut self,
        setting: &Option<Located<RawText<Period>>>,
        range: &RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let period = self.period(setting)?;
        self.bounded(setting.as_ref()?, period, range, |duration| format!("{duration:?}"))
    }

    /// A size within a range.
    pub(crate) fn size(
        &mut self,
        setting: &Option<Located<RawText<Bytes>>>,
        range: &RangeInclusive<Bytes>,
    ) -> Option<Bytes> {
        let size = self.get(setting)?;
        self.bounded(setting.as_ref()?, size, range, Bytes::to_string)
    }

    /// A count within a range.
    pub(crate) fn count(&mut self, setting: &Option<Located<u64>>, range: RangeInclusive<usize>) -> Option<usize> {
        let setting = setting.as_ref()?;
        let count = usize::try_from(setting.value).unwrap_or(usize::MAX);
        self.bounded(setting, count, &range, usize::to_string)
    }

    fn bounded<S, T: PartialOrd>(
        &mut self,
        setting: &Located<S>,
        value: T,
        range: &RangeInclusive<T>,
        show: fn(&T) -> String,
    ) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }
        let message = match range.start() == range.end() {
            true => format!("must be {}", show(range.start())),
            false => format!("must be between {} and {}", show(range.start()), show(range.end())),
        };
        self.wrong(&setting.place, message, "");
        None
    }

    /// A path: `~/` is the home directory; a relative path is relative to the directory of the configuration file.
    pub(crate) fn path(&mut self, text: &str, place: &Location) -> Option<PathBuf> {
        if text.is_empty() {
            self.wrong(place, "the path is empty", "");
            return None;
        }
        let below_home = text.strip_prefix("~/").or_else(|| (text == "~").then_some(""));
        match (below_home, self.env.home()) {
            (None, _) => Some(self.folder.join(text.strip_prefix("./").unwrap_or(text))),
            (Some(rest), Some(home)) => Some(home.join(rest)),
            (Some(_), None) => {
                self.wrong(
                    place,
                    "the path begins with ~, but there is no home directory",
                    "set HOME, or use an absolute path",
                );
                None
            }
        }
    }

    /// A program: a name without separators is searched on PATH, anything else is a path.
    pub(crate) fn program(&mut self, text: &str, place: &Location) -> Option<PathBuf> {
        let bare = !text.is_empty() && !text.contains(['/', '\\']) && text != "~";
        if bare { Some(Path::new(text).to_owned()) } else { self.path(text, place) }
    }
}
