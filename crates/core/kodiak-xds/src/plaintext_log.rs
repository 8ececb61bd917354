//! Access logs by which the sidecar process learns who calls without mTLS.
//!
//! One line for each HTTP request or TCP connection, when it starts: others may stay open for weeks.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::accesslog::v3::access_log_filter::FilterSpecifier;
use kodiak_envoy::envoy::config::accesslog::v3::{AccessLog, AccessLogFilter, AndFilter, LogTypeFilter, access_log};
use kodiak_envoy::envoy::config::core::v3::{SubstitutionFormatString, substitution_format_string::Format};
use kodiak_envoy::envoy::data::accesslog::v3::AccessLogType;
use kodiak_envoy::envoy::extensions::access_loggers::file::v3::{FileAccessLog, file_access_log::AccessLogFormat};
use kodiak_envoy::google::protobuf::{Struct, Value, value::Kind};
use kodiak_policies::target::Carrier;

use crate::names;

/// Source address of the connection, whatever headers say.
const SOURCE: &str = "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%";

/// Logs the callers of a chain without mTLS. Other loggers of the chain log what they would without this one.
pub(crate) fn add(carrier: &mut Carrier, pipe: &str, port: u32) {
    let (start, logs) = match carrier {
        Carrier::Http(http) => {
            let options = http.manager.access_log_options.get_or_insert_default();
            options.flush_access_log_on_new_request = true;
            (AccessLogType::DownstreamStart, &mut http.manager.access_log)
        }
        Carrier::Tcp(tcp) => {
            let options = tcp.proxy.access_log_options.get_or_insert_default();
            options.flush_access_log_on_start = true;
            (AccessLogType::TcpConnectionStart, &mut tcp.proxy.access_log)
        }
    };
    for log in logs.iter_mut() {
        let not_at_start = of_type(start, true);
        log.filter = Some(match log.filter.take() {
            None => not_at_start,
            Some(own) => {
                let both = AndFilter { filters: vec![not_at_start, own] };
                AccessLogFilter { filter_specifier: Some(FilterSpecifier::AndFilter(both)) }
            }
        });
    }
    logs.push(AccessLog {
        name: "envoy.access_loggers.file".to_owned(),
        filter: Some(of_type(start, false)),
        config_type: Some(access_log::ConfigType::TypedConfig(any(&to_pipe(pipe, port)))),
    });
}

fn of_type(log_type: AccessLogType, exclude: bool) -> AccessLogFilter {
    let filter = LogTypeFilter { types: vec![log_type.into()], exclude };
    AccessLogFilter { filter_specifier: Some(FilterSpecifier::LogTypeFilter(filter)) }
}

/// A line for the sidecar process: the address says that it is to count the caller, not to forward the line.
fn to_pipe(pipe: &str, port: u32) -> FileAccessLog {
    let fields = [("address", names::PLAINTEXT_CALLERS.to_owned()), ("message", format!("{SOURCE} {port}"))];
    let fields = fields.map(|(key, text)| (key.to_owned(), Value { kind: Some(Kind::StringValue(text)) }));
    let lines = SubstitutionFormatString {
        format: Some(Format::JsonFormat(Struct { fields: fields.into() })),
        ..SubstitutionFormatString::default()
    };
    FileAccessLog { path: pipe.to_owned(), access_log_format: Some(AccessLogFormat::LogFormat(lines)) }
}
