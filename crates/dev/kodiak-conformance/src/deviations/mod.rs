//! Intentional differences, each as a rule over the expected output.

pub(crate) mod changes;
mod cliques;
pub(crate) mod config;
pub(crate) mod defaults;
mod faults;
pub(crate) mod names;
mod permissions;
pub(crate) mod trust;

use serde_json::Value;

struct Deviation {
    name: &'static str,
    because: &'static str,
}

const UNKNOWN_FIELDS: Deviation = Deviation {
    name: "unknown-fields-are-reported",
    because: "unknown fields are not dropped silently: they are accepted, and listed in `warnings`",
};

const LEGACY_NAMES: Deviation = Deviation {
    name: "legacy-names-are-limited",
    because: "by its legacy name `name_namespace_svc_port`, routes do not apply to a MeshService, and \
              MeshLoadBalancingStrategy applies only with `localityAwareness.localZone`",
};

const SECTIONS: Deviation = Deviation {
    name: "section-applies-to-the-resource",
    because: "an item with `sectionName` applies to the MeshService only, never to a `kuma.io/service`",
};

const EQUAL_IS_NOT_PUSHED: Deviation = Deviation {
    name: "equal-configuration-is-not-pushed",
    because: "a change that leaves the configuration of every proxy unchanged causes no new snapshot",
};

const NO_LABELS: Deviation = Deviation {
    name: "endpoints-without-labels",
    because: "endpoints do not contain the labels of a Dataplane: nothing in Envoy reads `io.kuma.labels`, and they are \
              the larger part of an assignment",
};

const NO_IPV6: Deviation = Deviation {
    name: "no-ipv6-listeners-without-ipv6",
    because: "a proxy that reports no IPv6 support gets no listeners on `::`, which it could not bind",
};

const PRINCIPALS: Deviation = Deviation {
    name: "permissions-by-principals",
    because: "`rules` of MeshTrafficPermission are principals: Envoy's matchers see all URIs of a certificate joined, so \
              that no certificate of a mesh has exactly one; a `Prefix` matches whole segments (ADR 003)",
};

const MOST_SPECIFIC: Deviation = Deviation {
    name: "the-most-specific-permission-decides",
    because: "in `from`, a Deny overrides a broader Allow; the recorded output allows callers that any rule allows",
};

const ONE_URI: Deviation = Deviation {
    name: "faults-by-one-uri-of-the-certificate",
    because: "`rules` of MeshFaultInjection match one URI of a certificate as a whole, by a regular expression: Envoy's \
              matchers see all URIs of a certificate joined; a `Prefix` matches whole segments (ADR 003)",
};

const NO_TAGS_HEADER: Deviation = Deviation {
    name: "no-header-with-tags",
    because: "callers do not send their tags in `x-kuma-tags`: `from` of MeshFaultInjection identifies them by certificates, \
              which nobody can forge (ADR 003)",
};

const NO_DEFAULTS: Deviation = Deviation {
    name: "defaults-are-not-stored",
    because: "a resource is read back as it was written: defaults apply when it is used, and do not override the fields \
              of weaker policies",
};

const TRUST_IN_SECRETS: Deviation = Deviation {
    name: "trust-travels-in-secrets",
    because: "TLS contexts name secrets that have both the trusted CAs and the SPIFFE IDs of peers, so that a change of trust \
              changes no listener and no cluster, and closes no connection (ADR 021); compared by content",
};

const ALL: &[&Deviation] = &[
    &UNKNOWN_FIELDS,
    &LEGACY_NAMES,
    &SECTIONS,
    &EQUAL_IS_NOT_PUSHED,
    &NO_LABELS,
    &NO_IPV6,
    &PRINCIPALS,
    &MOST_SPECIFIC,
    &ONE_URI,
    &NO_TAGS_HEADER,
    &NO_DEFAULTS,
    &TRUST_IN_SECRETS,
];

pub(crate) fn list() {
    for Deviation { name, because } in ALL {
        println!("{name}: {because}");
    }
}

/// [`UNKNOWN_FIELDS`]: adds the warnings about unknown fields to the expected response of a write.
pub(crate) fn with_unknown_fields(expected: &mut Value, found: &Value) {
    let warnings = found.get("warnings").and_then(Value::as_array);
    let unknown: Vec<Value> = warnings
        .into_iter()
        .flatten()
        .filter(|warning| warning.as_str().is_some_and(|text| text.starts_with("unknown field ")))
        .cloned()
        .collect();
    let Some(body) = expected.as_object_mut().filter(|body| !unknown.is_empty() && !body.contains_key("status")) else {
        return;
    };
    let all = body.entry("warnings").or_insert_with(|| Value::Array(Vec::new()));
    if let Some(all) = all.as_array_mut() {
        all.splice(0..0, unknown);
    }
}
