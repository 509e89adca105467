//! Prepares a sandbox, and starts a child in it.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::BpfProgram;
use tokio::process::{Child, Command};

use super::super::child::Launch;
use super::cgroup::Cgroup;
use super::{SandboxError, StdioSandbox, filter, paths};

/// Waits for a line, then becomes the server. `read` of a shell takes no byte after the line from a pipe.
const GATE: &str = r#"read -r line && exec "$@""#;
/// The name of the shell in its messages.
const GATE_NAME: &str = "toolgate";

/// The oldest landlock that keeps a server from truncating files that it may read.
const REQUIRED: ABI = ABI::V3;
/// Used as far as the kernel has it.
const NEWEST: ABI = ABI::V6;

/// A sandbox that is ready to start one child.
pub(in super::super) struct Confined {
    program: PathBuf,
    home: PathBuf,
    rules: RulesetCreated,
    filter: BpfProgram,
    limits: (u64, usize),
}

impl Confined {
    /// Checks what the sandbox needs; the child's environment is that of `environment`.
    pub(in super::super) fn prepare(
        sandbox: &StdioSandbox,
        launch: &Launch,
        environment: &[(OsString, OsString)],
    ) -> std::io::Result<Self> {
        let home = sandbox.home.clone().ok_or(SandboxError::NoHome)?;
        let temporary = home.join("tmp");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&temporary);
        made.map_err(|error| SandboxError::Path { path: temporary, error })?;
        let value =
            |name: &str| environment.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value.as_os_str());
        let search_path = value("PATH");
        let program = paths::program(&launch.command, search_path)?;
        let pairs = environment.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()));
        let mut rules = Rules::new(sandbox.network)?;
        rules.permit_existing(paths::SYSTEM.iter().map(Path::new), reading())?;
        rules.permit_existing(paths::DEVICES.iter().map(Path::new), AccessFs::ReadFile | AccessFs::WriteFile)?;
        let named = paths::named(&program, &launch.args, search_path);
        let certificates = paths::certificates(pairs);
        let folders = std::iter::once(&home).chain(&launch.cwd).chain(&sandbox.write);
        let writable = Writable(folders.clone().filter_map(|path| path.canonicalize().ok()).collect());
        // What lies in such a folder is permitted with it; a link there may be the server's own, and lead anywhere.
        let given = named.iter().chain(&certificates).filter(|path| !writable.has(path));
        rules.permit_existing(given.map(PathBuf::as_path), reading())?;
        sandbox.read.iter().chain(&sandbox.write).try_for_each(|path| writable.refuse_links(path))?;
        sandbox.read.iter().try_for_each(|path| rules.permit(path, reading()))?;
        folders.into_iter().try_for_each(|path| rules.permit(path, AccessFs::from_all(NEWEST)))?;
        let filter = filter::filter(sandbox.network).map_err(|error| SandboxError::Seccomp(error.to_string()))?;
        Ok(Self { program, home, rules: rules.0, filter, limits: (sandbox.memory, sandbox.processes) })
    }

    /// Variables of the child that lead to its own folders.
    pub(in super::super) fn variables(home: &Path) -> [(&'static str, PathBuf); 2] {
        [("HOME", home.to_owned()), ("TMPDIR", home.join("tmp"))]
    }

    /// The working directory of a child that has no other.
    pub(in super::super) fn home(&self) -> &Path {
        &self.home
    }

    /// The command that [`Self::start`] starts.
    pub(in super::super) fn command(&self, args: &[String]) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", GATE, GATE_NAME]).arg(&self.program).args(args);
        command
    }

    /// Starts the command on a thread that is confined, puts the child into its limits and lets it go.
    pub(in super::super) fn start(self, mut command: Command) -> std::io::Result<(Child, Option<Cgroup>)> {
        let Self { rules, filter, limits, .. } = self;
        let runtime = tokio::runtime::Handle::current();
        let confined = std::thread::Builder::new().name("sandbox".to_owned()).spawn(move || {
            confine_thread(rules, &filter)?;
            let _entered = runtime.enter();
            command.spawn()
        })?;
        let child = confined.join().unwrap_or_else(|_| Err(std::io::Error::other("the starting thread panicked")))?;
        let cgroup = limit(&child, limits)?;
        let gate = child.stdin.as_ref().ok_or_else(|| std::io::Error::other("the child process has no pipes"))?;
        // An empty pipe takes a byte at once.
        rustix::io::write(gate, b"\n")?;
        Ok((child, cgroup))
    }
}

/// Why this kernel makes no sandbox, if it does not.
pub(super) fn refusal() -> Option<SandboxError> {
    let filter = || filter::filter(false).map_err(|error| SandboxError::Seccomp(error.to_string()));
    Rules::new(false).err().or_else(|| filter().err())
}

/// The folders that a server may write, without links.
struct Writable(Vec<PathBuf>);

impl Writable {
    /// Whether the place of a path is in one of them, so that the server may have put anything there.
    fn has(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
        folder.is_some_and(|folder| self.0.iter().any(|writable| folder.starts_with(writable)))
    }

    fn refuse_links(&self, path: &Path) -> Result<(), SandboxError> {
        if self.has(path) && path.is_symlink() {
            let error = std::io::Error::other("it is a link in a folder that the server can write");
            return Err(SandboxError::Path { path: path.to_owned(), error });
        }
        Ok(())
    }
}

/// Gives up, for this thread and what it starts, everything that the sandbox does not have.
fn confine_thread(rules: RulesetCreated, filter: &BpfProgram) -> std::io::Result<()> {
    // With files of other users a server of root does what root may; landlock says with which. The rest of root's
    // capabilities is not for files. Execution does not give them back, since no new privileges can be gained.
    let kept = capabilities(None)?.permitted & CapabilitySet::DAC_OVERRIDE;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    let status = rules.restrict_self().map_err(|error| refused(&error))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err(SandboxError::Landlock("it is not in force".to_owned()).into());
    }
    seccompiler::apply_filter(filter).map_err(|error| SandboxError::Seccomp(error.to_string()).into())
}

/// Puts a child that waits into a cgroup or, where none can be made, under a limit of its own.
fn limit(child: &Child, (memory, processes): (u64, usize)) -> std::io::Result<Option<Cgroup>> {
    let failed = |what| move |error| SandboxError::Limit { what, error };
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| std::io::Error::other("the child process has exited"))?;
    let bound = |resource, bytes| {
        let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
        prlimit(Some(pid), resource, limit).map(drop).map_err(std::io::Error::from)
    };
    bound(Resource::Core, 0).map_err(failed("no core files"))?;
    match Cgroup::create(memory, processes) {
        Some(cgroup) => {
            cgroup.add(pid).map_err(failed("its cgroup"))?;
            Ok(Some(cgroup))
        }
        None => {
            bound(Resource::Data, memory).map_err(failed("its memory"))?;
            Ok(None)
        }
    }
}

fn reading() -> BitFlags<AccessFs> {
    AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir
}

fn refused(error: &RulesetError) -> SandboxError {
    SandboxError::Landlock(error.to_string())
}

/// The files that a child may use.
struct Rules(RulesetCreated);

impl Rules {
    fn new(network: bool) -> Result<Self, SandboxError> {
        let created = || {
            let rules = Ruleset::default()
                .set_compatibility(CompatLevel::HardRequirement)
                .handle_access(AccessFs::from_all(REQUIRED))?
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(NEWEST))?
                .scope(Scope::from_all(NEWEST))?;
            let rules = if network { rules } else { rules.handle_access(AccessNet::from_all(NEWEST))? };
            rules.create()
        };
        created().map(Self).map_err(|error: RulesetError| refused(&error))
    }

    /// Permits what exists of a list.
    fn permit_existing<'a>(
        &mut self,
        paths: impl Iterator<Item = &'a Path>,
        access: impl Into<BitFlags<AccessFs>>,
    ) -> Result<(), SandboxError> {
        let access = access.into();
        let mut permitted = |path: &'a Path| match path.exists() {
            true => self.permit(path, access),
            false => Ok(()),
        };
        paths.into_iter().try_for_each(&mut permitted)
    }

    /// Permits one path, which must exist.
    fn permit(&mut self, path: &Path, access: BitFlags<AccessFs>) -> Result<(), SandboxError> {
        let metadata = path.metadata().map_err(|error| SandboxError::Path { path: path.to_owned(), error })?;
        let access = if metadata.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
        let open = PathFd::new(path)
            .map_err(|error| SandboxError::Path { path: path.to_owned(), error: std::io::Error::other(error) })?;
        let rule = PathBeneath::new(open, access);
        (&mut self.0).add_rule(rule).map(drop).map_err(|error| refused(&error))
    }
}

/// Whether a variable leads programs to folders of the user, which a child in a sandbox does not have.
pub(in super::super) fn leads_home(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with("XDG_") || ["TMP", "TEMP"].contains(&name))
}
