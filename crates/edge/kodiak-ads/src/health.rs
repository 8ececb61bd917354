//! One stream of health checks (HDS): the proxy gets checks of its workloads to run, and reports the results.
//!
//! Checks that arrive while a client is slow replace each other, as snapshots do. A proxy without checks is sent nothing.

use std::sync::Arc;

use kodiak_envoy::envoy::service::health::v3::health_check_request_or_endpoint_health_response::RequestType;
use kodiak_envoy::envoy::service::health::v3::{
    HealthCheckRequest, HealthCheckRequestOrEndpointHealthResponse as Message,
};

use crate::outbox::Outbox;
use crate::proxies::{Closing, HealthHello, HealthSession};
use crate::requests::{Requests, invalid};
use crate::stream::{self, StreamContext, closed, released};

/// Longest report: thousands of checks.
const LONGEST_REPORT: u32 = 1024 * 1024;

/// Does not end by itself, as [`stream::run`].
pub(crate) async fn run(context: StreamContext, mut requests: Requests, outbox: Arc<Outbox>) {
    let carried = carry(&context, &mut requests, &outbox);
    stream::until_end(&context, &outbox, carried).await;
}

/// `Ok` when the client ends the stream.
async fn carry(context: &StreamContext, requests: &mut Requests, outbox: &Outbox) -> Result<(), Closing> {
    let StreamContext { proxies, peer, credential, limits, .. } = context;
    let Ok(first) = tokio::time::timeout(limits.hello, requests.message::<Message>()).await else {
        return Err(invalid("the first message of the stream did not arrive in time"));
    };
    let Some(first) = first? else { return Ok(()) };
    let Some(RequestType::HealthCheckRequest(HealthCheckRequest { node: Some(node), .. })) = first.request_type else {
        return Err(invalid("the first message of a stream must be a `health_check_request` with a `node`"));
    };
    if node.id.is_empty() {
        return Err(invalid("`node.id` of the `health_check_request` must say from which proxy it is"));
    }
    let id = node.id.clone();
    let hello = HealthHello { node, credential: credential.clone(), peer: *peer };
    let mut session = proxies.connect_health(hello).await?;
    tracing::debug!(%peer, node = id, "health check stream opened");
    requests.bound(LONGEST_REPORT);
    tell(&mut session, outbox)?;
    loop {
        tokio::select! {
            biased;
            closing = closed(&mut session.closing) => return Err(closing),
            changed = session.checks.changed(), if outbox.is_empty() => match changed {
                Ok(()) => tell(&mut session, outbox)?,
                Err(_) => return Err(released()),
            },
            () = outbox.response_taken() => (),
            next = requests.message::<Message>() => match next?.map(|next| next.request_type) {
                None => return Ok(()),
                Some(Some(RequestType::EndpointHealthResponse(found))) => session.report.report(found),
                Some(Some(RequestType::HealthCheckRequest(again))) => {
                    if again.node.is_some_and(|node| node.id != id) {
                        return Err(invalid("`node.id` must not change within a stream"));
                    }
                }
                Some(None) => return Err(invalid("the message has neither a request nor a report")),
            },
        }
    }
}

/// The health checks to send now, if there are any yet.
fn tell(session: &mut HealthSession, outbox: &Outbox) -> Result<(), Closing> {
    let checks = session.checks.borrow_and_update().clone();
    checks.map_or(Ok(()), |checks| outbox.put_message(&*checks))
}
