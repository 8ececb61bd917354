//! Refused connections and requests to destinations outside the mesh. The log of the proxy says why.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::accesslog::v3::{
    AccessLog, AccessLogFilter, ResponseFlagFilter, access_log, access_log_filter::FilterSpecifier,
};
use kodiak_envoy::envoy::config::core::v3::data_source::Specifier;
use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::substitution_format_string::Format;
use kodiak_envoy::envoy::config::core::v3::{DataSource, HeaderValue, HeaderValueOption, SubstitutionFormatString};
use kodiak_envoy::envoy::config::listener::v3::FilterChain;
use kodiak_envoy::envoy::extensions::access_loggers::stream::v3::{
    StderrAccessLog, stderr_access_log::AccessLogFormat,
};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::{
    LocalReplyConfig, ResponseMapper,
};
use kodiak_envoy::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;

use crate::trimmed::REASON_HEADER;
use crate::{filters, names};

/// Value of the response header that distinguishes this 403 from one of the destination.
pub const REASON: &str = "passthrough";
const STATUS: u32 = 403;
/// Flag of requests without a route.
const NO_ROUTE: &str = "NR";
/// Also the gRPC message.
const BODY: &str = "This proxy refuses requests to %DOWNSTREAM_LOCAL_ADDRESS% (host: %REQ(:AUTHORITY)%): it is outside \
                    the mesh, and no MeshPassthrough of this proxy matches it. To allow it, add it to appendMatch of \
                    a MeshPassthrough.";

/// `passthroughMode` of the policy that refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusingMode {
    None,
    Matched,
}

impl RefusingMode {
    fn reason(self) -> &'static str {
        match self {
            Self::None => "MeshPassthrough has mode None",
            Self::Matched => "no MeshPassthrough match (mode Matched)",
        }
    }
}

/// Closes connections at once: its cluster has no endpoints.
pub(super) fn chain(mode: RefusingMode) -> FilterChain {
    let line =
        format!("passthrough refused: %DOWNSTREAM_LOCAL_ADDRESS% sni=%REQUESTED_SERVER_NAME%: {}\n", mode.reason());
    let proxy = TcpProxy {
        access_log: vec![log(line, None)],
        ..filters::tcp_proxy(names::PASSTHROUGH_REFUSED, names::NO_DESTINATION, None)
    };
    FilterChain {
        name: names::PASSTHROUGH_REFUSED.to_owned(),
        filters: vec![filters::tcp_filter(&proxy)],
        ..FilterChain::default()
    }
}

/// Log of requests without a route.
pub(super) fn request_log() -> AccessLog {
    let line = format!(
        "passthrough refused: %DOWNSTREAM_LOCAL_ADDRESS% host=%REQ(:AUTHORITY)%: {}\n",
        RefusingMode::Matched.reason()
    );
    log(line, Some(without_route()))
}

/// Response to requests without a route.
pub(super) fn reply() -> LocalReplyConfig {
    let reason = HeaderValue { key: REASON_HEADER.to_owned(), value: REASON.to_owned(), ..HeaderValue::default() };
    LocalReplyConfig {
        mappers: vec![ResponseMapper {
            filter: Some(without_route()),
            status_code: Some(STATUS),
            body_format_override: Some(text(BODY.to_owned())),
            headers_to_add: vec![HeaderValueOption {
                header: Some(reason),
                append_action: HeaderAppendAction::OverwriteIfExistsOrAdd.into(),
                ..HeaderValueOption::default()
            }],
            ..ResponseMapper::default()
        }],
        ..LocalReplyConfig::default()
    }
}

fn without_route() -> AccessLogFilter {
    let flags = ResponseFlagFilter { flags: vec![NO_ROUTE.to_owned()] };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::ResponseFlagFilter(flags)) }
}

/// To standard error, where Envoy's own log is. It is not opened by its path: that fails for sockets of systemd, and for
/// pipes of another user.
fn log(line: String, filter: Option<AccessLogFilter>) -> AccessLog {
    let stderr = StderrAccessLog { access_log_format: Some(AccessLogFormat::LogFormat(text(line))) };
    AccessLog {
        name: "envoy.access_loggers.stderr".to_owned(),
        filter,
        config_type: Some(access_log::ConfigType::TypedConfig(any(&stderr))),
    }
}

/// A string and not bytes, so that configuration dumps show it.
fn text(text: String) -> SubstitutionFormatString {
    let text = DataSource { specifier: Some(Specifier::InlineString(text)), ..DataSource::default() };
    SubstitutionFormatString { format: Some(Format::TextFormatSource(text)), ..SubstitutionFormatString::default() }
}
