//! Proxies of a MeshService.

use kodiak_model::kinds::mesh_service::{MeshService, Selector};
use kodiak_rules::Proxy;

/// A service without a selector has none.
pub fn is_member(service: &MeshService, proxy: &Proxy) -> bool {
    let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = &service.selector;
    if let Some(wanted) = dataplane_tags.as_ref().filter(|wanted| !wanted.is_empty()) {
        let mut inbounds = proxy.dataplane.inbounds().iter();
        return inbounds.any(|inbound| wanted.iter().all(|(key, value)| inbound.tags.get(key) == Some(value)));
    }
    if let Some(reference) = dataplane_ref {
        return *reference.name == *proxy.name;
    }
    dataplane_labels.as_ref().is_some_and(|selector| selector.specificity() > 0 && selector.matches(&proxy.labels))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(selector: &Value, expected: bool) {
        let service: MeshService = serde_json::from_value(json!({ "selector": selector })).unwrap();
        let inbounds = json!([{ "port": 1, "tags": { "app": "web" } }, { "port": 2, "tags": { "tier": "front" } }]);
        let gateway = json!({ "tags": { "app": "edge" } });
        let networking = json!({ "inbound": inbounds, "gateway": gateway });
        let proxy = Proxy {
            mesh: "default".into(),
            name: "web-1".into(),
            labels: Arc::new(serde_json::from_value(json!({ "team": "a" })).unwrap()),
            dataplane: Arc::new(serde_json::from_value(json!({ "networking": networking })).unwrap()),
            admission: None,
        };
        assert_eq!(is_member(&service, &proxy), expected, "{selector}");
    }

    #[test]
    fn one_inbound_has_all_tags() {
        check(&json!({ "dataplaneTags": { "app": "web" } }), true);
        check(&json!({ "dataplaneTags": { "app": "web", "tier": "front" } }), false);
        check(&json!({ "dataplaneTags": { "app": "edge" } }), false);
    }

    #[test]
    fn proxy_is_selected_by_name_or_labels() {
        check(&json!({ "dataplaneRef": { "name": "web-1" } }), true);
        check(&json!({ "dataplaneRef": { "name": "web" } }), false);
        check(&json!({ "dataplaneLabels": { "matchLabels": { "team": "a" } } }), true);
        check(&json!({ "dataplaneLabels": { "matchLabels": { "team": "b" } } }), false);
    }

    #[test]
    fn empty_selector_selects_no_proxy() {
        for selector in [json!({}), json!({ "dataplaneTags": {} }), json!({ "dataplaneLabels": {} })] {
            check(&selector, false);
        }
    }
}
