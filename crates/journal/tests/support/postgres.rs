//! A PostgreSQL server of a test's own, in a folder that goes away with it.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use toolgate_journal::store::postgres::PostgresStore;

/// How long the server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// A server that is killed when it is dropped.
pub(crate) struct Server {
    folder: TempDir,
    process: Child,
    databases: usize,
}

/// The newest installed server; Debian's package is installed where there is none.
fn programs() -> PathBuf {
    let installed = || {
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("initdb").exists()).max()
    };
    installed().unwrap_or_else(|| {
        let install =
            "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql";
        let done = Command::new("sh").args(["-c", install]).status().expect("apt-get");
        assert!(done.success(), "install Debian's package `postgresql`");
        installed().expect("a server in /usr/lib/postgresql")
    })
}

fn number(args: &[&str]) -> u32 {
    let output = Command::new("id").args(args).output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

impl Server {
    pub(crate) async fn start() -> Self {
        let bin = programs();
        let folder = tempfile::tempdir().expect("folder");
        // The server refuses to run as root: its package comes with a user.
        let user = (number(&["-u"]) == 0).then(|| (number(&["-u", "postgres"]), number(&["-g", "postgres"])));
        let as_user = |program: &Path| {
            let mut command = Command::new(program);
            command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid)).expect("chown");
        }
        let data = folder.path().join("data");
        let made = as_user(&bin.join("initdb"))
            .args(["--username=toolgate", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8", "-D"])
            .arg(&data)
            .status();
        assert!(made.expect("initdb").success(), "initdb");
        let process = as_user(&bin.join("postgres"))
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .args(["-c", "listen_addresses=", "-c", "max_connections=50", "-c", "fsync=off"])
            .spawn()
            .expect("postgres");
        let server = Server { folder, process, databases: 0 };
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = server.client().await {
            assert!(Instant::now() < deadline, "the server did not start: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        server
    }

    fn address(&self, database: &str) -> String {
        format!("host={} user=toolgate dbname={database}", self.folder.path().display())
    }

    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.address("postgres"), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// The address of a new database.
    pub(crate) async fn database(&mut self) -> String {
        self.databases += 1;
        let name = format!("check{}", self.databases);
        let client = self.client().await.expect("a connection");
        client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
        self.address(&name)
    }

    /// A store in a new database.
    pub(crate) async fn store(&mut self) -> PostgresStore {
        let address = self.database().await;
        PostgresStore::connect(&address).await.expect("a store")
    }

    /// Makes a database refuse to be written to, for connections that are made from now on.
    pub(crate) async fn make_read_only(&self, address: &str) {
        let name = address.rsplit('=').next().expect("a name");
        let client = self.client().await.expect("a connection");
        let text = format!("ALTER DATABASE {name} SET default_transaction_read_only = on");
        client.batch_execute(&text).await.expect("a setting");
    }

    /// Ends the server at once.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
