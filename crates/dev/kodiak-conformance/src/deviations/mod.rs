//! What we answer differently on purpose, each as a rule over the expected answer.

pub(crate) mod changes;
mod cliques;
pub(crate) mod config;
pub(crate) mod names;
mod permissions;

use serde_json::Value;

struct Deviation {
    name: &'static str,
    because: &'static str,
}

const UNKNOWN_FIELDS: Deviation = Deviation {
    name: "unknown-fields-are-reported",
    because: "nothing is dropped in silence: a field that nothing reads is accepted, and named in `warnings`",
};

const OLD_NAMES: Deviation = Deviation {
    name: "old-names-are-not-for-all",
    because: "seed 004: through `name_namespace_svc_port`, a MeshService is not reached by routes, and by \
              MeshLoadBalancingStrategy only with `localityAwareness.localZone`",
};

const SECTIONS: Deviation = Deviation {
    name: "section-means-the-resource",
    because: "seed 004: an item with `sectionName` is about the MeshService only, never about `kuma.io/service`",
};

const EQUAL_IS_SILENT: Deviation = Deviation {
    name: "equal-means-silent",
    because: "design 5.2: a change after which every proxy would be told the same is no reason to make anything again",
};

const NO_LABELS: Deviation = Deviation {
    name: "endpoints-without-labels",
    because: "the labels of a Dataplane are no part of its endpoints: nothing in Envoy reads `io.kuma.labels`, and it is \
              the larger part of an assignment",
};

const NO_IPV6: Deviation = Deviation {
    name: "no-ipv6-where-there-is-none",
    because: "a proxy that says that it has no IPv6 gets no listeners at `::`, which it could not bind",
};

const PRINCIPALS: Deviation = Deviation {
    name: "permissions-by-principals",
    because: "`rules` of MeshTrafficPermission are principals: Envoy's matchers see all URIs of a certificate joined, so \
              that no certificate of a mesh has exactly one (ADR 003)",
};

const MOST_SPECIFIC: Deviation = Deviation {
    name: "the-most-specific-permission-decides",
    because: "design 2: in `from`, a Deny beside a broad Allow denies; what is recorded lets in whom any rule lets in",
};

const ALL: &[&Deviation] =
    &[&UNKNOWN_FIELDS, &OLD_NAMES, &SECTIONS, &EQUAL_IS_SILENT, &NO_LABELS, &NO_IPV6, &PRINCIPALS, &MOST_SPECIFIC];

pub(crate) fn list() {
    for Deviation { name, because } in ALL {
        println!("{name}: {because}");
    }
}

/// [`UNKNOWN_FIELDS`]: the expected answer of a write gains the warnings about unknown fields.
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
