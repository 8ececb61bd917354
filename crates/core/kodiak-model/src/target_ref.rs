//! `targetRef`: the proxies, services or routes that a policy selects.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, FieldPath, Problems, tags, words};

words! {
    pub enum TargetKind {
        Mesh = "Mesh",
        MeshSubset = "MeshSubset",
        MeshGateway = "MeshGateway",
        MeshService = "MeshService",
        MeshExternalService = "MeshExternalService",
        MeshMultiZoneService = "MeshMultiZoneService",
        MeshServiceSubset = "MeshServiceSubset",
        MeshHTTPRoute = "MeshHTTPRoute",
        Dataplane = "Dataplane",
    }
}

words! {
    pub enum ProxyType {
        Sidecar = "Sidecar",
        Gateway = "Gateway",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["kind"]))]
pub struct TargetRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Choice<TargetKind>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_types: Option<Vec<Choice<ProxyType>>>,
}

/// Kinds and fields that a policy allows in one of its `targetRef`s.
#[derive(Debug, Clone, Copy)]
pub struct TargetRules<'a> {
    pub kinds: &'a [TargetKind],
    /// Tags may narrow a MeshGateway to listeners.
    pub gateway_tags: bool,
    /// `sectionName` may narrow a Dataplane to an inbound.
    pub inbounds: bool,
}

impl<'a> TargetRules<'a> {
    pub const fn kinds(kinds: &'a [TargetKind]) -> Self {
        Self { kinds, gateway_tags: false, inbounds: false }
    }
}

impl TargetRef {
    /// Whether it may reference a `kuma.io/service` beside the MeshService: by name, with or without a namespace. Only a
    /// section or labels make it a reference to the resource alone.
    pub fn may_be_service_tag(&self) -> bool {
        self.known_kind() == Some(TargetKind::MeshService)
            && self.labels.as_ref().is_none_or(BTreeMap::is_empty)
            && !self.has_section()
    }

    pub fn has_section(&self) -> bool {
        self.section_name.as_deref().is_some_and(|section| !section.is_empty())
    }

    pub fn known_kind(&self) -> Option<TargetKind> {
        self.kind.as_ref().and_then(Choice::known)
    }

    /// Whether a top-level `targetRef` selects gateways too.
    pub fn includes_gateways(&self) -> bool {
        match self.known_kind() {
            Some(TargetKind::MeshGateway | TargetKind::MeshHTTPRoute) => true,
            Some(TargetKind::Mesh | TargetKind::MeshSubset) => {
                self.proxy_types.as_ref().is_none_or(|types| types.iter().any(|t| t.is(ProxyType::Gateway)))
            }
            _ => false,
        }
    }

    pub fn check(&self, rules: TargetRules<'_>, at: &FieldPath<'_>, problems: &mut Problems) {
        self.check_or(rules, None, at, problems);
    }

    /// Like [`check`](Self::check), with another text for an unsupported kind.
    pub fn check_or(
        &self,
        rules: TargetRules<'_>,
        unsupported: Option<&str>,
        at: &FieldPath<'_>,
        problems: &mut Problems,
    ) {
        let at_kind = at.field("kind");
        let Some(written) = self.kind.as_ref().filter(|kind| !kind.as_str().is_empty()) else {
            problems.add(&at_kind, "must be defined");
            return;
        };
        let kind = match written.known() {
            Some(kind) if rules.kinds.contains(&kind) => kind,
            _ => {
                let message = unsupported.map_or_else(|| format!("value '{written}' is not supported"), str::to_owned);
                problems.add(&at_kind, message);
                return;
            }
        };
        self.check_fields(kind, rules, at, problems);
    }

    fn check_fields(&self, kind: TargetKind, rules: TargetRules<'_>, at: &FieldPath<'_>, problems: &mut Problems) {
        use Field::{Labels, Mesh, Name, Namespace, ProxyTypes, SectionName, Tags};
        let mut see = Checks { target: self, kind, at, problems };
        match kind {
            TargetKind::Mesh => {
                if self.name.is_some() {
                    see.problems.add(&at.field("name"), "using name with kind Mesh is not yet supported");
                }
                see.forbid(&[Mesh, Tags, Labels, Namespace, SectionName]);
                see.proxy_types();
            }
            TargetKind::MeshSubset => {
                see.forbid(&[Name, Mesh, Labels, Namespace, SectionName]);
                see.proxy_types();
                if let Some(tags) = &self.tags {
                    tags::check_values(tags, &at.field("tags"), see.problems);
                }
            }
            TargetKind::Dataplane => {
                see.forbid(&[Tags, Mesh, ProxyTypes]);
                see.labels_or_name("either labels or name and namespace must be specified");
                if self.section_name.is_some() && !rules.inbounds {
                    see.problems.add(&at.field("sectionName"), "can only be used with inbound policies");
                }
            }
            TargetKind::MeshService => {
                see.forbid(&[Mesh, Tags, ProxyTypes]);
                see.name_or_labels();
                see.labels_or_name("either labels or name and namespace must be specified");
            }
            TargetKind::MeshHTTPRoute => {
                see.forbid(&[Mesh, Tags, ProxyTypes, SectionName]);
                see.name_or_labels();
                see.labels_or_name("either labels or name and namespace must be specified");
            }
            TargetKind::MeshExternalService => {
                see.forbid(&[Mesh, Tags, ProxyTypes, SectionName]);
                see.name_or_labels();
                see.labels_or_name("either labels or name must be specified");
            }
            TargetKind::MeshServiceSubset => {
                see.require_name();
                see.forbid(&[Mesh, ProxyTypes, Labels, Namespace, SectionName]);
                if let Some(tags) = &self.tags {
                    tags::check_selector(tags, &at.field("tags"), see.problems);
                }
            }
            TargetKind::MeshGateway => {
                see.require_name();
                see.forbid(&[Mesh, ProxyTypes, Labels, Namespace, SectionName]);
                if !rules.gateway_tags {
                    see.forbid(&[Tags]);
                } else if let Some(tags) = &self.tags {
                    tags::check_selector(tags, &at.field("tags"), see.problems);
                }
            }
            TargetKind::MeshMultiZoneService => (),
        }
    }
}

#[derive(Clone, Copy)]
enum Field {
    Name,
    Namespace,
    Mesh,
    Tags,
    Labels,
    SectionName,
    ProxyTypes,
}

struct Checks<'a> {
    target: &'a TargetRef,
    kind: TargetKind,
    at: &'a FieldPath<'a>,
    problems: &'a mut Problems,
}

impl Checks<'_> {
    fn kind_text(&self) -> &'static str {
        crate::Word::text(self.kind)
    }

    fn forbid(&mut self, fields: &[Field]) {
        let target = self.target;
        for field in fields {
            let (name, set) = match field {
                Field::Name => ("name", target.name.is_some()),
                Field::Namespace => ("namespace", target.namespace.is_some()),
                Field::Mesh => ("mesh", target.mesh.is_some()),
                Field::Tags => ("tags", target.tags.is_some()),
                Field::Labels => ("labels", target.labels.is_some()),
                Field::SectionName => ("sectionName", target.section_name.is_some()),
                Field::ProxyTypes => ("proxyTypes", target.proxy_types.is_some()),
            };
            if set {
                self.problems.add(&self.at.field(name), format!("must not be set with kind {}", self.kind_text()));
            }
        }
    }

    fn proxy_types(&mut self) {
        if self.target.proxy_types.as_ref().is_some_and(Vec::is_empty) {
            self.problems.add(&self.at.field("proxyTypes"), "must be undefined or have at least one element");
        }
    }

    fn require_name(&mut self) {
        match self.target.name.as_deref() {
            None | Some("") => {
                self.problems.add(&self.at.field("name"), format!("must be set when kind is {}", self.kind_text()));
            }
            Some(_) => self.name_characters(),
        }
    }

    fn name_or_labels(&mut self) {
        let unnamed = self.target.name.as_deref().unwrap_or_default().is_empty();
        if unnamed && self.target.labels.as_ref().is_none_or(BTreeMap::is_empty) {
            self.problems.add(self.at, format!("name or labels must be set when kind is {}", self.kind_text()));
        }
        self.name_characters();
    }

    fn labels_or_name(&mut self, message: &str) {
        let named = self.target.name.is_some() || self.target.namespace.is_some();
        if named && self.target.labels.as_ref().is_some_and(|labels| !labels.is_empty()) {
            self.problems.add(&self.at.field("labels"), message);
        }
    }

    fn name_characters(&mut self) {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-_".contains(&b);
        let name = self.target.name.as_deref().unwrap_or_default();
        if !name.bytes().all(allowed) && name != UNRESOLVED_BACKEND {
            self.problems.add(
                &self.at.field("name"),
                "invalid characters: must consist of lower case alphanumeric characters, '-', '.' and '_'.",
            );
        }
    }
}

/// Placeholder that converters write for a backend that they could not find.
pub const UNRESOLVED_BACKEND: &str = "kuma.io/unresolved-backend";

/// Warnings about the top-level `targetRef` of a policy.
pub fn deprecations(target: Option<&TargetRef>) -> Vec<String> {
    match target.and_then(TargetRef::known_kind) {
        Some(kind @ (TargetKind::MeshService | TargetKind::MeshServiceSubset | TargetKind::MeshSubset)) => {
            let kind = crate::Word::text(kind);
            vec![format!("{kind} value for 'targetRef.kind' is deprecated, use Dataplane with labels instead")]
        }
        Some(TargetKind::MeshHTTPRoute) => vec![
            "MeshHTTPRoute value for 'targetRef.kind' is deprecated, use MeshHTTPRoute in spec.to[].targetRef"
                .to_owned(),
        ],
        _ => Vec::new(),
    }
}
