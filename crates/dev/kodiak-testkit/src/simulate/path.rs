//! Path normalization of the connection manager.

use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::HttpConnectionManager;

use super::refusal::{Refusal, refuse_if};
use super::request::Request;

pub(super) fn normalize(manager: &HttpConnectionManager, mut request: Request) -> Result<Request, Refusal> {
    let strips = manager.strip_matching_host_port || manager.strip_port_mode.is_some();
    refuse_if(strips || manager.strip_trailing_host_dot, "hosts that are cut")?;
    refuse_if(!manager.early_header_mutation_extensions.is_empty(), "headers that are changed early")?;
    refuse_if(manager.path_normalization_options.is_some(), "paths that are normalized by options")?;
    refuse_if(request.path.contains('#'), "paths with a fragment")?;
    let (path, query) = (request.path_without_query().to_owned(), request.query().to_owned());
    let escaped = path.contains(['%', '\\']);
    refuse_if(escaped && manager.path_with_escaped_slashes_action != 0, "what is done to escaped slashes")?;
    let mut path = path;
    if manager.normalize_path == Some(true) {
        refuse_if(escaped, "how escaped paths are normalized")?;
        path = without_dots(&path);
    }
    if manager.merge_slashes {
        while path.contains("//") {
            path = path.replace("//", "/");
        }
    }
    request.path = path + &query;
    Ok(request)
}

/// `/a/./b/../c` is `/a/c`.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (n, segment) in segments.iter().enumerate() {
        let last = n + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}
