//! MeshAccessLog: access logs of proxies and their backends.

mod check;
mod envoy;
mod filter;
mod format;
mod placeholders;
mod spec;

use std::collections::BTreeSet;

use kodiak_model::{
    CheckCtx, Kind, Language, PolicyFacts, Problems, Spec,
    policy::{self, ConfShape},
    target_ref,
};

pub use spec::{
    Attribute, Backend, BackendType, Conf, FileBackend, Format, FormatType, JsonField, MeshAccessLog,
    OpenTelemetryBackend, TcpBackend,
};

use crate::{
    Confs, Entry, Policy,
    from_to::is_used,
    policy_status::PolicyStatus,
    target::{Collector, Inbound, Outbound, ProxyFact},
};

pub const POLICY: Option<&dyn Policy> = Some(&AccessLogs);

pub static KIND: Kind = Kind::policy(
    "MeshAccessLog",
    "meshaccesslogs",
    "mal",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 600 },
    Language::of::<MeshAccessLog>(),
);

/// Applies the policy to proxies.
struct AccessLogs;

impl Policy for AccessLogs {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn collectors(&self, conf: &policy::Conf) -> Vec<Collector> {
        envoy::collectors(&conf.read())
    }

    fn proxy_facts(&self, conf: &policy::Conf) -> BTreeSet<ProxyFact> {
        envoy::facts(&conf.read())
    }

    fn applies_to_passthrough(&self) -> bool {
        true
    }

    fn merges_rules(&self) -> bool {
        false
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        envoy::outbound(confs, outbound);
    }
}

impl Spec for MeshAccessLog {
    type Status = PolicyStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = target_ref::deprecations(self.target_ref.as_ref());
        if is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings
    }
}
