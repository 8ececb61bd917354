//! Locality-aware load balancing: priorities and weights of endpoints.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::{Choice, IntOrString};

use super::{AffinityTag, Conf, CrossZone, Failover, LocalityAwareness, ToZoneType};
use crate::target::{Endpoint, EndpointLabels, Endpoints, Tags};

/// Traffic fails over to other zones when fewer than half of the endpoints are healthy.
const OVERPROVISIONING: u32 = 200;
/// One in ten thousand. Envoy multiplies the factor, so it must not overflow.
const MAX_OVERPROVISIONING: f64 = 1_000_000.0;
/// The sum of all locality weights must fit into 32 bits.
const MAX_MAGNITUDE: usize = 7;

pub(super) fn caller_tags(conf: &Conf) -> Vec<String> {
    affinity_tags(conf).iter().map(|tag| tag.key.clone()).collect()
}

/// Empty when locality awareness is disabled.
pub(super) fn affinity_tags(conf: &Conf) -> &[AffinityTag] {
    let awareness = conf.locality_awareness.as_ref().filter(|awareness| awareness.disabled != Some(true));
    let local_zone = awareness.and_then(|awareness| awareness.local_zone.as_ref());
    local_zone.and_then(|zone| zone.affinity_tags.as_deref()).unwrap_or_default()
}

pub(super) fn arrange(conf: &Conf, endpoints: &mut Endpoints) {
    let awareness = conf.locality_awareness.clone().unwrap_or_default();
    let zone = endpoints.zone.clone();
    let is_local = |endpoint: &Endpoint| endpoint.zone.is_empty() || endpoint.zone == zone;
    let LocalityAwareness { disabled, local_zone, cross_zone } = &awareness;
    if *disabled == Some(true) {
        endpoints.list.iter_mut().for_each(|endpoint| endpoint.priority = 0);
    } else if local_zone.is_none() && cross_zone.is_none() {
        endpoints.list.iter_mut().for_each(|endpoint| endpoint.priority = u32::from(!is_local(endpoint)));
    } else {
        let targets = cross_zone.as_ref().map(|cross_zone| targets(cross_zone, &zone)).unwrap_or_default();
        let (tags, caller, labels) = (affinity_tags(conf), &endpoints.caller, &endpoints.labels);
        endpoints.list.retain_mut(|endpoint| {
            if is_local(endpoint) {
                endpoint.priority = 0;
                place(endpoint, tags, caller, labels);
                return true;
            }
            let Some(rule) = targets.iter().position(|target| target.includes(&endpoint.zone)) else { return false };
            endpoint.priority = u32::try_from(rule + 1).unwrap_or(u32::MAX);
            true
        });
        endpoints.overprovisioning_factor =
            Some(cross_zone.as_ref().and_then(overprovisioning).unwrap_or(OVERPROVISIONING));
    }
    close_gaps(&mut endpoints.list);
    endpoints.list.sort();
}

/// Sets sub-zone and weight by the first tag or label in which the endpoint matches the caller. Without affinity tags,
/// the zone is one locality.
fn place(endpoint: &mut Endpoint, tags: &[AffinityTag], caller: &Tags, labels: &EndpointLabels) {
    if tags.is_empty() {
        return;
    }
    let shared = |tag: &AffinityTag| {
        let value = Endpoints::value(labels, endpoint, &tag.key);
        value.filter(|value| caller.get(&tag.key) == Some(value))
    };
    let found = tags.iter().enumerate().find_map(|(n, tag)| Some((n, tag, shared(tag)?)));
    let (sub_zone, weight) = match found {
        Some((n, AffinityTag { key, weight }, value)) => {
            let magnitude = u32::try_from((tags.len() - n - 1).min(MAX_MAGNITUDE)).unwrap_or_default();
            (format!("{key}={value}"), weight.unwrap_or(9 * 10_u32.pow(magnitude)))
        }
        None => (String::new(), 1),
    };
    endpoint.sub_zone = sub_zone.into();
    endpoint.locality_weight = Some(weight);
}

/// Failover target zones.
enum Target<'a> {
    Only(&'a [String]),
    Except(&'a [String]),
}

impl Target<'_> {
    fn includes(&self, zone: &str) -> bool {
        match self {
            Self::Only(zones) => zones.iter().any(|one| one == zone),
            Self::Except(zones) => !zones.iter().any(|one| one == zone),
        }
    }
}

/// Targets of the rules for callers in this zone. The rule type `None` ends the list.
fn targets<'a>(cross_zone: &'a CrossZone, zone: &str) -> Vec<Target<'a>> {
    let is_for = |rule: &&Failover| rule.from.as_ref().is_none_or(|from| from.zones.iter().any(|one| one == zone));
    let target = |rule: &'a Failover| {
        let zones = rule.to.zones.as_deref().unwrap_or_default();
        match rule.to.zone_type.as_ref().and_then(Choice::known)? {
            ToZoneType::None => None,
            ToZoneType::Only => Some(Target::Only(zones)),
            ToZoneType::Any => Some(Target::Except(&[])),
            ToZoneType::AnyExcept => Some(Target::Except(zones)),
        }
    };
    cross_zone.failover.iter().flatten().filter(is_for).map_while(target).collect()
}

/// Rounded up: with exactly this share of healthy endpoints, all traffic still stays.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 100 and the limit")]
fn overprovisioning(cross_zone: &CrossZone) -> Option<u32> {
    let written = cross_zone.failover_threshold.as_ref()?.percentage.as_ref();
    let percentage = written.and_then(IntOrString::decimal).filter(|percentage| *percentage > 0.0)?;
    Some((10_000.0 / percentage).ceil().clamp(100.0, MAX_OVERPROVISIONING) as u32)
}

/// Envoy's priorities must be contiguous. Zero is the caller's zone, even when it has no endpoints.
fn close_gaps(list: &mut [Endpoint]) {
    let used: BTreeSet<u32> = list.iter().map(|endpoint| endpoint.priority).filter(|priority| *priority > 0).collect();
    let numbers: BTreeMap<u32, u32> = used.into_iter().zip(1..).collect();
    for endpoint in list {
        endpoint.priority = numbers.get(&endpoint.priority).copied().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Policy as _;
    use crate::mesh_load_balancing_strategy::LoadBalancing;
    use crate::samples::conf;
    use crate::target::{Endpoint, Endpoints, Tags};

    fn tags(text: &str) -> Tags {
        text.split_whitespace()
            .filter_map(|tag| tag.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    /// Arguments: last number of the address, zone and tags.
    fn endpoint(n: u32, zone: &str, of: &str) -> Endpoint {
        Endpoint {
            zone: zone.into(),
            address: format!("10.0.0.{n}").into(),
            port: 80,
            weight: 1,
            tags: Arc::new(tags(of)),
            ..Endpoint::default()
        }
    }

    fn sample() -> Vec<Endpoint> {
        vec![
            endpoint(1, "east", "node=n1 rack=r1"),
            endpoint(2, "east", "node=n2 rack=r1"),
            endpoint(3, "east", "node=n3 rack=r3"),
            endpoint(4, "north", "node=n1"),
            endpoint(5, "west", "node=n1"),
        ]
    }

    /// Each as `address zone/sub-zone priority weight`, for a caller in `east`.
    fn arranged(list: Vec<Endpoint>, text: &str) -> (Vec<String>, Option<u32>) {
        // The last endpoint has its node as a label.
        let labels = [(("10.0.0.9".into(), 80), Arc::new(tags("node=n1")))];
        let mut endpoints = Endpoints {
            list,
            labels: Arc::new(labels.into()),
            zone: "east".into(),
            caller: tags("node=n1 rack=r1"),
            overprovisioning_factor: None,
        };
        LoadBalancing.endpoints(&conf(text), &mut endpoints);
        let line = |one: &Endpoint| {
            let number = one.address.rsplit('.').next().unwrap();
            let weight = one.locality_weight.map(|weight| format!(" {weight}")).unwrap_or_default();
            format!("{number} {}/{} {}{weight}", one.zone, one.sub_zone, one.priority)
        };
        (endpoints.list.iter().map(line).collect(), endpoints.overprovisioning_factor)
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str], factor: impl Into<Option<u32>>) {
        assert_eq!(arranged(sample(), text), (expected.iter().map(|&line| line.to_owned()).collect(), factor.into()));
    }

    #[test]
    fn other_zones_have_lower_priority_unless_disabled() {
        let near_first = ["1 east/ 0", "2 east/ 0", "3 east/ 0", "4 north/ 1", "5 west/ 1"];
        check("{}", &near_first, None);
        check("loadBalancer: {type: Random}", &near_first, None);
        check(
            "localityAwareness: {disabled: true, localZone: {affinityTags: [{key: node}]}}",
            &["1 east/ 0", "2 east/ 0", "3 east/ 0", "4 north/ 0", "5 west/ 0"],
            None,
        );
    }

    #[test]
    fn without_zones_all_endpoints_are_local() {
        let (lines, _) = arranged(vec![endpoint(1, "", "")], "{}");
        assert_eq!(lines, ["1 / 0"]);
    }

    #[test]
    fn affinity_tags_prefer_endpoints_in_the_zone() {
        check(
            "localityAwareness: {localZone: {affinityTags: [{key: node}, {key: rack}]}}",
            &["3 east/ 0 1", "1 east/node=n1 0 90", "2 east/rack=r1 0 9"],
            200,
        );
        check(
            "localityAwareness: {localZone: {affinityTags: [{key: node, weight: 70}, {key: none, weight: 30}]}}",
            &["2 east/ 0 1", "3 east/ 0 1", "1 east/node=n1 0 70"],
            200,
        );
    }

    #[test]
    fn affinity_reads_labels_where_there_is_no_tag() {
        let list = vec![endpoint(3, "east", "node=n3"), endpoint(9, "east", ""), endpoint(8, "east", "")];
        let (lines, _) = arranged(list, "localityAwareness: {localZone: {affinityTags: [{key: node}]}}");
        assert_eq!(lines, ["3 east/ 0 1", "8 east/ 0 1", "9 east/node=n1 0 9"]);
    }

    #[test]
    fn failover_rules_order_zones_for_the_callers_zone() {
        check(
            "
            localityAwareness:
              crossZone:
                failover:
                - {from: {zones: [west]}, to: {type: Any}}
                - {from: {zones: [east]}, to: {type: Only, zones: [west]}}
                - {to: {type: Any}}
            ",
            &["1 east/ 0", "2 east/ 0", "3 east/ 0", "5 west/ 1", "4 north/ 2"],
            200,
        );
        check(
            "localityAwareness: {crossZone: {failover: [{to: {type: AnyExcept, zones: [west]}}]}}",
            &["1 east/ 0", "2 east/ 0", "3 east/ 0", "4 north/ 1"],
            200,
        );
        check(
            "localityAwareness: {crossZone: {failover: [{to: {type: None}}, {to: {type: Any}}]}}",
            &["1 east/ 0", "2 east/ 0", "3 east/ 0"],
            200,
        );
    }

    #[test]
    fn failover_to_empty_zones_leaves_no_priority_gap() {
        let (lines, _) = arranged(
            vec![endpoint(4, "north", ""), endpoint(1, "east", "")],
            "localityAwareness: {crossZone: {failover: [{to: {type: Only, zones: [south]}}, {to: {type: Any}}]}}",
        );
        assert_eq!(lines, ["1 east/ 0", "4 north/ 1"]);
    }

    #[test]
    fn affinity_combines_with_failover() {
        check(
            "localityAwareness: {localZone: {affinityTags: [{key: node}]}, crossZone: {failover: [{to: {type: Any}}]}}",
            &["2 east/ 0 1", "3 east/ 0 1", "1 east/node=n1 0 9", "4 north/ 1", "5 west/ 1"],
            200,
        );
    }

    #[test]
    fn overprovisioning_factor_matches_the_threshold() {
        for (percentage, factor) in
            [("50", 200), ("70", 143), ("100", 100), ("'62.5'", 160), ("30", 334), ("1", 10_000)]
        {
            let text = format!("localityAwareness: {{crossZone: {{failoverThreshold: {{percentage: {percentage}}}}}}}");
            assert_eq!(arranged(sample(), &text).1, Some(factor), "{percentage}");
        }
    }

    #[test]
    fn caller_tags_are_the_affinity_tags() {
        let tags = |text: &str| LoadBalancing.caller_tags(&conf(text));
        assert_eq!(
            tags("localityAwareness: {localZone: {affinityTags: [{key: node}, {key: rack}]}}"),
            ["node", "rack"]
        );
        assert!(tags("localityAwareness: {disabled: true, localZone: {affinityTags: [{key: node}]}}").is_empty());
        assert!(tags("{}").is_empty());
    }
}
