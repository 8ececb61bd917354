//! Services of the demo, and their calls.

pub(super) struct Service {
    pub(super) name: &'static str,
    pub(super) replicas: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
}

/// Instance of a service, with its own proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instance {
    pub(super) service: &'static str,
    pub(super) name: String,
    /// Value of its tag `version`.
    pub(super) version: String,
}

pub(super) const SERVICES: &[Service] = &[
    Service { name: "web", replicas: 1 },
    Service { name: "api", replicas: 2 },
    Service { name: "orders", replicas: 1 },
    Service { name: "users", replicas: 1 },
    Service { name: "db", replicas: 1 },
];

/// Allowed calls.
pub(super) const EDGES: &[Edge] = &[
    Edge { from: "web", to: "api" },
    Edge { from: "api", to: "orders" },
    Edge { from: "api", to: "users" },
    Edge { from: "orders", to: "db" },
    Edge { from: "users", to: "db" },
];

/// Call that no policy allows, to show that it is denied.
pub(super) const FORBIDDEN: Edge = Edge { from: "web", to: "db" };

/// A request that goes through several services, each calling the next.
pub(super) const JOURNEY: &[&str] = &["web", "api", "orders", "db"];

pub(super) fn instances() -> Vec<Instance> {
    let of = |service: &Service| {
        let name = service.name;
        (1..=service.replicas).map(move |number| Instance {
            service: name,
            name: format!("{name}-{number}"),
            version: format!("v{number}"),
        })
    };
    SERVICES.iter().flat_map(of).collect()
}

/// Services that a service calls, allowed or not.
pub(super) fn called_by(service: &str) -> impl Iterator<Item = &'static str> {
    EDGES.iter().chain([&FORBIDDEN]).filter(move |edge| edge.from == service).map(|edge| edge.to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_between_existing_services() {
        let known = |name| SERVICES.iter().any(|service| service.name == name);
        assert!(EDGES.iter().chain([&FORBIDDEN]).all(|edge| known(edge.from) && known(edge.to)));
        assert!(!EDGES.contains(&FORBIDDEN));
        let mut steps = JOURNEY.windows(2);
        assert!(steps.all(|step| EDGES.iter().any(|edge| [edge.from, edge.to] == *step)));
    }

    #[test]
    fn every_instance_has_a_name() {
        let names: Vec<_> = instances().into_iter().map(|instance| instance.name).collect();
        assert_eq!(names, ["web-1", "api-1", "api-2", "orders-1", "users-1", "db-1"]);
        assert_eq!(called_by("web").collect::<Vec<_>>(), ["api", "db"]);
        assert_eq!(called_by("db").count(), 0);
    }
}
