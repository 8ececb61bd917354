//! DNS records of the mesh: Envoy answers from them, or serves them to `kodiak dp`.

use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::data::dns::v3::DnsTable as InlineDnsTable;
use kodiak_envoy::envoy::data::dns::v3::dns_table::{
    AddressList, DnsEndpoint, DnsVirtualDomain, dns_endpoint::EndpointConfig,
};
use kodiak_envoy::envoy::extensions::filters::udp::dns_filter::v3::DnsFilterConfig;
use kodiak_envoy::envoy::extensions::filters::udp::dns_filter::v3::dns_filter_config::{
    ServerContextConfig, server_context_config::ConfigSource,
};
use serde_json::json;

use crate::address::{self, LOOPBACK};
use crate::dynamic_config::Document;
use crate::input::{DnsListener, DnsRecord, DnsTable};
use crate::{filters, names};

/// Path at which `kodiak dp` reads the records.
pub const PATH: &str = "/dns";
const TTL: Duration = Duration::from_secs(30);

/// The records in the JSON format that `kodiak dp` reads.
pub fn document(table: &DnsTable) -> Document {
    let records: Vec<_> =
        table.records.iter().map(|record| json!({ "name": &*record.name, "ips": addresses(table, record) })).collect();
    let mut document = json!({ "records": records, "ttl": TTL.as_secs(), "extraLabels": {} });
    if !table.domains.is_empty() {
        document["domains"] = table.domains.iter().map(|domain| json!(**domain)).collect();
    }
    Document::new(document.to_string())
}

fn addresses(table: &DnsTable, record: &DnsRecord) -> Vec<String> {
    let mut all = vec![record.address.to_string()];
    if table.ipv6 {
        let [a, b, c, d] = record.address.octets();
        // Not the notation of `Ipv6Addr`: Kuma's resolver accepts only this one.
        all.push(format!("::ffff:{:x}:{:x}", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])));
    }
    all
}

/// Envoy answers queries on a port of 127.0.0.1.
pub fn listener(dns: &DnsListener) -> Listener {
    let DnsListener { table, port } = dns;
    let domains = InlineDnsTable {
        virtual_domains: table.records.iter().map(|record| domain(table, record)).collect(),
        ..InlineDnsTable::default()
    };
    let filter = DnsFilterConfig {
        stat_prefix: names::stat_name(names::DNS),
        server_config: Some(ServerContextConfig { config_source: Some(ConfigSource::InlineDnsTable(domains)) }),
        case_insensitive: true,
        ..DnsFilterConfig::default()
    };
    Listener {
        name: names::DNS.to_owned(),
        address: Some(address::udp(LOOPBACK, *port)),
        listener_filters: vec![filters::listener_filter("envoy.filters.udp.dns_filter", &filter)],
        ..Listener::default()
    }
}

fn domain(table: &DnsTable, record: &DnsRecord) -> DnsVirtualDomain {
    let list = EndpointConfig::AddressList(AddressList { address: addresses(table, record) });
    DnsVirtualDomain {
        name: record.name.to_string(),
        endpoint: Some(DnsEndpoint { endpoint_config: Some(list) }),
        answer_ttl: Some(duration(TTL)),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;
    use crate::testing::check;

    fn table(ipv6: bool) -> DnsTable {
        let record = DnsRecord { name: "backend.mesh".into(), address: Ipv4Addr::new(240, 0, 0, 1) };
        DnsTable { records: [record].into(), domains: Arc::default(), ipv6 }
    }

    #[test]
    fn dp_gets_addresses_of_both_families() {
        let expected =
            r#"{"records":[{"name":"backend.mesh","ips":["240.0.0.1","::ffff:f000:1"]}],"ttl":30,"extraLabels":{}}"#;
        assert_eq!(document(&table(true)).body(), expected);
    }

    #[test]
    fn dp_gets_the_domains_whose_other_names_it_asks_for() {
        let table = DnsTable { domains: ["mesh".into(), "svc.mesh.local".into()].into(), ..table(false) };
        let expected = r#"{"records":[{"name":"backend.mesh","ips":["240.0.0.1"]}],"ttl":30,"extraLabels":{},"domains":["mesh","svc.mesh.local"]}"#;
        assert_eq!(document(&table).body(), expected);
    }

    #[test]
    fn envoy_answers_over_udp() {
        check(
            &listener(&DnsListener { table: table(false), port: 15053 }),
            r#"
            name: kuma:dns
            address: {socket_address: {protocol: UDP, address: 127.0.0.1, port_value: 15053}}
            listener_filters:
            - name: envoy.filters.udp.dns_filter
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.udp.dns_filter.v3.DnsFilterConfig
                stat_prefix: kuma_dns
                case_insensitive: true
                server_config:
                  inline_dns_table:
                    virtual_domains:
                    - {name: backend.mesh, answer_ttl: 30s, endpoint: {address_list: {address: [240.0.0.1]}}}
            "#,
        );
    }
}
