//! Whether clients lose the destinations that they may not call.

use std::{fmt, str::FromStr};

use kodiak_model::Labels;
pub use kodiak_model::labels::REACHABILITY as LABEL;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// All destinations are configured.
    #[default]
    Off,
    /// As [`Off`](Self::Off); reports show what [`On`](Self::On) would remove.
    Shadow,
    /// Only destinations that the client may call are configured.
    On,
}

/// Origin of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeSource {
    Settings,
    Mesh,
    Dataplane,
}

impl Mode {
    /// The label of the Dataplane decides, then that of the Mesh, then the setting of the control plane. Another value
    /// of a label than the known ones has no effect.
    pub fn of(setting: Self, mesh: Option<Self>, dataplane: &Labels) -> (Self, ModeSource) {
        match (Self::in_labels(dataplane), mesh) {
            (Some(own), _) => (own, ModeSource::Dataplane),
            (None, Some(mesh)) => (mesh, ModeSource::Mesh),
            (None, None) => (setting, ModeSource::Settings),
        }
    }

    /// `None` without the label.
    pub fn in_labels(labels: &Labels) -> Option<Self> {
        labels.get(LABEL)?.parse().ok()
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "shadow" => Ok(Self::Shadow),
            "on" => Ok(Self::On),
            other => Err(format!("{other:?} is not a mode of reachability: use off, shadow or on")),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::Shadow => "shadow",
            Self::On => "on",
        })
    }
}
