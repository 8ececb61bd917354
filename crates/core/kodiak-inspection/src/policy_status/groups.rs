//! Groups of proxies with the same policies of a kind. Each group is evaluated once.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use kodiak_rules::{
    Matched, Policy, Resources, Shadow,
    outbound::{Asked, NameResolution},
    subset,
};

use super::{PolicyStatusContext, callers};

pub(super) struct Groups {
    all: Vec<Group>,
    /// Groups of each policy by name, with its position among their policies.
    by_policy: HashMap<Arc<str>, Vec<(usize, usize)>>,
}

pub(super) struct Group {
    pub(super) matched: Arc<Matched>,
    /// Number of proxies.
    pub(super) proxies: usize,
    /// Number of those whose inbounds accept plain text only.
    pub(super) in_plain_text: usize,
    /// Number of those without transparent proxying.
    pub(super) not_redirected: usize,
    asked: OnceCell<Asked>,
    trouble: OnceCell<Option<String>>,
}

impl Groups {
    /// Groups of all proxies that can be configured.
    pub(super) fn of(kind: &str, context: PolicyStatusContext<'_>) -> Self {
        // Equal answers are the same while they are kept, and the groups keep them.
        let mut places: HashMap<*const Matched, usize> = HashMap::new();
        let mut all: Vec<Group> = Vec::new();
        for (name, proxy) in context.proxies.iter().filter(|(_, proxy)| !proxy.dataplane.is_builtin_gateway()) {
            let matched = context.policy_index.matched(kind, name, Shadow::Ignored);
            if matched.proxy.is_empty() {
                continue;
            }
            let place = *places.entry(Arc::as_ptr(&matched)).or_insert(all.len());
            if place == all.len() {
                let (asked, trouble) = (OnceCell::new(), OnceCell::new());
                all.push(Group { matched, proxies: 0, in_plain_text: 0, not_redirected: 0, asked, trouble });
            }
            all[place].proxies += 1;
            all[place].not_redirected += usize::from(context.not_redirected.contains(name));
            all[place].in_plain_text += usize::from(!callers::are_known(context.rollout, proxy));
        }
        let mut by_policy: HashMap<Arc<str>, Vec<(usize, usize)>> = HashMap::new();
        for (n, group) in all.iter().enumerate() {
            for (place, policy) in group.matched.proxy.iter().enumerate() {
                by_policy.entry(policy.name.clone()).or_default().push((n, place));
            }
        }
        Self { all, by_policy }
    }

    /// Groups of a policy, each with the policies of higher precedence.
    pub(super) fn about(&self, policy: &Policy) -> impl Iterator<Item = (&Group, &[Arc<Policy>])> {
        self.by_policy.get(&policy.name).into_iter().flatten().map(|(group, place)| {
            let group = &self.all[*group];
            (group, &group.matched.proxy[place + 1..])
        })
    }
}

impl Group {
    /// Rules of its policies for destinations that are resources.
    pub(super) fn asked(&self, resolution: NameResolution) -> &Asked {
        self.asked.get_or_init(|| Asked::new(&self.matched.proxy, resolution))
    }

    /// Why there are no rules for destinations by their tags.
    pub(super) fn trouble(&self, resources: &Resources) -> Option<&str> {
        let trouble = || subset::to(&self.matched.proxy, resources).err().map(|trouble| trouble.to_string());
        self.trouble.get_or_init(trouble).as_deref()
    }

    /// Policies of each inbound and listener that a policy selects, and those of higher precedence.
    pub(super) fn places<'a>(
        &'a self,
        policy: &'a Policy,
    ) -> impl Iterator<Item = (&'a [Arc<Policy>], &'a [Arc<Policy>])> + 'a {
        let of = |all: &'a BTreeMap<usize, Vec<Arc<Policy>>>| all.values();
        of(&self.matched.inbounds).chain(of(&self.matched.listeners)).filter_map(|policies| {
            let place = policies.iter().position(|other| other.name == policy.name)?;
            Some((policies.as_slice(), &policies[place + 1..]))
        })
    }
}
