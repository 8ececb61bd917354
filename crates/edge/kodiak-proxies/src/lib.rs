//! The proxies that are connected to this control plane: who they are, how long they stay, and what is seen of them.
//!
//! In: streams that introduce themselves ([`kodiak_ads::Proxies`]), and what they report. Out: [`ProxyEvent`]s for
//! whoever makes their configuration, Dataplanes that proxies bring with them, and their DataplaneInsights.
//!
//! - `admission` decides who may connect; `credential` holds tokens against what they are shown for.
//! - `registry` knows the streams; `insight` is what one of them has done, `flush` writes it down.
//! - `health` has the streams on which proxies report health checks of their workloads.
//! - `readiness` owns `state` and `health` of inbounds, and decides them from registration, drain and health checks.
//! - `run` is the one task: it writes insights, and deletes what proxies have left behind.
//! - `bootstrap` and `drain` are the two requests that are no streams.
//!
//! **Invariant:** a stream has a token that is good for the Dataplane in force, or it is closed.
//! **Invariant:** a proxy has one stream here, the newest.
//! **Invariant:** what is written here is observed; nothing of it says what a proxy is to have, but for which inbounds are
//! ready to be called.
//! **Invariant:** a token is never printed.

mod admission;
mod answer;
mod batch;
mod bootstrap;
mod credential;
mod dataplane;
mod drain;
mod headers;
mod health;
mod insights;
mod readiness;
mod recheck;
mod registrations;
mod registry;
mod run;
mod sessions;
mod settings;

pub use recheck::Recheck;
pub use registry::{ProxyEvent, Registry};
pub use sessions::status::{ProxyStatus, TypeStatus};
pub use settings::{Authn, CheckAuthority, Clock, Observer, Settings};
