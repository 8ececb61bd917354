//! References by `kuma.io/service`, and the names in them.

use kodiak_model::{BackendRef, Labels, TargetKind, TargetRef};

/// Legacy reference, by tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldRef<'a> {
    /// A value of `kuma.io/service`.
    Service(&'a str),
    /// Those of a service that have more tags.
    ServiceSubset(&'a str),
    /// Proxies with these tags.
    Subset,
}

impl<'a> OldRef<'a> {
    /// With labels or a section only an object can be meant.
    pub(super) fn of(target: &'a TargetRef) -> Option<Self> {
        let name = given(target.name.as_ref());
        match target.known_kind()? {
            TargetKind::MeshService => name.filter(|_| target.may_be_service_tag()).map(Self::Service),
            TargetKind::MeshServiceSubset => name.map(Self::ServiceSubset),
            TargetKind::MeshSubset => Some(Self::Subset),
            TargetKind::Mesh
            | TargetKind::MeshGateway
            | TargetKind::MeshExternalService
            | TargetKind::MeshMultiZoneService
            | TargetKind::MeshHTTPRoute
            | TargetKind::Dataplane => None,
        }
    }

    /// Empty where no service is named.
    pub(super) fn service(self) -> &'a str {
        match self {
            Self::Service(service) | Self::ServiceSubset(service) => service,
            Self::Subset => "",
        }
    }

    /// A backend is also an object if its port is named.
    pub(super) fn is_backend(backend: &BackendRef) -> bool {
        backend.is_legacy() && OldRef::of(&backend.target_ref()).is_some()
    }
}

/// `MeshService demo-app_kuma-demo_svc_5000`
pub(super) fn show(target: &TargetRef) -> String {
    let kind = target.kind.as_ref().map(ToString::to_string).unwrap_or_default();
    let pairs =
        |pairs: &Labels| pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    let tags = target.tags.as_ref().map(|tags| format!("{{{}}}", pairs(tags)));
    let labels = target.labels.as_ref().map(|labels| format!("{{{}}}", pairs(labels)));
    let section = given(target.section_name.as_ref()).map(|section| format!("port {section}"));
    let parts = [Some(kind), given(target.name.as_ref()).map(str::to_owned), tags, labels, section];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn given(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(target: &Value, expected: Option<OldRef<'_>>) {
        let read: TargetRef = serde_json::from_value(target.clone()).unwrap();
        assert_eq!(OldRef::of(&read), expected, "{target}");
    }

    #[test]
    fn only_references_by_tags_are_legacy() {
        check(&json!({ "kind": "MeshService", "name": "web" }), Some(OldRef::Service("web")));
        check(&json!({ "kind": "MeshService", "name": "web", "sectionName": "" }), Some(OldRef::Service("web")));
        check(&json!({ "kind": "MeshService", "name": "web", "namespace": "shop" }), Some(OldRef::Service("web")));
        check(&json!({ "kind": "MeshServiceSubset", "name": "web" }), Some(OldRef::ServiceSubset("web")));
        check(&json!({ "kind": "MeshSubset", "tags": { "a": "b" } }), Some(OldRef::Subset));
        for object in [
            json!({ "kind": "MeshService", "name": "web", "sectionName": "80" }),
            json!({ "kind": "MeshService", "labels": { "a": "b" } }),
            json!({ "kind": "MeshMultiZoneService", "name": "web" }),
            json!({ "kind": "Mesh" }),
            json!({ "kind": "Nonsense", "name": "web" }),
        ] {
            check(&object, None);
        }
    }

    #[test]
    fn backend_with_a_port_is_an_object() {
        let old = |backend: Value| OldRef::is_backend(&serde_json::from_value(backend).unwrap());
        assert!(old(json!({ "kind": "MeshService", "name": "web" })));
        assert!(old(json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "v": "1" } })));
        assert!(!old(json!({ "kind": "MeshService", "name": "web", "port": 80 })));
        assert!(!old(json!({ "kind": "MeshExternalService", "name": "bank" })));
    }

    #[test]
    fn references_are_shown_in_one_line() {
        let shown = |target: Value| show(&serde_json::from_value(target).unwrap());
        let labels = json!({ "kind": "MeshService", "labels": { "a": "b", "c": "d" }, "sectionName": "80" });
        assert_eq!(shown(labels), "MeshService {a=b,c=d} port 80");
        assert_eq!(
            shown(json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "v": "1" } })),
            "MeshServiceSubset web {v=1}"
        );
    }
}
