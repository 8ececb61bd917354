//! Result of applying a resource, and totals.

use kodiak_client::{ClientError, Refusal};

use crate::documents::{FileResource, Finding, Locator, SourceFile};
use crate::report::Warnings;

#[derive(Debug)]
pub(in crate::commands) enum Outcome {
    Created {
        warnings: Vec<String>,
    },
    Changed {
        warnings: Vec<String>,
    },
    Unchanged,
    Failed(ClientError),
    /// Not sent, since the control plane became unreachable.
    NotSent,
}

impl Outcome {
    /// `type="MeshTimeout" mesh="default" name="slow" created`
    pub(super) fn line(&self, resource: &FileResource) -> Option<String> {
        let what = match self {
            Self::Created { .. } => "created",
            Self::Changed { .. } => "changed",
            Self::Unchanged => "unchanged",
            Self::Failed(_) => "failed",
            Self::NotSent => return None,
        };
        let (kind, mesh, name) = (resource.checked.kind.name, &resource.checked.mesh, &resource.checked.name);
        Some(match mesh.as_str() {
            "" => format!("type={kind:?} name={name:?} {what}"),
            mesh => format!("type={kind:?} mesh={mesh:?} name={name:?} {what}"),
        })
    }

    /// Warnings of the local validation, and further ones of the server.
    pub(super) fn warn(&self, resource: &FileResource, files: &[SourceFile], warnings: &mut Warnings) {
        let own = &resource.checked.warnings;
        let of_server: &[String] = match self {
            Self::Created { warnings } | Self::Changed { warnings } => warnings,
            Self::Unchanged | Self::Failed(_) | Self::NotSent => &[],
        };
        for warning in own.iter().chain(of_server.iter().filter(|warning| !own.contains(warning))) {
            warnings.add(warning, || resource.origin.show(files));
        }
    }

    /// Problems that the server reported, with their locations in the file.
    pub(super) fn findings(&self, resource: &FileResource, locator: &mut Locator<'_>) -> Vec<Finding> {
        let Self::Failed(error) = self else { return Vec::new() };
        match error.refusal() {
            Some(Refusal { problems, .. }) if !problems.is_empty() => {
                let found = problems.iter();
                found.map(|problem| locator.finding(resource, &problem.path, problem.message.clone())).collect()
            }
            Some(refusal) => vec![locator.finding(resource, "", format!("rejected by the control plane: {refusal}"))],
            None => vec![locator.finding(resource, "", error.to_string())],
        }
    }
}

/// Number of resources per result.
#[derive(Debug, Default)]
pub(super) struct Tally {
    created: usize,
    changed: usize,
    unchanged: usize,
    pub(super) failed: usize,
    pub(super) not_sent: usize,
}

impl Tally {
    pub(super) fn count(&mut self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Created { .. } => &mut self.created,
            Outcome::Changed { .. } => &mut self.changed,
            Outcome::Unchanged => &mut self.unchanged,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::NotSent => &mut self.not_sent,
        };
        *counter += 1;
    }

    pub(super) fn summary(&self, dry_run: bool) -> String {
        let Self { created, changed, unchanged, failed, not_sent } = self;
        let mut text = format!("{created} created, {changed} changed, {unchanged} unchanged, {failed} failed");
        if *not_sent > 0 {
            text = format!("{text}, {not_sent} not sent");
        }
        if dry_run { format!("dry run, nothing was written: {text}") } else { text }
    }
}
