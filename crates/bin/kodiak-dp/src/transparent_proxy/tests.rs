//! The texts of the scripts. `tests/it/redirection.rs` runs them.

use expect_test::{Expect, expect};

use super::*;

fn plain() -> RedirectionSettings {
    RedirectionSettings {
        proxy_user: 5678,
        inbound_port: 15006,
        outbound_port: 15001,
        dns_port: None,
        exclude_inbound_ports: Vec::new(),
        exclude_outbound_ports: Vec::new(),
    }
}

fn full() -> RedirectionSettings {
    RedirectionSettings {
        dns_port: Some(15053),
        exclude_inbound_ports: vec![22, 9100],
        exclude_outbound_ports: vec![3306],
        ..plain()
    }
}

#[track_caller]
fn check(script: &Script, expected: &Expect) {
    expected.assert_eq(&script.text);
}

#[test]
fn nft_in_plain() {
    check(
        &install(&plain(), Backend::Nft),
        &expect![[r#"
            table ip kodiak_transparent_proxy
            delete table ip kodiak_transparent_proxy
            table ip kodiak_transparent_proxy {
                chain inbound {
                    type nat hook prerouting priority -100; policy accept;
                    meta l4proto tcp redirect to :15006
                }

                chain outbound {
                    type nat hook output priority -100; policy accept;
                    # What the proxy passes on to the application.
                    oifname "lo" ip saddr 127.0.0.6 return
                    # The proxy calls this machine by its own address: the application called itself.
                    meta l4proto tcp meta skuid 5678 oifname "lo" ip daddr != 127.0.0.0/8 redirect to :15006
                    meta skuid 5678 return
                    # Programs of this machine that talk to each other.
                    oifname "lo" return
                    ip daddr 127.0.0.0/8 return
                    meta l4proto tcp redirect to :15001
                }
            }
        "#]],
    );
}

#[test]
fn nft_with_everything() {
    check(
        &install(&full(), Backend::Nft),
        &expect![[r#"
            table ip kodiak_transparent_proxy
            delete table ip kodiak_transparent_proxy
            table ip kodiak_transparent_proxy {
                chain inbound {
                    type nat hook prerouting priority -100; policy accept;
                    tcp dport { 22, 9100 } return
                    meta l4proto tcp redirect to :15006
                }

                chain outbound {
                    type nat hook output priority -100; policy accept;
                    # Questions to nameservers, except those that the proxy passes on.
                    meta skuid != 5678 udp dport 53 redirect to :15053
                    meta skuid != 5678 tcp dport 53 redirect to :15053
                    # What the proxy passes on to the application.
                    oifname "lo" ip saddr 127.0.0.6 return
                    # The proxy calls this machine by its own address: the application called itself.
                    meta l4proto tcp meta skuid 5678 oifname "lo" ip daddr != 127.0.0.0/8 redirect to :15006
                    meta skuid 5678 return
                    # Programs of this machine that talk to each other.
                    oifname "lo" return
                    ip daddr 127.0.0.0/8 return
                    tcp dport { 3306 } return
                    meta l4proto tcp redirect to :15001
                }

                chain questions {
                    type filter hook output priority -300; policy accept;
                    # Those that the proxy passes on are remembered apart from those of applications.
                    meta skuid 5678 udp dport 53 ct original zone set 1
                }
            }
        "#]],
    );
}

#[test]
fn iptables_in_plain() {
    check(
        &install(&plain(), Backend::Iptables),
        &expect![[r#"
            set -eu
            nat() { iptables --wait --table nat "$@"; }
            iptables-restore --wait --noflush <<'END'
            *nat
            :KODIAK_INBOUND - [0:0]
            :KODIAK_OUTBOUND - [0:0]
            -A KODIAK_INBOUND -p tcp -j REDIRECT --to-ports 15006
            -A KODIAK_OUTBOUND -s 127.0.0.6/32 -o lo -j RETURN
            -A KODIAK_OUTBOUND -p tcp -o lo ! -d 127.0.0.0/8 -m owner --uid-owner 5678 -j REDIRECT --to-ports 15006
            -A KODIAK_OUTBOUND -m owner --uid-owner 5678 -j RETURN
            -A KODIAK_OUTBOUND -o lo -j RETURN
            -A KODIAK_OUTBOUND -d 127.0.0.0/8 -j RETURN
            -A KODIAK_OUTBOUND -p tcp -j REDIRECT --to-ports 15001
            COMMIT
            END
            nat --check PREROUTING --protocol tcp --jump KODIAK_INBOUND 2>/dev/null ||
                nat --append PREROUTING --protocol tcp --jump KODIAK_INBOUND
            nat --check OUTPUT --jump KODIAK_OUTBOUND 2>/dev/null ||
                nat --insert OUTPUT 1 --jump KODIAK_OUTBOUND
        "#]],
    );
}

#[test]
fn iptables_with_everything() {
    check(
        &install(&full(), Backend::Iptables),
        &expect![[r#"
            set -eu
            nat() { iptables --wait --table nat "$@"; }
            iptables-restore --wait --noflush <<'END'
            *nat
            :KODIAK_INBOUND - [0:0]
            :KODIAK_OUTBOUND - [0:0]
            -A KODIAK_INBOUND -p tcp --dport 22 -j RETURN
            -A KODIAK_INBOUND -p tcp --dport 9100 -j RETURN
            -A KODIAK_INBOUND -p tcp -j REDIRECT --to-ports 15006
            -A KODIAK_OUTBOUND -p udp --dport 53 -m owner ! --uid-owner 5678 -j REDIRECT --to-ports 15053
            -A KODIAK_OUTBOUND -p tcp --dport 53 -m owner ! --uid-owner 5678 -j REDIRECT --to-ports 15053
            -A KODIAK_OUTBOUND -s 127.0.0.6/32 -o lo -j RETURN
            -A KODIAK_OUTBOUND -p tcp -o lo ! -d 127.0.0.0/8 -m owner --uid-owner 5678 -j REDIRECT --to-ports 15006
            -A KODIAK_OUTBOUND -m owner --uid-owner 5678 -j RETURN
            -A KODIAK_OUTBOUND -o lo -j RETURN
            -A KODIAK_OUTBOUND -d 127.0.0.0/8 -j RETURN
            -A KODIAK_OUTBOUND -p tcp --dport 3306 -j RETURN
            -A KODIAK_OUTBOUND -p tcp -j REDIRECT --to-ports 15001
            COMMIT
            END
            nat --check PREROUTING --protocol tcp --jump KODIAK_INBOUND 2>/dev/null ||
                nat --append PREROUTING --protocol tcp --jump KODIAK_INBOUND
            nat --check OUTPUT --jump KODIAK_OUTBOUND 2>/dev/null ||
                nat --insert OUTPUT 1 --jump KODIAK_OUTBOUND
            raw() { iptables --wait --table raw "$@"; }
            iptables-restore --wait --noflush <<'END'
            *raw
            :KODIAK_QUESTIONS - [0:0]
            -A KODIAK_QUESTIONS -p udp --dport 53 -m owner --uid-owner 5678 -j CT --zone-orig 1
            COMMIT
            END
            raw --check OUTPUT --jump KODIAK_QUESTIONS 2>/dev/null ||
                raw --insert OUTPUT 1 --jump KODIAK_QUESTIONS
        "#]],
    );
}

#[test]
fn only_own_rules_are_removed() {
    check(
        &uninstall(Backend::Nft),
        &expect![[r#"
        table ip kodiak_transparent_proxy
        delete table ip kodiak_transparent_proxy
    "#]],
    );
    check(
        &uninstall(Backend::Iptables),
        &expect![[r#"
            set -eu
            nat() { iptables --wait --table nat "$@"; }
            while nat --delete PREROUTING --protocol tcp --jump KODIAK_INBOUND 2>/dev/null; do :; done
            while nat --delete OUTPUT --jump KODIAK_OUTBOUND 2>/dev/null; do :; done
            for chain in KODIAK_INBOUND KODIAK_OUTBOUND; do
                if nat --list "$chain" --numeric >/dev/null 2>&1; then
                    nat --flush "$chain"
                    nat --delete-chain "$chain"
                fi
            done
            raw() { iptables --wait --table raw "$@"; }
            while raw --delete OUTPUT --jump KODIAK_QUESTIONS 2>/dev/null; do :; done
            if raw --list KODIAK_QUESTIONS --numeric >/dev/null 2>&1; then
                raw --flush KODIAK_QUESTIONS
                raw --delete-chain KODIAK_QUESTIONS
            fi
        "#]],
    );
}
