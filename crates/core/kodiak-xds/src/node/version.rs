//! Versions of the sidecar process and of Envoy.

use kodiak_envoy::google::protobuf::Struct;

use super::fields::{Reader, Writer};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Versions {
    pub runner: DpVersion,
    pub envoy: EnvoyVersion,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct DpVersion {
    pub version: Option<String>,
    pub git_tag: Option<String>,
    pub git_commit: Option<String>,
    pub build_date: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EnvoyVersion {
    pub version: Option<String>,
    pub build: Option<String>,
    /// Whether the sidecar process supports this Envoy version.
    pub compatible: Option<bool>,
}

impl Versions {
    pub(super) fn read(fields: Reader<'_>) -> Self {
        let (runner, envoy) = (fields.within("kumaDp"), fields.within("envoy"));
        Self {
            runner: DpVersion {
                version: runner.text("version"),
                git_tag: runner.text("gitTag"),
                git_commit: runner.text("gitCommit"),
                build_date: runner.text("buildDate"),
            },
            envoy: EnvoyVersion {
                version: envoy.text("version"),
                build: envoy.text("build"),
                compatible: envoy.flag("kumaDpCompatible"),
            },
        }
    }

    pub(super) fn write(&self) -> Struct {
        let DpVersion { version, git_tag, git_commit, build_date } = &self.runner;
        let runner = Writer::default()
            .text("version", version.as_deref())
            .text("gitTag", git_tag.as_deref())
            .text("gitCommit", git_commit.as_deref())
            .text("buildDate", build_date.as_deref());
        let EnvoyVersion { version, build, compatible } = &self.envoy;
        let envoy = Writer::default()
            .text("version", version.as_deref())
            .text("build", build.as_deref())
            .flag("kumaDpCompatible", *compatible);
        Writer::default().within("kumaDp", Some(runner.done())).within("envoy", Some(envoy.done())).done()
    }
}
