//! Configuration of the API. The control plane fills it from its settings.

use kodiak_identity::AbsenceLimits;
pub use kodiak_inspection::why::WhyContext;

use crate::user::{AUTHENTICATED, UNAUTHENTICATED, User};

#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// Refuses all writes.
    pub read_only: bool,
    /// Answers `GET /` with the product and version that kumactl accepts.
    pub present_as_kuma: bool,
    pub authn: AuthnConfig,
    pub access: AccessConfig,
    /// Origins whose pages may call the API from a browser. None by default, and never all.
    pub cors_allowed_domains: Vec<String>,
    /// Prefix of every path: `/` or `/kodiak`.
    pub base_path: String,
    /// Whether the control plane issues tokens itself.
    pub issue: IssueConfig,
    /// Settings of the engine that answers about calls depend on.
    pub calls: WhyContext,
    /// For how long rollouts wait for proxies that are not connected.
    pub absence: AbsenceLimits,
}

#[derive(Debug, Clone, Copy)]
pub struct AuthnConfig {
    /// Accept user tokens.
    pub tokens: bool,
    pub localhost_is_admin: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct IssueConfig {
    pub user: bool,
    pub dataplane: bool,
    pub zone: bool,
}

/// Access lists of the restricted actions.
#[derive(Debug, Clone)]
pub struct AccessConfig {
    pub admin_resources: Allowed,
    pub modify_resources: Allowed,
    pub generate_dataplane_token: Allowed,
    pub generate_user_token: Allowed,
    pub generate_zone_token: Allowed,
    pub control_plane_metadata: Allowed,
    pub view_config_dump: Allowed,
    pub view_stats: Allowed,
    pub view_clusters: Allowed,
    pub previews: Allowed,
}

/// Users by name, or by any of their groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed {
    pub users: Vec<String>,
    pub groups: Vec<String>,
}

impl Allowed {
    pub fn admins() -> Self {
        Self {
            users: vec![kodiak_catalog::ADMIN_USER.to_owned()],
            groups: vec![kodiak_catalog::ADMIN_GROUP.to_owned()],
        }
    }

    pub fn everyone() -> Self {
        Self { users: Vec::new(), groups: vec![UNAUTHENTICATED.to_owned(), AUTHENTICATED.to_owned()] }
    }

    /// Users with a valid token, and administrators.
    pub fn authenticated() -> Self {
        let mut allowed = Self::admins();
        allowed.groups.push(AUTHENTICATED.to_owned());
        allowed
    }

    /// Whether anonymous users are allowed.
    pub fn includes_anonymous(&self) -> bool {
        self.allows(&User::anonymous())
    }

    /// Allows anonymous users too.
    pub fn add_anonymous(&mut self) {
        self.groups.extend(Self::everyone().groups);
    }

    /// Administrators are always allowed.
    pub(crate) fn allows(&self, user: &User) -> bool {
        let admin = user.groups.iter().any(|group| group == kodiak_catalog::ADMIN_GROUP);
        admin || self.users.contains(&user.name) || user.groups.iter().any(|group| self.groups.contains(group))
    }
}

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            admin_resources: Allowed::admins(),
            modify_resources: Allowed::authenticated(),
            generate_dataplane_token: Allowed::admins(),
            generate_user_token: Allowed::admins(),
            generate_zone_token: Allowed::admins(),
            control_plane_metadata: Allowed::everyone(),
            view_config_dump: Allowed::admins(),
            view_stats: Allowed::authenticated(),
            view_clusters: Allowed::authenticated(),
            previews: Allowed::authenticated(),
        }
    }
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            read_only: false,
            present_as_kuma: true,
            authn: AuthnConfig { tokens: true, localhost_is_admin: true },
            access: AccessConfig::default(),
            cors_allowed_domains: Vec::new(),
            base_path: "/".to_owned(),
            issue: IssueConfig { user: true, dataplane: true, zone: true },
            calls: WhyContext::default(),
            absence: AbsenceLimits::default(),
        }
    }
}
