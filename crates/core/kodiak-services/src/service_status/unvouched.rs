//! Condition of a MeshService that names members selected by what nobody vouches for.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_identity::Claim;
use kodiak_model::Condition;
use kodiak_rules::Proxy;

use super::conditions;

/// Type of the condition, which exists only while there are such members.
const VOUCHED: &str = "MembersVouchedFor";
/// Limit of options in the message.
const MOST_OPTIONS: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Unvouched {
    /// Members that are no endpoints.
    refused: BTreeSet<Arc<str>>,
    /// Endpoints whose certificate of a MeshIdentity is not accepted, as soon as they present it.
    partial: BTreeSet<Arc<str>>,
    claims: BTreeSet<Claim>,
}

impl Unvouched {
    pub(super) fn note(&mut self, proxy: &Proxy, is_endpoint: bool, unvouched: &[Claim]) {
        if unvouched.is_empty() {
            return;
        }
        let members = if is_endpoint { &mut self.partial } else { &mut self.refused };
        members.insert(proxy.name.clone());
        self.claims.extend(unvouched.iter().cloned());
    }

    pub(super) fn report(&self, conditions: &mut Vec<Condition>) {
        let Self { refused, partial, claims } = self;
        let refused = (!refused.is_empty()).then(|| {
            format!("{} are no endpoints, and their identities are not accepted", conditions::dataplanes(refused))
        });
        let partial = (!partial.is_empty()).then(|| {
            let named = conditions::dataplanes(partial);
            format!("{named} stop being endpoints when they present the certificate of a MeshIdentity")
        });
        let effects: Vec<String> = refused.into_iter().chain(partial).collect();
        let problem = (!effects.is_empty()).then(|| {
            let mut options: Vec<String> = claims.iter().take(MOST_OPTIONS).map(Claim::to_string).collect();
            if claims.len() > MOST_OPTIONS {
                options.push("...".to_owned());
            }
            let message = format!(
                "{}: the selector matches what their tokens do not bind. Issue their tokens with {} in `kodiak generate \
                 dataplane-token`, or apply the Dataplanes as a user and start their proxies without --dataplane-file.",
                effects.join("; "),
                options.join(" ")
            );
            ("TokenDoesNotBindSelector", message)
        });
        conditions::report(conditions, VOUCHED, problem);
    }
}
