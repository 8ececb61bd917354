//! TrafficRoute to MeshHTTPRoute and MeshTCPRoute.
//!
//! One TrafficRoute becomes both: the first for destinations with HTTP, the second for all others. A route to the
//! destination itself is what proxies do without any route.

mod http;

use serde_json::{Map, Value, json};

use super::{
    LegacyPolicy,
    facts::MeshFacts,
    fields::Fields,
    outcome::{NewResource, Outcomes},
    selector::Selector,
};

const NEW: [&str; 2] = ["MeshHTTPRoute", "MeshTCPRoute"];

/// A TrafficRoute, read.
struct Route {
    policy: LegacyPolicy,
    sources: Vec<Selector>,
    destinations: Vec<Selector>,
    /// Empty: the destination itself.
    backends: Vec<Value>,
    rules: Vec<http::HttpRule>,
}

pub(super) fn convert(policies: Vec<LegacyPolicy>, facts: &MeshFacts, out: &mut Outcomes) {
    let mut routes = Vec::new();
    for policy in policies {
        match read(&policy, facts) {
            Ok(route) => routes.push(route),
            Err(reason) => out.leave_out(policy.resource, reason, "write a MeshHTTPRoute or a MeshTCPRoute by hand"),
        }
    }
    let (defaults, mut routes): (Vec<_>, Vec<_>) =
        routes.into_iter().partition(|route| route.backends.is_empty() && route.rules.is_empty());
    for route in defaults {
        // A more specific one would undo a broader one, which the new kinds do by name only.
        if routes.iter().any(|other| overlaps(&route, other, facts) && !is_broader(&route, other)) {
            let reason = "it undoes another TrafficRoute for some traffic, which the new kinds cannot".to_owned();
            out.leave_out(route.policy.resource, reason, "write a MeshHTTPRoute or a MeshTCPRoute by hand");
        } else {
            let notes = vec!["not needed: without a route, traffic goes to its destination".to_owned()];
            out.convert(&[route.policy.resource], Vec::new(), notes);
        }
    }
    let in_conflict: Vec<bool> = (0..routes.len())
        .map(|n| (0..routes.len()).any(|other| other != n && overlaps(&routes[n], &routes[other], facts)))
        .collect();
    for (route, in_conflict) in routes.drain(..).zip(in_conflict) {
        if in_conflict {
            let reason =
                "another TrafficRoute selects the same traffic; Kuma applies one of them, Kodiak would merge both"
                    .to_owned();
            out.leave_out(route.policy.resource, reason, "write a MeshHTTPRoute or a MeshTCPRoute by hand");
        } else {
            write(route, facts, out);
        }
    }
}

fn read(policy: &LegacyPolicy, facts: &MeshFacts) -> Result<Route, String> {
    if let Some((kind, name)) = NEW.iter().find_map(|kind| Some((kind, facts.policies(kind).first()?))) {
        return Err(format!("the mesh has {kind} {name:?} too, which takes precedence over TrafficRoutes in Kuma"));
    }
    let selectors = |field: &str| -> Result<Vec<Selector>, String> {
        let written = policy.document.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        written.iter().map(Selector::read).collect()
    };
    let (sources, destinations) = (selectors("sources")?, selectors("destinations")?);
    let mut conf = Fields::of(policy.document.get("conf").cloned(), "conf")?;
    if let Some(mut balancer) = conf.object("loadBalancer")?
        && let Some(other) = balancer.rest().keys().find(|name| !matches!(name.as_str(), "roundRobin" | "round_robin"))
    {
        return Err(format!("conf.loadBalancer.{other}: load balancing is in a MeshLoadBalancingStrategy"));
    }
    let backends = backends(&mut conf)?;
    let rules = http::rules(conf.list("http")?)?;
    conf.end()?;
    let is_default = backends.is_empty() && rules.is_empty();
    if !is_default && !destinations.iter().all(|one| matches!(one, Selector::Service(_))) {
        return Err("a destination is not one service, and the new kinds route traffic of one service".to_owned());
    }
    Ok(Route { policy: policy.clone(), sources, destinations, backends, rules })
}

/// Backends of `split` or `destination`; none where traffic goes to the destination itself.
fn backends(fields: &mut Fields) -> Result<Vec<Value>, String> {
    let destination = fields.object("destination")?.map(|mut tags| tags.rest());
    let split = fields.list("split")?;
    let mut all: Vec<(Value, Map<String, Value>)> = Vec::new();
    all.extend(destination.filter(|tags| !tags.is_empty()).map(|tags| (json!(1), tags)));
    for part in split {
        let mut part = Fields::of(Some(part), &fields.at("split"))?;
        let weight = part.take("weight").unwrap_or_else(|| json!(0));
        let tags = part.object("destination")?.map(|mut tags| tags.rest()).unwrap_or_default();
        part.end()?;
        all.push((weight, tags));
    }
    if let [(_, tags)] = all.as_slice()
        && Selector::of(tags)? == Selector::All
    {
        return Ok(Vec::new());
    }
    all.into_iter().map(|(weight, tags)| backend(weight, &Selector::of(&tags)?)).collect()
}

fn backend(weight: Value, target: &Selector) -> Result<Value, String> {
    if target.service().is_none() {
        return Err("a destination of conf has no value of kuma.io/service".to_owned());
    }
    let mut backend = target.target_ref();
    backend["weight"] = weight;
    Ok(backend)
}

fn overlaps(one: &Route, other: &Route, facts: &MeshFacts) -> bool {
    let any = |a: &[Selector], b: &[Selector], test: &dyn Fn(&Selector, &Selector) -> bool| {
        a.iter().any(|a| b.iter().any(|b| test(a, b)))
    };
    any(&one.sources, &other.sources, &|a, b| a.overlaps(b) || facts.has_both(a, b))
        && any(&one.destinations, &other.destinations, &|a, b| a.overlaps(b))
}

/// Whether Kuma prefers `other` wherever both select.
fn is_broader(one: &Route, other: &Route) -> bool {
    let ranks = |route: &Route| {
        let destinations = route.destinations.clone();
        let pairs = route.sources.iter().flat_map(move |source| {
            destinations.iter().map(|destination| source.rank() + destination.rank()).collect::<Vec<_>>()
        });
        pairs.collect::<Vec<_>>()
    };
    ranks(one).into_iter().max() < ranks(other).into_iter().min()
}

fn write(route: Route, facts: &MeshFacts, out: &mut Outcomes) {
    let Route { policy, sources, destinations, backends, rules } = route;
    let mut notes: Vec<String> = rules.iter().flat_map(|rule| rule.notes.clone()).collect();
    if facts.has_mesh_services() {
        notes.push("it applies to traffic to the MeshService of that name too".to_owned());
    }
    let mut http_rules: Vec<Value> = rules.into_iter().map(|rule| rule.rule).collect();
    if !backends.is_empty() {
        http_rules.push(json!({ "matches": [http::every_request()], "default": { "backendRefs": backends } }));
    }
    let to = |rules: &[Value]| -> Vec<Value> {
        destinations.iter().map(|one| json!({ "targetRef": one.target_ref(), "rules": rules })).collect()
    };
    for source in &sources {
        let new = |kind, to: Vec<Value>| NewResource {
            kind,
            mesh: policy.resource.mesh.clone(),
            name: policy.resource.name.clone(),
            spec: json!({ "targetRef": source.target_ref(), "to": to }),
        };
        let mut all = vec![new(NEW[0], to(&http_rules))];
        if !backends.is_empty() {
            all.push(new(NEW[1], to(&[json!({ "default": { "backendRefs": backends } })])));
        }
        out.convert(std::slice::from_ref(&policy.resource), all, notes.clone());
    }
}
