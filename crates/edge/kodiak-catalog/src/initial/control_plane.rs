//! Initial resources of a control plane. Keys and its zone are ensured at every start; the default mesh and the
//! hostname generators are created once, so that resources that a user deletes stay deleted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kodiak_crypto::{CaKeyType, RsaBits, TEN_YEARS};
use kodiak_model::{Place, ResourceKey, labels};
use kodiak_store::{Expect, Snapshot, Transaction, Write};
use kodiak_tokens::{
    SigningKey, UserClaims, issue_user,
    names::{ADMIN_USER_TOKEN, FIRST_SERIAL, TokenKind, user_signing_key, zone_signing_key},
};
use serde_json::{Value, json};

use super::{check, labelled, resource, secret, secrets};
use crate::{Author, Catalog, Refusal, Rights, Target, ca::ADMIN_CA, put::TRIES, signing};

pub const ADMIN_USER: &str = "mesh-system:admin";
pub const ADMIN_GROUP: &str = "mesh-system:admin";

/// Record of the resources that were created once. Not in the table of kinds: no API shows it.
const ONCE: &str = "Config";
const ONCE_NAME: &str = "kodiak-defaults";
const DEFAULT_MESH: &str = "default";

/// Default resources that the configuration skips.
#[derive(Debug, Clone, Copy, Default)]
pub struct Defaults {
    pub skip_mesh: bool,
    pub skip_hostname_generators: bool,
    pub skip_admin_token: bool,
}

/// Resource that is created once in a store.
enum OnceDefault {
    Mesh,
    HostnameGenerator(&'static str, Value),
}

impl OnceDefault {
    fn key(&self) -> ResourceKey {
        match self {
            Self::Mesh => ResourceKey::global("Mesh", DEFAULT_MESH),
            Self::HostnameGenerator(name, _) => ResourceKey::global("HostnameGenerator", name),
        }
    }
}

/// Created resources, for the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ensured {
    pub created: Vec<String>,
}

impl Catalog {
    /// Creates missing resources. Idempotent, also for several control planes at once.
    pub async fn ensure_defaults(&self, defaults: Defaults) -> Result<Ensured, Refusal> {
        let mut ensured = Ensured::default();
        self.ensure_secrets(defaults, &mut ensured).await?;
        self.ensure_zone(&mut ensured).await?;
        self.make_once(defaults, &mut ensured).await?;
        self.move_stored_inline_keys().await?;
        Ok(ensured)
    }

    async fn ensure_secrets(&self, defaults: Defaults, ensured: &mut Ensured) -> Result<(), Refusal> {
        let snapshot = self.store().snapshot();
        let missing = |name: &str| snapshot.get(&ResourceKey::global("GlobalSecret", name)).is_none();
        if missing(ADMIN_CA) {
            let (cert, key) =
                secrets::root_ca(ADMIN_CA.to_owned(), TEN_YEARS, CaKeyType::Rsa(RsaBits::default()), None).await?;
            self.add(secret(self, "", ADMIN_CA, format!("{cert}{key}").as_bytes(), Expect::Absent), ensured).await?;
        }
        for (kind, name) in
            [(TokenKind::Zone, zone_signing_key(FIRST_SERIAL)), (TokenKind::User, user_signing_key(FIRST_SERIAL))]
        {
            if signing::newest(&snapshot, kind).is_none() {
                let key = secrets::signing_key().await?;
                self.add(secret(self, "", name.name(), &key, Expect::Absent), ensured).await?;
            }
        }
        if !defaults.skip_admin_token && missing(ADMIN_USER_TOKEN) {
            let key: SigningKey = self.signing_key(TokenKind::User).map_err(Refusal::make)?;
            let claims = UserClaims { name: ADMIN_USER.to_owned(), groups: vec![ADMIN_GROUP.to_owned()] };
            let token = issue_user(&claims, &key, TEN_YEARS, Timestamp::now()).map_err(Refusal::make)?;
            self.add(secret(self, "", ADMIN_USER_TOKEN, token.as_bytes(), Expect::Absent), ensured).await?;
        }
        Ok(())
    }

    /// A zone control plane has one Zone: its own.
    async fn ensure_zone(&self, ensured: &mut Ensured) -> Result<(), Refusal> {
        let Place::Zone { name } = self.place() else { return Ok(()) };
        let snapshot = self.store().snapshot();
        let mut present = false;
        for zone in snapshot.list("Zone") {
            if *zone.key.name == **name {
                present = true;
                continue;
            }
            let write = Write::Delete { key: zone.key.clone(), expect: snapshot.expect(&zone.key) };
            match self.commit(write.into(), false).await {
                Ok(()) => tracing::info!(zone = %zone.key.name, "removed the Zone of another control plane"),
                // Somebody else removed it.
                Err(Refusal::NotFound) => (),
                Err(refusal) => return Err(refusal),
            }
        }
        if !present {
            let kind = kodiak_kinds::kinds().by_name("Zone").expect("Zone is in the table of kinds");
            self.add(resource(self, kind, "", name, json!({ "enabled": true }))?, ensured).await?;
        }
        Ok(())
    }

    async fn make_once(&self, defaults: Defaults, ensured: &mut Ensured) -> Result<(), Refusal> {
        if !defaults.skip_mesh {
            self.make(OnceDefault::Mesh, ensured).await?;
        }
        if !defaults.skip_hostname_generators {
            for (name, spec) in hostname_generators(self.place()) {
                self.make(OnceDefault::HostnameGenerator(name, spec), ensured).await?;
            }
        }
        Ok(())
    }

    /// Creates a resource and the record that it was created, unless somebody has created the one or the other.
    async fn make(&self, default: OnceDefault, ensured: &mut Ensured) -> Result<(), Refusal> {
        let mut tries = 1..TRIES;
        loop {
            let snapshot = self.store().snapshot();
            let Some(mut made) = made_once(&snapshot) else { return Ok(()) };
            let key = default.key();
            if !made.insert(format!("{}/{}", key.kind, key.name)) {
                return Ok(());
            }
            let is_new = snapshot.get(&key).is_none();
            let mut transaction =
                if is_new { self.creation(&snapshot, &default).await? } else { Transaction::default() };
            transaction.0.push(remember(&snapshot, &made));
            match self.commit(transaction, false).await {
                Ok(()) => {
                    ensured.created.extend(is_new.then(|| key.to_string()));
                    return Ok(());
                }
                Err(Refusal::Conflict(_)) if tries.next().is_some() => (),
                Err(refusal) => return Err(refusal),
            }
        }
    }

    async fn creation(&self, snapshot: &Snapshot, default: &OnceDefault) -> Result<Transaction, Refusal> {
        match default {
            OnceDefault::Mesh => {
                let kind = kodiak_kinds::kinds().by_name("Mesh").expect("Mesh is in the table of kinds");
                let target = Target { kind, mesh: "", name: DEFAULT_MESH };
                let (meta, spec, left_out) = self.read(target, json!({ "type": "Mesh", "name": DEFAULT_MESH }))?;
                let checked = meta.with(spec, self.place());
                let put = self.put_transaction(snapshot, checked, left_out, Rights::default(), &Author::User).await?;
                Ok(put.1)
            }
            OnceDefault::HostnameGenerator(name, spec) => Ok(self.hostname_generator(name, spec.clone())?.into()),
        }
    }

    /// These have their origin as the only label.
    fn hostname_generator(&self, name: &str, spec: Value) -> Result<Write, Refusal> {
        let kind =
            kodiak_kinds::kinds().by_name("HostnameGenerator").expect("HostnameGenerator is in the table of kinds");
        let checked = check(self, kind, "", name, spec)?;
        let origin = if matches!(self.place(), Place::Global) { "global" } else { "zone" };
        Ok(labelled(&checked, [(labels::ORIGIN.to_owned(), origin.to_owned())].into()))
    }

    /// Writes it unless another control plane just did.
    async fn add(&self, write: Write, ensured: &mut Ensured) -> Result<(), Refusal> {
        let key = write.key().to_string();
        match self.commit(write.into(), false).await {
            Ok(()) => {
                ensured.created.push(key);
                Ok(())
            }
            Err(Refusal::Conflict(_)) => Ok(()),
            Err(refusal) => Err(refusal),
        }
    }
}

/// `None` when another version wrote it in an unknown format: then nothing is created.
fn made_once(snapshot: &Snapshot) -> Option<BTreeSet<String>> {
    let Some(record) = snapshot.world().get(&ResourceKey::global(ONCE, ONCE_NAME)) else {
        return Some(BTreeSet::new());
    };
    let made = record.document();
    if made.is_none() {
        tracing::warn!(record = %record.key, "unreadable record of the control plane, no default resources are created");
    }
    made
}

fn remember(snapshot: &Snapshot, made: &BTreeSet<String>) -> Write {
    let key = ResourceKey::global(ONCE, ONCE_NAME);
    Write::Put {
        expect: snapshot.expect(&key),
        key,
        spec: json!(made).to_string().into(),
        labels: labels::Labels::new(),
        owner: None,
    }
}

fn hostname_generators(place: &Place) -> Vec<(&'static str, Value)> {
    let by_origin = |kind: &str, template: &str| json!({ "selector": { kind: { "matchLabels": { labels::ORIGIN: "zone" } } }, "template": template });
    match place {
        Place::Zone { .. } => vec![
            ("local-mesh-external-service", by_origin("meshExternalService", "{{ .DisplayName }}.extsvc.mesh.local")),
            ("local-universal-mesh-service", by_origin("meshService", "{{ .DisplayName }}.svc.mesh.local")),
        ],
        Place::Global => Vec::new(),
    }
}
