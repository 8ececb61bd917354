//! Access that a route needs, and the check against the access lists.

use kodiak_model::{Access, Kind};

use crate::{ApiError, User, config::AccessConfig};

/// Advice for anonymous writes.
const ANONYMOUS_WRITE: &str = ": send a user token in `Authorization: Bearer TOKEN`, write from the machine of the \
    control plane, or let everyone write with access.anonymousWrites=true";

/// Advice for anonymous previews.
const ANONYMOUS_PREVIEW: &str = ": send a user token in `Authorization: Bearer TOKEN`, ask on the machine of the control \
    plane, or let everyone ask with access.anonymousPreviews=true";

/// Rights of a user that matter for the references in a document.
pub(crate) fn rights(access: &AccessConfig, user: &User) -> kodiak_catalog::Rights {
    kodiak_catalog::Rights { secrets: access.admin_resources.allows(user) }
}

/// Access that one route needs. Every route has one; there is no default.
#[derive(Debug, Clone, Copy)]
pub enum Need {
    /// Public: credentials are ignored.
    Nothing,
    Metadata,
    Read(&'static Kind),
    Modify(&'static Kind),
    /// Any user; handlers check the kinds that the request names.
    ReadAny,
    DataplaneToken,
    UserToken,
    ZoneToken,
    ConfigDump,
    Stats,
    Clusters,
    /// Previews: what documents of the caller would do.
    Preview,
    /// A preview that shows the configuration of proxies.
    Diff,
    /// All stored resources, including Secrets.
    Backup,
}

impl Need {
    pub(crate) fn check(self, access: &AccessConfig, user: &User) -> Result<(), ApiError> {
        let (allowed, action) = match self {
            Self::Diff => {
                Self::Preview.check(access, user)?;
                return Self::ConfigDump.check(access, user);
            }
            Self::Nothing | Self::ReadAny => return Ok(()),
            Self::Read(kind) if kind.access != Access::Admin => return Ok(()),
            Self::Read(kind) | Self::Modify(kind) if kind.access == Access::Admin => {
                (&access.admin_resources, format!("the resource of type {:?}", kind.name))
            }
            Self::Read(kind) | Self::Modify(kind) => {
                (&access.modify_resources, format!("the resource of type {:?}", kind.name))
            }
            Self::Metadata => (&access.control_plane_metadata, "control plane metadata".to_owned()),
            Self::DataplaneToken => (&access.generate_dataplane_token, "the generation of dataplane token".to_owned()),
            Self::UserToken => (&access.generate_user_token, "the generation of user token".to_owned()),
            Self::ZoneToken => (&access.generate_zone_token, "the generation of zone token".to_owned()),
            Self::ConfigDump => (&access.view_config_dump, "config dump".to_owned()),
            Self::Stats => (&access.view_stats, "stats".to_owned()),
            Self::Clusters => (&access.view_clusters, "clusters".to_owned()),
            Self::Preview => (&access.previews, "previews (access previews)".to_owned()),
            Self::Backup => (&access.admin_resources, "a backup of the store".to_owned()),
        };
        if allowed.allows(user) {
            return Ok(());
        }
        let advice = match self {
            Self::Modify(kind) if kind.access != Access::Admin && user.is_anonymous() => ANONYMOUS_WRITE,
            Self::Preview if user.is_anonymous() => ANONYMOUS_PREVIEW,
            _ => "",
        };
        Err(ApiError::denied(&user.to_string(), &format!("{action}{advice}")))
    }

    /// Value of `x-kodiak-access` in the OpenAPI document.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Metadata => "controlPlaneMetadata",
            Self::Read(kind) | Self::Modify(kind) if kind.access == Access::Admin => "adminResources",
            Self::Read(_) | Self::ReadAny => "read",
            Self::Modify(_) => "modifyResources",
            Self::DataplaneToken => "generateDpToken",
            Self::UserToken => "generateUserToken",
            Self::ZoneToken => "generateZoneToken",
            Self::ConfigDump => "viewConfigDump",
            Self::Stats => "viewStats",
            Self::Clusters => "viewClusters",
            Self::Preview => "previews",
            Self::Diff => "previews, viewConfigDump",
            Self::Backup => "adminResources",
        }
    }
}
