//! MeshTrace: tracing of requests, and the backend of their spans.

mod backend;
mod check;
mod envoy;
mod spec;

use std::collections::BTreeSet;

use kodiak_model::{CheckCtx, Kind, Language, PolicyFacts, Problems, Spec, policy, policy::ConfShape, target_ref};

pub use spec::{
    Backend, BackendType, Conf, DatadogBackend, HeaderTag, MeshTrace, OpenTelemetryBackend, Sampling, Tag,
    ZipkinApiVersion, ZipkinBackend,
};

use crate::policy_status::PolicyStatus;
use crate::target::{Collector, Inbound, Outbound, ProxyFact};
use crate::{Confs, Entry, Policy};

pub const POLICY: Option<&dyn Policy> = Some(&Traces);

pub static KIND: Kind = Kind::policy(
    "MeshTrace",
    "meshtraces",
    "mtr",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 700 },
    Language::of::<MeshTrace>(),
);

/// Applies the policy to proxies.
struct Traces;

impl Policy for Traces {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn applies_to_all_traffic(&self) -> bool {
        true
    }

    fn proxy_facts(&self, conf: &policy::Conf) -> BTreeSet<ProxyFact> {
        let facts = [ProxyFact::Service, ProxyFact::Workload, ProxyFact::Zone];
        facts.into_iter().filter(|_| backend::of(&conf.read()).is_some()).collect()
    }

    fn collectors(&self, conf: &policy::Conf) -> Vec<Collector> {
        backend::of(&conf.read()).map(|backend| backend.collector()).into_iter().collect()
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        envoy::outbound(confs, outbound);
    }
}

impl Spec for MeshTrace {
    type Status = PolicyStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
