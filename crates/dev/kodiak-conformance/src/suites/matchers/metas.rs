//! Names and labels of a resource, where it is created and where it is synced to.

use kodiak_model::{Labels, labels};

use crate::synced_name::synced_name;

/// Identity of a resource.
#[derive(Debug, Clone)]
pub(crate) struct ResourceMeta {
    pub(crate) mesh: String,
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

#[derive(Clone, Copy)]
enum Made {
    GlobalUniversal,
    GlobalKubernetes,
    ZoneUniversal,
    ZoneKubernetes,
}

#[derive(Clone, Copy)]
enum Step {
    SyncedToUniversal,
    SyncedToKubernetes,
    System,
    Producer,
}

use Made::{GlobalKubernetes, GlobalUniversal, ZoneKubernetes, ZoneUniversal};
use Step::{Producer, SyncedToKubernetes, SyncedToUniversal, System};

type Origin = (Made, &'static [Step]);

/// By the name of the output: where the proxy and the policies were created and synced to.
const ORIGINS: &[(&str, Origin, Origin)] = &[
    ("uni-zone", (ZoneUniversal, &[]), (ZoneUniversal, &[])),
    ("k8s-zone", (ZoneKubernetes, &[]), (ZoneKubernetes, &[])),
    ("policy-from-global-uni-zone-uni-on-global", (ZoneUniversal, &[SyncedToUniversal]), (GlobalUniversal, &[System])),
    ("policy-from-global-uni-zone-uni-on-zone", (ZoneUniversal, &[]), (GlobalUniversal, &[SyncedToUniversal, System])),
    (
        "policy-from-global-uni-zone-k8s-on-zone",
        (ZoneKubernetes, &[]),
        (GlobalUniversal, &[SyncedToKubernetes, System]),
    ),
    ("policy-from-global-uni-zone-k8s-on-global", (ZoneKubernetes, &[SyncedToUniversal]), (GlobalUniversal, &[System])),
    ("policy-from-global-k8s-zone-uni-on-zone", (ZoneUniversal, &[]), (GlobalKubernetes, &[SyncedToUniversal, System])),
    (
        "policy-from-global-k8s-zone-uni-on-global",
        (ZoneUniversal, &[SyncedToKubernetes]),
        (GlobalKubernetes, &[System]),
    ),
    (
        "policy-from-global-k8s-zone-k8s-on-zone",
        (ZoneKubernetes, &[]),
        (GlobalKubernetes, &[SyncedToKubernetes, System]),
    ),
    (
        "policy-from-global-k8s-zone-k8s-on-global",
        (ZoneKubernetes, &[SyncedToKubernetes]),
        (GlobalKubernetes, &[System]),
    ),
    ("policy-global-uni-dpp-k8s-on-zone", (ZoneUniversal, &[]), (GlobalUniversal, &[SyncedToUniversal, System])),
    ("policy-global-uni-dpp-k8s-on-global", (ZoneUniversal, &[SyncedToUniversal]), (GlobalUniversal, &[System])),
    ("policy-from-k8s-to-uni", (ZoneUniversal, &[]), (ZoneKubernetes, &[SyncedToUniversal, Producer])),
    ("policy-from-k8s-to-k8s", (ZoneKubernetes, &[]), (ZoneKubernetes, &[SyncedToKubernetes, Producer])),
];

/// Origin and sync of a proxy and of its policies.
#[derive(Clone, Copy)]
pub(crate) struct Origins {
    proxy: Origin,
    policy: Origin,
}

impl Origins {
    pub(crate) fn of(output: &str) -> Option<Self> {
        ORIGINS
            .iter()
            .find(|(name, ..)| *name == output)
            .map(|(_, proxy, policy)| Self { proxy: *proxy, policy: *policy })
    }

    pub(crate) fn proxy(&self, written: ResourceMeta) -> ResourceMeta {
        synced(self.proxy, written)
    }

    pub(crate) fn policy(&self, written: ResourceMeta) -> ResourceMeta {
        synced(self.policy, written)
    }
}

fn synced((made, steps): Origin, written: ResourceMeta) -> ResourceMeta {
    let made = make(made, written);
    steps.iter().fold(made, |named, step| take(*step, named))
}

/// Labels in the document override derived ones.
fn make(made: Made, written: ResourceMeta) -> ResourceMeta {
    let ResourceMeta { mesh, mut name, labels: stronger } = written;
    let (zone, kubernetes) = match made {
        GlobalUniversal => (None, false),
        GlobalKubernetes => (None, true),
        ZoneUniversal => (Some("zone-uni"), false),
        ZoneKubernetes => (Some("zone-k8s"), true),
    };
    let mut all = Labels::new();
    let mut set = |key: &str, value: &str| all.insert(key.to_owned(), value.to_owned());
    set(labels::DISPLAY_NAME, &name);
    set(labels::ORIGIN, if zone.is_some() { "zone" } else { "global" });
    if let Some(zone) = zone {
        set(labels::ZONE, zone);
    }
    if kubernetes {
        set(labels::NAMESPACE, "ns-k8s");
        set(labels::MESH, &mesh);
        name.push_str(".ns-k8s");
    }
    all.extend(stronger);
    ResourceMeta { mesh, name, labels: all }
}

fn take(step: Step, mut named: ResourceMeta) -> ResourceMeta {
    let synced = synced_name(&named.mesh, labels::display_name(&named.labels, &named.name), &named.labels);
    let mut set = |key: &str, value: &str| named.labels.insert(key.to_owned(), value.to_owned());
    match step {
        SyncedToUniversal => named.name = synced,
        SyncedToKubernetes => named.name = synced + ".kuma-system",
        System => {
            set(labels::POLICY_ROLE, "system");
            set(labels::NAMESPACE, "kuma-system");
        }
        Producer => {
            set(labels::POLICY_ROLE, "producer");
        }
    }
    named
}
