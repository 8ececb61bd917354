//! SNI of a destination for cross-zone traffic: `sni.<kind>.<mesh>[.<zone>[.<namespace>]].<name>.<section>`.

use crate::{Kri, dns, language::PortSection};

/// SNI of one port. The error says why the name is not valid in DNS; callers show it as a warning.
pub fn of(kri: &Kri, section: &str) -> Result<String, String> {
    let named = [("mesh", &kri.mesh), ("zone", &kri.zone), ("namespace", &kri.namespace), ("name", &kri.name)];
    for (what, value) in named {
        if value.is_empty() {
            continue;
        }
        let fault = if value.contains('.') {
            Some("must not contain dots".to_owned())
        } else {
            let faults = dns::dns_1123_label(value);
            (!faults.is_empty()).then(|| faults.join("; "))
        };
        if let Some(fault) = fault {
            return Err(format!("{what} {value:?} does not conform to RFC 1123: {fault}"));
        }
    }
    let mut parts = vec!["sni", kri.short, &kri.mesh];
    if !kri.zone.is_empty() {
        parts.push(&kri.zone);
        if !kri.namespace.is_empty() {
            parts.push(&kri.namespace);
        }
    }
    parts.extend([kri.name.as_str(), section]);
    Ok(parts.join("."))
}

/// SNIs by port. Ports without a valid SNI are omitted.
pub fn all(kri: &Kri, ports: &[PortSection]) -> Vec<(u32, String)> {
    let mut snis: Vec<_> = ports.iter().filter_map(|port| Some((port.port, of(kri, &port.section).ok()?))).collect();
    snis.sort();
    snis
}
