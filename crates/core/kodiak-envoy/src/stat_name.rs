//! Metric names.

/// Replaces the characters that metric names do not allow.
pub fn stat_name(name: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if is_kept(c) { c } else { '_' }).collect()
}
