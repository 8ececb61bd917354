//! Writes many resources concurrently over few connections.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;
use kodiak_client::{Client, ClientError, IN_FLIGHT, PutResult, Refusal};

use super::existing::{Existing, Known};
use super::{Outcome, compare};
use crate::documents::FileResource;

/// Retries of a write that conflicts with another one.
const CONFLICTS: usize = 3;

pub(in crate::commands) struct Sender<'a> {
    pub(in crate::commands) client: &'a Client,
    pub(in crate::commands) dry_run: bool,
    pub(in crate::commands) bar: ProgressBar,
}

/// Result of each resource, in their order.
pub(in crate::commands) struct Sent {
    pub(in crate::commands) outcomes: Vec<Outcome>,
    /// Set when the control plane became unreachable.
    pub(in crate::commands) broken: Option<ClientError>,
}

impl Sender<'_> {
    pub(in crate::commands) async fn send(&self, resources: &[FileResource]) -> Sent {
        let existing = match Existing::look_up(self.client, resources).await {
            Ok(existing) => existing,
            Err(error) => {
                let outcomes = resources.iter().map(|_| Outcome::NotSent).collect();
                return Sent { outcomes, broken: Some(error) };
            }
        };
        let mut outcomes: Vec<_> = resources.iter().map(|_| Outcome::NotSent).collect();
        let mut broken = None;
        let tasks = resources.iter().enumerate().map(|(n, resource)| {
            let existing = &existing;
            async move { (n, self.send_one(resource, existing).await) }
        });
        let mut answers = stream::iter(tasks).buffer_unordered(IN_FLIGHT);
        while let Some((n, outcome)) = answers.next().await {
            self.bar.inc(1);
            match outcome {
                Ok(outcome) => outcomes[n] = outcome,
                // All others would run into the same timeout.
                Err(error) if error.is_unreachable() => {
                    broken = Some(error);
                    break;
                }
                Err(error) => outcomes[n] = Outcome::Failed(error),
            }
        }
        Sent { outcomes, broken }
    }

    async fn send_one(&self, resource: &FileResource, existing: &Existing) -> Result<Outcome, ClientError> {
        let asked;
        let current = match existing.of(resource) {
            Known::Absent => None,
            Known::Present(current) => Some(current),
            Known::NotAsked => {
                asked = self.client.get(resource.id()).await?;
                asked.as_ref()
            }
        };
        if current.is_some_and(|current| compare::is_same(resource, current)) {
            return Ok(Outcome::Unchanged);
        }
        let PutResult { created, warnings } = if self.dry_run {
            PutResult { created: current.is_none(), warnings: Vec::new() }
        } else {
            self.put(resource).await?
        };
        Ok(if created { Outcome::Created { warnings } } else { Outcome::Changed { warnings } })
    }

    /// Retries on conflict with a concurrent write: the document is complete, so it does not depend on the stored one.
    async fn put(&self, resource: &FileResource) -> Result<PutResult, ClientError> {
        let body = Bytes::from(resource.body());
        for _ in 0..CONFLICTS {
            match self.client.put(resource.id(), body.clone()).await {
                Err(error) if error.refusal().is_some_and(Refusal::is_conflict) => (),
                answer => return answer,
            }
        }
        self.client.put(resource.id(), body).await
    }
}
