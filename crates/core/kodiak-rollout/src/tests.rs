//! Every step of every rollout is safe: proxies at it and at the one before accept each other, whatever mode policies set.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use super::*;

fn mesh(enabled: &str, mode: &str, backends: &[&str]) -> Rollout {
    with_identities(enabled, mode, backends, &DesiredIdentities::default())
}

fn with_identities(enabled: &str, mode: &str, backends: &[&str], desired: &DesiredIdentities) -> Rollout {
    let backend = |name: &&str| json!({ "name": name, "type": "builtin", "mode": mode });
    let backends: Vec<_> = backends.iter().map(backend).collect();
    let spec = json!({ "mtls": { "enabledBackend": enabled, "backends": backends } });
    Rollout::target(&serde_json::from_value(spec).unwrap(), desired)
}

fn off() -> Rollout {
    Rollout::default()
}

/// Name, label that it selects (`*` for all proxies), trust domain. The CA is named after the trust domain.
fn identity(name: &str, label: &str, trust_domain: &str, issues: bool) -> Arc<AppliedIdentity> {
    let labels = (label != "*").then(|| (label.to_owned(), "yes".to_owned()));
    let provider = AppliedProvider::Bundled { ca: format!("{trust_domain}-ca").into(), seconds: 60 };
    Arc::new(AppliedIdentity {
        name: name.into(),
        selector: Selector(labels.into_iter().collect()),
        trust_domain: trust_domain.into(),
        provider: issues.then_some(provider),
        ..AppliedIdentity::default()
    })
}

fn desired(identities: &[Arc<AppliedIdentity>]) -> DesiredIdentities {
    let domains = identities.iter().filter(|each| each.provider.is_some()).map(|each| &each.trust_domain);
    let trust = |domain: &Arc<str>| (domain.clone(), vec![Arc::from(format!("{domain}-ca"))]);
    DesiredIdentities {
        identities: identities.to_vec(),
        trust_domains: domains.map(trust).collect(),
        ..DesiredIdentities::default()
    }
}

/// Labels of the proxies of the mesh.
const PROXIES: [&[&str]; 3] = [&[], &["web"], &["web", "db"]];

fn matching<'a>(issuers: &'a Issuers, labels: &'a [&str]) -> impl Iterator<Item = &'a Arc<AppliedIdentity>> {
    issuers.identities.iter().filter(|each| each.selector.0.keys().all(|label| labels.contains(&label.as_str())))
}

/// Trust domain and CA of the certificate of a proxy.
fn certificate(issuers: &Issuers, labels: &[&str]) -> Option<(Arc<str>, Arc<str>)> {
    let issuing = matching(issuers, labels).filter(|each| each.provider.is_some());
    let best = issuing.max_by_key(|each| (each.selector.0.len(), std::cmp::Reverse(each.name.clone())));
    match (best, &issuers.signer) {
        (Some(best), _) => Some((best.trust_domain.clone(), format!("{}-ca", best.trust_domain).into())),
        (None, Some(signer)) => Some(("mesh".into(), signer.to_string().into())),
        (None, None) => None,
    }
}

/// Trust domains in which a client expects the SPIFFE ID of a server.
fn expected(step: &Rollout, server: &[&str]) -> Vec<Arc<str>> {
    let mut all = vec![Arc::from("mesh")];
    for issuers in step.all_issuers() {
        all.extend(certificate(issuers, server).map(|(domain, _)| domain));
        all.extend(
            matching(issuers, server).filter(|each| each.provider.is_none()).map(|each| each.trust_domain.clone()),
        );
    }
    all
}

fn trusts(step: &Rollout, (domain, ca): &(Arc<str>, Arc<str>)) -> bool {
    let in_domain = step.trust_domains.get(domain).is_some_and(|cas| cas.contains(ca));
    if **domain == *"mesh" { step.trust.iter().any(|backend| *backend.to_string() == **ca) } else { in_domain }
}

/// Connections that inbounds of a server accept, with each mode that a policy may set.
fn accepted(step: &Rollout, server: &[&str]) -> [InboundTls; 3] {
    let issuing = matching(&step.issuers, server).any(|each| each.provider.is_some());
    let source = match &step.issuers.signer {
        _ if issuing => CertificateSource::MeshIdentity,
        Some(_) => CertificateSource::Backend,
        None => CertificateSource::None,
    };
    [None, Some(MtlsMode::Strict), Some(MtlsMode::Permissive)].map(|mode| step.accepts(source, mode))
}

/// While some proxies are at one step and some at the next, every server accepts, expects and trusts every client.
fn assert_safe(old: &Rollout, new: &Rollout) {
    for (caller, server) in [(old, old), (old, new), (new, old), (new, new)] {
        for (client, serving) in PROXIES.iter().flat_map(|client| PROXIES.map(|serving| (*client, serving))) {
            let case = || format!("{client:?} at {caller:#?} calls {serving:?} at {server:#?}");
            let shown = certificate(&caller.issuers, client);
            let has_one = caller.all_issuers().all(|issuers| certificate(issuers, serving).is_some());
            let encrypted = caller.call && shown.is_some() && has_one;
            let presented = certificate(&server.issuers, serving);
            let is_accepted = |accept| match accept {
                InboundTls::Plaintext => !encrypted,
                InboundTls::Permissive => true,
                InboundTls::Strict => encrypted,
            };
            assert!(accepted(server, serving).into_iter().all(is_accepted), "{}", case());
            if encrypted {
                let presented = presented.unwrap_or_else(|| panic!("{}", case()));
                assert!(trusts(caller, &presented) && trusts(server, &shown.unwrap()), "{}", case());
                assert!(expected(caller, serving).contains(&presented.0), "{}", case());
            }
        }
    }
}

fn loses(from: &Rollout, to: &Rollout) -> bool {
    let lost =
        |labels: &&[&str]| certificate(&from.issuers, labels).is_some() && certificate(&to.issuers, labels).is_none();
    PROXIES.iter().any(lost)
}

fn lacks(step: &Rollout) -> bool {
    PROXIES.iter().any(|labels| certificate(&step.issuers, labels).is_none())
}

/// The next step, unless it waits for proxies without an identity.
fn next(at: &Rollout, to: &Rollout) -> Option<Rollout> {
    let (_, next) = at.next(to, loses(at, to))?;
    (!(at.needs_identities(&next) && lacks(&next))).then_some(next)
}

/// Tokens of the steps, each of which is safe.
fn path(from: &Rollout, to: &Rollout) -> Vec<String> {
    let mut at = from.clone();
    let mut tokens = Vec::new();
    while let Some(next) = next(&at, to) {
        assert_safe(&at, &next);
        tokens.push(next.token());
        at = next;
        assert!(tokens.len() < 12, "no end: {tokens:#?}");
    }
    if !lacks(to) {
        assert!(at.is_same_step(to), "{at:?} {to:?}");
    }
    tokens
}

/// The CA of a backend has this content.
fn with_content(backend: &str, content: &str, desired: DesiredIdentities) -> DesiredIdentities {
    DesiredIdentities { backends: [(backend.into(), content.repeat(64).into())].into(), ..desired }
}

fn targets() -> Vec<Rollout> {
    let old = identity("old", "*", "old.domain", true);
    let new = identity("new", "*", "new.domain", true);
    let moved = identity("old", "*", "moved.domain", true);
    let web = identity("web", "web", "web.domain", true);
    let announced = identity("announced", "*", "new.domain", false);
    let mut targets = vec![
        off(),
        mesh("a", "STRICT", &["a"]),
        mesh("a", "PERMISSIVE", &["a"]),
        mesh("b", "STRICT", &["a", "b"]),
        mesh("b", "PERMISSIVE", &["b"]),
        mesh("a", "STRICT", &["a", "b"]),
    ];
    for set in [
        vec![old.clone()],
        vec![new.clone(), old.clone()],
        vec![moved],
        vec![web.clone()],
        vec![old.clone(), web.clone()],
        vec![announced.clone()],
        vec![announced, web],
    ] {
        targets.push(with_identities("a", "STRICT", &["a"], &desired(&set)));
        targets.push(with_identities("", "STRICT", &[], &desired(&set)));
    }
    targets.push(with_identities("a", "PERMISSIVE", &["a"], &desired(std::slice::from_ref(&old))));
    // New content of the CA of one backend, alone and beside a MeshIdentity.
    for content in ["1", "2"] {
        targets.push(with_identities("p", "STRICT", &["p"], &with_content("p", content, desired(&[]))));
        targets.push(with_identities(
            "p",
            "STRICT",
            &["p"],
            &with_content("p", content, desired(std::slice::from_ref(&old))),
        ));
    }
    targets
}

#[test]
fn every_step_of_every_rollout_is_safe() {
    let targets = targets();
    for from in targets.iter().filter(|from| !lacks(from) || from.issuers.is_empty()) {
        for to in &targets {
            path(from, to);
        }
    }
}

#[test]
fn changed_target_during_a_rollout_is_safe() {
    let targets = targets();
    for (number, from) in targets.iter().enumerate().filter(|(_, from)| !lacks(from) || from.issuers.is_empty()) {
        for to in &targets {
            let mut at = from.clone();
            while let Some(next) = next(&at, to) {
                // A third of all changes of mind, another one for each start.
                for other in targets.iter().skip(number % 3).step_by(3) {
                    path(&next, other);
                }
                at = next;
            }
        }
    }
}

#[test]
fn strict_mtls_accepts_both_first() {
    assert_eq!(
        path(&off(), &mesh("a", "STRICT", &["a"])),
        [
            "accept=both call=plain signer=a trust=a",
            "accept=both call=mtls signer=a trust=a",
            "accept=mtls call=mtls signer=a trust=a",
        ]
    );
    assert_eq!(
        path(&mesh("a", "STRICT", &["a"]), &off()),
        ["accept=both call=mtls signer=a trust=a", "accept=both call=plain signer=a trust=a", ""]
    );
}

#[test]
fn policies_make_inbounds_strict_only_when_all_clients_use_mtls() {
    let permissive = mesh("a", "PERMISSIVE", &["a"]);
    assert_eq!(
        path(&off(), &permissive),
        [
            "accept=both call=plain signer=a trust=a",
            "accept=both call=mtls signer=a trust=a",
            "accept=both call=mtls strict=allowed signer=a trust=a",
        ]
    );
    assert_eq!(
        path(&permissive, &off()),
        ["accept=both call=mtls signer=a trust=a", "accept=both call=plain signer=a trust=a", ""]
    );
    assert_eq!(path(&permissive, &mesh("a", "STRICT", &["a"])), ["accept=mtls call=mtls signer=a trust=a"]);
}

#[test]
fn stored_step_of_an_older_version_allows_no_strict_inbounds_yet() {
    let stored = json!({ "accept": "both", "call": true, "signer": "a", "trust": ["a"] });
    let stored: Rollout = serde_json::from_value(stored).unwrap();
    assert!(!stored.may_refuse_plaintext());
    let permissive = mesh("a", "PERMISSIVE", &["a"]);
    assert_eq!(stored.next(&permissive, false), Some((Phase::Encrypt, permissive)));
}

#[test]
fn new_ca_is_trusted_before_it_signs() {
    assert_eq!(
        path(&mesh("a", "STRICT", &["a"]), &mesh("b", "STRICT", &["b"])),
        [
            "accept=mtls call=mtls signer=a trust=a,b",
            "accept=mtls call=mtls signer=b trust=a,b",
            "accept=mtls call=mtls signer=b trust=b",
        ]
    );
}

#[test]
fn identity_is_trusted_then_expected_then_issued() {
    let identity = desired(&[identity("web", "*", "web.domain", true)]);
    let target = with_identities("a", "STRICT", &["a"], &identity);
    let mut at = mesh("a", "STRICT", &["a"]);
    let mut phases = Vec::new();
    while let Some((phase, next)) = at.next(&target, false) {
        phases.push(phase);
        assert_eq!(next.accept, InboundTls::Strict, "plain text is never accepted");
        at = next;
    }
    assert_eq!(phases, [Phase::Trust, Phase::Expect, Phase::Issue, Phase::Remove]);
}

#[test]
fn backend_is_turned_off_without_plain_text_when_identities_cover_all() {
    let identity = desired(&[identity("web", "*", "web.domain", true)]);
    let (from, to) = (with_identities("a", "STRICT", &["a"], &identity), with_identities("", "STRICT", &[], &identity));
    let mut at = from;
    while let Some((_, next)) = at.next(&to, false) {
        assert!(next.accept == InboundTls::Strict && next.call, "{next:?}");
        at = next;
    }
}

#[test]
fn servers_refuse_plain_text_only_when_every_proxy_has_an_identity() {
    let some = with_identities("", "STRICT", &[], &desired(&[identity("web", "web", "web.domain", true)]));
    let last = path(&off(), &some).pop().unwrap();
    assert!(last.starts_with("accept=both call=mtls identities=web@"), "{last}");
    let all = with_identities("", "STRICT", &[], &desired(&[identity("web", "*", "web.domain", true)]));
    assert!(path(&off(), &all).pop().unwrap().starts_with("accept=mtls call=mtls"));
}

#[test]
fn permissive_mode_waits_for_offline_proxies_too() {
    let permissive = mesh("a", "PERMISSIVE", &["a"]);
    let both = next(&off(), &permissive).unwrap();
    let call = next(&both, &permissive).unwrap();
    assert!(both.needs_everybody(&call, &permissive));
    assert!(!off().needs_everybody(&both, &permissive));
    assert!(!both.needs_everybody(&call, &mesh("a", "STRICT", &["a"])));
}

/// All steps of the walks between some targets, each once.
fn steps(targets: &[Rollout]) -> Vec<Rollout> {
    let mut steps: Vec<Rollout> = Vec::new();
    for from in targets.iter().filter(|from| !lacks(from) || from.issuers.is_empty()) {
        for to in targets {
            let mut at = Some(from.clone());
            while let Some(step) = at {
                at = next(&step, to);
                if !steps.contains(&step) {
                    steps.push(step);
                }
            }
        }
    }
    steps
}

#[test]
fn compatible_steps_are_safe_and_steps_are_compatible_with_the_next() {
    let targets: Vec<_> = targets().into_iter().step_by(2).collect();
    let steps = steps(&targets);
    let (mut compatible, mut incompatible) = (0, 0);
    for (n, one) in steps.iter().enumerate() {
        for other in &steps[n..] {
            assert_eq!(one.is_compatible(other), other.is_compatible(one));
            if one.is_compatible(other) {
                assert_safe(one, other);
                compatible += 1;
            } else {
                incompatible += 1;
            }
        }
        assert!(one.is_compatible(one), "{one:#?}");
    }
    assert!(compatible > 100 && incompatible > 100, "{compatible} {incompatible}");
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// A proxy stays at any step that it did not acknowledge, and the target changes. Every way back is safe for all of these
/// steps, and what follows reaches the target.
#[test]
fn rejected_step_is_left_by_a_step_that_is_safe_for_every_step_behind() {
    let targets = targets();
    let (mut left, mut again) = (0, 0);
    for (number, from) in targets.iter().enumerate().filter(|(_, from)| !lacks(from) || from.issuers.is_empty()) {
        for to in &targets {
            let mut record = RolloutRecord::first(from.clone(), now());
            while let Some(next) = next(&record.step, to) {
                record = record.advanced(next, true, now());
                for other in targets.iter().skip(number % 3).step_by(3) {
                    let Some(rejected) = leave(&record, other) else { continue };
                    left += 1;
                    // It is rejected too, and the target changes once more.
                    let third = &targets[(number + left) % targets.len()];
                    again += u32::from(leave(&rejected, third).is_some());
                }
            }
        }
    }
    assert!(left > 500 && again > 100, "{left} {again}");
}

/// The record after proxies rejected its step. `None` if that is still the right one.
fn leave(record: &RolloutRecord, to: &Rollout) -> Option<RolloutRecord> {
    let WayBack { next: back, .. } = record.way_back(to, |base| loses(base, to))?;
    for step in record.behind.iter().chain([&record.step]) {
        assert_safe(step, &back);
    }
    let left = record.advanced(back, false, now());
    let tokens: BTreeSet<String> = left.behind.iter().chain([&left.step]).map(Rollout::token).collect();
    assert_eq!(tokens.len(), left.behind.len() + 1, "an old acknowledgement counts for no other step");
    path(&left.step, to);
    Some(left)
}

#[test]
fn step_back_to_the_acknowledged_one_is_always_possible() {
    let targets = targets();
    for from in targets.iter().filter(|from| !lacks(from) || from.issuers.is_empty()) {
        for to in &targets {
            let mut record = RolloutRecord::first(from.clone(), now());
            while let Some(next) = next(&record.step, to) {
                let base = record.step.clone();
                record = record.advanced(next, true, now());
                assert!(record.way_back(to, |base| loses(base, to)).is_none(), "the step is right, and waits");
                let WayBack { next: back, .. } = record.way_back(&base, |_| false).unwrap();
                assert!(back.is_same_step(&base));
                let back = record.advanced(back, false, now());
                assert_ne!(back.step.token(), base.token());
                assert!(back.step.is_same_step(&base));
            }
        }
    }
}

#[test]
fn record_is_read_as_a_step_and_from_a_step_of_an_older_version() {
    let step = mesh("a", "STRICT", &["a"]);
    let record = RolloutRecord::first(off(), now()).advanced(step.clone(), true, now());
    let json = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<Rollout>(&json).unwrap(), step);
    assert_eq!(serde_json::from_str::<RolloutRecord>(&json).unwrap(), record);
    let older: RolloutRecord = serde_json::from_str(&serde_json::to_string(&step).unwrap()).unwrap();
    assert_eq!(older, RolloutRecord { step, ..RolloutRecord::default() });
    assert!(older.way_back(&off(), |_| false).is_none(), "it is unknown where proxies are");
}

#[test]
fn new_content_of_a_ca_is_trusted_before_it_signs() {
    let of =
        |content| with_identities("p", "STRICT", &["p"], &with_content("p", content, DesiredIdentities::default()));
    assert_eq!(
        path(&of("1"), &of("2")),
        [
            "accept=mtls call=mtls signer=p@11111111 trust=p@11111111,p@22222222",
            "accept=mtls call=mtls signer=p@22222222 trust=p@11111111,p@22222222",
            "accept=mtls call=mtls signer=p@22222222 trust=p@22222222",
        ]
    );
}

#[test]
fn stored_step_of_an_older_version_gets_the_cas_of_its_backends_in_one_step() {
    let stored = json!({ "accept": "mtls", "call": true, "signer": "p", "trust": ["p", "a"] });
    let stored: Rollout = serde_json::from_value(stored).unwrap();
    let known = with_content("p", "1", DesiredIdentities::default());
    let target = with_identities("p", "STRICT", &["p", "a"], &known);
    let (_, next) = stored.next(&target, false).unwrap();
    assert_eq!(next, target);
    let read: Rollout = serde_json::from_value(serde_json::to_value(&next).unwrap()).unwrap();
    assert_eq!(read, next, "a record of this version has the fingerprint");
    assert_eq!(next.next(&target, false), None);
}
