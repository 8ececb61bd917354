//! Whatever text comes in, an answer comes out: never a panic, and never a yes to noise.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::{RS256, check_user, token, with_payload};

/// Payloads that get past the parser, with claims that mostly make no sense.
const CLAIMS: &str = r#"\{("(exp|nbf|iat|jti|Name|groups)":(null|-?[1-9][0-9]{0,19}|"a"|\[\]),){0,4}"x":0\}"#;

proptest! {
    #[test]
    fn any_text_is_refused_without_a_panic(text in "\\PC*") {
        prop_assert!(check_user(&text).is_err());
    }

    #[test]
    fn any_parts_are_refused_without_a_panic(
        header in "\\PC*",
        payload in any::<Vec<u8>>(),
        signature in any::<Vec<u8>>(),
    ) {
        let rest = format!("{}.{}", URL_SAFE_NO_PAD.encode(&payload), URL_SAFE_NO_PAD.encode(&signature));
        for header in [header.as_str(), RS256] {
            let token = format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header));
            prop_assert!(check_user(&token).is_err());
        }
    }

    #[test]
    fn any_signed_payload_is_read_or_refused(payload in prop_oneof!["\\PC*", CLAIMS]) {
        let _ = check_user(&with_payload(&payload));
    }

    /// One changed character anywhere makes a token worthless.
    #[test]
    fn a_damaged_token_is_refused(at in 0..10_000_usize, with in "[A-Za-z0-9_.-]") {
        let good = token();
        let at = at % good.len();
        let bad = format!("{}{with}{}", &good[..at], &good[at + 1..]);
        prop_assert!(bad == good || check_user(&bad).is_err());
    }
}
