//! Stored rows, decoded by the control plane: the first byte selects the kind; spec, status and labels are a line each.
//! Invalid rows of any version must not affect others.
#![no_main]

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_kinds::kinds;
use kodiak_model::{ResourceKey, kinds::dataplane::Admission};
use kodiak_world::{Fallback, Stored, World};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let Some(kind) = kinds().iter().nth(usize::from(*first) % kinds().iter().count()) else { return };
    let mut lines = text.splitn(3, '\n');
    let spec: Arc<str> = lines.next().unwrap_or_default().into();
    let status: Option<Arc<str>> = lines.next().map(Arc::from);
    let labels = Arc::new(serde_json::from_str(lines.next().unwrap_or_default()).unwrap_or_default());
    let key = ResourceKey::in_mesh(kind.name, "default", "a");
    let mut world = World::default();
    let resource = world.put(Stored {
        key: &key,
        labels: &labels,
        created: Timestamp::UNIX_EPOCH,
        version: 1,
        status_version: 0,
        revision: 1,
        spec: &spec,
        status: status.as_ref(),
    });
    if let Some(unreadable) = resource.unreadable() {
        // A decoder that panics is caught in production, and is a defect all the same.
        assert_ne!(unreadable.error, "decoding it panicked");
        assert_eq!(unreadable.fallback == Fallback::DenyAll, kind.name == "MeshTrafficPermission");
    }
    let _ = world.secret(&key);
    if let Some(admission) = resource.proxy().and_then(|proxy| proxy.admission.clone()) {
        let again = serde_json::to_string(&admission).expect("a status is JSON");
        assert_eq!(serde_json::from_str::<Admission>(&again).ok().as_ref(), Some(&*admission));
    }
});
