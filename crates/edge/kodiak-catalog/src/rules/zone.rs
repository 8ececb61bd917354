//! Zone: not deleted while its control plane is connected.

use kodiak_model::{FieldPath, Problems, ResourceKey, kinds::zone_insight::ZoneInsight};
use kodiak_store::{Snapshot, Write};

use crate::{Refusal, Stage};

pub(super) fn before_delete(snapshot: &Snapshot, name: &str) -> Result<Vec<Write>, Refusal> {
    let key = ResourceKey::global("ZoneInsight", name);
    let insight = snapshot.world().get(&key).and_then(|insight| insight.spec::<ZoneInsight>());
    if !insight.is_some_and(|insight| insight.is_online()) {
        return Ok(vec![super::require(snapshot, key)]);
    }
    let mut problems = Problems::default();
    let message = "unable to delete Zone, Zone CP is still connected, please shut it down first";
    problems.add(&FieldPath::ROOT.field("zone"), message);
    Err(Refusal::invalid(Stage::Delete, problems))
}
