//! Kills the child processes of a gateway that was killed.
//!
//! A process that gets SIGKILL cannot end its children, and a server may ignore the end of its input. So, while there are
//! children, a small shell process reads a pipe from this process: it receives the id of each process group, and when the
//! pipe closes, which the kernel does however this process ended, it waits a moment and kills the groups, grandchildren
//! started by `npx` and the like included.
//!
//! `PR_SET_PDEATHSIG` is not used: it would need unsafe code here, fires when the *thread* that forked exits, and does not
//! reach grandchildren. Not covered: a process that leaves its group (a daemon), one started just before the reaper is
//! told of it, and a system without `/bin/sh`. These still see the end of their input.

use std::collections::BTreeSet;
use std::io::{Result, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_setfl};

/// The script of the shell. Its only input are commands with process-group ids. It ignores SIGHUP, SIGINT and SIGTERM, which
/// a terminal sends to the whole session.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
groups=
while read -r word group; do
  case $word in
    watch) groups="$groups $group" ;;
    forget)
      kept=
      for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done
      groups=$kept ;;
  esac
done
[ -z "$groups" ] || sleep 1
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

/// The reaper of this process, shared by all connections.
static REAPER: Mutex<Reaper> = Mutex::new(Reaper { groups: BTreeSet::new(), shell: None });

struct Reaper {
    groups: BTreeSet<u32>,
    /// Runs while there are groups.
    shell: Option<Child>,
}

/// A process group that is registered with the reaper while this exists.
#[derive(Debug)]
pub(super) struct ReapedGroup(u32);

impl ReapedGroup {
    pub(super) fn new(group: u32) -> Self {
        let mut reaper = REAPER.lock();
        reaper.groups.insert(group);
        if !reaper.tell("watch", group) {
            reaper.restart();
        }
        Self(group)
    }
}

impl Drop for ReapedGroup {
    fn drop(&mut self) {
        let mut reaper = REAPER.lock();
        reaper.groups.remove(&self.0);
        if reaper.groups.is_empty() {
            reaper.dismiss();
        } else if !reaper.tell("forget", self.0) {
            reaper.restart();
        }
    }
}

impl Reaper {
    /// Sends a command; false if the shell is not running.
    fn tell(&mut self, word: &str, group: u32) -> bool {
        let pipe = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        // Writes of up to PIPE_BUF bytes are atomic.
        pipe.is_some_and(|pipe| pipe.write_all(format!("{word} {group}\n").as_bytes()).is_ok())
    }

    /// Starts a new shell and registers all groups with it.
    fn restart(&mut self) {
        self.dismiss();
        match start() {
            Ok(shell) => self.shell = Some(shell),
            Err(error) => {
                return tracing::warn!(%error, "no reaper: child processes would survive if this process is killed");
            }
        }
        for group in self.groups.clone() {
            self.tell("watch", group);
        }
    }

    /// Kills the shell before its pipe is closed, because the end of the pipe makes it kill the groups.
    fn dismiss(&mut self) {
        if let Some(mut shell) = self.shell.take() {
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

fn start() -> Result<Child> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", SCRIPT]).env_clear().current_dir("/").process_group(0);
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    if let Some(pipe) = &shell.stdin {
        // Non-blocking: a stopped shell (SIGSTOP) must not block this process.
        fcntl_setfl(pipe, OFlags::NONBLOCK)?;
    }
    Ok(shell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Option<u32> {
        REAPER.lock().shell.as_ref().map(Child::id)
    }

    #[test]
    fn a_shell_runs_while_there_are_groups_and_is_restarted_if_it_exits() {
        // Ids that no process group has.
        let first = ReapedGroup::new(u32::MAX);
        let before = shell().unwrap();
        let second = ReapedGroup::new(u32::MAX - 1);
        assert_eq!(shell(), Some(before));
        {
            // Under one lock: other tests of this process use the same reaper.
            let mut reaper = REAPER.lock();
            let shell = reaper.shell.as_mut().unwrap();
            shell.kill().unwrap();
            shell.wait().unwrap();
        }
        drop(first);
        let after = shell().unwrap();
        assert_ne!(after, before);
        drop(second);
        let reaper = REAPER.lock();
        assert_eq!(reaper.shell.is_none(), reaper.groups.is_empty());
    }
}
