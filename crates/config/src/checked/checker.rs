//! The collector that every check reports to, and the ways to get a value out of a raw setting.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::problem::Problem;
use crate::raw::{At, Place, Raw, Written};
use crate::text::Source;
use crate::values::{Bytes, Period, Setting};
use crate::vars::{self, Env};

/// What checks share.
pub(crate) struct Checker<'a> {
    source: &'a Source,
    pub(crate) env: &'a Env,
    folder: PathBuf,
    problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(raw: &'a Raw, env: &'a Env) -> Self {
        let file = env.cwd().join(raw.source.file());
        let folder = file.parent().unwrap_or(env.cwd()).to_owned();
        Self { source: &raw.source, env, folder, problems: raw.problems.clone() }
    }

    pub(crate) fn finish(self) -> Vec<Problem> {
        self.problems
    }

    /// Notes an error.
    pub(crate) fn wrong(&mut self, place: &Place, message: impl Into<String>, help: impl Into<String>) {
        let problem = self.problem(place, message, help);
        self.problems.push(problem);
    }

    /// Notes a warning.
    pub(crate) fn warn(&mut self, place: &Place, message: impl Into<String>, help: impl Into<String>) {
        let problem = self.problem(place, message, help).warning();
        self.problems.push(problem);
    }

    fn problem(&self, place: &Place, message: impl Into<String>, help: impl Into<String>) -> Problem {
        let at = self.source.position(place.span.start);
        let problem = Problem::of_file(self.source.file(), message).at(at).on(&place.path);
        match help.into() {
            help if help.is_empty() => problem,
            help => problem.help(help),
        }
    }

    /// The text with its variables filled in.
    pub(crate) fn text<T>(&mut self, written: &At<Written<T>>) -> Option<String> {
        match vars::fill(&written.value.text, self.env, &self.folder) {
            Ok(text) => Some(text),
            Err(missing) => {
                for one in missing {
                    self.wrong(&written.place, one.message(), one.help());
                }
                None
            }
        }
    }

    /// The value of a setting that is there.
    pub(crate) fn parse<T: Setting>(&mut self, written: &At<Written<T>>) -> Option<T> {
        let text = self.text(written)?;
        T::parse(&text).map_err(|message| self.wrong(&written.place, message, "")).ok()
    }

    /// The value of a setting that may be absent.
    pub(crate) fn get<T: Setting>(&mut self, setting: &Option<At<Written<T>>>) -> Option<T> {
        self.parse(setting.as_ref()?)
    }

    /// The values of a list; absent and empty are different things.
    pub(crate) fn list<T: Setting>(&mut self, setting: &Option<At<Vec<At<Written<T>>>>>) -> Option<Vec<T>> {
        let items = &setting.as_ref()?.value;
        Some(items.iter().filter_map(|item| self.parse(item)).collect())
    }

    /// A duration.
    pub(crate) fn period(&mut self, setting: &Option<At<Written<Period>>>) -> Option<Duration> {
        self.get(setting).map(Period::get)
    }

    /// A duration within bounds.
    pub(crate) fn period_within(
        &mut self,
        setting: &Option<At<Written<Period>>>,
        range: &RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let period = self.period(setting)?;
        self.bounded(setting.as_ref()?, period, range, |duration| format!("{duration:?}"))
    }

    /// A size within bounds.
    pub(crate) fn size(
        &mut self,
        setting: &Option<At<Written<Bytes>>>,
        range: &RangeInclusive<Bytes>,
    ) -> Option<Bytes> {
        let size = self.get(setting)?;
        self.bounded(setting.as_ref()?, size, range, Bytes::to_string)
    }

    /// A count within bounds.
    pub(crate) fn count(&mut self, setting: &Option<At<u64>>, range: RangeInclusive<usize>) -> Option<usize> {
        let setting = setting.as_ref()?;
        let count = usize::try_from(setting.value).unwrap_or(usize::MAX);
        self.bounded(setting, count, &range, usize::to_string)
    }

    fn bounded<S, T: PartialOrd>(
        &mut self,
        setting: &At<S>,
        value: T,
        range: &RangeInclusive<T>,
        show: fn(&T) -> String,
    ) -> Option<T> {
        if range.contains(&value) {
            return Some(value);
        }
        let message = match range.start() == range.end() {
            true => format!("can only be {}", show(range.start())),
            false => format!("is out of range; it may be {} to {}", show(range.start()), show(range.end())),
        };
        self.wrong(&setting.place, message, "");
        None
    }

    /// A path: `~/` is the home folder, and what is relative is so to the file's folder.
    pub(crate) fn path(&mut self, text: &str, place: &Place) -> Option<PathBuf> {
        if text.is_empty() {
            self.wrong(place, "is empty", "");
            return None;
        }
        let below_home = text.strip_prefix("~/").or_else(|| (text == "~").then_some(""));
        match (below_home, self.env.home()) {
            (None, _) => Some(self.folder.join(text.strip_prefix("./").unwrap_or(text))),
            (Some(rest), Some(home)) => Some(home.join(rest)),
            (Some(_), None) => {
                self.wrong(place, "begins with ~, and there is no home folder", "set HOME, or write the whole path");
                None
            }
        }
    }

    /// A program: a bare name is left to PATH, anything else is a path.
    pub(crate) fn program(&mut self, text: &str, place: &Place) -> Option<PathBuf> {
        let bare = !text.is_empty() && !text.contains(['/', '\\']) && text != "~";
        if bare { Some(Path::new(text).to_owned()) } else { self.path(text, place) }
    }
}
