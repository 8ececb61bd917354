//! Evaluation of the template of a HostnameGenerator for a service.

use std::collections::BTreeMap;

use kodiak_model::{
    LabelSelector, dns,
    go_template::{Template, label_of, quote},
    kinds::{
        dataplane::BackendKind,
        hostname_generator::{FUNCTIONS, Selector},
    },
};
use kodiak_rules::Meta;

/// Labels by which a generator selects services of a kind. `None` when it does not apply to that kind.
pub fn selector_of(selector: &Selector, kind: BackendKind) -> Option<&LabelSelector> {
    let Selector { mesh_service, mesh_external_service, mesh_multi_zone_service } = selector;
    let of_kind = match kind {
        BackendKind::MeshService => mesh_service,
        BackendKind::MeshExternalService => mesh_external_service,
        BackendKind::MeshMultiZoneService => mesh_multi_zone_service,
    };
    of_kind.as_ref()
}

pub fn parse(template: &str) -> Result<Template, String> {
    Template::parse(template, &FUNCTIONS).map_err(|error| format!("couldn't parse template: {error}"))
}

/// Text of the template, valid hostname or not. A service without a zone is of this zone.
pub fn render(template: &Template, service: &Meta<'_>, zone: &str) -> Result<String, String> {
    let fields = BTreeMap::from([
        ("Name", service.name.to_owned()),
        ("DisplayName", service.display_name().to_owned()),
        ("Namespace", service.namespace().unwrap_or_default().to_owned()),
        ("Mesh", service.mesh.to_owned()),
        ("Zone", service.zone().unwrap_or(zone).to_owned()),
    ]);
    template.render(&fields, &label_of(service.labels)).map_err(|error| format!("couldn't render template: {error}"))
}

pub(super) fn hostname(template: &Template, service: &Meta<'_>, zone: &str) -> Result<String, String> {
    let hostname = render(template, service, zone)?;
    let faults = dns::dns_1123_subdomain(&hostname);
    if faults.is_empty() {
        return Ok(hostname);
    }
    let (written, faults) = (quote(&hostname), faults.join("; "));
    Err(format!("template renders to {written} which is not a valid DNS name: {faults}"))
}
