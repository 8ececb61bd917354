//! Questions to Envoy's admin interface, through a listener that accepts certificates of control planes only.
//!
//! A proxy is no friend: its Dataplane claims an address, and its answer may be endless.
//!
//! **Invariant:** the control plane connects only to the address of a connected proxy, and never to its own ports
//! (`address.rs`).
//! **Invariant:** the number of answers in memory is bounded, and so is each of them; one proxy uses one of these places
//! (`turns.rs`). A place is taken until the client has the whole answer.
//! **Invariant:** all failures before the proxy has proven its identity have one text. The reason is in the log only.

mod address;
mod exchange;
#[cfg(test)]
mod tests;
mod turns;

use std::{net::IpAddr, sync::Arc, time::Duration};

use axum::body::Bytes;
use kodiak_api::inspect::InspectError;
use kodiak_ca::AdminClient;
use kodiak_listen::{LogThrottle, printable};
use kodiak_model::ProxyKey;

use address::{AddressRule, is_of_this_machine};
pub(crate) use address::{Network, OwnPorts};
use exchange::ExchangeError;
use turns::{Turn, Turns};

/// Time for a question, with the wait for a turn.
const TOTAL: Duration = Duration::from_secs(10);
/// Largest answer.
const LARGEST: usize = 8 << 20;

const UNREACHABLE: &str = "Envoy's admin interface did not answer; the log of the control plane has the reason";
const BUSY: &str = "too many requests to Envoy's admin interface at a time; try again";

static FAILURES: LogThrottle = LogThrottle::new();

/// Admin interface of one proxy, as its Dataplane and its stream show it.
pub(crate) struct AdminInterface {
    pub(crate) proxy: ProxyKey,
    /// Name or address in the Dataplane. The proxy's certificate must be valid for it.
    pub(crate) host: String,
    pub(crate) port: u32,
    /// Address from which its ADS stream comes.
    pub(crate) peer: IpAddr,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct EnvoyAdmin {
    rule: Arc<AddressRule>,
    turns: Turns,
    total: Duration,
}

/// Answer of a proxy. It keeps its turn.
pub(crate) struct Answer {
    pub(crate) body: Vec<u8>,
    turn: Turn,
}

impl Answer {
    pub(crate) fn map(self, change: impl FnOnce(&[u8]) -> Result<Vec<u8>, InspectError>) -> Result<Self, InspectError> {
        Ok(Self { body: change(&self.body)?, turn: self.turn })
    }

    /// The turn ends when the last part of the bytes is dropped.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Answer {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl EnvoyAdmin {
    /// `networks` are those to which it connects whatever the peer address of a proxy is.
    pub(crate) fn new(networks: Vec<Network>, own_ports: OwnPorts) -> Self {
        Self { rule: Arc::new(AddressRule { networks, own_ports }), turns: Turns::default(), total: TOTAL }
    }

    pub(crate) async fn get(
        &self,
        interface: AdminInterface,
        path: &'static str,
        identity: &AdminClient,
    ) -> Result<Answer, InspectError> {
        let proxy = interface.proxy.clone();
        let found = tokio::time::timeout(self.total, self.ask(&interface, path, identity)).await;
        let late = |_| unreachable(&format!("no complete response within {:?}", self.total));
        let found = found.map_err(late).flatten();
        found.map_err(|error| {
            let AdminInterface { host, port, peer, .. } = interface;
            if let Some(suppressed) = FAILURES.admit() {
                let (host, error) = (printable(&host), printable(&error.to_string()));
                tracing::warn!(%proxy, host, port, %peer, error, suppressed, "request to Envoy's admin interface failed");
            }
            InspectError::Unreachable(shown(&error))
        })
    }

    async fn ask(
        &self,
        interface: &AdminInterface,
        path: &str,
        identity: &AdminClient,
    ) -> Result<Answer, ExchangeError> {
        let turn = self.turns.take(&interface.proxy).await.ok_or(ExchangeError::Busy)?;
        let AdminInterface { host, port, peer, .. } = interface;
        let port = u16::try_from(*port).map_err(|_| unreachable("the port is not valid"))?;
        let claimed = address::resolve(host, port).await.map_err(|error| unreachable(&error.to_string()))?;
        let address =
            self.rule.allowed(&claimed, *peer, port, is_of_this_machine).map_err(ExchangeError::Unreachable)?;
        let body = exchange::get(address, host, path, identity, LARGEST).await?;
        Ok(Answer { body, turn })
    }
}

fn unreachable(reason: &str) -> ExchangeError {
    ExchangeError::Unreachable(reason.to_owned())
}

/// Error for the client of the API.
fn shown(error: &ExchangeError) -> String {
    match error {
        ExchangeError::Busy => BUSY.to_owned(),
        ExchangeError::Unreachable(_) => UNREACHABLE.to_owned(),
        // From here on, the proxy has proven that it is one.
        ExchangeError::TooLarge | ExchangeError::Status(_) => error.to_string(),
    }
}
