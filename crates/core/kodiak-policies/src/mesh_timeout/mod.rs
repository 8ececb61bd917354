//! MeshTimeout: timeouts of connections, requests and streams.

mod check;
mod envoy;
mod spec;

use kodiak_model::{
    CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy, policy::ConfShape, target_ref,
};

use crate::from_to::is_used;
use crate::target::{Inbound, Outbound, Upstream};
use crate::{Confs, Entry, Policy};

pub use spec::{Conf, Http, MeshTimeout};

pub const POLICY: Option<&dyn Policy> = Some(&Timeouts);

pub static KIND: Kind = Kind::policy(
    "MeshTimeout",
    "meshtimeouts",
    "mt",
    PolicyFacts { to: true, from: true, rules: true, from_as_rules: true, conf: ConfShape::Default, order: 1000 },
    Language::of::<MeshTimeout>(),
);

/// Applies the policy to proxies.
struct Timeouts;

impl Policy for Timeouts {
    fn kind(&self) -> &'static Kind {
        &KIND
    }

    fn inbound(&self, entries: &[Entry], inbound: &mut Inbound<'_>) {
        envoy::inbound(entries, inbound);
    }

    fn outbound(&self, confs: &Confs, outbound: &mut Outbound<'_>) {
        envoy::outbound(confs, outbound);
    }

    fn cluster(&self, conf: &policy::Conf, cluster: &mut Upstream) {
        envoy::cluster(&conf.read(), cluster);
    }
}

impl Spec for MeshTimeout {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        let mut warnings = Vec::new();
        if is_used(self.from.as_ref()) {
            warnings.push("'from' field is deprecated, use 'rules' instead".to_owned());
        }
        warnings.extend(target_ref::deprecations(self.target_ref.as_ref()));
        warnings
    }
}
