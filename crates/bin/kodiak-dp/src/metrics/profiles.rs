//! Selection of Envoy's metrics by profiles and selectors.

use regex_lite::Regex;
use serde::Deserialize;

/// Families of the profile `Basic`: traffic, errors, latency and saturation of listeners and clusters, and the state of
/// the proxy. A trailing `*` matches any rest.
const BASIC: &[&str] = &[
    "envoy_cluster_circuit_breakers_default_*",
    "envoy_cluster_external_upstream_rq*",
    "envoy_cluster_health_check_failure",
    "envoy_cluster_lb_healthy_panic",
    "envoy_cluster_manager_cds_*",
    "envoy_cluster_membership_*",
    "envoy_cluster_outlier_detection_ejections_active",
    "envoy_cluster_outlier_detection_ejections_enforced_total",
    "envoy_cluster_ssl_*",
    "envoy_cluster_upstream_cx_*",
    "envoy_cluster_upstream_rq*",
    "envoy_control_plane_*",
    "envoy_http_downstream_cx_active",
    "envoy_http_downstream_cx_total",
    "envoy_http_downstream_rq*",
    "envoy_http_fault_*",
    "envoy_http_local_rate_limit_*",
    "envoy_http_rbac_*",
    "envoy_listener_downstream_cx_*",
    "envoy_listener_manager_*",
    "envoy_listener_ssl_*",
    "envoy_rbac_*",
    "envoy_server_*",
    "envoy_tcp_downstream_cx_*",
];

/// As in a MeshMetric. Without profiles, all metrics.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Profiles {
    #[serde(rename = "appendProfiles")]
    append: Vec<Profile>,
    exclude: Vec<Selector>,
    include: Vec<Selector>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Profile {
    name: ProfileName,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum ProfileName {
    All,
    Basic,
    None,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Selector {
    #[serde(rename = "type")]
    selector_type: SelectorType,
    #[serde(rename = "match")]
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum SelectorType {
    Prefix,
    Regex,
    Exact,
    Contains,
}

impl Profiles {
    /// Compiles the regexes once for a scrape.
    pub(super) fn selection(&self) -> Selection {
        let has = |name| self.append.iter().any(|profile| profile.name == name);
        let base = if self.append.is_empty() || has(ProfileName::All) {
            ProfileName::All
        } else if has(ProfileName::Basic) {
            ProfileName::Basic
        } else {
            ProfileName::None
        };
        let compiled = |selectors: &[Selector]| selectors.iter().filter_map(Selector::compiled).collect();
        Selection { base, exclude: compiled(&self.exclude), include: compiled(&self.include) }
    }
}

impl Selector {
    fn compiled(&self) -> Option<Matcher> {
        let Self { selector_type, text } = self;
        Some(match selector_type {
            SelectorType::Prefix => Matcher::Prefix(text.clone()),
            SelectorType::Exact => Matcher::Exact(text.clone()),
            SelectorType::Contains => Matcher::Contains(text.clone()),
            SelectorType::Regex => match Regex::new(text) {
                Ok(regex) => Matcher::Regex(regex),
                Err(error) => {
                    tracing::warn!(%error, regex = text, "ignoring an unsupported regex in a MeshMetric");
                    return None;
                }
            },
        })
    }
}

#[derive(Debug)]
pub(super) struct Selection {
    base: ProfileName,
    exclude: Vec<Matcher>,
    include: Vec<Matcher>,
}

#[derive(Debug)]
enum Matcher {
    Prefix(String),
    Exact(String),
    Contains(String),
    Regex(Regex),
}

impl Matcher {
    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Prefix(text) => name.starts_with(text),
            Self::Exact(text) => name == text,
            Self::Contains(text) => name.contains(text.as_str()),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

impl Selection {
    /// Whether it selects the metric family of this name.
    pub(super) fn has(&self, family: &str) -> bool {
        let Self { base, exclude, include } = self;
        let any = |matchers: &[Matcher]| matchers.iter().any(|matcher| matcher.matches(family));
        let profile = match base {
            ProfileName::All => true,
            ProfileName::Basic => is_basic(family),
            ProfileName::None => false,
        };
        profile && !any(exclude) || any(include)
    }
}

fn is_basic(family: &str) -> bool {
    BASIC.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(prefix) => family.starts_with(prefix),
        None => family == *pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(json: &str) -> Selection {
        serde_json::from_str::<Profiles>(json).unwrap().selection()
    }

    #[test]
    fn all_metrics_are_selected_without_profiles() {
        assert!(selection("{}").has("anything"));
    }

    #[test]
    fn profiles_are_united() {
        let basic = selection(r#"{"appendProfiles": [{"name": "None"}, {"name": "Basic"}]}"#);
        assert!(basic.has("envoy_cluster_upstream_rq_time") && !basic.has("envoy_runtime_load_success"));
        assert!(selection(r#"{"appendProfiles": [{"name": "Basic"}, {"name": "All"}]}"#).has("envoy_runtime_x"));
        assert!(!selection(r#"{"appendProfiles": [{"name": "None"}]}"#).has("envoy_server_live"));
    }

    #[test]
    fn include_overrides_exclude_and_profiles() {
        let selection = selection(
            r#"{"appendProfiles": [{"name": "Basic"}],
                "exclude": [{"type": "Regex", "match": "^envoy_server_.*"}, {"type": "Contains", "match": "_cx_"}],
                "include": [{"type": "Exact", "match": "envoy_server_live"}, {"type": "Prefix", "match": "envoy_runtime"}]}"#,
        );
        assert!(selection.has("envoy_server_live") && selection.has("envoy_runtime_load"));
        assert!(!selection.has("envoy_server_uptime") && !selection.has("envoy_cluster_upstream_cx_total"));
    }

    #[test]
    fn unsupported_regex_selects_nothing() {
        assert!(
            !selection(r#"{"appendProfiles": [{"name": "None"}], "include": [{"type": "Regex", "match": "("}]}"#)
                .has("(")
        );
    }
}
