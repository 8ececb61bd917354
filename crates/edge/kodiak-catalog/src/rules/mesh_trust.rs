//! MeshTrust: its bundles are certificates of CAs. Envoy rejects the trusted CAs of all domains because of one that is not.

use kodiak_crypto::check_trusted;
use kodiak_model::{Checked, FieldPath, Problems, kinds::mesh_trust::MeshTrust};
use kodiak_store::Record;

use crate::{Refusal, Stage};

pub(super) fn before_put(checked: &Checked, old: Option<&Record>) -> Result<(), Refusal> {
    let trust = checked.typed::<MeshTrust>().expect("a MeshTrust was checked");
    let mut problems = Problems::default();
    let spec = FieldPath::ROOT.field("spec");
    let at = spec.field("caBundles");
    for (n, bundle) in trust.ca_bundles.iter().enumerate() {
        let at = at.index(n);
        let at = at.field("pem");
        for problem in bundle.pem.iter().flat_map(|pem| check_trusted(pem.value.as_bytes())) {
            let which = problem.index.map(|index| format!("certificate {index}: ")).unwrap_or_default();
            problems.add(&at.field("value"), format!("{which}{problem}"));
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Refusal::invalid(if old.is_none() { Stage::Create } else { Stage::Update }, problems))
}
