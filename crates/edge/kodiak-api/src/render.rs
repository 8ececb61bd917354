//! Stored records as JSON. Specs are stored as the text that is served, so reads do not parse them.

use std::fmt::Write as _;

use kodiak_model::{Kind, Kri, Overview, Shape, sni};
use kodiak_store::Record;
use serde::Serialize;

/// Resource with its envelope, in the format of its kind.
pub fn resource(kind: &Kind, record: &Record) -> String {
    let mut out = String::with_capacity(record.spec.len() + 512);
    envelope(kind, kind.name, record, &mut out);
    match kind.shape {
        Shape::Legacy => beside(&record.spec, &mut out),
        Shape::Plugin => {
            snis(kind, record, &mut out);
            let _ = write!(out, ",\"spec\":{}", record.spec);
            match &record.status {
                Some(status) => {
                    let _ = write!(out, ",\"status\":{status}");
                }
                None => {
                    if let Some(empty) = (kind.language.empty_status)() {
                        let _ = write!(out, ",\"status\":{empty}");
                    }
                }
            }
        }
    }
    out.push('}');
    out
}

/// Resource with a computed status, for kinds that do not store one.
pub(crate) fn with_status(mut resource: String, status: &impl Serialize) -> String {
    resource.pop();
    let status = serde_json::to_string(status).expect("a status has text keys");
    let _ = write!(resource, ",\"status\":{status}}}");
    resource
}

/// Overview: a resource together with its insight.
pub fn overview(kind: &Kind, overview: &Overview, record: &Record, insight: Option<&Record>) -> String {
    let mut out = String::with_capacity(record.spec.len() + 512);
    envelope(kind, overview.name, record, &mut out);
    let _ = write!(out, ",\"{}\":{}", overview.field, record.spec);
    if let Some(insight) = insight {
        let _ = write!(out, ",\"{}\":{}", overview.insight_field, insight.spec);
    }
    out.push('}');
    out
}

/// List of items that are already JSON.
pub fn list(total: usize, items: &[String], next: Option<&str>) -> String {
    let mut out = format!("{{\"total\":{total},\"items\":[{}],\"next\":", items.join(","));
    match next {
        Some(next) => text(next, &mut out),
        None => out.push_str("null"),
    }
    out.push('}');
    out
}

/// Envelope before the spec, without the closing brace.
fn envelope(kind: &Kind, shown_kind: &str, record: &Record, out: &mut String) {
    let key = &record.key;
    out.push_str("{\"type\":");
    text(shown_kind, out);
    if !key.mesh.is_empty() {
        out.push_str(",\"mesh\":");
        text(&key.mesh, out);
    }
    out.push_str(",\"name\":");
    text(&key.name, out);
    let _ = write!(out, ",\"creationTime\":\"{}\",\"modificationTime\":\"{}\"", record.created, record.modified);
    if !record.labels.is_empty() {
        out.push_str(",\"labels\":");
        out.push_str(&serde_json::to_string(&*record.labels).expect("labels are strings"));
    }
    if let Some(kri) = kri_of(kind, record) {
        out.push_str(",\"kri\":");
        text(&kri.to_string(), out);
    }
}

fn snis(kind: &Kind, record: &Record, out: &mut String) {
    let Some(kri) = kri_of(kind, record).filter(|_| kind.language.destination) else { return };
    let snis = sni::all(&kri, &(kind.language.ports)(&record.spec));
    if snis.is_empty() {
        return;
    }
    out.push_str(",\"snis\":[");
    for (n, (port, sni)) in snis.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        let _ = write!(out, "{{\"port\":{port},\"sni\":");
        text(sni, out);
        out.push('}');
    }
    out.push(']');
}

fn kri_of(kind: &Kind, record: &Record) -> Option<Kri> {
    Kri::of(kind, &record.key.mesh, &record.key.name, &record.labels)
}

/// Appends the fields of an object to the open one.
fn beside(object: &str, out: &mut String) {
    let inside = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    if !inside.trim().is_empty() {
        out.push(',');
        out.push_str(inside);
    }
}

fn text(value: &str, out: &mut String) {
    out.push_str(&serde_json::to_string(value).expect("a string is JSON"));
}
