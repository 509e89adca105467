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
    command: Command,
    databases: usize,
    port: u16,
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

#[allow(dead_code, reason = "the tests of the command use it")]
/// An authority, and a certificate of it for `localhost` with its key.
fn certificates(folder: &Path) -> (PathBuf, PathBuf, PathBuf) {
    let script = "set -e; cd \"$1\"
        openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -subj /CN=authority -days 2
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost
        printf 'subjectAltName=DNS:localhost\\nextendedKeyUsage=serverAuth\\n' > server.ext
        openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 -extfile server.ext
        chmod 600 server.key";
    let made = Command::new("sh").args(["-c", script, "sh"]).arg(folder).stderr(Stdio::null()).status();
    assert!(made.expect("sh").success(), "install Debian's package `openssl`");
    (folder.join("ca.pem"), folder.join("server.pem"), folder.join("server.key"))
}

fn number(args: &[&str]) -> u32 {
    let output = Command::new("id").args(args).output().expect("id");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(tempfile::tempdir().expect("folder"), &["listen_addresses="]).await
    }

    #[allow(dead_code, reason = "the tests of the command use it")]
    /// A server that speaks TLS at a port of `localhost`, with the file of the certificate that it is to be trusted by.
    pub(crate) async fn start_encrypted() -> (Self, u16, PathBuf) {
        let folder = tempfile::tempdir().expect("folder");
        let (authority, certificate, key) = certificates(folder.path());
        let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
        let file = |name: &str, path: &Path| format!("{name}={}", path.display());
        let settings = [
            "listen_addresses=localhost".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
            file("ssl_cert_file", &certificate),
            file("ssl_key_file", &key),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let server = Self::start_with(folder, &settings).await;
        (server, port, authority)
    }

    async fn start_with(folder: TempDir, settings: &[&str]) -> Self {
        let bin = programs();
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
            let inside = std::fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.path());
            inside.chain([folder.path().to_owned()]).for_each(|it| chown(it, Some(uid), Some(gid)).expect("chown"));
        }
        let data = folder.path().join("data");
        let made = as_user(&bin.join("initdb"))
            .args(["--username=toolgate", "--auth=trust", "--no-sync", "--locale=C", "--encoding=UTF8", "-D"])
            .arg(&data)
            .status();
        assert!(made.expect("initdb").success(), "initdb");
        let mut command = as_user(&bin.join("postgres"));
        command
            .arg("-D")
            .arg(&data)
            .arg("-k")
            .arg(folder.path())
            .args(["-c", "max_connections=50", "-c", "fsync=off"])
            .args(settings.iter().flat_map(|setting| ["-c", setting]));
        let process = command.spawn().expect("postgres");
        let port = settings.iter().find_map(|setting| setting.strip_prefix("port=")?.parse().ok()).unwrap_or(5432);
        let server = Server { folder, process, command, databases: 0, port };
        server.wait().await;
        server
    }

    /// Waits until it answers.
    async fn wait(&self) {
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = self.client().await {
            assert!(Instant::now() < deadline, "the server did not start: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    #[allow(dead_code, reason = "the tests of learned types use it")]
    /// Starts it again after it was killed.
    pub(crate) async fn start_again(&mut self) {
        // It refuses to start over the lock file of a process that may be there.
        let _ = std::fs::remove_file(self.folder.path().join("data/postmaster.pid"));
        self.process = self.command.spawn().expect("postgres");
        self.wait().await;
    }

    #[allow(dead_code, reason = "the tests of learned types use it")]
    /// A connection to a database, for statements of the test itself.
    pub(crate) async fn sql(&self, address: &str) -> Client {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    fn address(&self, database: &str) -> String {
        format!("host={} port={} user=toolgate dbname={database}", self.folder.path().display(), self.port)
    }

    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.address("postgres"), NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }

    #[allow(dead_code, reason = "the tests of the command use it")]
    /// How many connections to databases of tests are encrypted, and how many are not.
    pub(crate) async fn encrypted(&self) -> (i64, i64) {
        let client = self.client().await.expect("a connection");
        let text = "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl) \
                    FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname LIKE 'check%'";
        let row = client.query_one(text, &[]).await.expect("a row");
        (row.get(0), row.get(1))
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
