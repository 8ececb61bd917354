//! "Did you mean": the existing names that are most similar.

/// Longer names are truncated for the comparison.
const LONGEST: usize = 64;
/// Number of suggestions.
const MOST: usize = 3;

/// Candidates that contain the typed text, or have a small edit distance to it.
pub(crate) fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let lower = typed.to_ascii_lowercase();
    let letters: Vec<char> = lower.chars().take(LONGEST).collect();
    if letters.is_empty() {
        return Vec::new();
    }
    let near_enough = if letters.len() < 4 { 1 } else { (letters.len() / 3).clamp(2, 4) };
    let mut found: Vec<(usize, &str)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let distance = distance(&letters, candidate);
            let contains = letters.len() > 2 && candidate.to_ascii_lowercase().contains(&lower);
            (distance <= near_enough)
                .then_some(distance)
                .or(contains.then_some(near_enough))
                .map(|rank| (rank, candidate))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(MOST).map(|(_, name)| name.to_owned()).collect()
}

/// Candidate with the most similar last segment, and of several the most similar one.
pub(crate) fn closest_path<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let letters = |text: &str| text.to_ascii_lowercase().chars().take(LONGEST).collect::<Vec<char>>();
    let (segment, whole) = (letters(&last(typed)), letters(typed));
    candidates.into_iter().min_by_key(|path| (distance(&segment, &last(path)), distance(&whole, path)))
}

/// Case-insensitive edit distance: insertions, deletions, replacements, and swaps of two neighbours.
fn distance(typed: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().take(LONGEST).map(|c| c.to_ascii_lowercase()).collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=typed.len()).collect()];
    for (i, c) in candidate.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, t) in typed.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(c != t)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *c == typed[j - 1] && candidate[i - 1] == *t {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[candidate.len()][typed.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_suggested() {
        let names = ["backend", "backend-v2", "frontend", "db"];
        assert_eq!(nearest("bakcend", names), ["backend"]);
        assert_eq!(nearest("end", names), ["backend", "backend-v2", "frontend"]);
        assert_eq!(nearest("dv", names), ["db"]);
        assert_eq!(nearest("bd", names), ["db"]);
        assert_eq!(nearest("payment", names), [""; 0]);
        assert_eq!(nearest("", names), [""; 0]);
    }

    #[test]
    fn closest_path_has_the_same_last_segment() {
        let ids = ["spiffe://demo/backend", "spiffe://demo/frontend", "spiffe://demo.local/other/fronted"];
        assert_eq!(closest_path("spiffe://demo.local/workload/frontend", ids), Some("spiffe://demo/frontend"));
        assert_eq!(closest_path("spiffe://demo/backends", ids), Some("spiffe://demo/backend"));
        assert_eq!(closest_path("spiffe://demo/a", []), None);
    }
}
