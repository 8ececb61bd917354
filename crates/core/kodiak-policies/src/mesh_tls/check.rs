//! Validation of MeshTLS.

use kodiak_model::{FieldPath, Problems, TargetKind, TargetRef, TargetRules, quoted};

use super::{Conf, MeshTLS, TlsCipher};
use crate::from_to;

const TOP: &[TargetKind] = &[TargetKind::Mesh, TargetKind::MeshSubset, TargetKind::Dataplane];

/// Proxies that the policy selects.
#[derive(Clone, Copy, PartialEq)]
enum Selected {
    WholeMesh,
    Some,
}

pub(super) fn check(spec: &MeshTLS, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshTLS { target_ref, from, rules } = spec;
    let (has_from, has_rules) = (from_to::is_used(from.as_ref()), from_to::is_used(rules.as_ref()));
    if let Some(target) = target_ref {
        let rules = TargetRules { kinds: TOP, gateway_tags: false, inbounds: has_from || has_rules };
        target.check(rules, &at.field("targetRef"), problems);
    }
    problems.require(!has_from || !has_rules, &at, "field 'from' must be empty when 'rules' is defined");
    let selected = match target_ref.as_ref().map(TargetRef::known_kind) {
        None | Some(Some(TargetKind::Mesh)) => Selected::WholeMesh,
        Some(_) => Selected::Some,
    };
    let at_rules = at.field("rules");
    for (n, rule) in rules.iter().flatten().enumerate() {
        check_conf(&rule.default, selected, &at_rules.index(n).field("default"), problems);
    }
    let from_mesh = TargetRules::kinds(&[TargetKind::Mesh]);
    from_to::check_items(from.as_ref(), from_mesh, &at.field("from"), problems, |item, at, problems| {
        check_conf(&item.default, selected, at, problems);
    });
}

/// Versions and ciphers must match on both sides of a connection, so only a policy for the whole mesh can set them.
fn check_conf(conf: &Conf, selected: Selected, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { tls_version, tls_ciphers, mode } = conf;
    if let Some(mode) = mode {
        mode.check(at, "mode", problems);
    }
    let ciphers = tls_ciphers.as_deref().unwrap_or_default();
    let at_ciphers = at.field("tlsCiphers");
    if !ciphers.is_empty() && selected == Selected::Some {
        problems.add(&at_ciphers, "tlsCiphers can only be defined with top level targetRef kind: Mesh");
    } else if ciphers.iter().any(|cipher| cipher.known().is_none()) {
        problems.add(&at_ciphers, format!("\"tlsCiphers\" must be one of [{}]", quoted::<TlsCipher>()));
    }
    let Some(versions) = tls_version else { return };
    let at_version = at.field("tlsVersion");
    match selected {
        Selected::Some => {
            problems.add(&at_version, "tlsVersion can only be defined with top level targetRef kind: Mesh");
        }
        Selected::WholeMesh => versions.check(&at_version, problems),
    }
}
