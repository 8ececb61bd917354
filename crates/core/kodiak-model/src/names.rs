//! Names of resources and meshes.

use crate::{FieldPath, Kind, Problems, Scope, dns};

const NAME_MAX: usize = 253;
/// The mesh name of a resource is also a label value, which has at most 63 characters.
const MESH_MAX: usize = 63;
/// Service names are DNS labels, which have at most 63 characters.
pub const SERVICE_MAX: usize = 63;
const NAME_CHARACTERS: &str = "invalid characters. A lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const MESH_CHARACTERS: &str =
    "invalid characters. Valid characters are numbers, lowercase latin letters and '-', '_', '.' symbols.";

/// Validates the name, and the mesh of mesh-scoped kinds.
pub fn check(kind: &Kind, mesh: &str, name: &str, problems: &mut Problems) {
    check_name(name, problems);
    if kind.scope == Scope::Mesh {
        check_mesh(mesh, problems);
    }
}

fn check_name(name: &str, problems: &mut Problems) {
    if let Some(fault) = fault(name) {
        problems.add(&FieldPath::NAME, fault);
    }
}

/// The first violation of the rules for resource names.
pub fn fault(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("cannot be empty".to_owned())
    } else if name.len() > NAME_MAX {
        Some(format!("value length must less or equal {NAME_MAX}"))
    } else if !dns::is_dns_1123_subdomain(name) {
        Some(NAME_CHARACTERS.to_owned())
    } else {
        None
    }
}

fn check_mesh(mesh: &str, problems: &mut Problems) {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    if mesh.is_empty() {
        problems.add(&FieldPath::MESH, "cannot be empty");
    } else if mesh.len() > MESH_MAX {
        problems.add(&FieldPath::MESH, format!("cannot be longer than {MESH_MAX} characters"));
    } else if !mesh.bytes().all(allowed) {
        problems.add(&FieldPath::MESH, MESH_CHARACTERS);
    }
}

/// For kinds with a lower length limit.
pub fn check_length(shown: &str, max: usize, problems: &mut Problems) {
    if shown.len() > max {
        problems.add(&FieldPath::NAME, format!("must not be longer than {max} characters"));
    }
}
