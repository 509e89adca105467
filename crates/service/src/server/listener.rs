//! What a server listens on: a TCP address, or a Unix socket that only this user can open.

use std::fs::{self, DirBuilder};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Connections that may wait to be accepted; the system's limit may be lower.
const BACKLOG: u32 = 4096;

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    /// At an address.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixSocket),
}

/// A listening Unix socket; its file is removed on drop.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// An accepted connection.
pub(super) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Listener::Tcp(listener)
    }
}

impl Listener {
    pub(super) async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| Accepted::Tcp(stream, peer)),
            Listener::Unix(socket) => socket.listener.accept().await.map(|(stream, _)| Accepted::Unix(stream)),
        }
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Fails if the file is gone already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Listens with a long backlog: with the usual one, a burst of connections overflows it and clients retry only after a
/// second.
pub fn listen(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Without SO_REUSEADDR a restarted server could not bind while old connections are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// Listens at a path with mode 0600: only this user (or root) can open it. Replaces the socket of a server that has
/// ended.
pub fn listen_unix(path: &Path) -> io::Result<Listener> {
    check_unused(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = folder.join(format!(".tg{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&private)?;
    let bound = bind(&private.join("s"), path);
    // Empty after the socket was moved out of it.
    let _ = fs::remove_dir_all(&private);
    Ok(Listener::Unix(UnixSocket { listener: bound?, path: path.to_owned() }))
}

/// Binds in a private directory and moves the socket into place, so that it is never open to others, whatever the umask.
fn bind(draft: &Path, path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(draft)?;
    fs::set_permissions(draft, fs::Permissions::from_mode(0o600))?;
    fs::rename(draft, path)?;
    Ok(listener)
}

fn check_unused(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"));
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")),
        Err(_) => Ok(()),
    }
}
