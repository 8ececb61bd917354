//! Packet loss in the network namespace of this process, without netem, which test machines may lack.

use super::network::run;

/// Drops packets to and from ports of control planes. Others are not concerned.
pub(crate) struct Loss {
    chain: [&'static str; 3],
}

impl Loss {
    /// Of nothing yet.
    pub(crate) fn none() -> Self {
        let loss = Self { chain: ["ip", "loss", "in"] };
        run("nft", &["add", "table", loss.chain[0], loss.chain[1]]);
        run("nft", &[&["add", "chain"], &loss.chain[..], &["{ type filter hook input priority 0; }"]].concat());
        loss
    }

    /// So many of a hundred.
    pub(crate) fn of(&self, percent: u64, ports: &[u16]) {
        let percent = percent.to_string();
        let random = ["numgen", "random", "mod", "100", "<", &percent];
        let which = if percent == "100" { &[] } else { &random[..] };
        for port in ports {
            for end in ["sport", "dport"] {
                run(
                    "nft",
                    &[&["add", "rule"], &self.chain[..], &["tcp", end, &port.to_string()], which, &["drop"]].concat(),
                );
            }
        }
    }

    pub(crate) fn heal(&self) {
        run("nft", &[&["flush", "chain"], &self.chain[..]].concat());
    }
}
