//! Certificates of proxies at a step of the rollout: issuers, and the SPIFFE IDs that clients expect.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Labels,
    go_template::{Template, label_of},
    kinds::mesh_identity::{DEFAULT_PATH_ON_KUBERNETES, DEFAULT_PATH_ON_UNIVERSAL, FUNCTIONS},
    labels, spiffe, tags,
};
use kodiak_rollout::{AppliedBackend, AppliedIdentity, AppliedProvider, Issuers, Rollout};
use kodiak_rules::Proxy;

use crate::vouched::unvouched_labels;

pub(crate) const SERVICE_ACCOUNT: &str = "k8s.kuma.io/service-account";

/// Issuer of the certificate of a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Issuer<'a> {
    /// Backend of the mesh.
    Backend(&'a AppliedBackend),
    Identity {
        identity: &'a Arc<AppliedIdentity>,
        provider: &'a AppliedProvider,
        spiffe_id: String,
    },
}

/// Why a MeshIdentity gives no SPIFFE ID to a proxy that it selects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoSpiffeId {
    /// The path cannot be rendered, or gives no valid SPIFFE ID.
    Template(String),
    /// The proxy registered its Dataplane with these labels, and its token does not bind them.
    UnboundLabels(Vec<String>),
}

impl std::fmt::Display for NoSpiffeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Template(error) => write!(f, "{error}"),
            Self::UnboundLabels(labels) => write!(
                f,
                "the proxy registered its own Dataplane, and its token does not bind the labels {}: bind them in the token, or apply the Dataplane as an administrator",
                labels.join(", ")
            ),
        }
    }
}

/// `None` for a proxy without a certificate.
pub fn issuer_of<'a>(issuers: &'a Issuers, proxy: &Proxy) -> Option<Issuer<'a>> {
    let proxy = &*as_presented(issuers, proxy);
    let identity = best_of(issuers, proxy).and_then(|(identity, provider)| {
        Some(Issuer::Identity { identity, provider, spiffe_id: spiffe_id(identity, proxy).ok()? })
    });
    identity.or_else(|| issuers.signer.as_ref().map(Issuer::Backend))
}

/// The MeshIdentity that issues to a proxy: most labels, then first name. Those without a provider never issue.
pub fn best_match<'a>(issuers: &'a Issuers, proxy: &Proxy) -> Option<(&'a Arc<AppliedIdentity>, &'a AppliedProvider)> {
    best_of(issuers, &as_presented(issuers, proxy))
}

/// The proxy with the labels that its SPIFFE ID follows from, while a user's change of its labels is on the way.
pub(crate) fn as_presented<'a>(issuers: &Issuers, proxy: &'a Proxy) -> Cow<'a, Proxy> {
    match issuers.presented.get(&proxy.name) {
        // Only labels that somebody vouched for are kept.
        Some(labels) => Cow::Owned(Proxy { labels: labels.clone(), admission: None, ..proxy.clone() }),
        None => Cow::Borrowed(proxy),
    }
}

fn best_of<'a>(issuers: &'a Issuers, proxy: &Proxy) -> Option<(&'a Arc<AppliedIdentity>, &'a AppliedProvider)> {
    let issuing = issuers.identities.iter().filter_map(|identity| Some((identity, identity.provider.as_ref()?)));
    let rank = |(identity, _): &(&Arc<AppliedIdentity>, _)| (identity.selector.0.len(), Reverse(identity.name.clone()));
    issuing.filter(|(identity, _)| selects(identity, proxy)).max_by_key(rank)
}

/// Whether a proxy gets a certificate. A backend issues none to a proxy without a service and a workload.
pub fn has_certificate(issuers: &Issuers, proxy: &Proxy) -> bool {
    match issuer_of(issuers, proxy) {
        Some(Issuer::Identity { .. }) => true,
        Some(Issuer::Backend(_)) => {
            proxy.labels.contains_key(labels::WORKLOAD)
                || proxy.dataplane.tag_sets().any(|tags| tags.contains_key(tags::SERVICE))
        }
        None => false,
    }
}

/// SPIFFE IDs of MeshIdentities that clients expect from a server: of the one that issues, before and after a change, and of
/// those without a provider that select it.
pub fn expected_ids(rollout: &Rollout, server: &Proxy) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for issuers in rollout.all_issuers() {
        let server = &*as_presented(issuers, server);
        let announced = issuers.identities.iter().filter(|each| each.provider.is_none() && selects(each, server));
        let issuing = best_of(issuers, server).map(|(identity, _)| identity);
        all.extend(announced.chain(issuing).filter_map(|identity| spiffe_id(identity, server).ok()));
    }
    all
}

/// SPIFFE ID that an identity gives to a proxy that it selects.
pub fn spiffe_id(identity: &AppliedIdentity, proxy: &Proxy) -> Result<String, NoSpiffeId> {
    let trust_domain = identity.trust_domain.to_string();
    let template = path_template(identity.path.as_deref(), &proxy.labels);
    if proxy.admission.is_some() {
        let used = identity.selector.0.keys().cloned().chain(labels_of(template));
        let unbound = unvouched_labels(proxy, used);
        if !unbound.is_empty() {
            return Err(NoSpiffeId::UnboundLabels(unbound.into_iter().collect()));
        }
    }
    render_path(template, trust_domain, &proxy.labels).map_err(NoSpiffeId::Template)
}

fn selects(identity: &AppliedIdentity, proxy: &Proxy) -> bool {
    identity.selector.0.iter().all(|(key, value)| proxy.labels.get(key) == Some(value))
}

/// The template, or the default for the environment of the proxy.
pub(crate) fn path_template<'a>(written: Option<&'a str>, proxy: &Labels) -> &'a str {
    let on_kubernetes = proxy.get(labels::ENV).is_some_and(|environment| environment == "kubernetes");
    written.unwrap_or(if on_kubernetes { DEFAULT_PATH_ON_KUBERNETES } else { DEFAULT_PATH_ON_UNIVERSAL })
}

/// Whole SPIFFE ID, from the template of its path.
pub(crate) fn render_path(template: &str, trust_domain: String, proxy: &Labels) -> Result<String, String> {
    let label = |key: &str| proxy.get(key).cloned().unwrap_or_default();
    let start = format!("spiffe://{trust_domain}");
    let fields = BTreeMap::from([
        ("TrustDomain", trust_domain),
        ("Namespace", label(labels::NAMESPACE)),
        ("ServiceAccount", label(SERVICE_ACCOUNT)),
        ("Workload", label(labels::WORKLOAD)),
    ]);
    let parsed = Template::parse(template, &FUNCTIONS).map_err(|error| error.to_string())?;
    let path = parsed.render(&fields, &label_of(proxy)).map_err(|error| error.to_string())?;
    let id = format!("{start}{path}");
    match spiffe::parse(&id) {
        Ok(_) => Ok(id),
        Err(error) => Err(missing_label(template, proxy)
            .map_or_else(|| format!("{id:?} is not a valid SPIFFE ID: {error}"), |label| missing(label, template))),
    }
}

/// The label of a field that is empty.
fn missing_label(template: &str, proxy: &Labels) -> Option<&'static str> {
    let fields =
        [("Workload", labels::WORKLOAD), ("Namespace", labels::NAMESPACE), ("ServiceAccount", SERVICE_ACCOUNT)];
    let is_missing = |label: &str| proxy.get(label).is_none_or(String::is_empty);
    let found = fields.iter().find(|(field, label)| uses_field(template, field) && is_missing(label));
    found.map(|(_, label)| *label)
}

fn missing(label: &str, template: &str) -> String {
    format!("the Dataplane needs the label {label}, which the path template {template:?} uses")
}

/// Labels of a Dataplane that a path template uses.
fn labels_of(template: &str) -> BTreeSet<String> {
    let fields =
        [("Workload", labels::WORKLOAD), ("Namespace", labels::NAMESPACE), ("ServiceAccount", SERVICE_ACCOUNT)];
    let mut all: BTreeSet<String> =
        fields.iter().filter(|(field, _)| uses_field(template, field)).map(|(_, label)| (*label).to_owned()).collect();
    if let Ok(parsed) = Template::parse(template, &FUNCTIONS) {
        let used = std::cell::RefCell::new(BTreeSet::new());
        let fields: BTreeMap<&str, String> =
            ["TrustDomain", "Namespace", "ServiceAccount", "Workload"].map(|field| (field, "x".to_owned())).into();
        let _ = parsed.render(&fields, &|_, key| {
            used.borrow_mut().insert(key.to_owned());
            Ok("x".to_owned())
        });
        all.extend(used.into_inner());
    }
    all
}

/// Whether the result depends on a field.
fn uses_field(template: &str, field: &str) -> bool {
    let Ok(parsed) = Template::parse(template, &FUNCTIONS) else { return false };
    let rendered = |value: &str| {
        let fields: BTreeMap<&str, String> = ["TrustDomain", "Namespace", "ServiceAccount", "Workload"]
            .map(|each| (each, if each == field { value.to_owned() } else { "x".to_owned() }))
            .into();
        parsed.render(&fields, &|_, _| Ok("x".to_owned())).ok()
    };
    rendered("x") != rendered("y")
}
