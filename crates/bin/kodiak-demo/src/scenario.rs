//! Scenarios: each shows one policy at work, in steps, and prints its YAML; or follows a guide.

use kodiak_model::yaml;
use serde_json::Value;

use super::graph::Edge;

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The call whose responses show the effect.
    pub(super) watched: Edge,
    /// Statuses that are part of the scenario, and no failures.
    pub(super) tolerated: &'static [u16],
    pub(super) steps: &'static [Step],
}

pub(super) struct Step {
    pub(super) title: &'static str,
    pub(super) action: Action,
}

pub(super) enum Action {
    /// Applies the resources of this YAML. [`COLLECTOR`] stands for the address of the demo's collector of spans.
    Apply(&'static str),
    /// Makes the health check of an instance fail or pass.
    Health { instance: &'static str, passes: bool },
    /// Runs the commands of this section of the guide.
    Guide(&'static str),
}

impl Scenario {
    /// Whether it follows the guide, which needs transparent proxies and the mesh of the guide.
    pub(super) fn follows_guide(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Guide(_)))
    }
}

/// In the YAML of a scenario, the address of the collector.
const COLLECTOR: &str = "COLLECTOR";

pub(super) const ALL: &[Scenario] = &[
    Scenario {
        name: "rate-limit",
        about: "MeshRateLimit: each instance of api accepts 5 requests per second, and rejects the rest with 429",
        watched: Edge { from: "web", to: "api" },
        tolerated: &[429],
        steps: &[Step {
            title: "each instance of api accepts 5 requests per second",
            action: Action::Apply(include_str!("../scenarios/rate-limit.yaml")),
        }],
    },
    Scenario {
        name: "faults",
        about: "MeshFaultInjection: 20 % of the requests to orders fail with 500, and 30 % take 100 ms longer",
        watched: Edge { from: "api", to: "orders" },
        // The default MeshRetry would hide a 503.
        tolerated: &[500],
        steps: &[Step {
            title: "20 % of the requests to orders are aborted, 30 % are delayed by 100 ms",
            action: Action::Apply(include_str!("../scenarios/faults.yaml")),
        }],
    },
    Scenario {
        name: "health",
        about: "MeshHealthCheck: an instance whose health check fails gets no requests, until it passes again",
        watched: Edge { from: "web", to: "api" },
        tolerated: &[],
        steps: &[
            Step {
                title: "web checks the health of the instances of api",
                action: Action::Apply(include_str!("../scenarios/health.yaml")),
            },
            Step {
                title: "the health check of api-2 fails",
                action: Action::Health { instance: "api-2", passes: false },
            },
            Step {
                title: "the health check of api-2 passes again",
                action: Action::Health { instance: "api-2", passes: true },
            },
        ],
    },
    Scenario {
        name: "canary",
        about: "MeshHTTPRoute: the requests of web move from version v1 of api to v2, in three steps",
        watched: Edge { from: "web", to: "api" },
        tolerated: &[],
        steps: &[
            Step {
                title: "10 % of the requests go to v2",
                action: Action::Apply(include_str!("../scenarios/canary-10.yaml")),
            },
            Step {
                title: "50 % of the requests go to v2",
                action: Action::Apply(include_str!("../scenarios/canary-50.yaml")),
            },
            Step {
                title: "all requests go to v2",
                action: Action::Apply(include_str!("../scenarios/canary-100.yaml")),
            },
        ],
    },
    Scenario {
        name: "tracing",
        about: "MeshTrace: all proxies send their spans to a collector, which shows the way of one request",
        watched: Edge { from: "web", to: "api" },
        tolerated: &[],
        steps: &[Step {
            title: "all proxies send spans in Zipkin's format",
            action: Action::Apply(include_str!("../scenarios/tracing.yaml")),
        }],
    },
    Scenario {
        name: "trimming",
        about: "reachability: proxies lose the destinations that they may not call, as in the guide trim-proxies; needs root",
        watched: Edge { from: "web", to: "api" },
        tolerated: &[],
        steps: &[
            Step { title: "the control plane has observed who calls whom", action: Action::Guide("1. Observe") },
            Step { title: "permissions are drafted for these calls", action: Action::Guide("2. Draft") },
            Step {
                title: "they are applied beside the one for everyone, without which nobody would be denied",
                action: Action::Guide("3. Allow"),
            },
            Step { title: "the report shows what proxies would lose", action: Action::Guide("4. Shadow-trim") },
            Step {
                title: "trimming is on, and nothing is lost while everyone is allowed",
                action: Action::Guide("5. Trim"),
            },
            Step {
                title: "the permission for everyone is deleted: proxies lose clusters within half a minute",
                action: Action::Guide("6. Enforce"),
            },
        ],
    },
];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|scenario| scenario.name)
}

pub(super) fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name)
}

/// The YAML of a step as the user sees it, and its resources.
pub(super) fn resources(text: &str, collector: &str) -> (String, Vec<Value>) {
    let text = text.replace(COLLECTOR, collector);
    let documents = yaml::parse(&text).expect("tests parse the YAML of all scenarios");
    let values = documents.into_iter().map(|document| document.value).collect();
    (text, values)
}

#[cfg(test)]
mod tests {
    use super::super::graph::{EDGES, instances};
    use super::super::guide::tests::has_commands;
    use super::*;

    #[test]
    fn resources_of_all_scenarios_are_valid() {
        for scenario in ALL {
            for step in scenario.steps {
                match step.action {
                    Action::Apply(text) => {
                        let (shown, documents) = resources(text, "127.0.0.1:9411");
                        assert!(!documents.is_empty() && !shown.contains(COLLECTOR), "{shown}");
                        for document in documents {
                            assert!(kodiak_kinds::draft(document).is_ok(), "{shown}");
                        }
                    }
                    Action::Guide(section) => assert!(has_commands(section), "{section}"),
                    Action::Health { instance, .. } => {
                        assert!(instances().iter().any(|known| known.name == instance), "{instance}");
                    }
                }
            }
        }
    }

    #[test]
    fn watched_calls_are_allowed_ones() {
        assert!(ALL.iter().all(|scenario| EDGES.contains(&scenario.watched)));
        assert_eq!(names().collect::<Vec<_>>(), ["rate-limit", "faults", "health", "canary", "tracing", "trimming"]);
        assert!(find("canary").is_some() && find("none").is_none());
    }
}
