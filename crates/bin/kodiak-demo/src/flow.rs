//! Requests of one kind: addresses and the expected response.

use hyper::{StatusCode, Uri};

use super::call::CallResponse;

/// Characters to show of an unexpected response.
const LONGEST_EXCERPT: usize = 120;

#[derive(Debug, Clone)]
pub(super) struct Flow {
    /// Used in turn.
    pub(super) uris: Vec<Uri>,
    pub(super) expect: Expect,
    /// Other statuses that are no failures.
    pub(super) tolerated: &'static [u16],
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expect {
    /// Any 2xx status.
    Success,
    Status(StatusCode),
    /// Success, and the response shows this identity of the caller.
    SuccessAs(String),
}

impl Expect {
    /// Why the response is not the expected one.
    pub(super) fn check(&self, answer: &CallResponse) -> Result<(), String> {
        let right = match self {
            Self::Success | Self::SuccessAs(_) => answer.status.is_success(),
            Self::Status(status) => answer.status == *status,
        };
        let text = String::from_utf8_lossy(&answer.body);
        if !right {
            let excerpt: String = text.trim().chars().take(LONGEST_EXCERPT).collect();
            return Err(format!("{} {excerpt}", answer.status).trim_end().to_owned());
        }
        match self {
            // As Envoy writes it into x-forwarded-client-cert.
            Self::SuccessAs(identity) if !text.contains(&format!("URI={identity}")) => {
                Err(format!("the request came without the identity {identity}"))
            }
            Self::Success | Self::Status(_) | Self::SuccessAs(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expect: &Expect, status: u16, body: &'static str, found: Result<(), &str>) {
        let answer = CallResponse { status: StatusCode::from_u16(status).unwrap(), body: body.into() };
        assert_eq!(expect.check(&answer), found.map_err(str::to_owned));
    }

    #[test]
    fn accepts_only_the_expected_response() {
        check(&Expect::Success, 204, "", Ok(()));
        check(&Expect::Success, 503, "no healthy upstream\n", Err("503 Service Unavailable no healthy upstream"));
        let refused = Expect::Status(StatusCode::FORBIDDEN);
        check(&refused, 403, "RBAC: access denied", Ok(()));
        check(&refused, 200, "", Err("200 OK"));
        let known = Expect::SuccessAs("spiffe://default/web".to_owned());
        check(&known, 200, r#"{"x-forwarded-client-cert": "By=x;URI=spiffe://default/web"}"#, Ok(()));
        check(&known, 200, "{}", Err("the request came without the identity spiffe://default/web"));
        check(&known, 403, "URI=spiffe://default/web", Err("403 Forbidden URI=spiffe://default/web"));
    }
}
