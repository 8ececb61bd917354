//! Application protocol of a port.

/// Unknown protocols are handled as TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Grpc,
    Http,
    Http2,
    Kafka,
    Mysql,
    Tcp,
    Tls,
}

impl Protocol {
    /// Listed in error texts. `mysql` and `tls` are accepted too.
    pub const ALLOWED: &'static str = "Allowed values: grpc, http, http2, kafka, tcp";

    pub fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_lowercase().as_str() {
            "grpc" => Self::Grpc,
            "http" => Self::Http,
            "http2" => Self::Http2,
            "kafka" => Self::Kafka,
            "mysql" => Self::Mysql,
            "tcp" => Self::Tcp,
            "tls" => Self::Tls,
            _ => return None,
        })
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Http2 => "http2",
            Self::Kafka => "kafka",
            Self::Mysql => "mysql",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}
