//! Reading, listing, writing and deleting resources of any kind.

use std::{net::Ipv4Addr, time::Duration};

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::{Planned, Put, Refusal, Rights, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Access, Cancellation, Cancelled, Kind, Kri, ResourceKey, Scope};
use kodiak_pool::Caller;
use kodiak_store::{Record, Snapshot};
use serde_json::{Value, json};

use super::{
    ApiCall, ComputedCall, Question,
    inspect::{References, identity_warnings, mtls_warning, reference_warnings},
    json,
};
use crate::{
    Api, ApiError, access,
    body::{self, DocumentLimits},
    kubernetes,
    list::{ListQuery, Page, next_query},
    render,
};

const NOT_FOUND: &str = "Could not retrieve a resource";
/// A write does not wait longer for a turn of the pool.
const WARNINGS_TIME: Duration = Duration::from_secs(2);
const UNCHECKED: &str = "the control plane is busy, so warnings that depend on the whole mesh are missing; the status of the \
    resource has them";

/// Resource in the path: `/meshes/{mesh}/<kind>/{name}` or `/<kind>/{name}`.
fn target<'a>(kind: &'static Kind, call: &'a Question) -> Target<'a> {
    match kind.scope {
        Scope::Mesh => Target { kind, mesh: call.param(0), name: call.param(1) },
        Scope::Global => Target { kind, mesh: "", name: call.param(0) },
    }
}

pub(crate) async fn get(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    found(&api, kind, &call)
}

/// For a Dataplane, whose status depends on the whole mesh.
pub(crate) fn get_computed(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    call.cancellation.check()?;
    found(api, kind, call)
}

fn found(api: &Api, kind: &'static Kind, call: &Question) -> Result<Response, ApiError> {
    let target = target(kind, call);
    api.catalog().require_mesh(kind, target.mesh).map_err(|refusal| ApiError::refused(refusal, NOT_FOUND))?;
    let snapshot = api.catalog().store().snapshot();
    let record = snapshot.get(&target.key()).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    shown(kind, record, &snapshot, call)
}

/// `/_kri/{kri}`
pub(crate) fn get_by_kri(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let kri = Kri::parse(kinds(), call.param(0)).map_err(ApiError::bad_request)?;
    let kind = kinds().by_short(kri.short).expect("a KRI has the short name of a kind");
    let snapshot = api.catalog().store().snapshot();
    let names = |record: &&Record| kodiak_model::labels::display_name(&record.labels, &record.key.name) == kri.name;
    let fits = |record: &&Record| {
        let label = |key| record.labels.get(key).map(String::as_str);
        // Resources that were stored before the control plane had a zone belong to this one.
        let zone = label(kodiak_model::labels::ZONE).is_none_or(|zone| kri.zone.is_empty() || zone == kri.zone);
        zone && label(kodiak_model::labels::NAMESPACE).unwrap_or_default() == kri.namespace
    };
    let mut records = snapshot.list_in(kind.name, &kri.mesh).filter(names).filter(fits);
    let record = records.next().ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    crate::access::Need::Read(kind).check(&api.config().access, &call.user)?;
    call.cancellation.check()?;
    shown(kind, record, &snapshot, call)
}

/// Lists resources of one mesh, of all meshes, or of a global kind.
pub(crate) fn list(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    let snapshot = api.catalog().store().snapshot();
    let references = References::new(&snapshot);
    list_with(api, kind, call, &snapshot, |record| text(kind, record, &references))
}

pub(crate) fn list_with(
    api: &Api,
    kind: &'static Kind,
    call: &ComputedCall,
    snapshot: &Snapshot,
    render: impl Fn(&Record) -> String,
) -> Result<Response, ApiError> {
    let query = ListQuery::parse(&call.query)?;
    query.check(&call.route)?;
    call.cancellation.check()?;
    let mesh = call.params.first().filter(|_| kind.scope == Scope::Mesh);
    let page = match mesh {
        Some(mesh) => {
            let missing = |refusal| ApiError::refused(refusal, "Could not retrieve resources");
            api.catalog().require_mesh(kind, mesh).map_err(missing)?;
            Page::of(&query, snapshot.list_in(kind.name, mesh).filter(|record| query.matches(snapshot, record)))
        }
        None => Page::of(&query, snapshot.list(kind.name).filter(|record| query.matches(snapshot, record))),
    };
    let page = page.try_map(|record| {
        call.cancellation.check()?;
        Ok::<_, ApiError>(render(record))
    })?;
    let next = page.next.map(|offset| format!("{}?{}", call.url, next_query(&call.query, offset)));
    Ok(json(StatusCode::OK, render::list(page.total, &page.items, next.as_deref())))
}

/// A document that is written.
struct Written {
    kind: &'static Kind,
    mesh: String,
    name: String,
    document: Value,
    rights: Rights,
    /// Virtual address that it keeps.
    address: Option<Ipv4Addr>,
}

pub(crate) async fn put(api: Api, kind: &'static Kind, mut call: ApiCall) -> Result<Response, ApiError> {
    admit(&api, kind, &call)?;
    let limits = DocumentLimits::of(&api.config().access, &call.user);
    let bytes = body::read(&call.headers, std::mem::take(&mut call.body), limits).await?;
    let written = Written::read(&api, kind, &call, &bytes)?;
    let target = written.target();
    let put = match written.address {
        Some(address) => {
            api.catalog().put_with_address(target, written.document.clone(), written.rights, address).await
        }
        None => api.catalog().put_with(target, written.document.clone(), written.rights).await,
    };
    let mut put = put.map_err(refused_write)?;
    if put.changed {
        let (mesh, name, action) = (&written.mesh, &written.name, if put.created { "create" } else { "update" });
        tracing::info!(user = %call.user.name, kind = kind.name, mesh, name, action, "Resource written.");
    }
    let (after, key) = (api.catalog().store().snapshot(), target.key());
    let caller = if call.user.is_anonymous() { Caller::Anonymous } else { Caller::Known };
    let found = api.pool().run(caller, move |cancellation| warnings(&after, kind, &key, cancellation));
    match tokio::time::timeout(WARNINGS_TIME, found).await {
        Ok(Ok(Ok(found))) => put.warnings.extend(found),
        // The document is stored, so this is not an error.
        Ok(Ok(Err(Cancelled)) | Err(_)) | Err(_) => put.warnings.push(UNCHECKED.to_owned()),
    }
    Ok(written_response(&put))
}

/// `?dryRun=true`: validates the document, and stores nothing.
pub(crate) fn dry_run(api: &Api, kind: &'static Kind, call: &ComputedCall) -> Result<Response, ApiError> {
    admit(api, kind, call)?;
    let written = Written::read(api, kind, call, &call.body)?;
    let now = api.catalog().store().snapshot();
    let mut planner = api.catalog().planner(&now, written.rights, &call.cancellation);
    let mut put = planner.write(written.target(), written.document.clone()).map_err(refused_write)?;
    let Planned { after, .. } = planner.finish().map_err(|unfit| refused_write(unfit.refusal))?;
    put.warnings.extend(warnings(&after, kind, &written.target().key(), &call.cancellation)?);
    Ok(written_response(&put))
}

/// Before the body is read.
fn admit(api: &Api, kind: &'static Kind, call: &Question) -> Result<(), ApiError> {
    if let Some(refused) = refuse_write(api, kind) {
        return Err(refused);
    }
    api.catalog().require_mesh(kind, target(kind, call).mesh).map_err(refused_write)
}

impl Written {
    fn read(api: &Api, kind: &'static Kind, call: &Question, bytes: &[u8]) -> Result<Self, ApiError> {
        let document = body::document(bytes, kind.name)?;
        let rights = access::rights(&api.config().access, &call.user);
        let address = kept_address(call.query_value("vip").as_deref(), &document)?;
        if address.is_some() && !rights.secrets {
            return Err(ApiError::denied(&call.user.to_string(), "virtual addresses of services"));
        }
        let Target { mesh, name, .. } = target(kind, call);
        Ok(Self { kind, mesh: mesh.to_owned(), name: name.to_owned(), document, rights, address })
    }

    fn target(&self) -> Target<'_> {
        Target { kind: self.kind, mesh: &self.mesh, name: &self.name }
    }
}

/// Warnings that depend on the whole mesh.
fn warnings(
    after: &Snapshot,
    kind: &'static Kind,
    key: &ResourceKey,
    cancellation: &Cancellation,
) -> Result<Vec<String>, Cancelled> {
    let mut warnings = reference_warnings(after, key);
    warnings.extend(identity_warnings(after, key, cancellation)?);
    warnings.extend(mtls_warning(after, kind, &key.mesh));
    Ok(warnings)
}

fn written_response(put: &Put) -> Response {
    let status = if put.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = if put.warnings.is_empty() { json!({}) } else { json!({ "warnings": put.warnings }) };
    json(status, body.to_string())
}

fn refused_write(refusal: Refusal) -> ApiError {
    ApiError::refused(refusal, "Failed to find a resource")
}

/// Address in the status of the document, which `?vip=keep` takes over: for administrators who import services.
fn kept_address(asked: Option<&str>, document: &Value) -> Result<Option<Ipv4Addr>, ApiError> {
    match asked {
        None => return Ok(None),
        Some("keep") => (),
        Some(other) => return Err(ApiError::bad_request(format_args!("vip must be keep, not {other:?}"))),
    }
    let written = document.pointer("/status/vips/0/ip").or_else(|| document.pointer("/status/vip/ip"));
    let address = written.and_then(Value::as_str).and_then(|ip| ip.parse().ok());
    address
        .map(Some)
        .ok_or_else(|| ApiError::bad_request("vip=keep needs an IPv4 address in status.vips or status.vip"))
}

pub(crate) async fn delete(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    if let Some(refused) = refuse_write(&api, kind) {
        return Err(refused);
    }
    let target = target(kind, &call);
    let refused = |refusal| ApiError::refused(refusal, "Could not delete a resource");
    api.catalog().delete(target).await.map_err(refused)?;
    tracing::info!(user = %call.user.name, kind = kind.name, mesh = target.mesh, name = target.name, "Resource deleted.");
    Ok(json(StatusCode::OK, "{}".to_owned()))
}

pub(super) fn refuse_write(api: &Api, kind: &Kind) -> Option<ApiError> {
    if api.config().read_only {
        return Some(ApiError::method_not_allowed("this control plane's API is read-only (apiServer.readOnly)"));
    }
    (kind.access == Access::ReadOnly)
        .then(|| ApiError::method_not_allowed(&format!("{} is read-only: only the control plane writes it", kind.name)))
}

/// Resource as JSON. A Dataplane has a status with the problems of its references.
fn text(kind: &Kind, record: &Record, references: &References<'_>) -> String {
    let text = render::resource(kind, record);
    match references.status(&record.key) {
        Some(status) => render::with_status(text, &status),
        None => text,
    }
}

/// Resource in the requested format.
fn shown(kind: &Kind, record: &Record, snapshot: &Snapshot, call: &Question) -> Result<Response, ApiError> {
    match call.query_value("format").as_deref() {
        None | Some("universal" | "") => Ok(json(StatusCode::OK, text(kind, record, &References::new(snapshot)))),
        Some("k8s" | "kubernetes") => {
            let namespace = call.query_value("namespace").unwrap_or_else(|| kubernetes::SYSTEM_NAMESPACE.to_owned());
            Ok(json(StatusCode::OK, kubernetes::resource(kind, record, &namespace).to_string()))
        }
        Some(_) => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "Bad Request",
            r#""format" must be one of ["k8s", "kubernetes", "universal"]"#,
        )),
    }
}
