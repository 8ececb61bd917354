//! `matches` of inbound rules: the callers that a rule applies to.

use kodiak_model::{Choice, FieldPath, Problems, source_match::Match};

/// For policies in which a match without a condition matches every caller.
pub(crate) fn check(matches: Option<&Vec<Match>>, at: &FieldPath<'_>, problems: &mut Problems) {
    for (n, one) in matches.into_iter().flatten().enumerate() {
        one.check(&at.index(n), problems);
    }
}

/// For policies that must distinguish callers: every match needs a condition with a match type.
pub(crate) fn check_strictly(matches: Option<&Vec<Match>>, at: &FieldPath<'_>, problems: &mut Problems) {
    check(matches, at, problems);
    for (n, one) in matches.into_iter().flatten().enumerate() {
        let at = at.index(n);
        if one.spiffe_id.is_none() && one.sni.is_none() {
            problems.add(&at, "must specify at least one of 'spiffeID' or 'sni'");
        }
        let Some(spiffe_id) = &one.spiffe_id else { continue };
        let at = at.field("spiffeID");
        match &spiffe_id.match_type {
            None => problems.add(&at.field("type"), "must be set"),
            Some(Choice::Unknown(text)) => {
                let message = format!("unrecognized type {text:?}, supported values are: Exact, Prefix");
                problems.add(&at.field("type"), message);
            }
            Some(Choice::Known(_)) => (),
        }
    }
}

/// Whether the rule depends on the caller.
pub(crate) fn depend_on_caller(matches: Option<&Vec<Match>>) -> bool {
    matches.into_iter().flatten().any(|one| one.spiffe_id.is_some())
}

#[cfg(test)]
mod tests {
    use kodiak_model::{FieldPath, Problems};
    use serde_json::json;

    use super::check_strictly;

    #[test]
    fn strict_matches_require_a_match_type() {
        let matches = json!([
            {},
            { "spiffeID": { "value": "spiffe://east" } },
            { "spiffeID": { "type": "Regex", "value": "spiffe://east" } },
            { "spiffeID": { "type": "Prefix", "value": "spiffe://east" } },
        ]);
        let matches = serde_json::from_value(matches).unwrap();
        let mut problems = Problems::default();
        check_strictly(Some(&matches), &FieldPath::SPEC, &mut problems);
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "spec[0]: must specify at least one of 'spiffeID' or 'sni'",
                "spec[1].spiffeID.type: must be set",
                r#"spec[2].spiffeID.type: unrecognized type "Regex", supported values are: Exact, Prefix"#,
            ]
        );
    }
}
