//! Reading, listing, writing and deleting resources of any kind.

use std::net::Ipv4Addr;

use axum::{http::StatusCode, response::Response};
use kodiak_catalog::{Planned, Target};
use kodiak_kinds::kinds;
use kodiak_model::{Access, Kind, Kri, Scope};
use kodiak_store::{Record, Snapshot};
use serde_json::{Value, json};

use super::{
    ApiCall,
    inspect::{References, identity_warnings, mtls_warning, reference_warnings},
    json,
};
use crate::{
    Api, ApiError, access, body, kubernetes,
    list::{ListQuery, Page, next_query},
    render,
};

const NOT_FOUND: &str = "Could not retrieve a resource";

/// Resource in the path: `/meshes/{mesh}/<kind>/{name}` or `/<kind>/{name}`.
fn target<'a>(kind: &'static Kind, call: &'a ApiCall) -> Target<'a> {
    match kind.scope {
        Scope::Mesh => Target { kind, mesh: call.param(0), name: call.param(1) },
        Scope::Global => Target { kind, mesh: "", name: call.param(0) },
    }
}

pub(crate) async fn get(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    let target = target(kind, &call);
    api.catalog().require_mesh(kind, target.mesh).map_err(|refusal| ApiError::refused(refusal, NOT_FOUND))?;
    let snapshot = api.catalog().store().snapshot();
    let record = snapshot.get(&target.key()).ok_or_else(|| ApiError::not_found(NOT_FOUND))?;
    shown(kind, record, &snapshot, &call)
}

/// `/_kri/{kri}`
pub(crate) async fn get_by_kri(api: Api, call: ApiCall) -> Result<Response, ApiError> {
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
    shown(kind, record, &snapshot, &call)
}

/// Lists resources of one mesh, of all meshes, or of a global kind.
pub(crate) async fn list(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    let snapshot = api.catalog().store().snapshot();
    let references = References::new(&snapshot);
    list_with(&api, kind, &call, &snapshot, |record| text(kind, record, &references))
}

pub(crate) fn list_with(
    api: &Api,
    kind: &'static Kind,
    call: &ApiCall,
    snapshot: &Snapshot,
    render: impl Fn(&Record) -> String,
) -> Result<Response, ApiError> {
    let query = ListQuery::parse(&call.query)?;
    query.check(&call.route)?;
    let mesh = call.params.first().filter(|_| kind.scope == Scope::Mesh);
    let page = match mesh {
        Some(mesh) => {
            let missing = |refusal| ApiError::refused(refusal, "Could not retrieve resources");
            api.catalog().require_mesh(kind, mesh).map_err(missing)?;
            Page::of(&query, snapshot.list_in(kind.name, mesh).filter(|record| query.matches(snapshot, record)))
        }
        None => Page::of(&query, snapshot.list(kind.name).filter(|record| query.matches(snapshot, record))),
    };
    let items: Vec<String> = page.items.iter().map(|record| render(record)).collect();
    let next = page.next.map(|offset| format!("{}?{}", call.url, next_query(&call.query, offset)));
    Ok(json(StatusCode::OK, render::list(page.total, &items, next.as_deref())))
}

pub(crate) async fn put(api: Api, kind: &'static Kind, call: ApiCall) -> Result<Response, ApiError> {
    if let Some(refused) = refuse_write(&api, kind) {
        return Err(refused);
    }
    let dry_run = match call.query_value("dryRun").as_deref() {
        None | Some("false") => false,
        Some("true" | "") => true,
        Some(other) => return Err(ApiError::bad_request(format_args!("dryRun must be true or false, not {other:?}"))),
    };
    let (mesh, name) = {
        let target = target(kind, &call);
        (target.mesh.to_owned(), target.name.to_owned())
    };
    let target = Target { kind, mesh: &mesh, name: &name };
    let refused = |refusal| ApiError::refused(refusal, "Failed to find a resource");
    api.catalog().require_mesh(kind, &mesh).map_err(refused)?;
    let vip = call.query_value("vip");
    let bytes = body::read(&call.headers, call.body).await?;
    let document = body::document(&bytes, kind.name)?;
    let rights = access::rights(&api.config().access, &call.user);
    let address = kept_address(vip.as_deref(), &document)?;
    if address.is_some() && !rights.secrets {
        return Err(ApiError::denied(&call.user.to_string(), "virtual addresses of services"));
    }
    let (mut put, after) = if dry_run {
        let now = api.catalog().store().snapshot();
        let Planned { put, transaction } = api.catalog().plan(&now, target, document, rights).map_err(refused)?;
        (put, now.with(transaction).map_err(|error| refused(error.into()))?)
    } else {
        let put = match address {
            Some(address) => api.catalog().put_with_address(target, document, rights, address).await,
            None => api.catalog().put_with(target, document, rights).await,
        };
        (put.map_err(refused)?, api.catalog().store().snapshot())
    };
    put.warnings.extend(reference_warnings(&after, &target.key()));
    put.warnings.extend(identity_warnings(&after, &target.key()));
    put.warnings.extend(mtls_warning(&after, kind, &mesh));
    if put.changed && !dry_run {
        let action = if put.created { "create" } else { "update" };
        tracing::info!(user = %call.user.name, kind = kind.name, mesh, name, action, "Resource written.");
    }
    let status = if put.created { StatusCode::CREATED } else { StatusCode::OK };
    let body = if put.warnings.is_empty() { json!({}) } else { json!({ "warnings": put.warnings }) };
    Ok(json(status, body.to_string()))
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
fn shown(kind: &Kind, record: &Record, snapshot: &Snapshot, call: &ApiCall) -> Result<Response, ApiError> {
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
