//! Resources as a mesh of many services has them.

use std::fmt::Write as _;

/// How many of each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) dataplanes: usize,
    pub(super) services: usize,
    pub(super) policies: usize,
}

impl Counts {
    pub(super) fn total(self) -> usize {
        self.dataplanes + self.services + self.policies
    }
}

/// All of them as one YAML stream.
pub(super) fn yaml(counts: Counts) -> String {
    let mut text = String::new();
    for n in 0..counts.dataplanes {
        let service = n % counts.services.max(1);
        let (b, c) = (n / 250 % 250, n % 250);
        let _ = write!(
            text,
            "---\ntype: Dataplane\nmesh: default\nname: dp-{n}\nlabels:\n  app: svc-{service}\n  team: team-{}\n\
             networking:\n  address: 10.{}.{b}.{c}\n  inbound:\n  - port: 8080\n    servicePort: 18080\n    tags:\n      \
             kuma.io/service: svc-{service}\n      kuma.io/protocol: http\n      version: v1\n  transparentProxying:\n    \
             redirectPortInbound: 15006\n    redirectPortOutbound: 15001\n",
            service % 50,
            n / 62_500 % 250,
        );
    }
    for n in 0..counts.services {
        let _ = write!(
            text,
            "---\ntype: MeshService\nmesh: default\nname: svc-{n}\nlabels:\n  team: team-{}\nspec:\n  selector:\n    \
             dataplaneTags:\n      kuma.io/service: svc-{n}\n  ports:\n  - name: main\n    port: 8080\n    targetPort: 8080\n    \
             appProtocol: http\n",
            n % 50,
        );
    }
    for n in 0..counts.policies {
        let _ = write!(
            text,
            "---\ntype: MeshTimeout\nmesh: default\nname: timeout-{n}\nspec:\n  targetRef:\n    kind: Dataplane\n    labels:\n      \
             app: svc-{n}\n  to:\n  - targetRef:\n      kind: MeshService\n      name: svc-{}\n    default:\n      \
             connectionTimeout: 2s\n      http:\n        requestTimeout: {}s\n",
            (n * 7 + 1) % counts.services.max(1),
            n % 30 + 1,
        );
    }
    text
}
