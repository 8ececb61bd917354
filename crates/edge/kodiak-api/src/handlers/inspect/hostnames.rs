//! Hostnames of services.

use axum::{http::StatusCode, response::Response};
use kodiak_inspection::inspect::hostnames::{Generator, Service, of_service};
use kodiak_model::{
    Choice, Kind,
    kinds::{dataplane::BackendKind, hostname_generator::HostnameGenerator},
};
use kodiak_rules::Meta;

use super::{ApiCall, ComputedCall, answer, find_resource};
use crate::{Api, ApiError, shapes};

/// `<service>/{name}/_hostnames`
pub(crate) fn hostnames(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let title = "could not retrieve service";
    let (snapshot, record) = find_resource(api, kind, call, title)?;
    let meta = Meta { mesh: &record.key.mesh, name: &record.key.name, labels: &record.labels };
    let kind = Choice::<BackendKind>::parse(kind.name).known().expect("only services have this route");
    call.cancellation.check()?;
    let generators = snapshot.world().list("HostnameGenerator").filter_map(|generator| {
        Some(Generator { labels: &generator.labels, spec: generator.spec::<HostnameGenerator>()? })
    });
    let found = of_service(&Service { kind, meta }, generators, api.catalog().place());
    Ok(answer(&shapes::hostnames::Hostnames::from(found)))
}

/// Hostnames of any other kind: refused.
pub(crate) async fn no_hostnames(_: Api, _: ApiCall) -> Result<Response, ApiError> {
    let title = r#"only "meshservices,meshexternalservices,meshmultizoneservices" are available for inspection"#;
    Err(ApiError::new(StatusCode::BAD_REQUEST, title, "Resource is not valid"))
}
