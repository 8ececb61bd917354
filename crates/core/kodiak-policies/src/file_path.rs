//! Validation of absolute file paths on the proxy's host.

/// `/tmp/access.log`, or `C:\logs\access.log`.
pub(crate) fn is_file_path(text: &str) -> bool {
    is_unix_path(text) || is_windows_path(text)
}

fn is_unix_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains('\0')
}

fn is_windows_path(text: &str) -> bool {
    let mut chars = text.chars();
    let drive = chars.next().is_some_and(|c| c.is_ascii_alphabetic());
    match chars.as_str().strip_prefix(":\\") {
        Some(rest) => {
            drive
                && !rest.starts_with('\\')
                && !rest.contains("\\\\")
                && !rest.contains(['/', ':', '*', '?', '"', '<', '>', '|', '\r', '\n'])
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_file_path;

    #[test]
    fn accepts_only_absolute_paths() {
        for good in ["/", "/dev/stdout", "/tmp/a b/", r"C:\logs\access.log", r"c:\"] {
            assert!(is_file_path(good), "{good}");
        }
        for bad in ["", "tmp/log", "./log", "/a\0b", r"C:logs", r"C:\a?b", r"C:\\a", "#not a path"] {
            assert!(!is_file_path(bad), "{bad}");
        }
    }
}
