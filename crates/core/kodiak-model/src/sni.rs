//! The server name under which a destination is called across zones:
//! `sni.<kind>.<mesh>[.<zone>[.<namespace>]].<name>.<section>`.

use crate::{Kri, dns, language::PortSection};

/// The SNI of one port. A name that DNS would not take is an error text, to be shown as a warning.
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

/// The SNIs of all ports, by port. Ports whose SNI cannot be made are left out.
pub fn all(kri: &Kri, ports: &[PortSection]) -> Vec<(u32, String)> {
    let mut snis: Vec<_> = ports.iter().filter_map(|port| Some((port.port, of(kri, &port.section).ok()?))).collect();
    snis.sort();
    snis
}
