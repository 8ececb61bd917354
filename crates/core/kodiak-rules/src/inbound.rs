//! Rules for callers by identity (`rules`), of one inbound.

use std::sync::Arc;

use kodiak_model::{
    policy::Conf,
    source_match::{Match, SpiffeIdMatchType},
};

use crate::{Policy, merge};

#[derive(Debug, Clone, PartialEq)]
pub struct InboundRule {
    /// `None`: all callers.
    pub matches: Option<Match>,
    pub conf: Conf,
    pub policy: Arc<Policy>,
    /// Index of the policy's item.
    pub index: usize,
}

/// Policies are in ascending precedence; so are the rules for all callers, which come after all others.
pub fn rules(policies: &[Arc<Policy>]) -> Vec<InboundRule> {
    let mut rules: Vec<InboundRule> = policies.iter().flat_map(of_policy).collect();
    rules.sort_by_key(|rule| rank(rule.matches.as_ref()));
    rules
}

/// Merged conf of the rules for all callers.
pub fn for_everybody(rules: &[InboundRule]) -> Option<Conf> {
    let mut confs = rules.iter().filter(|rule| rule.matches.is_none()).map(|rule| &rule.conf).peekable();
    confs.peek()?;
    Some(merge::patch(confs))
}

/// One rule for each match. Where the kind allows it, items of `from` are rules for all callers.
fn of_policy(policy: &Arc<Policy>) -> Vec<InboundRule> {
    let rule = |index: usize, matches: Option<Match>, conf: &Conf| InboundRule {
        matches,
        conf: conf.clone(),
        policy: policy.clone(),
        index,
    };
    let from_as_rules = policy.kind.policy.is_some_and(|facts| facts.from_as_rules);
    if policy.body.rules.is_empty() && from_as_rules {
        return policy.body.from.iter().enumerate().map(|(n, item)| rule(n, None, &item.conf)).collect();
    }
    let mut rules = Vec::new();
    for (n, item) in policy.body.rules.iter().enumerate() {
        if item.matches.is_empty() {
            rules.push(rule(n, None, &item.conf));
        }
        rules.extend(item.matches.iter().map(|matches| rule(n, Some(matches.clone()), &item.conf)));
    }
    rules
}

/// More specific matches come first.
fn rank(matches: Option<&Match>) -> (bool, u8, bool) {
    let Some(Match { spiffe_id, sni }) = matches else { return (true, 0, true) };
    let spiffe_id = match spiffe_id.as_ref().map(|one| &one.match_type) {
        Some(Some(match_type)) if match_type.is(SpiffeIdMatchType::Exact) => 0,
        Some(_) => 1,
        None => 2,
    };
    (false, spiffe_id, sni.is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{FAULT, TIMEOUT, policy};

    fn shown(policies: &[Arc<Policy>]) -> Vec<Value> {
        let shown = |rule: InboundRule| json!([rule.policy.name, rule.index, rule.matches, rule.conf.json()]);
        rules(policies).into_iter().map(shown).collect()
    }

    #[test]
    fn each_match_is_a_rule_and_the_most_specific_comes_first() {
        let exact = json!({ "spiffeID": { "type": "Exact", "value": "spiffe://a/b" } });
        let prefix = json!({ "spiffeID": { "type": "Prefix", "value": "spiffe://a" } });
        let sni = json!({ "sni": { "type": "Exact", "value": "x.y" } });
        let both = json!({ "spiffeID": prefix["spiffeID"], "sni": sni["sni"] });
        let weak = json!({ "rules": [
            { "default": { "n": 0 } },
            { "matches": [sni, prefix], "default": { "n": 1 } },
        ] });
        let strong =
            json!({ "rules": [{ "matches": [both, exact, prefix], "default": { "n": 2 } }, { "default": {} }] });
        let expected = vec![
            json!(["strong", 0, exact, { "n": 2 }]),
            json!(["strong", 0, both, { "n": 2 }]),
            json!(["weak", 1, prefix, { "n": 1 }]),
            json!(["strong", 0, prefix, { "n": 2 }]),
            json!(["weak", 1, sni, { "n": 1 }]),
            json!(["weak", 0, null, { "n": 0 }]),
            json!(["strong", 1, null, {}]),
        ];
        assert_eq!(shown(&[policy(&TIMEOUT, "weak", &weak), policy(&TIMEOUT, "strong", &strong)]), expected);
    }

    #[test]
    fn from_counts_as_rules_only_if_the_kind_allows_and_without_rules() {
        let from = json!({ "from": [{ "targetRef": { "kind": "Mesh" }, "default": { "a": 1 } }] });
        let both = json!({ "from": from["from"], "rules": [{ "default": { "b": 2 } }] });
        assert_eq!(shown(&[policy(&TIMEOUT, "p", &from)]), [json!(["p", 0, null, { "a": 1 }])]);
        assert_eq!(shown(&[policy(&TIMEOUT, "p", &both)]), [json!(["p", 0, null, { "b": 2 }])]);
        assert!(shown(&[policy(&FAULT, "p", &from)]).is_empty());
    }

    #[test]
    fn rules_for_all_callers_are_merged() {
        let [weak, strong] = [json!({ "a": 1, "b": 1 }), json!({ "b": 2 })]
            .map(|conf| policy(&TIMEOUT, "p", &json!({ "rules": [{ "default": conf }] })));
        let rules = rules(&[weak, strong]);
        assert_eq!(for_everybody(&rules), Some(Conf::new(json!({ "a": 1, "b": 2 }))));
        assert_eq!(for_everybody(&[]), None);
    }
}
