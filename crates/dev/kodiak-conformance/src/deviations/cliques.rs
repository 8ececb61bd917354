//! Callers that `from` allows, where the recorded output allows callers that a rule denies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::suites::envoyconfig::callers::{Caller, callers, each_list, uris};

/// Condition of a principal for each URI: present or absent.
type Signs = BTreeMap<String, bool>;

/// [`super::MOST_SPECIFIC`]. The recorded output has combinations of tags, in groups of the same tags. One combination
/// of each group matches a caller, and where it is missing, its rule denies. The one with most tags decides.
pub(super) fn most_specific(filter: &mut Value) {
    let mut spoken_of = BTreeSet::new();
    let mut combinations = Vec::new();
    each_list(filter, &mut |principals| {
        uris(principals, &mut spoken_of);
        combinations.extend(principals.as_array().into_iter().flatten().filter_map(signs));
    });
    let Some(callers) = callers(&spoken_of) else { return };
    let groups: BTreeSet<Vec<String>> = combinations.iter().map(|signs| signs.keys().cloned().collect()).collect();
    let decides = |caller: &Caller| {
        let about = groups.iter().map(|group| group.iter().map(|uri| (uri.clone(), caller.contains(uri))).collect());
        about.max_by_key(|signs: &Signs| (signs.values().filter(|has| **has).count(), combinations.contains(signs)))
    };
    each_list(filter, &mut |principals| {
        let listed: Vec<Signs> = principals.as_array().into_iter().flatten().filter_map(signs).collect();
        let meant = callers.iter().filter(|caller| decides(caller).is_some_and(|signs| listed.contains(&signs)));
        *principals = meant.map(|caller| only(caller, &spoken_of)).collect();
    });
}

fn signs(principal: &Value) -> Option<Signs> {
    if let Some(all) = principal["andIds"]["ids"].as_array() {
        return all.iter().map(signs).try_fold(Signs::new(), |all, one| Some(all.into_iter().chain(one?).collect()));
    }
    if let Some(not) = principal.get("notId") {
        return Some(signs(not)?.into_iter().map(|(uri, has)| (uri, !has)).collect());
    }
    match principal["authenticated"]["principalName"]["exact"].as_str() {
        Some(uri) => Some(Signs::from([(uri.to_owned(), true)])),
        None => (principal["any"] == true).then(Signs::new),
    }
}

/// Callers that have exactly these of the mentioned URIs.
fn only(caller: &Caller, spoken_of: &BTreeSet<String>) -> Value {
    let uri = |uri: &String| json!({ "authenticated": { "principalName": { "exact": uri } } });
    let sign = |one: &String| if caller.contains(one) { uri(one) } else { json!({ "notId": uri(one) }) };
    if spoken_of.is_empty() {
        return json!({ "any": true });
    }
    json!({ "andIds": { "ids": spoken_of.iter().map(sign).collect::<Vec<_>>() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(name: &str) -> Value {
        json!({ "authenticated": { "principalName": { "exact": format!("spiffe://m/{name}") } } })
    }

    fn filter(principals: &[Value]) -> Value {
        json!({ "rules": { "policies": { "MeshTrafficPermission": { "principals": principals } } } })
    }

    fn not(principal: &Value) -> Value {
        json!({ "notId": principal })
    }

    #[test]
    fn caller_denied_by_its_own_rule_is_not_allowed_by_others() {
        // All callers but a and b.
        let mut recorded = filter(&[not(&uri("b")), not(&uri("a"))]);
        most_specific(&mut recorded);
        let neither = json!({ "andIds": { "ids": [not(&uri("a")), not(&uri("b"))] } });
        assert_eq!(recorded, filter(&[neither]));
    }

    #[test]
    fn correct_filters_keep_their_meaning() {
        let mut one = filter(&[uri("a")]);
        most_specific(&mut one);
        assert_eq!(one, filter(&[json!({ "andIds": { "ids": [uri("a")] } })]));
        let mut all = filter(&[json!({ "any": true })]);
        most_specific(&mut all);
        assert_eq!(all, filter(&[json!({ "any": true })]));
    }

    #[test]
    fn shadow_rule_does_not_match_callers_with_their_own_rule() {
        // Shadow rules for all callers, but a and b are allowed.
        let shadow = [not(&uri("a")), not(&uri("b"))];
        let policy =
            |principals: Vec<Value>| json!({ "policies": { "MeshTrafficPermission": { "principals": principals } } });
        let allowed = [uri("a"), uri("b")].into_iter().chain(shadow.clone()).collect();
        let mut recorded = json!({ "rules": policy(allowed), "shadowRules": policy(shadow.into()) });
        most_specific(&mut recorded);
        let watched = &recorded["shadowRules"]["policies"]["MeshTrafficPermission"]["principals"];
        assert_eq!(*watched, json!([{ "andIds": { "ids": [not(&uri("a")), not(&uri("b"))] } }]));
    }
}
