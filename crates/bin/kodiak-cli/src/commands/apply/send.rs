//! Writing many resources at once over few connections.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use indicatif::ProgressBar;
use kodiak_client::{Client, ClientError, IN_FLIGHT, Put, Refusal};

use super::existing::{Existing, Known};
use super::{Outcome, compare};
use crate::documents::Resource;

/// So many conflicts in a row are no accident.
const CONFLICTS: usize = 3;

pub(super) struct Sender<'a> {
    pub(super) client: &'a Client,
    pub(super) dry_run: bool,
    pub(super) bar: ProgressBar,
}

/// What came of each resource, in their order.
pub(super) struct Sent {
    pub(super) outcomes: Vec<Outcome>,
    /// Set when the control plane could not be reached any more.
    pub(super) broken: Option<ClientError>,
}

impl Sender<'_> {
    pub(super) async fn send(&self, resources: &[Resource]) -> Sent {
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
                // Each of the others would wait as long for the same answer.
                Err(error) if error.is_unreachable() => {
                    broken = Some(error);
                    break;
                }
                Err(error) => outcomes[n] = Outcome::Failed(error),
            }
        }
        Sent { outcomes, broken }
    }

    async fn send_one(&self, resource: &Resource, existing: &Existing) -> Result<Outcome, ClientError> {
        let asked;
        let current = match existing.of(resource) {
            Known::Absent => None,
            Known::Present(current) => Some(current),
            Known::NotAsked => {
                asked = self.client.get(resource.target()).await?;
                asked.as_ref()
            }
        };
        if current.is_some_and(|current| compare::is_same(resource, current)) {
            return Ok(Outcome::Unchanged);
        }
        let Put { created, warnings } = if self.dry_run {
            Put { created: current.is_none(), warnings: Vec::new() }
        } else {
            self.put(resource).await?
        };
        Ok(if created { Outcome::Created { warnings } } else { Outcome::Changed { warnings } })
    }

    /// Someone else may write the same resource at the same moment; what we bring is whole, so it is brought again.
    async fn put(&self, resource: &Resource) -> Result<Put, ClientError> {
        let body = Bytes::from(resource.body());
        for _ in 0..CONFLICTS {
            match self.client.put(resource.target(), body.clone()).await {
                Err(error) if error.refusal().is_some_and(Refusal::is_conflict) => (),
                answer => return answer,
            }
        }
        self.client.put(resource.target(), body).await
    }
}
