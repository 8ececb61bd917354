//! VirtualOutbound to HostnameGenerator, where it can be expressed.
//!
//! A VirtualOutbound makes hostnames and ports from tags; a HostnameGenerator makes hostnames of MeshServices, whose ports
//! are their own. So only one for all services by name can be converted, and only if its port is that of all MeshServices.

use serde_json::{Value, json};

use super::{
    LegacyPolicy,
    facts::MeshFacts,
    fields::Fields,
    outcome::{NewResource, Outcomes},
    selector::Selector,
};

pub(super) fn convert(policies: Vec<LegacyPolicy>, facts: &MeshFacts, out: &mut Outcomes) {
    for policy in policies {
        match template(&policy, facts) {
            Ok(template) => {
                let mesh = &policy.resource.mesh;
                let spec = json!({
                    "selector": { "meshService": { "matchLabels": { "kuma.io/mesh": mesh } } },
                    "template": template,
                });
                let name = format!("{mesh}-{}", policy.resource.name);
                let new = NewResource { kind: "HostnameGenerator", mesh: String::new(), name, spec };
                out.convert(&[policy.resource], vec![new], Vec::new());
            }
            Err(reason) => {
                let advice =
                    "migrate to MeshService (docs: Migrate to MeshService), and write a HostnameGenerator by hand";
                out.leave_out(policy.resource, reason, advice);
            }
        }
    }
}

fn template(policy: &LegacyPolicy, facts: &MeshFacts) -> Result<String, String> {
    if !facts.has_mesh_services() {
        return Err("the mesh has no MeshServices, and a HostnameGenerator makes hostnames of MeshServices".to_owned());
    }
    let selectors = policy.document.get("selectors").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for selector in selectors {
        if Selector::read(selector)? != Selector::All {
            return Err("it selects by tags, and a HostnameGenerator selects MeshServices by labels".to_owned());
        }
    }
    let mut conf = Fields::of(policy.document.get("conf").cloned(), "conf")?;
    let port = conf.text("port")?.unwrap_or_default();
    let port: u64 = port
        .parse()
        .map_err(|_| format!("conf.port {port:?} is a template, and MeshServices have ports of their own"))?;
    if facts.service_ports.len() != 1 || !facts.service_ports.contains(&port) {
        return Err(format!("its port {port} is not the port of all MeshServices"));
    }
    let parameters = conf.list("parameters")?;
    let [parameter] = parameters.as_slice() else {
        return Err("it uses several tags, and a HostnameGenerator has only the name of a MeshService".to_owned());
    };
    let text = |field: &str| parameter.get(field).and_then(Value::as_str);
    let name = text("name").unwrap_or_default();
    if text("tagKey").or_else(|| text("tag_key")).unwrap_or(name) != "kuma.io/service" {
        return Err("it uses another tag than kuma.io/service".to_owned());
    }
    let host = conf.text("host")?.unwrap_or_default();
    conf.end()?;
    let plain = host.replace("{{ ", "{{").replace(" }}", "}}");
    let template = plain.replace(&format!("{{{{.{name}}}}}"), "{{ .DisplayName }}");
    let only_known = template.matches("{{").count() == template.matches("{{ .DisplayName }}").count();
    if only_known { Ok(template) } else { Err(format!("conf.host {host:?} calls functions")) }
}
