//! Hostnames that HostnameGenerators give to a service, for inspection.

use std::sync::Arc;

use kodiak_model::{
    LabelSelector, Labels, Place,
    kinds::{dataplane::BackendKind, hostname_generator::HostnameGenerator},
    labels,
};
use kodiak_rules::{Meta, Origin};

use kodiak_services::hostnames::{parse, render, selector_of};

/// Hostnames of a service, in their order.
#[derive(Debug, PartialEq, Eq)]
pub struct Hostnames {
    pub hostnames: Vec<String>,
    /// Zone of the service.
    pub zone: String,
}

/// A HostnameGenerator.
pub struct Generator<'a> {
    pub labels: &'a Labels,
    pub spec: Arc<HostnameGenerator>,
}

pub struct Service<'a> {
    pub kind: BackendKind,
    pub meta: Meta<'a>,
}

/// Templates that do not fit the service give none.
pub fn of_service<'a>(
    service: &Service<'_>,
    generators: impl IntoIterator<Item = Generator<'a>>,
    place: &Place,
) -> Hostnames {
    let selected = generators.into_iter().filter(|generator| service.is_selected(generator, place));
    let mut hostnames: Vec<String> =
        selected.filter_map(|generator| service.hostname(&generator.spec.template, place)).collect();
    hostnames.sort();
    hostnames.dedup();
    Hostnames { hostnames, zone: service.zone().to_owned() }
}

impl Service<'_> {
    fn is_selected(&self, generator: &Generator<'_>, place: &Place) -> bool {
        let Some(selector) = selector_of(&generator.spec.selector, self.kind) else { return false };
        match place {
            Place::Zone { .. } => selector.matches(self.meta.labels),
            Place::Global => self.is_selected_somewhere(selector, generator),
        }
    }

    /// The same service is of the zone in its own zone, and of the global control plane in all others. A generator of
    /// the global control plane is in all zones, one of a zone only there.
    fn is_selected_somewhere(&self, selector: &LabelSelector, generator: &Generator<'_>) -> bool {
        let generator = Meta { mesh: "", name: "", labels: generator.labels };
        let origins: &[&str] = match (generator.origin(), generator.zone()) {
            (Origin::Zone, Some(zone)) if self.meta.zone() == Some(zone) => &["zone"],
            (Origin::Zone, Some(_)) => &["global"],
            _ => &["zone", "global"],
        };
        origins.iter().any(|origin| {
            let mut seen = self.meta.labels.clone();
            seen.insert(labels::ORIGIN.to_owned(), (*origin).to_owned());
            selector.matches(&seen)
        })
    }

    fn hostname(&self, template: &str, place: &Place) -> Option<String> {
        let own = match place {
            Place::Zone { name } => name,
            Place::Global => "",
        };
        render(&parse(template).ok()?, &self.meta, own).ok()
    }

    /// Without a label, the zone is the part of the name before the first dot, as in older versions.
    fn zone(&self) -> &str {
        let name = self.meta.name;
        self.meta.zone().unwrap_or_else(|| name.split_once('.').map_or(name, |(zone, _)| zone))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WEB: [(&str, &str); 4] =
        [("kuma.io/display-name", "web"), ("kuma.io/zone", "east"), ("kuma.io/origin", "zone"), ("team", "a")];

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn found(of: &[(&str, &str)], place: &Place, generators: &[(&[(&str, &str)], Value)]) -> Hostnames {
        let own = labels(of);
        let meta = Meta { mesh: "default", name: "web-x4f2", labels: &own };
        let generators: Vec<(Labels, HostnameGenerator)> = generators
            .iter()
            .map(|(pairs, spec)| (labels(pairs), serde_json::from_value(spec.clone()).unwrap()))
            .collect();
        let generators = generators.iter().map(|(labels, spec)| Generator { labels, spec: Arc::new(spec.clone()) });
        of_service(&Service { kind: BackendKind::MeshService, meta }, generators, place)
    }

    fn generator(wanted: &[(&str, &str)], template: &str) -> Value {
        json!({ "template": template, "selector": { "meshService": { "matchLabels": labels(wanted) } } })
    }

    fn zone() -> Place {
        Place::Zone { name: "here".to_owned() }
    }

    #[test]
    fn each_matching_generator_adds_one_hostname() {
        let generators = [
            generator(&[("team", "a")], "{{ .DisplayName }}.{{ .Zone }}.mesh"),
            generator(&[], r#"{{ label "team" }}.mesh"#),
            generator(&[], "a.mesh"),
            generator(&[("team", "b")], "other.mesh"),
            generator(&[], r#"{{ label "missing" }}.mesh"#),
            json!({ "template": "x.mesh", "selector": { "meshExternalService": {} } }),
        ];
        let generators = generators.map(|generator| (&[][..], generator));
        let found = found(&WEB, &zone(), &generators);
        assert_eq!(
            (found.hostnames, found.zone.as_str()),
            (vec!["a.mesh".to_owned(), "web.east.mesh".to_owned()], "east")
        );
    }

    #[test]
    fn service_without_a_zone_is_of_this_zone() {
        let generators = [(&[][..], generator(&[], "{{ .Name }}.{{ .Zone }}"))];
        assert_eq!(found(&[], &zone(), &generators).hostnames, ["web-x4f2.here"]);
    }

    #[test]
    fn labels_are_unchanged_in_a_zone() {
        let generators = [(&[][..], generator(&[("kuma.io/origin", "global")], "web.mesh"))];
        assert!(found(&WEB, &zone(), &generators).hostnames.is_empty());
    }

    #[test]
    fn global_control_plane_shows_hostnames_of_zones() {
        let (east, west) = (
            &[("kuma.io/origin", "zone"), ("kuma.io/zone", "east")][..],
            &[("kuma.io/origin", "zone"), ("kuma.io/zone", "west")][..],
        );
        let global = &[("kuma.io/origin", "global")][..];
        for (by, seen_as, expected) in [
            (global, "zone", 1),
            (global, "global", 1),
            (east, "zone", 1),
            (east, "global", 0),
            (west, "zone", 0),
            (west, "global", 1),
        ] {
            let generators = [(by, generator(&[("kuma.io/origin", seen_as)], "web.mesh"))];
            assert_eq!(found(&WEB, &Place::Global, &generators).hostnames.len(), expected, "{by:?} {seen_as}");
        }
    }
}
