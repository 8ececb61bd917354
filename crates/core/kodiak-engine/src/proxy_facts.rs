//! Facts about a proxy that the confs of its policies contain.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{Kri, kinds::workload, labels, policy::Conf, tags};
use kodiak_policies::target::{ProxyFact, ProxyFacts};
use kodiak_rules::Proxy;

/// The facts that these confs need, by kind of policy.
pub(crate) fn of<'a>(
    confs: impl Iterator<Item = (&'static str, &'a Conf)>,
    proxy: &Proxy,
    zone: &Arc<str>,
) -> Arc<ProxyFacts> {
    let confs = confs.filter_map(|(kind, conf)| Some((kodiak_policies::find(kind)?, conf)));
    let needed: BTreeSet<ProxyFact> = confs.flat_map(|(hook, conf)| hook.proxy_facts(conf)).collect();
    let facts = needed.into_iter().filter_map(|fact| Some((fact, value(fact, proxy, zone)?)));
    Arc::new(facts.collect())
}

fn value(fact: ProxyFact, proxy: &Proxy, zone: &Arc<str>) -> Option<Arc<str>> {
    match fact {
        ProxyFact::Service => service(proxy).or_else(|| label(proxy, labels::WORKLOAD)).map(Arc::from),
        ProxyFact::Workload => Some(workload_kri(proxy, zone)?.to_string().into()),
        ProxyFact::Zone => Some(zone.clone()).filter(|zone| !zone.is_empty()),
    }
}

fn service(proxy: &Proxy) -> Option<&str> {
    let dataplane = &proxy.dataplane;
    let inbounds = dataplane.inbounds().iter().map(|inbound| &inbound.tags);
    let tags = inbounds.chain(dataplane.gateway().map(|gateway| &gateway.tags));
    tags.filter_map(|tags| tags.get(tags::SERVICE)).min().map(String::as_str)
}

fn workload_kri(proxy: &Proxy, zone: &Arc<str>) -> Option<Kri> {
    Some(Kri {
        short: workload::KIND.short?,
        mesh: proxy.mesh.to_string(),
        zone: label(proxy, labels::ZONE).unwrap_or(zone).to_owned(),
        namespace: label(proxy, labels::NAMESPACE).unwrap_or_default().to_owned(),
        name: label(proxy, labels::WORKLOAD)?.to_owned(),
        section: String::new(),
    })
}

fn label<'a>(proxy: &'a Proxy, key: &str) -> Option<&'a str> {
    proxy.labels.get(key).map(String::as_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use kodiak_model::Labels;

    use super::*;

    fn facts(networking: &str, labels: &[(&str, &str)]) -> Vec<Option<String>> {
        let labels: Labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let proxy = Proxy {
            mesh: "default".into(),
            name: "web-1".into(),
            labels: Arc::new(labels),
            dataplane: Arc::new(serde_json::from_str(networking).unwrap()),
            admission: None,
        };
        let all = [ProxyFact::Service, ProxyFact::Workload, ProxyFact::Zone];
        all.map(|fact| value(fact, &proxy, &"east".into()).map(|value| value.to_string())).into()
    }

    #[test]
    fn service_is_the_first_tag_or_the_workload() {
        let tagged = r#"{"networking": {"inbound": [
            {"port": 1, "tags": {"kuma.io/service": "web"}}, {"port": 2, "tags": {"kuma.io/service": "admin"}}]}}"#;
        assert_eq!(facts(tagged, &[]), [Some("admin".to_owned()), None, Some("east".to_owned())]);
        let untagged = r#"{"networking": {"inbound": [{"port": 1}]}}"#;
        let labels = [(labels::WORKLOAD, "shop"), (labels::NAMESPACE, "prod")];
        let kri = "kri_wl_default_east_prod_shop_".to_owned();
        assert_eq!(facts(untagged, &labels), [Some("shop".to_owned()), Some(kri), Some("east".to_owned())]);
        assert_eq!(facts(untagged, &[])[0], None);
    }
}
