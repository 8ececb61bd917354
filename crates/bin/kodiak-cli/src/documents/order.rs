//! The order in which resources are applied, so that a whole folder can be applied at once.

/// Each phase is finished before the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Everything else lives in one.
    Meshes,
    /// Certificate authorities and tokens are looked up when others are written.
    Secrets,
    Zones,
    Rest,
    /// Once another key signs users' tokens, ours may be worth nothing: these come last.
    UserSigningKeys,
}

impl Phase {
    pub(crate) fn of(kind: &str, name: &str) -> Self {
        match kind {
            "Mesh" => Self::Meshes,
            "GlobalSecret" if name.starts_with("user-token-signing-key") => Self::UserSigningKeys,
            "Secret" | "GlobalSecret" => Self::Secrets,
            "Zone" => Self::Zones,
            _ => Self::Rest,
        }
    }
}

/// The phases that there is something for, first to last; within each the order is kept.
pub(crate) fn phases<T>(items: Vec<T>, phase_of: impl Fn(&T) -> Phase) -> Vec<(Phase, Vec<T>)> {
    let mut phases: Vec<(Phase, Vec<T>)> = Vec::new();
    for item in items {
        let phase = phase_of(&item);
        match phases.binary_search_by_key(&phase, |(phase, _)| *phase) {
            Ok(found) => phases[found].1.push(item),
            Err(missing) => phases.insert(missing, (phase, vec![item])),
        }
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first() {
        let items = vec![
            ("MeshTimeout", "a"),
            ("Zone", "east"),
            ("GlobalSecret", "user-token-signing-key-2"),
            ("Mesh", "two"),
            ("Dataplane", "b"),
            ("Secret", "ca"),
            ("Mesh", "one"),
            ("GlobalSecret", "zone-token-signing-key-1"),
        ];
        let ordered = phases(items, |(kind, name)| Phase::of(kind, name));
        assert_eq!(
            ordered,
            [
                (Phase::Meshes, vec![("Mesh", "two"), ("Mesh", "one")]),
                (Phase::Secrets, vec![("Secret", "ca"), ("GlobalSecret", "zone-token-signing-key-1")]),
                (Phase::Zones, vec![("Zone", "east")]),
                (Phase::Rest, vec![("MeshTimeout", "a"), ("Dataplane", "b")]),
                (Phase::UserSigningKeys, vec![("GlobalSecret", "user-token-signing-key-2")]),
            ]
        );
    }
}
