//! Timeout to MeshTimeout.
//!
//! A Timeout has sections for protocols. A MeshTimeout has one `idleTimeout` for all of them, and `http` for HTTP and
//! gRPC, so the protocol of the destination decides where sections differ.

use serde_json::{Map, Value};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, insert},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind =
    ConnectionKind { legacy: "Timeout", new: "MeshTimeout", side: Side::Sources, several: Several::MostSpecific, conf };

fn conf(mut old: Fields, destination: &Selector, facts: &MeshFacts) -> Result<NewConf, String> {
    let protocol = destination.service().and_then(|service| facts.protocol(service));
    let mut new = old.copy(&[("connectTimeout", "connectionTimeout")]);
    let mut tcp = old.object("tcp")?.map(|mut tcp| section(&mut tcp, &["idleTimeout"])).transpose()?;
    let http_fields = ["requestTimeout", "idleTimeout", "streamIdleTimeout", "maxStreamDuration"];
    let mut http = old.object("http")?.map(|mut http| section(&mut http, &http_fields)).transpose()?;
    let grpc_fields = ["streamIdleTimeout", "maxStreamDuration"];
    let grpc = old.object("grpc")?.map(|mut grpc| section(&mut grpc, &grpc_fields)).transpose()?;
    old.end()?;

    let idle = |section: &mut Option<Map<String, Value>>| section.as_mut().and_then(|it| it.remove("idleTimeout"));
    let (of_tcp, of_http) = (idle(&mut tcp), idle(&mut http));
    let idle = match protocol {
        Some("http" | "http2" | "grpc") => of_http,
        Some(_) => of_tcp,
        None if of_tcp == of_http => of_http,
        None => return Err(unknown_protocol("tcp.idleTimeout and http.idleTimeout")),
    };
    new.extend(idle.map(|idle| ("idleTimeout".to_owned(), idle)));

    let mut http = http.unwrap_or_default();
    let grpc = grpc.unwrap_or_default();
    let differs = grpc.iter().any(|(field, value)| http.get(field) != Some(value));
    match protocol {
        Some("grpc") => http.extend(grpc),
        None if differs => return Err(unknown_protocol("the section grpc and the section http")),
        _ => (),
    }
    insert(&mut new, "http", http);
    Ok(Value::Object(new).into())
}

fn section(old: &mut Fields, names: &[&str]) -> Result<Map<String, Value>, String> {
    let same: Vec<_> = names.iter().map(|name| (*name, *name)).collect();
    let new = old.copy(&same);
    old.end()?;
    Ok(new)
}

fn unknown_protocol(sections: &str) -> String {
    format!(
        "{sections} differ, and MeshTimeout has one for all protocols; give both the same value, or select destinations whose Dataplanes are in the export"
    )
}
