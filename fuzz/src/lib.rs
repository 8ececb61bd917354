//! Checks that several fuzz targets share.

use kodiak_kinds::kinds;
use kodiak_model::{Checked, Draft, Place, check};
use serde_json::Value;

/// Validates a document; its canonical form must be accepted and stay unchanged.
pub fn check_twice(document: Value) {
    let Ok(draft) = kodiak_kinds::draft(document) else { return };
    let Some(kind) = kinds().by_name(&draft.kind) else { return };
    let place = Place::Zone { name: "zone-1".to_owned() };
    let Ok(first) = check(kind, draft.clone(), &place) else { return };
    let spec = first.spec().to_owned();
    let Checked { mesh, name, labels, ports, .. } = first;

    let canonical: Value = serde_json::from_str(&spec).expect("the canonical spec is JSON");
    let again = Draft { mesh: draft.mesh, spec: Some(canonical), labels: labels.clone(), ..draft };
    let second = check(kind, again, &place).unwrap_or_else(|problems| {
        panic!("the canonical form of an accepted {} is refused: {problems}\n{spec}", kind.name)
    });

    assert_eq!(spec, second.spec(), "the canonical form of a {} is not stable", kind.name);
    assert_eq!((mesh, name), (second.mesh, second.name));
    assert_eq!(labels, second.labels, "the labels of a {} are not stable", kind.name);
    assert_eq!(ports, second.ports, "the ports of a {} are not stable", kind.name);
}
