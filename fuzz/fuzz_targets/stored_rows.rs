//! Stored rows, decoded by the control plane: the first byte selects the kind; spec, status and labels are a line each.
//! Invalid rows of any version must not affect others.
#![no_main]

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_catalog::{admission_of, destination_of, secret_data};
use kodiak_kinds::kinds;
use kodiak_model::{ResourceKey, kinds::dataplane::Dataplane, policy::Body, re2};
use kodiak_store::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let Some(kind) = kinds().iter().nth(usize::from(*first) % kinds().iter().count()) else { return };
    let mut lines = text.splitn(3, '\n');
    let record = Record {
        key: ResourceKey::in_mesh(kind.name, "default", "a"),
        spec: lines.next().unwrap_or_default().into(),
        status: lines.next().map(Arc::from),
        labels: Arc::new(serde_json::from_str(lines.next().unwrap_or_default()).unwrap_or_default()),
        owner: None,
        version: 1,
        status_version: 0,
        revision: 1,
        created: Timestamp::UNIX_EPOCH,
        modified: Timestamp::UNIX_EPOCH,
    };
    let _ = destination_of(&record);
    let _ = secret_data(&record);
    let _ = kodiak_catalog::spec_of::<Dataplane>(&record);
    if let Some(admission) = admission_of(&record) {
        let again = serde_json::to_string(&admission).expect("a status is JSON");
        assert_eq!(serde_json::from_str(&again).ok(), Some(admission));
    }
    if let (Some(language), Ok(spec)) = (kind.policy.as_ref(), serde_json::from_str(&record.spec)) {
        let _ = Body::read(language, &spec);
        let _ = re2::invalid_in(&spec);
    }
});
