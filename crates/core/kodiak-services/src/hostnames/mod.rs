//! Hostnames that HostnameGenerators give to services, updated by changes.
//!
//! **Invariant:** the result depends on the current generators and services, not on the order of changes.
//! **Invariant:** a change of a service recomputes only that service, and those that claim a hostname whose owner
//! changed.

mod claims;
mod naming;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_model::{
    Condition, Labels, Word,
    go_template::Template,
    kinds::{
        dataplane::BackendKind,
        hostname_generator::{Address, AddressOrigin, GeneratorRef, GeneratorStatus, HostnameGenerator, Selector},
    },
};
use kodiak_rules::{Meta, Origin};

use claims::{Claim, Claims, Contested, Rank};

pub use naming::{parse, render, selector_of};

/// MeshService, MeshExternalService or MeshMultiZoneService.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceKey {
    pub kind: BackendKind,
    pub mesh: Arc<str>,
    pub name: Arc<str>,
}

/// Fields of a service that templates use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFields {
    pub labels: Arc<Labels>,
    pub created: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Generator {
    pub labels: Arc<Labels>,
    pub created: Timestamp,
    pub spec: HostnameGenerator,
}

#[derive(Default)]
pub struct Hostnames {
    /// Zone of services without a zone label.
    zone: String,
    generators: BTreeMap<Arc<str>, Prepared>,
    services: BTreeMap<ServiceKey, Service>,
    claims: Claims,
}

/// Generator with its parsed template.
#[derive(PartialEq)]
struct Prepared {
    rank: Rank,
    selector: Selector,
    /// Or the reason why it is not valid.
    template: Result<Template, String>,
}

struct Service {
    named: TemplateFields,
    /// Hostname, or the error of the template, of each generator that selects it, by the name of the generator.
    wanted: BTreeMap<Arc<str>, Result<Arc<str>, String>>,
}

impl Hostnames {
    pub fn new(zone: &str) -> Self {
        Self { zone: zone.to_owned(), ..Self::default() }
    }

    /// Returns the services whose hostnames may have changed.
    pub fn set_generator(&mut self, name: &Arc<str>, generator: Option<Generator>) -> BTreeSet<ServiceKey> {
        let new = generator.map(|generator| Prepared::new(name, generator));
        if self.generators.get(name) == new.as_ref() {
            return BTreeSet::new();
        }
        let old = self.generators.remove(name);
        let mut concerned = BTreeSet::new();
        for (key, service) in &mut self.services {
            let before = service.wanted.remove(name);
            if let (Some(Ok(hostname)), Some(old)) = (&before, &old) {
                self.claims.remove(&key.contested(hostname), &key.claim(&service.named, old));
            }
            let after = new.as_ref().and_then(|new| new.hostname(key, &service.named, &self.zone));
            if before.is_some() || after.is_some() {
                concerned.insert(key.clone());
            }
            let (Some(after), Some(new)) = (after, &new) else { continue };
            if let Ok(hostname) = &after {
                self.claims.add(key.contested(hostname), key.claim(&service.named, new));
            }
            service.wanted.insert(name.clone(), after);
        }
        if let Some(new) = new {
            self.generators.insert(name.clone(), new);
        }
        concerned.extend(self.claims.settle());
        concerned
    }

    /// Returns the service, and those whose hostnames changed because of it.
    pub fn set_service(&mut self, key: &ServiceKey, service: Option<TemplateFields>) -> BTreeSet<ServiceKey> {
        let mut concerned = BTreeSet::from([key.clone()]);
        if self.services.get(key).map(|service| &service.named) == service.as_ref() {
            return concerned;
        }
        if let Some(Service { named, wanted }) = self.services.remove(key) {
            for (hostname, generator) in made_by(&wanted, &self.generators) {
                self.claims.remove(&key.contested(hostname), &key.claim(&named, generator));
            }
        }
        if let Some(named) = service {
            let wanted = self
                .generators
                .iter()
                .filter_map(|(name, generator)| Some((name.clone(), generator.hostname(key, &named, &self.zone)?)));
            let wanted = wanted.collect();
            for (hostname, generator) in made_by(&wanted, &self.generators) {
                self.claims.add(key.contested(hostname), key.claim(&named, generator));
            }
            self.services.insert(key.clone(), Service { named, wanted });
        }
        concerned.extend(self.claims.settle());
        concerned
    }

    /// Hostname status of a service, by generator name. Generators that do not select it have none.
    pub fn of(&self, key: &ServiceKey) -> (Vec<Address>, Vec<GeneratorStatus>) {
        let (mut addresses, mut statuses) = (Vec::new(), Vec::new());
        for (generator, wanted) in self.services.get(key).into_iter().flat_map(|service| &service.wanted) {
            let by = GeneratorRef { core_name: generator.to_string() };
            let outcome = match wanted {
                Err(error) => generated("False", "TemplateError", error.clone()),
                Ok(hostname) => match self.claims.owner(&key.contested(hostname)) {
                    Some(owner) if *owner != key.name => {
                        let kind = key.kind.text();
                        let message = format!("{hostname} belongs to {kind} {owner}, which a generator named first");
                        generated("False", "Collision", message)
                    }
                    _ => {
                        let origin = Some(AddressOrigin::HostnameGenerator.into());
                        let hostname = hostname.to_string();
                        addresses.push(Address { hostname, origin, hostname_generator_ref: by.clone() });
                        generated("True", "Generated", String::new())
                    }
                },
            };
            statuses.push(GeneratorStatus { hostname_generator_ref: by, conditions: vec![outcome] });
        }
        (addresses, statuses)
    }
}

impl Prepared {
    fn new(name: &Arc<str>, generator: Generator) -> Self {
        let Generator { labels, created, spec } = generator;
        // What others do with an extension makes no difference here.
        let HostnameGenerator { selector, template, extension: _ } = spec;
        let is_local = Meta { mesh: "", name, labels: &labels }.origin() == Origin::Zone;
        let rank = Rank { is_from_elsewhere: !is_local, created, name: name.clone() };
        Self { rank, selector, template: parse(&template) }
    }

    /// `None` when the service is not selected.
    fn hostname(&self, key: &ServiceKey, service: &TemplateFields, zone: &str) -> Option<Result<Arc<str>, String>> {
        let selector = selector_of(&self.selector, key.kind)?;
        let meta = Meta { mesh: &key.mesh, name: &key.name, labels: &service.labels };
        let made = || naming::hostname(self.template.as_ref().map_err(String::clone)?, &meta, zone);
        selector.matches(&service.labels).then(|| made().map(Arc::from))
    }
}

impl ServiceKey {
    fn contested(&self, hostname: &Arc<str>) -> Contested {
        Contested { kind: self.kind, mesh: self.mesh.clone(), hostname: hostname.clone() }
    }

    fn claim(&self, service: &TemplateFields, generator: &Prepared) -> Claim {
        Claim { generator: generator.rank.clone(), created: service.created, service: self.name.clone() }
    }
}

/// Valid hostnames, and their generators.
fn made_by<'a>(
    wanted: &'a BTreeMap<Arc<str>, Result<Arc<str>, String>>,
    generators: &'a BTreeMap<Arc<str>, Prepared>,
) -> impl Iterator<Item = (&'a Arc<str>, &'a Prepared)> {
    wanted.iter().filter_map(|(name, hostname)| Some((hostname.as_ref().ok()?, &generators[name])))
}

fn generated(status: &str, reason: &str, message: String) -> Condition {
    Condition { condition_type: "Generated".to_owned(), status: status.to_owned(), reason: reason.to_owned(), message }
}
