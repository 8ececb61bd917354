//! Exit code and text of an error.

use kodiak_client::{AddressError, ClientError, Refusal, SetupError, Trouble};
use kodiak_terminal::{Exit, Usage};

/// How to give a control plane that is known a new token.
const SET_TOKEN: &str =
    "kodiak config control-planes add --name NAME --address URL --overwrite --auth-type tokens --auth-conf token=TOKEN";

/// The exit code of an error, by its root cause.
pub fn of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if cause.is::<Usage>() || cause.is::<SetupError>() || cause.is::<AddressError>() {
            return Exit::Usage;
        }
        if let Some(error) = cause.downcast_ref::<ClientError>() {
            return if error.is_unreachable() { Exit::Unreachable } else { Exit::Refused };
        }
    }
    Exit::Refused
}

/// The error with all its causes, and below it what to do.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = format!("Error: {error:#}");
    let hint = error.chain().find_map(|cause| {
        cause
            .downcast_ref::<ClientError>()
            .and_then(hint)
            .or_else(|| cause.downcast_ref::<SetupError>().and_then(setup_hint))
            .or_else(|| cause.downcast_ref::<AddressError>().and_then(address_hint))
    });
    if let Some(hint) = hint {
        text.push_str("\n\n");
        text.push_str(&hint);
    }
    text
}

/// What to do, in the words of the command line.
fn hint(error: &ClientError) -> Option<String> {
    match error {
        ClientError::Unreachable { trouble: Trouble::Certificate, .. } => Some(
            "Its certificate is not one that this machine trusts. Kodiak never skips this check; pass the CA instead:\n  \
             kodiak config control-planes add --name NAME --address URL --ca-cert-file CA.pem"
                .to_owned(),
        ),
        ClientError::Unreachable { trouble: Trouble::NotTls, .. } => {
            Some("Does it speak HTTPS? By default HTTP is on port 5681 and HTTPS on port 5682.".to_owned())
        }
        ClientError::Unreachable { trouble: Trouble::Connection, .. } => Some(
            "Start a control plane with\n  kodiak run\nor choose another one with\n  kodiak --cp URL …\n  \
             kodiak config control-planes add --name NAME --address URL"
                .to_owned(),
        ),
        ClientError::TimedOut { .. } => {
            Some("Wait longer with --api-timeout, or choose another one with --cp URL.".to_owned())
        }
        ClientError::Refused(refusal) => refusal_hint(refusal),
        ClientError::TooLarge { .. }
        | ClientError::NotUnderstood { .. }
        | ClientError::Endless { .. }
        | ClientError::Backup(_) => None,
    }
}

fn refusal_hint(refusal: &Refusal) -> Option<String> {
    match refusal.status.as_u16() {
        401 => Some(format!("The token was not accepted. Set a new one with\n  {SET_TOKEN}")),
        403 => Some(format!(
            "`kodiak who-am-i` shows who you are to the control plane. To be someone else, set a token with\n  {SET_TOKEN}"
        )),
        _ if refusal.status.is_redirection() => {
            Some("Redirects are not followed: use the address it points to.".to_owned())
        }
        _ => None,
    }
}

fn setup_hint(error: &SetupError) -> Option<String> {
    match error {
        SetupError::Address(error) => address_hint(error),
        SetupError::Token => Some(format!("Set a new one with\n  {SET_TOKEN}")),
        SetupError::NoSystemRoots(_) => Some(
            "Name it with\n  kodiak config control-planes add --name NAME --address URL --overwrite --ca-cert-file CA.pem"
                .to_owned(),
        ),
        _ => None,
    }
}

fn address_hint(error: &AddressError) -> Option<String> {
    match error {
        AddressError::Credentials => Some(format!("Set a token with\n  {SET_TOKEN}")),
        AddressError::RelativeSocket(_) | AddressError::Invalid { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::Context as _;
    use kodiak_client::Address;
    use kodiak_terminal::usage;

    use super::*;

    #[test]
    fn exit_code_follows_the_root_cause() {
        let wrong = Err::<(), _>(usage("no such file")).context("cannot read the documents").unwrap_err();
        assert_eq!(of(&wrong), Exit::Usage);
        assert_eq!(explain(&wrong), "Error: cannot read the documents: no such file");
        assert_eq!(of(&anyhow::anyhow!("anything else")), Exit::Refused);
        let silent = ClientError::TimedOut { address: "http://cp:5681".to_owned(), after: Duration::from_secs(1) };
        assert_eq!(of(&silent.into()), Exit::Unreachable);
    }

    #[test]
    fn refused_user_learns_how_to_set_a_token() {
        let refused = |status: u16| {
            let refusal = Refusal::read(status.try_into().unwrap(), b"");
            explain(&ClientError::from(refusal).into())
        };
        assert!(refused(401).contains("--auth-conf token="));
        assert!(refused(403).contains("who-am-i"));
        assert!(refused(302).contains("not followed"));
        assert_eq!(refused(400), "Error: 400 Bad Request");
    }

    #[test]
    fn wrong_address_is_wrong_usage() {
        let error = anyhow::Error::from(Address::parse("http://admin:pw@cp").unwrap_err());
        assert_eq!(of(&error), Exit::Usage);
        assert!(explain(&error).contains("--auth-conf token=TOKEN"));
    }
}
