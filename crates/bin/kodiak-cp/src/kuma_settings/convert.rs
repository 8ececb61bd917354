//! Values of Kuma's settings as values of ours. Input and output are texts as in a variable.

use kodiak_model::GoDuration;

/// A duration as whole seconds.
pub(super) fn seconds(text: &str) -> Result<String, String> {
    whole(text, 1, "seconds")
}

/// A duration as whole hours.
pub(super) fn hours(text: &str) -> Result<String, String> {
    whole(text, 60 * 60, "hours")
}

fn whole(text: &str, unit: i64, name: &str) -> Result<String, String> {
    let nanos = GoDuration::parse(text).map_err(|error| error.to_string())?.nanos();
    let unit = unit * 1_000_000_000;
    if nanos < 0 || nanos % unit != 0 {
        return Err(format!(
            "{text:?} must be a number of whole {name}, such as {}",
            GoDuration::from_secs(unit / 1_000_000_000)
        ));
    }
    Ok((nanos / unit).to_string())
}

#[expect(clippy::unnecessary_wraps, reason = "a conversion like the others")]
pub(super) fn as_it_is(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

pub(super) fn store_type(text: &str) -> Result<String, String> {
    match text {
        "kubernetes" => {
            Err("\"kubernetes\" is not supported: Kodiak runs on Universal; use postgres or file".to_owned())
        }
        other => Ok(other.to_owned()),
    }
}

pub(super) fn postgres_tls(text: &str) -> Result<String, String> {
    match text {
        "verifyFull" => Ok("verify".to_owned()),
        "verifyNone" | "verifyCa" => Err(format!(
            "{text:?} is not supported: the certificate and the name of the server are always verified; use verifyFull"
        )),
        other => Ok(other.to_owned()),
    }
}

/// Kuma selects the type by the environment when it is empty.
pub(super) fn proxy_authentication(text: &str) -> Result<String, String> {
    match text {
        "" => Ok("dpToken".to_owned()),
        "serviceAccountToken" => {
            Err("\"serviceAccountToken\" is not supported: Kodiak runs on Universal; use dpToken".to_owned())
        }
        other => Ok(other.to_owned()),
    }
}

/// Kuma's values may be regular expressions.
pub(super) fn origins(text: &str) -> Result<String, String> {
    match text.split(',').find(|origin| origin.contains(['*', '\\', '^', '$', '(', '[', '|', '+'])) {
        Some(pattern) => Err(format!(
            "{pattern:?} is not supported: regular expressions; list the origins, such as https://gui.example"
        )),
        None => Ok(text.to_owned()),
    }
}

pub(super) fn reachability(text: &str) -> Result<String, String> {
    match text {
        "true" => Ok("on".to_owned()),
        "false" => Ok("off".to_owned()),
        other => Err(format!("{other:?} must be true or false")),
    }
}
