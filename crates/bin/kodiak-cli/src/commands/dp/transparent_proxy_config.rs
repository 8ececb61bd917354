//! `--transparent-proxy-config`: the file of kuma-dp with the ports of redirected traffic.

use std::path::Path;

use kodiak_model::yaml;
use kodiak_terminal::usage;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The part of the file that concerns a running proxy; the rest is for the rules that redirect traffic.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct TransparentProxyConfig {
    /// `dualstack`, `ipv4` or `ipv6`.
    ip_family_mode: Option<String>,
    pub(super) redirect: Redirect,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Redirect {
    pub(super) inbound: Flow,
    pub(super) outbound: Flow,
    pub(super) dns: Flow,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Flow {
    pub(super) enabled: Option<bool>,
    pub(super) port: Option<u16>,
}

impl TransparentProxyConfig {
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| usage(format!("cannot read {shown}: {error}")))?;
        let config = Self::parse(&text).map_err(|error| usage(format!("{shown}: {error}")))?;
        if !config.others.is_empty() {
            let settings = config.others.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            tracing::warn!(file = %shown, settings, "settings without effect here; `kodiak install transparent-proxy` installs the rules");
        }
        Ok(config)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut documents = yaml::parse(text).map_err(|error| error.message)?;
        let value = match (documents.pop(), documents.is_empty()) {
            (Some(document), true) => document.value,
            (None, _) => Value::Object(Map::new()),
            (Some(_), false) => return Err("more than one document".to_owned()),
        };
        let config: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        for (name, flow) in [("inbound", &config.redirect.inbound), ("outbound", &config.redirect.outbound)] {
            if flow.enabled == Some(false) {
                return Err(format!("redirect.{name}.enabled: false is not supported; both directions are redirected"));
            }
        }
        match config.ip_family_mode.as_deref() {
            None | Some("dualstack" | "ipv4") => Ok(config),
            Some(other) => Err(format!("ipFamilyMode: {other:?} must be dualstack or ipv4")),
        }
    }

    pub(super) fn ipv6(&self) -> bool {
        self.ip_family_mode.as_deref() == Some("dualstack")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_families_are_read() {
        let text = "kumaDPUser: kuma-dp\nipFamilyMode: dualstack\nredirect:\n  inbound: {port: 1}\n  dns: {enabled: true, port: 3}\n";
        let config = TransparentProxyConfig::parse(text).unwrap();
        assert_eq!((config.redirect.inbound.port, config.redirect.outbound.port), (Some(1), None));
        assert_eq!(config.redirect.dns, Flow { enabled: Some(true), port: Some(3) });
        assert!(config.ipv6() && config.others.contains_key("kumaDPUser"));
        assert_eq!(TransparentProxyConfig::parse("").unwrap(), TransparentProxyConfig::default());
    }

    #[test]
    fn unsupported_values_are_refused() {
        for text in ["redirect: {inbound: {enabled: false}}", "ipFamilyMode: ipv6", "redirect: {dns: {port: x}}", "- a"]
        {
            TransparentProxyConfig::parse(text).unwrap_err();
        }
    }
}
