//! Secrets of the control plane, recognised by their names. No resource may reference them: anything that a resource
//! references can end up in the configuration of a proxy.

use kodiak_model::ResourceKey;
use kodiak_tokens::{
    KeyId,
    names::{ADMIN_USER_TOKEN, TokenKind, zone_signing_public_key},
};

use crate::{
    ca::{ADMIN_CA, cert_secret, key_secret, provided_key_secret},
    identity_ca::CA_IN_USE,
};

/// The CA of connections between control planes.
const INTER_CP_CA: &str = "inter-cp-ca";

/// Use of a Secret by the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemSecret {
    /// A token, its signing key, or its revocations.
    Tokens,
    /// Certificate or private key of an mTLS backend of the mesh. Backends of the Mesh itself may reference it.
    MeshCa,
    /// Copy of the CA of a MeshIdentity in use.
    IdentityCa,
    /// A CA of the control plane.
    ControlPlaneCa,
}

impl SystemSecret {
    /// Use of a Secret or a GlobalSecret by the control plane; `None` for those of users.
    pub fn of(key: &ResourceKey) -> Option<Self> {
        let name = &*key.name;
        if is_of_tokens(name) {
            Some(Self::Tokens)
        } else if [ADMIN_CA, INTER_CP_CA].contains(&name) {
            Some(Self::ControlPlaneCa)
        } else if name.starts_with(CA_IN_USE) {
            Some(Self::IdentityCa)
        } else {
            // The name of the backend follows: the empty name gives the prefix of all of them.
            let mesh_ca = [cert_secret, key_secret, provided_key_secret].map(|secret| secret(&key.mesh, ""));
            (!key.mesh.is_empty() && mesh_ca.iter().any(|start| name.starts_with(start))).then_some(Self::MeshCa)
        }
    }

    pub(crate) fn purpose(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::MeshCa => "the CA of a mesh",
            Self::IdentityCa => "the CA of a MeshIdentity",
            Self::ControlPlaneCa => "the CA of the control plane",
        }
    }
}

/// Includes keys of other meshes and keys with unusual IDs: a false positive costs users a name, a false negative a
/// mesh.
fn is_of_tokens(name: &str) -> bool {
    let kinds = [TokenKind::Dataplane { mesh: "" }, TokenKind::Zone, TokenKind::User];
    // The key with serial number 0 is named by the prefix of all names.
    let keys = kinds.map(|kind| kind.signing_key(&KeyId::serial(0)));
    let lists = kinds.into_iter().flat_map(TokenKind::revocations);
    let public = zone_signing_public_key(0);
    let public = public.name().trim_end_matches('0');
    name == ADMIN_USER_TOKEN
        || name.starts_with(public)
        || keys.into_iter().chain(lists).any(|start| name.starts_with(start.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_secrets_of_the_control_plane_by_name() {
        for (name, expected) in [
            ("dataplane-token-signing-key-default-1", Some(SystemSecret::Tokens)),
            ("dataplane-token-signing-key-default", Some(SystemSecret::Tokens)),
            ("dataplane-token-signing-key-other-my-id", Some(SystemSecret::Tokens)),
            ("dataplane-token-revocations-default", Some(SystemSecret::Tokens)),
            ("user-token-signing-key-3", Some(SystemSecret::Tokens)),
            ("user-token-revocations", Some(SystemSecret::Tokens)),
            ("zone-token-signing-key", Some(SystemSecret::Tokens)),
            ("zone-token-signing-public-key-1", Some(SystemSecret::Tokens)),
            ("zone-token-revocations", Some(SystemSecret::Tokens)),
            ("admin-user-token", Some(SystemSecret::Tokens)),
            ("envoy-admin-ca", Some(SystemSecret::ControlPlaneCa)),
            ("inter-cp-ca", Some(SystemSecret::ControlPlaneCa)),
            ("default.ca-builtin-key-ca-1", Some(SystemSecret::MeshCa)),
            ("default.ca-builtin-cert-ca-1", Some(SystemSecret::MeshCa)),
            ("default.ca-provided-key-ca-1", Some(SystemSecret::MeshCa)),
            ("mesh-identity-ca.0f3a", Some(SystemSecret::IdentityCa)),
            ("payments-client-key", None),
            ("my-dataplane-token-signing-key-default-1", None),
            ("other.ca-builtin-key-ca-1", None),
        ] {
            assert_eq!(SystemSecret::of(&ResourceKey::in_mesh("Secret", "default", name)), expected, "{name}");
        }
        assert_eq!(SystemSecret::of(&ResourceKey::global("GlobalSecret", ".ca-builtin-key-x")), None);
    }
}
