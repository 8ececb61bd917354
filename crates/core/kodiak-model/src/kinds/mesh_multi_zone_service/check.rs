//! Validation of a MeshMultiZoneService.

use super::{MeshMultiZoneService, Port, Selector};
use crate::{FieldPath, Problems};

const PROTOCOLS: [&str; 5] = ["grpc", "http", "http2", "kafka", "tcp"];

pub(super) fn check(spec: &MeshMultiZoneService, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshMultiZoneService { selector: Selector { mesh_service }, ports } = spec;
    if mesh_service.specificity() == 0 {
        let at = at.field("selector");
        problems.add(&at.field("meshService").field("matchLabels"), "cannot be empty");
    }
    let at = at.field("ports");
    problems.require(!ports.is_empty(), &at, "cannot be empty");
    for (n, port) in ports.iter().enumerate() {
        check_port(port, &at.index(n), problems);
    }
}

fn check_port(port: &Port, at: &FieldPath<'_>, problems: &mut Problems) {
    let Port { name, port: _, app_protocol } = port;
    let named = name.as_ref().is_none_or(|name| !name.is_empty());
    problems.require(named, &at.field("name"), "must not be empty");
    if !PROTOCOLS.contains(&app_protocol.as_str()) {
        let message = format!("appProtocol must be one of: {}", PROTOCOLS.join(", "));
        problems.add(&at.field("appProtocol"), message);
    }
}
