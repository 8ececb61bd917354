//! mTLS rollout: safe steps between two mTLS settings of a mesh.
//!
//! Proxies do not change at the same moment. So every step must work while some proxies are at the previous one:
//! servers must accept what clients already send, and must trust the CAs of all certificates in use. A step is taken
//! when all connected proxies have acknowledged the previous one, never by time.
//!
//! | from | to | steps |
//! |---|---|---|
//! | off | strict | servers accept both, clients use mTLS, servers accept mTLS only |
//! | strict | off | servers accept both, clients use plain text, servers accept plain text only |
//! | CA A | CA B | all trust A and B, certificates of B, all trust B |

mod waiting;

use std::sync::Arc;

use kodiak_model::{
    InboundTls,
    kinds::mesh::{Mesh, MtlsMode},
};
use serde::{Deserialize, Serialize};

pub use waiting::{WaitReason, Waiting};

/// Step of a mesh.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    pub accept: InboundTls,
    /// Whether clients use mTLS.
    pub call: bool,
    /// Backend that signs the certificates of proxies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<Arc<str>>,
    /// Backends whose CAs are trusted, in the order of the mesh.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trust: Vec<Arc<str>>,
}

impl Rollout {
    /// Last step, for the settings of the mesh.
    pub fn target(mesh: &Mesh) -> Self {
        let Some(enabled) = mesh.enabled_backend() else { return Self::default() };
        let backends = mesh.mtls.iter().flat_map(|mtls| &mtls.backends);
        Self {
            accept: match enabled.mode() {
                MtlsMode::Strict => InboundTls::Strict,
                MtlsMode::Permissive => InboundTls::Permissive,
            },
            call: true,
            signer: Some(enabled.name.as_str().into()),
            trust: backends.map(|backend| backend.name.as_str().into()).collect(),
        }
    }

    /// Identifier of the step, which proxies with its configuration acknowledge. Empty when mTLS is off.
    pub fn token(&self) -> String {
        let Self { accept, call, signer, trust } = self;
        let Some(signer) = signer else { return String::new() };
        let accept = match accept {
            InboundTls::Plaintext => "plain",
            InboundTls::Permissive => "both",
            InboundTls::Strict => "mtls",
        };
        let call = if *call { "mtls" } else { "plain" };
        format!("accept={accept} call={call} signer={signer} trust={}", trust.join(","))
    }

    /// Next step towards `target`, to be taken when all proxies have acknowledged this one. `None` when it is reached.
    pub fn next(&self, target: &Self) -> Option<Self> {
        if self == target {
            return None;
        }
        let mut step = self.clone();
        let missing = |trust: &[Arc<str>]| !target.trust.iter().all(|wanted| trust.contains(wanted));
        if self.signer.is_none() {
            // Nobody uses certificates yet, so all that belongs to them can come at once.
            step.signer.clone_from(&target.signer);
            step.trust.clone_from(&target.trust);
            step.accept = InboundTls::Permissive;
        } else if missing(&self.trust) {
            step.trust.extend(target.trust.iter().filter(|wanted| !self.trust.contains(wanted)).cloned());
        } else if target.signer.is_some() && self.signer != target.signer {
            step.signer.clone_from(&target.signer);
        } else if self.call != target.call {
            // Both ways of calling must be taken before and while callers change.
            match self.accept {
                InboundTls::Permissive => step.call = target.call,
                InboundTls::Plaintext | InboundTls::Strict => step.accept = InboundTls::Permissive,
            }
        } else {
            step = target.clone();
        }
        Some(step)
    }

    /// Whether `next` makes clients use mTLS while servers keep accepting plain text: then offline proxies count too,
    /// because a server without a sidecar may run in their place.
    pub fn needs_everybody(&self, next: &Self, target: &Self) -> bool {
        !self.call && next.call && target.accept == InboundTls::Permissive
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mesh(enabled: &str, mode: &str, backends: &[&str]) -> Rollout {
        let backend = |name: &&str| json!({ "name": name, "type": "builtin", "mode": mode });
        let backends: Vec<_> = backends.iter().map(backend).collect();
        let spec = json!({ "mtls": { "enabledBackend": enabled, "backends": backends } });
        Rollout::target(&serde_json::from_value(spec).unwrap())
    }

    fn off() -> Rollout {
        Rollout::default()
    }

    fn path(from: &Rollout, to: &Rollout) -> Vec<String> {
        let mut at = from.clone();
        let mut tokens = Vec::new();
        while let Some(next) = at.next(to) {
            assert_safe(&at, &next);
            tokens.push(next.token());
            at = next;
            assert!(tokens.len() < 10, "no end: {tokens:?}");
        }
        assert_eq!(&at, to);
        tokens
    }

    /// While some proxies are at one step and some at the next, every server accepts and trusts every client.
    fn assert_safe(old: &Rollout, new: &Rollout) {
        for caller in [old, new] {
            for server in [old, new] {
                let taken = match server.accept {
                    InboundTls::Plaintext => !caller.call,
                    InboundTls::Permissive => true,
                    InboundTls::Strict => caller.call,
                };
                assert!(taken, "{caller:?} calls {server:?}");
                if caller.call {
                    for (shown, believed) in [(&caller.signer, &server.trust), (&server.signer, &caller.trust)] {
                        let shown = shown.as_ref().expect("who uses mTLS has a certificate");
                        assert!(believed.contains(shown), "{caller:?} calls {server:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_step_of_every_rollout_is_safe() {
        let states = [
            off(),
            mesh("a", "STRICT", &["a"]),
            mesh("a", "PERMISSIVE", &["a"]),
            mesh("b", "STRICT", &["a", "b"]),
            mesh("b", "PERMISSIVE", &["b"]),
            mesh("a", "STRICT", &["a", "b"]),
        ];
        for from in &states {
            for to in &states {
                path(from, to);
            }
        }
    }

    #[test]
    fn changed_target_during_a_rollout_is_safe() {
        let targets =
            [off(), mesh("a", "STRICT", &["a"]), mesh("b", "STRICT", &["a", "b"]), mesh("b", "STRICT", &["b"])];
        for from in &targets {
            for to in &targets {
                let mut at = from.clone();
                while let Some(next) = at.next(to) {
                    for other in &targets {
                        path(&next, other);
                    }
                    at = next;
                }
            }
        }
    }

    #[test]
    fn strict_mtls_accepts_both_first() {
        assert_eq!(
            path(&off(), &mesh("a", "STRICT", &["a"])),
            [
                "accept=both call=plain signer=a trust=a",
                "accept=both call=mtls signer=a trust=a",
                "accept=mtls call=mtls signer=a trust=a",
            ]
        );
        assert_eq!(
            path(&mesh("a", "STRICT", &["a"]), &off()),
            ["accept=both call=mtls signer=a trust=a", "accept=both call=plain signer=a trust=a", ""]
        );
    }

    #[test]
    fn new_ca_is_trusted_before_it_signs() {
        assert_eq!(
            path(&mesh("a", "STRICT", &["a"]), &mesh("b", "STRICT", &["b"])),
            [
                "accept=mtls call=mtls signer=a trust=a,b",
                "accept=mtls call=mtls signer=b trust=a,b",
                "accept=mtls call=mtls signer=b trust=b",
            ]
        );
    }

    #[test]
    fn permissive_mode_waits_for_offline_proxies_too() {
        let permissive = mesh("a", "PERMISSIVE", &["a"]);
        let both = off().next(&permissive).unwrap();
        let call = both.next(&permissive).unwrap();
        assert!(both.needs_everybody(&call, &permissive));
        assert!(!off().needs_everybody(&both, &permissive));
        assert!(!both.needs_everybody(&call, &mesh("a", "STRICT", &["a"])));
    }
}
