//! Formats of log lines.

use std::collections::BTreeSet;

use kodiak_envoy::envoy::config::core::v3::substitution_format_string::Format as FormatString;
use kodiak_envoy::envoy::config::core::v3::{DataSource, SubstitutionFormatString, data_source};
use kodiak_envoy::google::protobuf::{Struct, Value, value::Kind};
use kodiak_model::Choice;

use super::placeholders::{self, Values};
use super::{Format, FormatType, JsonField};
use crate::target::{Carrier, ProxyFact};

/// Kuma's default formats, which users parse.
const HTTP: &str = r#"[%START_TIME%] %KUMA_MESH% "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-B3-TRACEID?X-DATADOG-TRACEID)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%KUMA_SOURCE_SERVICE%" "%KUMA_DESTINATION_SERVICE%" "%KUMA_SOURCE_ADDRESS_WITHOUT_PORT%" "%UPSTREAM_HOST%""#;
const TCP: &str = "[%START_TIME%] %RESPONSE_FLAGS% %KUMA_MESH% \
                   %KUMA_SOURCE_ADDRESS_WITHOUT_PORT%(%KUMA_SOURCE_SERVICE%)->%UPSTREAM_HOST%(%KUMA_DESTINATION_SERVICE%) \
                   took %DURATION%ms, sent %BYTES_SENT% bytes, received: %BYTES_RECEIVED% bytes";

/// Default format for the requests or connections of a filter chain.
pub(super) fn default_for(carrier: &Carrier) -> &'static str {
    match carrier {
        Carrier::Http(_) => HTTP,
        Carrier::Tcp(_) => TCP,
    }
}

/// A format that a conf has.
enum Written<'a> {
    Default,
    Plain(&'a str),
    Json(&'a [JsonField]),
}

impl<'a> Written<'a> {
    fn of(format: Option<&'a Format>) -> Self {
        let Some(Format { format_type, plain, json, omit_empty_values: _ }) = format else { return Self::Default };
        let fields = json.as_deref().filter(|fields| !fields.is_empty());
        let plain = plain.as_deref().filter(|plain| !plain.is_empty());
        match (format_type.as_ref().and_then(Choice::known), fields, plain) {
            (Some(FormatType::Json), Some(fields), _) => Self::Json(fields),
            (Some(FormatType::Plain), _, Some(plain)) => Self::Plain(plain),
            (_, _, _) => Self::Default,
        }
    }
}

/// Facts about the proxy that lines contain.
pub(super) fn facts(format: Option<&Format>) -> BTreeSet<ProxyFact> {
    match Written::of(format) {
        Written::Default => placeholders::facts(HTTP),
        Written::Plain(plain) => placeholders::facts(plain),
        Written::Json(fields) => fields.iter().flat_map(|field| placeholders::facts(&field.value)).collect(),
    }
}

/// Format of a line in a file.
pub(super) fn of_file(format: Option<&Format>, default: &str, values: &Values<'_>) -> SubstitutionFormatString {
    let lines = match Written::of(format) {
        Written::Default => FormatString::TextFormatSource(inline(line(default, values))),
        Written::Plain(plain) => FormatString::TextFormatSource(inline(line(plain, values))),
        Written::Json(fields) => FormatString::JsonFormat(json(fields, values)),
    };
    substitution(format, lines)
}

/// Format of a line for the sidecar process, which forwards `message` to `address`.
pub(super) fn of_pipe(
    format: Option<&Format>,
    default: &str,
    address: &str,
    values: &Values<'_>,
) -> SubstitutionFormatString {
    let message = match Written::of(format) {
        Written::Default => Kind::StringValue(line(default, values)),
        Written::Plain(plain) => Kind::StringValue(line(plain, values)),
        Written::Json(fields) => Kind::StructValue(json(fields, values)),
    };
    // Percent signs in an address are no command operators.
    let address = Kind::StringValue(address.replace('%', "%%"));
    let fields = [("address", address), ("message", message)];
    let fields = fields.map(|(key, kind)| (key.to_owned(), Value { kind: Some(kind) }));
    substitution(format, FormatString::JsonFormat(Struct { fields: fields.into() }))
}

fn substitution(format: Option<&Format>, lines: FormatString) -> SubstitutionFormatString {
    SubstitutionFormatString {
        omit_empty_values: format.is_some_and(|format| format.omit_empty_values),
        format: Some(lines),
        ..SubstitutionFormatString::default()
    }
}

fn line(plain: &str, values: &Values<'_>) -> String {
    values.fill(plain) + "\n"
}

fn inline(text: String) -> DataSource {
    DataSource { specifier: Some(data_source::Specifier::InlineString(text)), ..DataSource::default() }
}

fn json(fields: &[JsonField], values: &Values<'_>) -> Struct {
    let field = |JsonField { key, value }: &JsonField| {
        let kind = Kind::StringValue(values.fill(&unquoted(value)));
        (unquoted(key), Value { kind: Some(kind) })
    };
    Struct { fields: fields.iter().map(field).collect() }
}

/// Keys and values are the inside of JSON strings: `\"` is a quote.
fn unquoted(text: &str) -> String {
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.to_owned())
}
