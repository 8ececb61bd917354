//! Connection settings of the database.

use std::{io, path::Path, time::Duration};

use sqlx::{
    ConnectOptions as _, PgConnection,
    postgres::{PgConnectOptions, PgSslMode},
};

use crate::{
    config::{PostgresConfig, Secret, Tls},
    error::StoreError,
};

#[derive(Clone)]
pub(super) struct Place {
    pub(super) options: PgConnectOptions,
    pub(super) timeout: Duration,
    name: String,
}

impl Place {
    pub(super) fn new(config: &PostgresConfig) -> Self {
        let PostgresConfig { host, port, user, password, database, tls, timeout, instance_id, .. } = config;
        let Secret(password) = password.clone().unwrap_or_else(|| Secret(String::new()));
        // Settings that are not set here would come from the environment.
        let options = PgConnectOptions::new_without_pgpass()
            .host(host)
            .port(*port)
            .username(user)
            .password(&password)
            .database(database)
            .application_name(&format!("kodiak {instance_id}"));
        let options = match tls {
            Tls::Disable => options.ssl_mode(PgSslMode::Disable),
            Tls::Verify { ca } => with_ca(options.ssl_mode(PgSslMode::VerifyFull), ca.as_deref()),
        };
        Self {
            options: options.disable_statement_logging(),
            timeout: *timeout,
            name: format!("PostgreSQL at {host}:{port}"),
        }
    }

    pub(super) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        self.options.connect().await
    }

    /// Applies the configured timeout.
    pub(super) async fn within<T>(&self, work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
        }
    }

    pub(super) fn back_end_failed(&self, error: sqlx::Error) -> StoreError {
        StoreError::back_end_failed(&self.name, error)
    }
}

fn with_ca(options: PgConnectOptions, ca: Option<&Path>) -> PgConnectOptions {
    match ca {
        Some(ca) => options.ssl_root_cert(ca),
        None => options,
    }
}
