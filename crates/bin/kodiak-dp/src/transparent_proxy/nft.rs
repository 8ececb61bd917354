//! The rules for nftables: one table of our own, replaced as a whole in one transaction.

use super::RedirectionSettings;

/// Naming a table creates it, so that it can be deleted in any case.
pub(super) const UNINSTALL: &str = "\
table ip kodiak_transparent_proxy
delete table ip kodiak_transparent_proxy
";

pub(super) fn install(settings: &RedirectionSettings) -> String {
    let RedirectionSettings { proxy_user, inbound_port, outbound_port, dns_port, .. } = settings;
    let dns = dns_port.map(|port| {
        format!(
            "
        # Questions to nameservers, except those that the proxy passes on.
        meta skuid != {proxy_user} udp dport 53 redirect to :{port}
        meta skuid != {proxy_user} tcp dport 53 redirect to :{port}"
        )
    });
    // Conntrack would apply the entry of a query that is not redirected to one from the same port that is.
    let questions = dns_port.map(|_| {
        format!(
            "

    chain questions {{
        type filter hook output priority -300; policy accept;
        # Those that the proxy passes on are remembered apart from those of applications.
        meta skuid {proxy_user} udp dport 53 ct original zone set 1
    }}"
        )
    });
    let questions = questions.unwrap_or_default();
    let (dns, exclude_inbound, exclude_outbound) =
        (dns.unwrap_or_default(), exclude(&settings.exclude_inbound_ports), exclude(&settings.exclude_outbound_ports));
    format!(
        "{UNINSTALL}table ip kodiak_transparent_proxy {{
    chain inbound {{
        type nat hook prerouting priority -100; policy accept;{exclude_inbound}
        meta l4proto tcp redirect to :{inbound_port}
    }}

    chain outbound {{
        type nat hook output priority -100; policy accept;{dns}
        # What the proxy passes on to the application.
        oifname \"lo\" ip saddr 127.0.0.6 return
        # The proxy calls this machine by its own address: the application called itself.
        meta l4proto tcp meta skuid {proxy_user} oifname \"lo\" ip daddr != 127.0.0.0/8 redirect to :{inbound_port}
        meta skuid {proxy_user} return
        # Programs of this machine that talk to each other.
        oifname \"lo\" return
        ip daddr 127.0.0.0/8 return{exclude_outbound}
        meta l4proto tcp redirect to :{outbound_port}
    }}{questions}
}}
"
    )
}

fn exclude(ports: &[u16]) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    format!("\n        tcp dport {{ {} }} return", ports.join(", "))
}
