//! Legacy `kuma.io/service` names of Kubernetes Services: `<name>_<namespace>_svc_<port>`.

/// Parts of a legacy name. Without a port it names a workload that has no Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LegacyName<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub port: Option<u32>,
}

impl<'a> LegacyName<'a> {
    /// `None` when the text does not have this form. The word before the port does not matter.
    pub fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split('_').collect();
        match parts[..] {
            [name, namespace, _, port] => Some(Self { name, namespace, port: Some(port.parse().ok()?) }),
            [name, namespace, _] => Some(Self { name, namespace, port: None }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_names_have_three_or_four_parts() {
        let old = |name, namespace, port| Some(LegacyName { name, namespace, port });
        assert_eq!(LegacyName::parse("demo-app_kuma-demo_svc_5000"), old("demo-app", "kuma-demo", Some(5000)));
        assert_eq!(LegacyName::parse("job_batch_svc"), old("job", "batch", None));
        for other in ["backend", "a_b", "a_b_svc_http", "a_b_c_d_5"] {
            assert_eq!(LegacyName::parse(other), None, "{other}");
        }
    }
}
