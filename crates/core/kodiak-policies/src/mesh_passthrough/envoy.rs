//! Rules for connections to destinations outside the mesh, from the merged configuration.

use std::collections::BTreeSet;

use kodiak_model::Choice;

use super::{Conf, Match, MatchType, PassthroughMode, Protocol};
use crate::passthrough::{IpRange, OutsideDestination, PassthroughMatch, PassthroughProtocol, PassthroughRules};

pub(super) fn rules(conf: &Conf) -> PassthroughRules {
    let Conf { passthrough_mode, append_match } = conf;
    let mode = passthrough_mode.as_ref().and_then(Choice::known).unwrap_or(PassthroughMode::Matched);
    match mode {
        PassthroughMode::All => PassthroughRules::All,
        PassthroughMode::None => PassthroughRules::None,
        PassthroughMode::Matched => {
            // Policies may repeat each other, in any order.
            let matches: BTreeSet<_> = append_match.iter().flatten().filter_map(matched).collect();
            PassthroughRules::Matched(matches.into_iter().collect())
        }
    }
}

/// `None` for a match that validation would have refused.
fn matched(one: &Match) -> Option<PassthroughMatch> {
    let Match { match_type, value, port, protocol } = one;
    let destination = match match_type.as_ref()?.known()? {
        MatchType::Domain if value == "*" => OutsideDestination::AnyDomain,
        // SNI and Host have no dot at the end, and Envoy compares in lower case.
        MatchType::Domain => {
            OutsideDestination::Domain(value.strip_suffix('.').unwrap_or(value).to_ascii_lowercase().into())
        }
        MatchType::Ip | MatchType::Cidr => OutsideDestination::Range(IpRange::parse(value)?),
    };
    let protocol = match protocol.known()? {
        Protocol::Tcp => PassthroughProtocol::Tcp,
        Protocol::Tls => PassthroughProtocol::Tls,
        Protocol::Grpc => PassthroughProtocol::Grpc,
        Protocol::Http => PassthroughProtocol::Http,
        Protocol::Http2 => PassthroughProtocol::Http2,
        Protocol::Mysql => PassthroughProtocol::Mysql,
    };
    let port = port.map(u16::try_from).transpose().ok()?;
    Some(PassthroughMatch { destination, port, protocol, value: value.as_str().into() })
}

#[cfg(test)]
mod tests {
    use kodiak_model::{policy, yaml};

    use super::*;
    use crate::mesh_passthrough::POLICY;

    fn rules(texts: &[&str]) -> PassthroughRules {
        let conf = |text: &&str| policy::Conf::new(yaml::parse(text).unwrap().remove(0).value);
        let confs: Vec<_> = texts.iter().map(conf).collect();
        POLICY.unwrap().passthrough(&policy::merge(&confs)).unwrap()
    }

    fn shown(rules: &PassthroughRules) -> Vec<String> {
        let PassthroughRules::Matched(matches) = rules else { panic!("{rules:?}") };
        let shown = |one: &PassthroughMatch| {
            let PassthroughMatch { destination, port, protocol, value } = one;
            let destination = match destination {
                OutsideDestination::AnyDomain => "any".to_owned(),
                OutsideDestination::Domain(name) => name.to_string(),
                OutsideDestination::Range(range) => format!("{}/{}", range.first(), range.length()),
            };
            format!("{} {destination} {port:?} ({value})", protocol.as_str())
        };
        matches.iter().map(shown).collect()
    }

    #[test]
    fn mode_of_the_policy_with_the_highest_precedence_applies() {
        let (all, none) = ("passthroughMode: All", "passthroughMode: None");
        assert_eq!(rules(&[none, all]), PassthroughRules::All);
        assert_eq!(rules(&[all, none]), PassthroughRules::None);
        assert_eq!(rules(&["{}"]), PassthroughRules::Matched([].into()));
    }

    #[test]
    fn matches_of_all_policies_are_added_and_normalized() {
        let found = rules(&[
            "appendMatch: [{type: Domain, value: API.example.com., port: 443, protocol: tls}, {type: IP, value: 10.0.0.1}]",
            "appendMatch: [{type: CIDR, value: 10.1.2.3/8, port: 80, protocol: http}, {type: IP, value: 10.0.0.1}]",
            "appendMatch: [{type: Domain, value: '*', protocol: tls}, {type: CIDR, value: 'fd00::/8', port: 1, protocol: mysql}]",
        ]);
        assert_eq!(
            shown(&found),
            [
                "tls any None (*)",
                "tls api.example.com Some(443) (API.example.com.)",
                "http 10.0.0.0/8 Some(80) (10.1.2.3/8)",
                "tcp 10.0.0.1/32 None (10.0.0.1)",
                "mysql fd00::/8 Some(1) (fd00::/8)",
            ]
        );
    }
}
