//! Another root directory, in a mount namespace of its own: an empty one for a worker, one with the system's libraries for a
//! program that needs them.
//!
//! Landlock denies opening files, but not a look at their metadata; what is not in the root has none. All of it is best
//! effort: many systems permit no mount namespace, and landlock and seccomp do not rely on it.

use std::ffi::{CStr, CString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::jail::{LIBRARIES, Reads};

/// Where the new root is mounted before it becomes the root: a directory that every system has.
const NEW_ROOT: &str = "/proc";

/// Makes the root an empty directory that cannot be written to. Forks share it.
///
/// Called once, while the process is single-threaded; `permitted` says that it has namespaces of its own.
pub(super) fn empty(permitted: bool) -> bool {
    permitted && own_mounts() && become_root(SEALED | libc::MS_RDONLY, c"nr_inodes=1,mode=555", || true)
}

/// Makes the root a directory that has the libraries of the system where they were, and the program as [`PROGRAM`] or its
/// folder as [`FOLDER`].
///
/// Called once, while the process is single-threaded; `permitted` says that it has namespaces of its own.
pub(super) fn keep_only(program: &Path, reads: Reads, permitted: bool) -> bool {
    let keep_program = || {
        let program = fs::canonicalize(program).ok()?;
        match reads {
            Reads::Itself => {
                keep(&program, Path::new(PROGRAM))?;
                link_program(Path::new(PROGRAM))
            }
            Reads::ItsFolder => {
                keep(program.parent()?, Path::new(FOLDER))?;
                link_program(&Path::new(FOLDER).join(program.file_name()?))
            }
        }
    };
    let fill = || {
        LIBRARIES.iter().map(Path::new).all(|path| !path.exists() || keep(path, path).is_some())
            && keep_program().is_some()
    };
    permitted && own_mounts() && become_root(SEALED, c"size=64k,nr_inodes=64,mode=755", fill)
}

/// Mounts a new file system, fills it, and makes it the root; or leaves everything as it was.
fn become_root(flags: libc::c_ulong, options: &CStr, fill: impl FnOnce() -> bool) -> bool {
    if !mount(Some(c"none"), NEW_ROOT, Some(c"tmpfs"), flags, Some(options)) {
        return false;
    }
    let changed = fill() && change_root();
    if !changed && let Ok(place) = CString::new(NEW_ROOT) {
        // SAFETY: the path is a C string; what is detached was mounted here.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
    changed
}

/// Where a program finds itself; its own path would tell of the host.
const PROGRAM: &str = "/deno";

/// Where a program finds its folder.
const FOLDER: &str = "/program";

/// The one thing of `/proc` that these programs do not start without.
fn link_program(program: &Path) -> Option<()> {
    let itself = in_new_root(Path::new("/proc/self/exe"))?;
    fs::create_dir_all(itself.parent()?).ok()?;
    std::os::unix::fs::symlink(program, itself).ok()
}

fn in_new_root(path: &Path) -> Option<PathBuf> {
    Some(Path::new(NEW_ROOT).join(path.strip_prefix("/").ok()?))
}

const SEALED: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;

/// Has a file, a directory or a symbolic link in the new root as well, under the name `to`.
fn keep(path: &Path, to: &Path) -> Option<()> {
    let inside = in_new_root(to)?;
    fs::create_dir_all(inside.parent()?).ok()?;
    let kind = fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_symlink() {
        return std::os::unix::fs::symlink(fs::read_link(path).ok()?, inside).ok();
    }
    if kind.is_dir() {
        fs::create_dir_all(&inside).ok()?;
    } else {
        fs::write(&inside, "").ok()?;
    }
    let source = CString::new(path.as_os_str().as_bytes()).ok()?;
    mount(Some(&source), inside.to_str()?, None, libc::MS_BIND | libc::MS_REC, None).then_some(())
}

/// A mount namespace of its own, whose changes no other one sees.
fn own_mounts() -> bool {
    // SAFETY: unshare takes flags only; the process is single-threaded.
    let own = unsafe { libc::unshare(libc::CLONE_NEWNS) == 0 };
    own && mount(None, "/", None, libc::MS_REC | libc::MS_PRIVATE, None)
}

fn mount(
    source: Option<&CStr>,
    target: &str,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> bool {
    let Ok(target) = CString::new(target) else { return false };
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every text is null or a C string that outlives the call, which changes this mount namespace only.
    unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, pointer(options).cast()) == 0 }
}

/// Makes [`NEW_ROOT`] the root directory and detaches the old one. What is mapped or open of it stays.
fn change_root() -> bool {
    if std::env::set_current_dir(NEW_ROOT).is_err() {
        return false;
    }
    let here = c".".as_ptr();
    // SAFETY: the texts are C strings; the calls change only this process's view of its mount namespace.
    let changed = unsafe {
        // The root of an initramfs cannot be exchanged. For a process that has no capabilities and no open directory
        // afterwards, `chroot` is as good.
        libc::syscall(libc::SYS_pivot_root, here, here) == 0 && libc::umount2(here, libc::MNT_DETACH) == 0
            || libc::chroot(here) == 0
    };
    changed && std::env::set_current_dir("/").is_ok()
}
