//! The proxies that are connected to this control plane: their streams, their insights, and the readiness of their inbounds.
//!
//! In: streams of proxies ([`kodiak_ads::Proxies`]) and their reports. Out: [`ProxyEvent`]s for the configuration writer,
//! Dataplanes that proxies register, DataplaneInsights, and `state` of inbounds.
//!
//! [`Registry`] connects five parts, each with a lock and a loop of its own:
//!
//! - `sessions`: who is connected. Streams, their snapshots and acknowledgements; the newest stream wins.
//! - `insights`: the writer of DataplaneInsights.
//! - `readiness`: the one owner of inbound readiness, which decides from registration, drain and health checks.
//! - `registrations`: proxies that provided their Dataplane, and when it is deleted after they left (`deregister`).
//! - `traffic`: which clients call which destinations, from load reports.
//!
//! Around them: `admission` decides who may connect, `credential` verifies tokens, `recheck` closes streams that would
//! not be admitted any more, `health` has the streams of health checks and `load` those of load reports, `bootstrap` and `drain` are HTTP requests.
//! `stored` is the only place that decodes stored specs; `run` is the one task.
//!
//! **Invariant:** a stream has a token that is valid for the stored Dataplane, or it is closed.
//! **Invariant:** a proxy has one ADS stream here, the newest.
//! **Invariant:** no lock is held across another part's.
//! **Invariant:** what is written here is observed; it never decides the configuration of a proxy, except for which inbounds
//! are ready, and for what its clients wait for: that it acknowledged its permissions.
//! **Invariant:** a token is never printed.

mod admission;
mod batch;
mod bootstrap;
mod credential;
mod dataplane;
mod deregister;
mod drain;
mod headers;
mod health;
mod insights;
mod leader;
mod load;
mod port;
mod readiness;
mod recheck;
mod registrations;
mod registry;
mod run;
mod sessions;
mod settings;
mod stored;
mod traffic;

pub use recheck::Recheck;
pub use registry::Registry;
pub use sessions::{ProxyEvent, ProxyStatus, SnapshotTokens, TypeStatus};
pub use settings::{Authn, CheckCa, Clock, Observer, ProxySettings, TrafficSettings};
