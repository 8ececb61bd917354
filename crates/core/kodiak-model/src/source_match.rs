//! `matches` of inbound rules: the callers that a rule applies to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, FieldPath, Problems, dns, spiffe, words};

words! {
    pub enum SpiffeIdMatchType {
        Exact = "Exact",
        Prefix = "Prefix",
    }
}

words! {
    pub enum SniMatchType {
        Exact = "Exact",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Match {
    #[serde(rename = "spiffeID", skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<SpiffeIdMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<SniMatch>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "value"]))]
pub struct SpiffeIdMatch {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub match_type: Option<Choice<SpiffeIdMatchType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "value"]))]
pub struct SniMatch {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub match_type: Option<Choice<SniMatchType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl Match {
    pub fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        if let Some(spiffe_id) = &self.spiffe_id {
            // A prefix must be a valid SPIFFE ID too: `spiffe://domain` is one without a path.
            if let Err(error) = spiffe::parse(spiffe_id.value.as_deref().unwrap_or_default()) {
                problems.add(&at.field("spiffeID"), format!("must be a valid Spiffe ID: {error}"));
            }
        }
        if let Some(sni) = &self.sni {
            let at = at.field("sni");
            match &sni.match_type {
                None => problems.add(&at.field("type"), "must be set"),
                Some(Choice::Unknown(text)) => {
                    problems.add(&at.field("type"), format!("unrecognized type {text:?}, supported values are: Exact"));
                }
                Some(Choice::Known(SniMatchType::Exact)) => (),
            }
            match sni.value.as_deref().unwrap_or_default() {
                "" => problems.add(&at.field("value"), "must be set"),
                value => {
                    for message in dns::dns_1123_subdomain(value) {
                        problems.add(&at.field("value"), message);
                    }
                }
            }
        }
    }
}
