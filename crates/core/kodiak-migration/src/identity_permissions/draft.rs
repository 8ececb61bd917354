//! `rules` of one policy, from the items of its `from`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Cancellation, Cancelled,
    policy::{self, Body, RuleItem},
    spiffe, tags,
};
use kodiak_policies::{
    Entry, Source,
    mesh_traffic_permission::{Action, Caller, Conf, Permissions},
};
use kodiak_rules::Policy;
use serde_json::{Value, json};

use super::{
    ConvertedPermission, PermissionFinding, PermissionOutcome,
    callers::{CallerClass, Holders},
    inbounds::InboundSet,
    kri_of, proof, show,
};

/// Path and reason of a refusal.
type Refused = (String, String);

pub(super) struct Draft<'a> {
    policy: &'a Arc<Policy>,
    items: Vec<DraftItem>,
}

/// Item of `from`, with the callers about which it decides within its policy.
struct DraftItem {
    action: Action,
    /// The item decides about all callers that no later item matches.
    everybody: bool,
    /// SPIFFE IDs by caller class.
    callers: BTreeMap<usize, BTreeSet<String>>,
    /// A part was dropped, because other policies override it.
    dropped: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn of(
        policy: &'a Arc<Policy>,
        mesh: &str,
        callers: &[CallerClass],
        holders: &Holders<'_>,
    ) -> Result<Self, Refused> {
        let entries = Entry::of(&kri_of(policy), &policy.body);
        let matching: Vec<Matching> = entries
            .iter()
            .enumerate()
            .map(|(n, entry)| Matching::of(entry, mesh, callers).map_err(|reason| (at(n), reason)))
            .collect::<Result<_, _>>()?;
        // The last item that matches a class decides about it.
        let mut deciding: Vec<Option<usize>> = vec![None; callers.len()];
        for (n, item) in matching.iter().enumerate() {
            item.classes.iter().for_each(|class| deciding[*class] = Some(n));
        }
        let actions: Vec<Option<Action>> = deciding.iter().map(|item| item.map(|n| matching[n].action)).collect();
        let last_for_everybody = matching.iter().rposition(|item| item.everybody);
        let mut items = Vec::new();
        for (n, item) in matching.iter().enumerate() {
            let mut decided = BTreeMap::new();
            if !item.everybody {
                for class in item.classes.iter().copied().filter(|class| deciding[*class] == Some(n)) {
                    let ids = ids(class, item, callers, holders, &actions).map_err(|reason| (at(n), reason))?;
                    decided.insert(class, ids);
                }
            }
            let everybody = last_for_everybody == Some(n);
            items.push(DraftItem { action: item.action, everybody, callers: decided, dropped: false });
        }
        Ok(Self { policy, items })
    }

    pub(super) fn converted(&self, callers: &[CallerClass]) -> ConvertedPermission {
        let mut lists: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
        for (action, field) in LISTS {
            let items = || self.items.iter().filter(|item| item.action == action);
            let everybody = items().any(|item| item.everybody).then(|| json!({}));
            let ids: BTreeSet<&String> = items().flat_map(|item| item.callers.values().flatten()).collect();
            let exact = ids.into_iter().map(|id| json!({ "spiffeID": { "type": "Exact", "value": id } }));
            let list: Vec<Value> = everybody.into_iter().chain(exact).collect();
            if !list.is_empty() {
                lists.insert(field, list);
            }
        }
        let rules = (!lists.is_empty()).then(|| json!([{ "default": lists }]));
        let mut findings: Vec<PermissionFinding> = (0..self.items.len()).map(|n| self.finding(n, callers)).collect();
        if rules.is_none() {
            let message = "it only denies callers that no policy allows, which is the default; it can be deleted";
            for finding in &mut findings {
                (finding.outcome, finding.message) = (PermissionOutcome::Unchanged, message.to_owned());
            }
        }
        ConvertedPermission { policy: self.policy.clone(), rules, findings }
    }

    fn finding(&self, n: usize, callers: &[CallerClass]) -> PermissionFinding {
        let DraftItem { action, everybody, callers: decided, dropped } = &self.items[n];
        let field = LISTS.iter().find(|(of, _)| of == action).map_or("", |(_, field)| field);
        let ids: BTreeSet<&String> = decided.values().flatten().collect();
        let new: Vec<String> = everybody
            .then(|| format!("{field} everybody"))
            .into_iter()
            .chain(ids.into_iter().map(|id| format!("{field} {id}")))
            .collect();
        let without = decided.keys().map(|class| &callers[*class]).find(|class| class.ids.is_empty());
        let allows_everybody = self.items.iter().any(|item| item.everybody && item.action != Action::Deny);
        let message = if new.is_empty() && *dropped {
            "dropped: policies of higher precedence allow these callers, and all others are denied by default"
                .to_owned()
        } else if new.is_empty() {
            "dropped: later items of this policy override it".to_owned()
        } else if let Some(class) = without {
            format!(
                "no MeshIdentity gives a SPIFFE ID to Dataplane {}: if one will, create it without a provider first",
                class.example
            )
        } else if *action == Action::Deny && !everybody && allows_everybody {
            "Dataplanes with these tags that get another SPIFFE ID later are not denied: add it to the rules then"
                .to_owned()
        } else {
            String::new()
        };
        let outcome = if new.is_empty() { PermissionOutcome::Dropped } else { PermissionOutcome::Converted };
        let reference = show(&self.policy.body.from[n].target);
        PermissionFinding { path: at(n), reference, outcome, new, message }
    }
}

/// Lists of a rule by the action of their callers, in the order in which they decide.
const LISTS: [(Action, &str); 3] =
    [(Action::Deny, "deny"), (Action::AllowWithShadowDeny, "allowWithShadowDeny"), (Action::Allow, "allow")];

fn at(n: usize) -> String {
    format!("spec.from[{n}]")
}

/// Callers that match one item.
struct Matching {
    action: Action,
    everybody: bool,
    /// Value of `kuma.io/service` in the item, if it names one.
    service: Option<String>,
    classes: BTreeSet<usize>,
    mesh: String,
}

impl Matching {
    fn of(entry: &Entry, mesh: &str, callers: &[CallerClass]) -> Result<Self, String> {
        let Source::From(target) = &entry.source else { return Err("it is not an item of `from`".to_owned()) };
        let action = entry.conf.read::<Conf>().action.and_then(|action| action.known());
        let (Some(action), Some(_)) = (action, target.known_kind()) else {
            return Err("its kind or action is unknown to this version".to_owned());
        };
        let permissions = Permissions::of(std::slice::from_ref(entry));
        let matches = |uris: &[String]| permissions.verdict(mesh, &Caller { uris, sni: None }).policy.is_some();
        let everybody = matches(&[]);
        let classes: BTreeSet<usize> = (0..callers.len()).filter(|n| matches(&callers[*n].legacy)).collect();
        if !everybody && classes.is_empty() {
            return Err(format!(
                "no Dataplane is a caller with {}: delete the item, or register its Dataplanes first",
                show(target)
            ));
        }
        let tagged = target.tags.as_ref().and_then(|tags| tags.get(tags::SERVICE));
        let service = target.name.as_ref().filter(|name| !name.is_empty()).or(tagged).filter(|value| *value != "*");
        Ok(Self { action, everybody, service: service.cloned(), classes, mesh: mesh.to_owned() })
    }
}

/// SPIFFE IDs of a caller class, for the item that decides about it. `actions` of the policy by class.
fn ids(
    class: usize,
    item: &Matching,
    callers: &[CallerClass],
    holders: &Holders<'_>,
    actions: &[Option<Action>],
) -> Result<BTreeSet<String>, String> {
    let own = &callers[class];
    let shared_with = |id: &str| {
        let mut others = holders.of_id(id).filter(|other| actions[*other] != Some(item.action));
        others.next().map(|other| &callers[other])
    };
    let shared = |id: &str, other: &CallerClass| {
        format!(
            "{id} is the SPIFFE ID of Dataplane {}, which the item means, and of Dataplane {}, which it does not: give them \
             different ones",
            own.example, other.example
        )
    };
    let mut ids = BTreeSet::new();
    for id in &own.ids {
        if let Some(other) = shared_with(id) {
            return Err(shared(id, other));
        }
        ids.insert(id.clone());
    }
    let named = item.service.as_ref().map(|service| format!("spiffe://{}/{service}", item.mesh));
    let is_candidate =
        |uri: &&String| named.as_ref().map_or_else(|| uri.starts_with("spiffe://"), |named| *uri == named);
    let candidates: Vec<&String> = own.legacy.iter().filter(is_candidate).collect();
    let exclusive: Vec<&String> = candidates.iter().filter(|id| shared_with(id).is_none()).copied().collect();
    if let (Some(id), true) = (candidates.first(), exclusive.is_empty()) {
        let other = shared_with(id).expect("a candidate that is not exclusive is shared");
        return Err(shared(id, other));
    }
    for id in exclusive {
        spiffe::parse(id).map_err(|error| format!("{id} is not a valid SPIFFE ID: {error}"))?;
        ids.insert(id.clone());
    }
    Ok(ids)
}

/// Drops Deny and AllowWithShadowDeny for callers that a policy of higher precedence admits somewhere: in `rules` they
/// would decide there too. The proof finds out whether they are needed elsewhere.
pub(super) fn drop_overridden(
    drafts: &mut [Draft<'_>],
    sets: &[&InboundSet],
    mesh: &str,
    callers: &[CallerClass],
    cancellation: &Cancellation,
) -> Result<(), Cancelled> {
    // For each policy, the highest rank of the verdicts on each class at the inbounds that it selects.
    let mut highest: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for set in sets {
        let permissions = proof::permissions(&set.policies);
        let mut ranks = Vec::with_capacity(callers.len());
        for class in callers {
            cancellation.check()?;
            ranks.push(rank(proof::verdict(&permissions, mesh, &class.legacy)));
        }
        for policy in &set.policies {
            let known = highest.entry(&*policy.name).or_insert_with(|| vec![0; callers.len()]);
            known.iter_mut().zip(&ranks).for_each(|(known, rank)| *known = (*known).max(*rank));
        }
    }
    for draft in drafts {
        let Some(highest) = highest.get(&*draft.policy.name) else { continue };
        for item in &mut draft.items {
            let is_overridden = |class: usize| highest[class] > rank(item.action);
            if item.everybody && (0..callers.len()).any(is_overridden) {
                (item.everybody, item.dropped) = (false, true);
            }
            let kept: BTreeMap<usize, BTreeSet<String>> = item
                .callers
                .iter()
                .filter(|(class, _)| !is_overridden(**class))
                .map(|(a, b)| (*a, b.clone()))
                .collect();
            item.dropped |= kept.len() < item.callers.len();
            item.callers = kept;
        }
    }
    Ok(())
}

/// Lower ones decide first in `rules`.
fn rank(action: Action) -> usize {
    LISTS.iter().position(|(of, _)| *of == action).unwrap_or(LISTS.len())
}

/// The policy with `rules` in place of `from`.
pub(super) fn with_body(policy: &Policy, rules: &Value) -> Arc<Policy> {
    let rules = rules.as_array().into_iter().flatten();
    let rules = rules.map(|rule| RuleItem { matches: Vec::new(), conf: policy::Conf::new(rule["default"].clone()) });
    let body = Body { target: policy.body.target.clone(), rules: rules.collect(), ..Body::default() };
    Arc::new(Policy { body, ..policy.clone() })
}
