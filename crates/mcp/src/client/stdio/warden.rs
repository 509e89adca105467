//! Ends the children of a process that was killed.
//!
//! A process that gets SIGKILL ends nothing by itself, and a server may ignore that its input ended. So, while there are
//! children, a small shell waits at the end of a pipe: it is told of each group, and when the pipe closes, which the
//! kernel sees to whatever we died of, it gives them a moment and kills them. With the group go the grandchildren that
//! `npx` and its like start.
//!
//! A signal on the parent's death would need unsafe code here, comes already when the *thread* that forked ends, and
//! does not reach grandchildren. Not covered: a process that leaves its group (a daemon), one started in the instant
//! before the warden hears of it, and a system without `/bin/sh`. These still see their input end.

use std::collections::BTreeSet;
use std::io::{Result, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{OFlags, fcntl_setfl};

/// What the shell runs. Numbers are all that it is told. A terminal's Ctrl-C and a hang-up are for us, not for it.
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

/// The warden of this process. One is enough: what it watches are groups, whoever started them.
static WARDEN: Mutex<Warden> = Mutex::new(Warden { groups: BTreeSet::new(), shell: None });

struct Warden {
    groups: BTreeSet<u32>,
    /// There while there are groups.
    shell: Option<Child>,
}

/// A group that is watched while this lives.
#[derive(Debug)]
pub(super) struct Watched(u32);

impl Watched {
    pub(super) fn new(group: u32) -> Self {
        let mut warden = lock();
        warden.groups.insert(group);
        if !warden.tell("watch", group) {
            warden.begin_anew();
        }
        Self(group)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut warden = lock();
        warden.groups.remove(&self.0);
        if warden.groups.is_empty() {
            warden.dismiss();
        } else if !warden.tell("forget", self.0) {
            warden.begin_anew();
        }
    }
}

impl Warden {
    /// False if there is no shell that hears it.
    fn tell(&mut self, word: &str, group: u32) -> bool {
        let pipe = self.shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        // One write of a few bytes goes into a pipe as a whole or not at all.
        pipe.is_some_and(|pipe| pipe.write_all(format!("{word} {group}\n").as_bytes()).is_ok())
    }

    /// A shell that knows all groups, instead of one that is not there or does not listen.
    fn begin_anew(&mut self) {
        self.dismiss();
        match start() {
            Ok(shell) => self.shell = Some(shell),
            Err(error) => return tracing::warn!(%error, "servers may stay behind should this process be killed"),
        }
        for group in self.groups.clone() {
            self.tell("watch", group);
        }
    }

    /// Ends the shell; before its pipe closes, which would have it kill what it knows.
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
        // A shell that was stopped must not stop us.
        fcntl_setfl(pipe, OFlags::NONBLOCK)?;
    }
    Ok(shell)
}

fn lock() -> MutexGuard<'static, Warden> {
    WARDEN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Option<u32> {
        lock().shell.as_ref().map(Child::id)
    }

    #[test]
    fn there_is_a_shell_while_there_are_groups_and_a_lost_one_is_replaced() {
        // Numbers of groups that no system has.
        let first = Watched::new(u32::MAX);
        let before = shell().unwrap();
        let second = Watched::new(u32::MAX - 1);
        assert_eq!(shell(), Some(before));
        lock().shell.as_mut().unwrap().kill().unwrap();
        lock().shell.as_mut().unwrap().wait().unwrap();
        drop(first);
        let after = shell().unwrap();
        assert_ne!(after, before);
        drop(second);
        assert_eq!(shell(), None);
    }
}
