//! The table of kinds is complete and consistent.

use std::collections::BTreeSet;

use kodiak_kinds::{Kind, kinds};
use kodiak_model::{Kri, Place, Scope};
use proptest::prelude::*;

#[test]
fn names_paths_and_short_names_are_unique() {
    let mut seen = BTreeSet::new();
    for kind in kinds().iter() {
        let names = [Some(kind.name), Some(kind.path), kind.other_path, kind.short];
        for name in names.into_iter().flatten() {
            assert!(seen.insert(name), "{name} is used twice");
        }
        assert_eq!(kinds().by_name(kind.name).map(|kind| kind.name), Some(kind.name));
        assert_eq!(kinds().by_path(kind.path).map(|kind| kind.name), Some(kind.name));
        assert_eq!(kinds().by_arg(&kind.name.to_lowercase()).map(|kind| kind.name), Some(kind.name));
    }
}

#[test]
fn every_schema_describes_an_object() {
    for kind in kinds().iter() {
        let node = kind.spec_node();
        assert!(matches!(node, kodiak_model::schema::Node::Object(_)), "{}: {node:?}", kind.name);
    }
}

#[test]
fn overviews_point_at_kinds() {
    for kind in kinds().iter() {
        if let Some(overview) = kind.overview {
            let insight = kinds().by_name(overview.insight);
            assert!(insight.is_some_and(Kind::read_only), "{} has no insight", kind.name);
        }
    }
}

proptest! {
    #[test]
    fn kri_round_trips(mesh in "[a-z0-9-]{0,8}", zone in "[a-z0-9-]{0,8}", name in "[a-z0-9.-]{1,8}", section in "[a-z0-9-]{0,8}") {
        for kind in kinds().iter().filter(|kind| kind.short.is_some()) {
            let mesh = if kind.scope == Scope::Mesh { mesh.clone() } else { String::new() };
            let labels = [(kodiak_model::labels::ZONE.to_owned(), zone.clone())].into();
            let mut kri = Kri::of(kind, &mesh, &name, &labels).unwrap();
            kri.section.clone_from(&section);
            prop_assert_eq!(Kri::parse(kinds(), &kri.to_string()), Ok(kri));
        }
    }

    #[test]
    fn any_text_parses_or_is_rejected(text in ".*") {
        let _ = Kri::parse(kinds(), &text);
        if let Ok(documents) = kodiak_model::yaml::parse(&text) {
            for document in documents {
                if let Ok(draft) = kodiak_kinds::draft(document.value)
                    && let Some(kind) = kinds().by_name(&draft.kind)
                {
                    let _ = kodiak_model::check(kind, draft, &Place::Global);
                }
            }
        }
    }
}

#[test]
fn policies_affect_proxies_or_say_that_they_do_not() {
    for kind in kinds().iter().filter(|kind| kind.is_policy()) {
        assert_eq!(kind.without_effect.is_none(), kodiak_kinds::in_force().contains(&kind.name), "{}", kind.name);
    }
}
