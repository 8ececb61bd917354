//! Validation of a ServiceInsight.

use super::ServiceInsight;
use crate::{FieldPath, Problems};

pub(super) fn check(spec: &ServiceInsight, problems: &mut Problems) {
    let at = FieldPath::ROOT.field("services");
    for (name, service) in &spec.services {
        let at = at.key(name);
        if let Some(status) = &service.status {
            status.check(&at, "status", problems);
        }
        if let Some(service_type) = &service.service_type {
            service_type.check(&at, "serviceType", problems);
        }
    }
}
