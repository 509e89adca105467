//! Connections to one PostgreSQL: a bounded number of them, used again, encrypted where the address says `sslmode=require`.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

use super::super::StoreError;
use super::super::tls::Tls;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections of one process to one database.
pub(super) struct Connections {
    config: Config,
    /// Where connections are encrypted.
    tls: Option<Tls>,
    idle: Mutex<Vec<Client>>,
    places: Semaphore,
    /// How long one operation may take.
    timeout: Duration,
}

impl Connections {
    /// At most so many connections to this address, `postgres://…`. None is made yet.
    pub(super) fn new(address: &str, most: usize, timeout: Duration) -> Result<Self, StoreError> {
        let mut config: Config = address.parse().map_err(|error| fault(&error))?;
        config.connect_timeout(CONNECT_TIMEOUT);
        let tls = match config.get_ssl_mode() {
            SslMode::Require => {
                Some(Tls::new().map_err(|error| StoreError::Unavailable(format!("no TLS to PostgreSQL: {error}")))?)
            }
            _ => None,
        };
        Ok(Connections { config, tls, idle: Mutex::default(), places: Semaphore::new(most), timeout })
    }

    /// Makes tables that are not there.
    pub(super) async fn make_tables(&self, schema: &str) -> Result<(), StoreError> {
        // Replicas that start together must not make the same table twice.
        let text = format!("BEGIN; SELECT pg_advisory_xact_lock(7221690441); {schema} COMMIT;");
        self.within(async |client| client.batch_execute(&text).await.map_err(|error| fault(&error))).await
    }

    /// Does something with a connection, within the time of an operation. A connection that was in use when an
    /// operation failed or was given up is closed.
    pub(super) async fn within<T>(
        &self,
        work: impl AsyncFnOnce(&mut Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = tokio::time::timeout(self.timeout, async {
            let _place = self.places.acquire().await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
            let mut client = self.client().await?;
            let answer = work(&mut client).await?;
            self.idle.lock().push(client);
            Ok(answer)
        });
        let late = || Err(StoreError::Unavailable(format!("no answer within {} s", self.timeout.as_secs())));
        done.await.unwrap_or_else(|_| late())
    }

    async fn client(&self) -> Result<Client, StoreError> {
        let idle = std::iter::from_fn(|| self.idle.lock().pop()).find(|client| !client.is_closed());
        if let Some(client) = idle {
            return Ok(client);
        }
        // The client of a broken connection says so itself, so the task that drives it need not.
        match self.tls.clone() {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls).await.map_err(|error| fault(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(client)
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await.map_err(|error| fault(&error))?;
                tokio::spawn(async move { drop(connection.await) });
                Ok(client)
            }
        }
    }
}

pub(super) fn fault(error: &tokio_postgres::Error) -> StoreError {
    let message = match error.as_db_error() {
        Some(database) => database.message().to_owned(),
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    };
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(message),
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly(message),
        Some(code) if *code == SqlState::DATA_CORRUPTED => StoreError::Damaged(message),
        _ => StoreError::Unavailable(message),
    }
}
