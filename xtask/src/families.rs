//! Locations of the folders of kinds. They all have the same files; tidy checks them, and `new-policy` and `new-kind`
//! write them.

/// Sibling folders, and the file that registers them.
pub(crate) struct Family {
    pub(crate) folder: &'static str,
    pub(crate) list: &'static str,
    pub(crate) listing: Listing,
}

/// How the file registers a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listing {
    /// By a `pub mod` line, and an item of `ALL`.
    Items,
    /// By a line of `register!`, which expands to both. Tools that do not expand macros do not find the folder.
    Register,
}

pub(crate) const POLICIES: Family = Family {
    folder: "crates/core/kodiak-policies/src",
    list: "crates/core/kodiak-policies/src/lib.rs",
    listing: Listing::Register,
};

/// The kinds that are not policies.
pub(crate) const KINDS: Family = Family {
    folder: "crates/core/kodiak-model/src/kinds",
    list: "crates/core/kodiak-model/src/kinds/mod.rs",
    listing: Listing::Items,
};

pub(crate) const ALL: [&Family; 2] = [&POLICIES, &KINDS];

/// Start of the lines of `register!`; they end with `];`.
pub(crate) const REGISTER: &str = "\nregister![";

/// The modules that a file registers. Empty for a file without `register!`.
pub(crate) fn registered(text: &str) -> Vec<&str> {
    let list = text.split_once(REGISTER).and_then(|(_, rest)| rest.split_once("];"));
    let names = list.into_iter().flat_map(|(list, _)| list.split(','));
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_read_from_one_line_and_from_several() {
        let file = "macro_rules! register {\n}\n\nregister![\n    mesh_a,\n    mesh_b,\n];\nmod c;\n";
        assert_eq!(registered(file), ["mesh_a", "mesh_b"]);
        assert_eq!(registered("\nregister![mesh_a, mesh_b];\n"), ["mesh_a", "mesh_b"]);
        assert_eq!(registered("pub mod a;\n"), [""; 0]);
    }

    #[test]
    fn the_policies_are_registered() {
        let text = include_str!("../../crates/core/kodiak-policies/src/lib.rs");
        assert!(registered(text).contains(&"mesh_traffic_permission"));
    }
}
