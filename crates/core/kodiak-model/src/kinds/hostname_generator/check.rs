//! Validation of a HostnameGenerator.

use std::collections::BTreeMap;

use super::{FIELDS, FUNCTIONS, HostnameGenerator, Selector};
use crate::{
    FieldPath, Problems, dns,
    go_template::{Template, quote},
};

pub(super) fn check(spec: &HostnameGenerator, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let HostnameGenerator { selector, template, extension } = spec;
    let one = "exact one selector (meshService, meshExternalService) must be defined";
    problems.require(kinds_of(selector) == 1, &at.field("selector"), one);
    if let Err(message) = check_rendering(template) {
        problems.add(&at.field("template"), message);
    }
    if let Some(extension) = extension {
        extension.check(&at.field("extension"), problems);
    }
}

fn kinds_of(selector: &Selector) -> usize {
    let Selector { mesh_service, mesh_external_service, mesh_multi_zone_service } = selector;
    [mesh_service, mesh_external_service, mesh_multi_zone_service].into_iter().flatten().count()
}

/// Renders the template for a destination that has every field and every label.
fn check_rendering(template: &str) -> Result<(), String> {
    if template.is_empty() {
        return Err("must not be empty".to_owned());
    }
    let template =
        Template::parse(template, &FUNCTIONS).map_err(|error| format!("couldn't parse template: {error}"))?;
    let fields: BTreeMap<_, _> = FIELDS.into_iter().map(|name| (name, name.to_ascii_lowercase())).collect();
    let hostname = template
        .render(&fields, &|function, _| Ok(function.to_owned()))
        .map_err(|error| format!("couldn't render template with stub values: {error}"))?;
    let faults = dns::dns_1123_subdomain(&hostname);
    if faults.is_empty() {
        return Ok(());
    }
    let (hostname, faults) = (quote(&hostname), faults.join("; "));
    Err(format!("template renders to {hostname} which is not a valid DNS name: {faults}"))
}
