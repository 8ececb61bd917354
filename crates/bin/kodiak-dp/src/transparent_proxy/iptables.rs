//! The rules for iptables: chains of our own, and a jump to each.
//!
//! `iptables-restore` replaces our chains in one step; naming a chain empties it. Missing jumps are added.

use std::fmt::Write as _;

use super::RedirectionSettings;

pub(super) const UNINSTALL: &str = "\
set -eu
nat() { iptables --wait --table nat \"$@\"; }
while nat --delete PREROUTING --protocol tcp --jump KODIAK_INBOUND 2>/dev/null; do :; done
while nat --delete OUTPUT --jump KODIAK_OUTBOUND 2>/dev/null; do :; done
for chain in KODIAK_INBOUND KODIAK_OUTBOUND; do
    if nat --list \"$chain\" --numeric >/dev/null 2>&1; then
        nat --flush \"$chain\"
        nat --delete-chain \"$chain\"
    fi
done
raw() { iptables --wait --table raw \"$@\"; }
while raw --delete OUTPUT --jump KODIAK_QUESTIONS 2>/dev/null; do :; done
if raw --list KODIAK_QUESTIONS --numeric >/dev/null 2>&1; then
    raw --flush KODIAK_QUESTIONS
    raw --delete-chain KODIAK_QUESTIONS
fi
";

pub(super) fn install(settings: &RedirectionSettings) -> String {
    format!(
        "\
set -eu
nat() {{ iptables --wait --table nat \"$@\"; }}
iptables-restore --wait --noflush <<'END'
*nat
:KODIAK_INBOUND - [0:0]
:KODIAK_OUTBOUND - [0:0]
{}COMMIT
END
nat --check PREROUTING --protocol tcp --jump KODIAK_INBOUND 2>/dev/null ||
    nat --append PREROUTING --protocol tcp --jump KODIAK_INBOUND
nat --check OUTPUT --jump KODIAK_OUTBOUND 2>/dev/null ||
    nat --insert OUTPUT 1 --jump KODIAK_OUTBOUND
{}",
        rules(settings),
        questions(settings).unwrap_or_default()
    )
}

/// Conntrack would apply the entry of a query that is not redirected to one from the same port that is: so queries that the
/// proxy forwards are tracked in a zone apart from those of applications.
fn questions(settings: &RedirectionSettings) -> Option<String> {
    settings.dns_port?;
    let proxy_user = settings.proxy_user;
    Some(format!(
        "\
raw() {{ iptables --wait --table raw \"$@\"; }}
iptables-restore --wait --noflush <<'END'
*raw
:KODIAK_QUESTIONS - [0:0]
-A KODIAK_QUESTIONS -p udp --dport 53 -m owner --uid-owner {proxy_user} -j CT --zone-orig 1
COMMIT
END
raw --check OUTPUT --jump KODIAK_QUESTIONS 2>/dev/null ||
    raw --insert OUTPUT 1 --jump KODIAK_QUESTIONS
"
    ))
}

/// The same as for nftables, in the same order.
fn rules(settings: &RedirectionSettings) -> String {
    let RedirectionSettings { proxy_user, inbound_port, outbound_port, dns_port, .. } = settings;
    let mut rules = String::new();
    let mut inbound = |rule: &str| writeln!(rules, "-A KODIAK_INBOUND {rule}").expect("a String takes all text");
    for port in &settings.exclude_inbound_ports {
        inbound(&format!("-p tcp --dport {port} -j RETURN"));
    }
    inbound(&format!("-p tcp -j REDIRECT --to-ports {inbound_port}"));

    let mut outbound = |rule: &str| writeln!(rules, "-A KODIAK_OUTBOUND {rule}").expect("a String takes all text");
    if let Some(port) = dns_port {
        for protocol in ["udp", "tcp"] {
            outbound(&format!(
                "-p {protocol} --dport 53 -m owner ! --uid-owner {proxy_user} -j REDIRECT --to-ports {port}"
            ));
        }
    }
    outbound("-s 127.0.0.6/32 -o lo -j RETURN");
    outbound(&format!(
        "-p tcp -o lo ! -d 127.0.0.0/8 -m owner --uid-owner {proxy_user} -j REDIRECT --to-ports {inbound_port}"
    ));
    outbound(&format!("-m owner --uid-owner {proxy_user} -j RETURN"));
    outbound("-o lo -j RETURN");
    outbound("-d 127.0.0.0/8 -j RETURN");
    for port in &settings.exclude_outbound_ports {
        outbound(&format!("-p tcp --dport {port} -j RETURN"));
    }
    outbound(&format!("-p tcp -j REDIRECT --to-ports {outbound_port}"));
    rules
}
