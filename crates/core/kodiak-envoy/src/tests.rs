//! Guarantees of the crate, over whole messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::ProptestConfig;
use proptest::{collection, num, proptest};
use prost::Message;
use serde_json::{Value, json};

use crate::envoy::config::core::v3::{Metadata, Node, TypedExtensionConfig};
use crate::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter::ConfigType};
use crate::envoy::config::rbac::v3::{Permission, Policy, Principal, Rbac, permission, principal};
use crate::envoy::extensions::common::matching::v3::ExtensionWithMatcher;
use crate::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use crate::envoy::extensions::filters::http::router::v3::Router;
use crate::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, http_filter,
};
use crate::google::protobuf::{Any, Struct, Value as ProtoValue, value};
use crate::json::{JsonError, descriptor, from_json, to_json};
use crate::type_url::{Listed, message_name};
use crate::{any, type_urls};

fn text(text: &str) -> ProtoValue {
    ProtoValue { kind: Some(value::Kind::StringValue(text.to_owned())) }
}

fn structure(size: usize) -> Struct {
    Struct { fields: (0..size).map(|n| (format!("key-{n}"), text("x"))).collect() }
}

fn metadata() -> Metadata {
    let filter_metadata = (0..20).map(|n| (format!("io.kodiak.{n}"), structure(20))).collect();
    Metadata { filter_metadata, ..Metadata::default() }
}

fn http_filter(name: &str, config: Any) -> HttpFilter {
    let config_type = Some(http_filter::ConfigType::TypedConfig(config));
    HttpFilter { name: name.to_owned(), config_type, ..HttpFilter::default() }
}

/// A listener with a map two `Any`s below it.
fn listener() -> Listener {
    let policy = Policy {
        permissions: vec![Permission { rule: Some(permission::Rule::Any(true)) }],
        principals: vec![Principal { identifier: Some(principal::Identifier::Any(true)) }],
        ..Policy::default()
    };
    let policies: BTreeMap<_, _> = (0..20).map(|n| (format!("policy-{n}"), policy.clone())).collect();
    let rbac = HttpRbac { rules: Some(Rbac { policies, ..Rbac::default() }), ..HttpRbac::default() };
    let manager = HttpConnectionManager {
        stat_prefix: "in".to_owned(),
        http_filters: vec![
            http_filter("envoy.filters.http.rbac", any(&rbac)),
            http_filter("envoy.filters.http.router", any(&Router::default())),
        ],
        ..HttpConnectionManager::default()
    };
    let config_type = Some(ConfigType::TypedConfig(any(&manager)));
    let filter = Filter { name: "envoy.filters.network.http_connection_manager".to_owned(), config_type };
    Listener {
        name: "inbound".to_owned(),
        metadata: Some(metadata()),
        bind_to_port: Some(false),
        filter_chains: vec![FilterChain { filters: vec![filter], ..FilterChain::default() }],
        ..Listener::default()
    }
}

#[test]
fn equal_messages_have_equal_bytes() {
    let first = Node { metadata: Some(structure(50)), ..Node::default() }.encode_to_vec();
    for _ in 0..50 {
        assert_eq!(Node { metadata: Some(structure(50)), ..Node::default() }.encode_to_vec(), first);
        // In another order of insertion, and after decoding.
        let fields = structure(50).fields.into_iter().rev().collect();
        let node = Node { metadata: Some(Struct { fields }), ..Node::default() };
        assert_eq!(node.encode_to_vec(), first);
        assert_eq!(Node::decode(&first[..]).unwrap().encode_to_vec(), first);
    }
}

#[test]
fn listener_round_trips_through_json_byte_by_byte() {
    let bytes = any(&listener()).encode_to_vec();
    let json = to_json(&any(&listener())).unwrap();
    let text = json.to_string();
    // Hash maps inside prost-reflect differ between iterations.
    for _ in 0..50 {
        assert_eq!(to_json(&any(&listener())).unwrap().to_string(), text);
        assert_eq!(from_json::<Any>(&json).unwrap().encode_to_vec(), bytes);
    }
    let mut plain = json;
    plain.as_object_mut().unwrap().remove("@type");
    assert_eq!(from_json::<Listener>(&plain).unwrap(), listener());
}

#[test]
fn nested_types_are_written_out_in_alphabetical_order() {
    let mut listener = listener();
    listener.metadata = None;
    let mut json = to_json(&listener).unwrap();
    let filter = &mut json["filterChains"][0]["filters"][0]["typedConfig"];
    filter["httpFilters"][0]["typedConfig"] = Value::Null;
    let manager =
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let expected = json!({
        "bindToPort": false,
        "filterChains": [{"filters": [{
            "name": "envoy.filters.network.http_connection_manager",
            "typedConfig": {
                "@type": manager,
                "httpFilters": [
                    {"name": "envoy.filters.http.rbac", "typedConfig": null},
                    {"name": "envoy.filters.http.router", "typedConfig": {"@type": router}},
                ],
                "statPrefix": "in",
            },
        }]}],
        "name": "inbound",
    });
    assert_eq!(json.to_string(), expected.to_string());
}

#[test]
fn json_accepts_both_spellings_and_no_unknown_fields() {
    let camel = from_json::<Listener>(&json!({"name": "a", "bindToPort": true})).unwrap();
    let snake = from_json::<Listener>(&json!({"name": "a", "bind_to_port": true})).unwrap();
    assert_eq!(camel, snake);
    let error = from_json::<Listener>(&json!({"nam": "a"})).unwrap_err();
    assert_eq!(error.to_string(), "the JSON is not a valid envoy.config.listener.v3.Listener");
    let error = from_json::<Any>(&json!({"@type": "type.googleapis.com/a.B"})).unwrap_err();
    assert!(matches!(error, JsonError::Json { .. }), "{error:?}");
    let unknown = Any { type_url: "type.googleapis.com/a.B".to_owned(), value: Bytes::new() };
    let error = to_json(&unknown).unwrap_err();
    assert_eq!(error.to_string(), "unknown message type \"type.googleapis.com/a.B\"");
}

#[test]
fn every_type_url_is_that_of_a_message() {
    for type_url in type_urls() {
        let name = message_name(type_url);
        assert_eq!(descriptor(name).unwrap().full_name(), name);
        assert_eq!(Listed::find(type_url).unwrap().type_url, type_url, "{name} is listed twice");
    }
    assert!(type_urls().count() > 50);
}

#[test]
fn rejects_deep_nesting() {
    let mut deep = any(&Router::default());
    for _ in 0..10_000 {
        let config = TypedExtensionConfig { name: String::new(), typed_config: Some(deep) };
        deep = any(&ExtensionWithMatcher { extension_config: Some(config), ..ExtensionWithMatcher::default() });
    }
    assert!(matches!(to_json(&deep), Err(JsonError::TooDeep)));

    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!([deep]);
    }
    assert!(matches!(from_json::<Struct>(&json!({"a": deep})), Err(JsonError::TooDeep)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in collection::vec(num::u8::ANY, 0..64)) {
        for type_url in type_urls() {
            let _ = to_json(&Any { type_url: type_url.to_owned(), value: bytes.clone().into() });
        }
    }

    #[test]
    fn damaged_listeners_never_panic(at in num::usize::ANY, byte in num::u8::ANY) {
        let mut bytes = any(&listener()).encode_to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(any) = Any::decode(&bytes[..]) {
            let _ = to_json(&any);
        }
    }
}

#[test]
fn messages_without_a_rust_type_have_one_encoding() {
    let provider =
        |n: u32| (format!("provider-{n}"), json!({ "issuer": format!("issuer-{n}"), "audiences": ["a", "b"] }));
    let json = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
        "bypassCorsPreflight": true,
        "providers": (0..20).map(provider).collect::<serde_json::Map<_, _>>(),
        "rules": [{ "match": { "prefix": "/" }, "requires": { "providerName": "provider-1" } }],
    });
    let message = from_json::<Any>(&json).unwrap();
    // Hash maps inside prost-reflect differ between iterations.
    for _ in 0..20 {
        assert_eq!(from_json::<Any>(&json).unwrap().encode_to_vec(), message.encode_to_vec());
    }
    let mut shown = to_json(&message).unwrap();
    shown["providers"].sort_all_objects();
    let mut expected = json;
    expected["providers"].sort_all_objects();
    assert_eq!(shown, expected);
}
