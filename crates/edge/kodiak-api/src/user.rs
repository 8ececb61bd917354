//! Authentication: the user of a request.

use std::{fmt, net::SocketAddr};

use axum::http::{header, request::Parts};
use jiff::Timestamp;
use kodiak_catalog::{ADMIN_GROUP, ADMIN_USER, Catalog};
use kodiak_listen::{Client, Peer};
use kodiak_tokens::{names::TokenKind, verify_user};

use crate::{ApiError, config::AuthnConfig, origin};

pub(crate) const UNAUTHENTICATED: &str = "mesh-system:unauthenticated";
pub(crate) const AUTHENTICATED: &str = "mesh-system:authenticated";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

/// Connection of a request.
#[derive(Debug, Clone, Copy)]
pub enum Connection {
    Tcp {
        peer: SocketAddr,
        tls: bool,
    },
    /// The socket for local administration. The accept loop lets only the control plane's user and root connect to it.
    Socket,
}

impl Connection {
    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Self::Tcp { tls: true, .. })
    }
}

impl From<&Client> for Connection {
    fn from(client: &Client) -> Self {
        match client.peer {
            Peer::Tcp(peer) => Self::Tcp { peer, tls: client.tls },
            Peer::Unix { .. } => Self::Socket,
        }
    }
}

impl User {
    pub fn anonymous() -> Self {
        Self { name: "mesh-system:anonymous".to_owned(), groups: vec![UNAUTHENTICATED.to_owned()] }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.groups.iter().any(|group| group == UNAUTHENTICATED)
    }

    pub fn admin() -> Self {
        Self { name: ADMIN_USER.to_owned(), groups: vec![ADMIN_GROUP.to_owned(), AUTHENTICATED.to_owned()] }
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.groups.join(","))
    }
}

/// Authenticates a request. A credential that is there decides, wherever the request comes from: its user, or an error if it
/// is invalid. Only without one does the connection decide: administrator, or anonymous.
pub(crate) fn identify(
    config: AuthnConfig,
    catalog: &Catalog,
    connection: Option<Connection>,
    parts: &Parts,
) -> Result<User, ApiError> {
    let mut credentials = parts.headers.get_all(header::AUTHORIZATION).iter();
    let credential = match (credentials.next(), credentials.next()) {
        (None, _) => return Ok(without_credential(config, connection, parts)),
        (Some(credential), None) => credential,
        // Which one another reader of the request would take is unknown.
        (Some(_), Some(_)) => return Err(ApiError::unauthenticated()),
    };
    let token = credential.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
    let Some(token) = token.filter(|_| config.tokens) else { return Err(ApiError::unauthenticated()) };
    match verify_user(token.trim(), &catalog.token_keys(TokenKind::User), Timestamp::now()) {
        Ok(verified) => {
            let mut groups = verified.claims.groups;
            groups.push(AUTHENTICATED.to_owned());
            Ok(User { name: verified.claims.name, groups })
        }
        Err(error) => {
            tracing::debug!(%error, "rejected a user token");
            Err(ApiError::unauthenticated())
        }
    }
}

fn without_credential(config: AuthnConfig, connection: Option<Connection>, parts: &Parts) -> User {
    let local = match connection {
        None => false,
        Some(Connection::Socket) => !origin::is_of_others(&parts.headers),
        Some(Connection::Tcp { peer, tls }) => config.localhost_is_admin && origin::is_local_person(peer, tls, parts),
    };
    if local { User::admin() } else { User::anonymous() }
}
