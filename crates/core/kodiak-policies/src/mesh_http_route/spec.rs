//! Spec of MeshHTTPRoute.

use kodiak_model::{BackendRef, Choice, IntOrString, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::header::{HeaderMatch, HeaderModifier};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshHTTPRoute {
    /// The proxies whose requests are routed. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The destinations whose requests are routed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<To>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["targetRef", "rules"]))]
pub struct To {
    /// Only for gateways: the hostnames that the rules apply to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostnames: Option<Vec<String>>,
    pub target_ref: TargetRef,
    /// Matches and actions. Requests that match no rule go to the destination unchanged.
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["matches", "default"]))]
pub struct Rule {
    /// The rule applies to requests that any of the items match.
    #[schemars(length(min = 1))]
    pub matches: Vec<Match>,
    pub default: RuleConf,
}

/// All conditions must hold. An empty match matches every request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Match {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathMatch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Choice<Method>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_params: Option<Vec<QueryParamsMatch>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<Vec<HeaderMatch>>,
}

words! {
    pub enum PathMatchType {
        Exact = "Exact",
        PathPrefix = "PathPrefix",
        RegularExpression = "RegularExpression",
    }
}

words! {
    pub enum Method {
        Connect = "CONNECT",
        Delete = "DELETE",
        Get = "GET",
        Head = "HEAD",
        Options = "OPTIONS",
        Patch = "PATCH",
        Post = "POST",
        Put = "PUT",
        Trace = "TRACE",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "value"]))]
pub struct PathMatch {
    /// A path or a prefix starts with a slash. A prefix matches whole segments: `/a` matches `/a` and `/a/b`, not
    /// `/ab`.
    #[schemars(length(min = 1))]
    pub value: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub match_type: Option<Choice<PathMatchType>>,
}

words! {
    pub enum QueryParamsMatchType {
        Exact = "Exact",
        RegularExpression = "RegularExpression",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "name", "value"]))]
pub struct QueryParamsMatch {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub match_type: Option<Choice<QueryParamsMatchType>>,
    #[schemars(length(min = 1))]
    pub name: String,
    pub value: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RuleConf {
    /// Modifications of requests and responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<Filter>>,
    /// Backends of the requests. The destination itself when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend_refs: Option<Vec<BackendRef>>,
}

words! {
    pub enum FilterType {
        RequestHeaderModifier = "RequestHeaderModifier",
        ResponseHeaderModifier = "ResponseHeaderModifier",
        RequestRedirect = "RequestRedirect",
        URLRewrite = "URLRewrite",
        RequestMirror = "RequestMirror",
    }
}

/// The type, and the member of that name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct Filter {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub filter_type: Option<Choice<FilterType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_header_modifier: Option<HeaderModifier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_header_modifier: Option<HeaderModifier>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_redirect: Option<RequestRedirect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_rewrite: Option<UrlRewrite>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_mirror: Option<RequestMirror>,
}

words! {
    pub enum Scheme {
        Http = "http",
        Https = "https",
    }
}

const HOSTNAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// Redirects the client. Missing parts are copied from the request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestRedirect {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheme: Option<Choice<Scheme>>,
    /// A DNS name.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = HOSTNAME_PATTERN))]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRewrite>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<u32>,
    /// One of 301, 302, 303, 307 and 308. 302 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i64>,
}

impl Default for RequestRedirect {
    fn default() -> Self {
        Self { scheme: None, hostname: None, path: None, port: None, status_code: Some(302) }
    }
}

words! {
    pub enum PathRewriteType {
        ReplaceFullPath = "ReplaceFullPath",
        ReplacePrefixMatch = "ReplacePrefixMatch",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct PathRewrite {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub rewrite_type: Option<Choice<PathRewriteType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_full_path: Option<String>,
    /// Replaces the matched prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_prefix_match: Option<String>,
}

/// Rewrites the request before it is forwarded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct UrlRewrite {
    /// DNS name for the host header.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = HOSTNAME_PATTERN))]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathRewrite>,
    /// Only for gateways: rewrites the host header to the hostname of the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_to_backend_hostname: Option<bool>,
}

/// Sends a copy of the request to another backend, whose responses are discarded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["backendRef"]))]
pub struct RequestMirror {
    /// Percentage of requests that are mirrored: a number, or a decimal in quotes. All when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<IntOrString>,
    pub backend_ref: BackendRef,
}
