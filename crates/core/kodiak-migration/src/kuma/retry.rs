//! Retry to MeshRetry.

use serde_json::{Map, Value, json};

use super::{
    connection::{ConnectionKind, NewConf, Several, Side},
    facts::MeshFacts,
    fields::{Fields, insert},
    selector::Selector,
};

pub(super) const KIND: ConnectionKind =
    ConnectionKind { legacy: "Retry", new: "MeshRetry", side: Side::Sources, several: Several::MostSpecific, conf };

/// Conditions of a Retry that names none but has status codes.
const DEFAULT_CONDITIONS: [&str; 3] = ["GatewayError", "ConnectFailure", "RefusedStream"];

fn conf(mut old: Fields, _: &Selector, _: &MeshFacts) -> Result<NewConf, String> {
    let mut new = Map::new();
    if let Some(mut tcp) = old.object("tcp")? {
        insert(&mut new, "tcp", tcp.copy(&[("maxConnectAttempts", "maxConnectAttempt")]));
        tcp.end()?;
    }
    if let Some(mut http) = old.object("http")? {
        let mut fields = tries(&mut http)?;
        let conditions = http_conditions(&mut http)?;
        if !conditions.is_empty() {
            fields.insert("retryOn".to_owned(), json!(conditions));
        }
        http.end()?;
        insert(&mut new, "http", fields);
    }
    if let Some(mut grpc) = old.object("grpc")? {
        let mut fields = tries(&mut grpc)?;
        let conditions = grpc.list("retryOn")?.iter().map(grpc_condition).collect::<Result<Vec<_>, _>>()?;
        if !conditions.is_empty() {
            fields.insert("retryOn".to_owned(), json!(conditions));
        }
        grpc.end()?;
        insert(&mut new, "grpc", fields);
    }
    old.end()?;
    Ok(Value::Object(new).into())
}

fn tries(old: &mut Fields) -> Result<Map<String, Value>, String> {
    let mut new = old.copy(&[("numRetries", "numRetries"), ("perTryTimeout", "perTryTimeout")]);
    if let Some(mut back_off) = old.object("backOff")? {
        let fields = back_off.copy(&[("baseInterval", "baseInterval"), ("maxInterval", "maxInterval")]);
        back_off.end()?;
        insert(&mut new, "backOff", fields);
    }
    Ok(new)
}

fn http_conditions(http: &mut Fields) -> Result<Vec<String>, String> {
    let codes: Vec<String> = http.list("retriableStatusCodes")?.iter().map(ToString::to_string).collect();
    let written = http.list("retryOn")?;
    let mut conditions = Vec::new();
    let mut uses_codes = written.is_empty();
    for condition in &written {
        match condition.as_str().unwrap_or_default() {
            "retriable_status_codes" => uses_codes = true,
            other => conditions.push(http_condition(other)?.to_owned()),
        }
    }
    if written.is_empty() && !codes.is_empty() {
        conditions.extend(DEFAULT_CONDITIONS.map(str::to_owned));
    }
    if uses_codes {
        conditions.extend(codes);
    } else if !codes.is_empty() {
        return Err("conf.http.retriableStatusCodes has no effect without retriable_status_codes in retryOn".to_owned());
    }
    let methods = http.list("retriableMethods")?;
    if !methods.is_empty() && conditions.is_empty() {
        conditions.extend(DEFAULT_CONDITIONS.map(str::to_owned));
    }
    for method in &methods {
        let method = method.as_str().unwrap_or_default();
        let lower = method.to_ascii_lowercase();
        let mut letters = lower.chars();
        let first = letters.next().filter(|_| method != "NONE");
        let first = first.ok_or_else(|| format!("conf.http.retriableMethods: {method:?} has no counterpart"))?;
        conditions.push(format!("HttpMethod{}{}", first.to_ascii_uppercase(), letters.as_str()));
    }
    Ok(conditions)
}

fn http_condition(old: &str) -> Result<&'static str, String> {
    Ok(match old {
        "all_5xx" => "5xx",
        "gateway_error" => "GatewayError",
        "reset" => "Reset",
        "connect_failure" => "ConnectFailure",
        "envoy_ratelimited" => "EnvoyRatelimited",
        "retriable_4xx" => "Retriable4xx",
        "refused_stream" => "RefusedStream",
        "http3_post_connect_failure" => "Http3PostConnectFailure",
        other => return Err(format!("conf.http.retryOn: {other:?} has no counterpart")),
    })
}

fn grpc_condition(old: &Value) -> Result<&'static str, String> {
    Ok(match old.as_str().unwrap_or_default() {
        "cancelled" => "Canceled",
        "deadline_exceeded" => "DeadlineExceeded",
        "internal" => "Internal",
        "resource_exhausted" => "ResourceExhausted",
        "unavailable" => "Unavailable",
        other => return Err(format!("conf.grpc.retryOn: {other:?} has no counterpart")),
    })
}
