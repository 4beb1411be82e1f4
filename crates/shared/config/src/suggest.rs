//! "Did you mean": the known word nearest to an unknown one.

/// The nearest of the known words, if it is near enough to be probable.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase(), allowed), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The known words that are similar to a word, the nearest first, at most `most`: those near enough to be
/// probable, then those that contain the word if it has at least three letters.
pub fn similar<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    most: usize,
) -> Vec<&'a str> {
    let word = word.to_lowercase();
    let letters = word.chars().count();
    let allowed = (letters / 3).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            match distance(&word, &lower, allowed) {
                apart if apart <= allowed => Some((apart, candidate)),
                _ => (letters >= 3 && lower.contains(&word)).then_some((allowed + 1, candidate)),
            }
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(most).map(|(_, candidate)| candidate).collect()
}

/// Insertions, deletions, replacements and swaps of neighbours from one word to the other; `limit`
/// plus one if the lengths differ by more than `limit`.
fn distance(a: &str, b: &str, limit: usize) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let a: Vec<char> = a.chars().take(100).collect();
    if a.len().abs_diff(b.len()) > limit {
        return limit + 1;
    }
    // Three rows of the table of distances: `earlier`, `above` and `row` belong to the beginnings of `a`
    // that end two letters before, one letter before, and at the present letter.
    let mut earlier: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (above[j] + usize::from(x != y)).min(row[j] + 1).min(above[j + 1] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(earlier[j - 1] + 1);
            }
            row.push(least);
        }
        earlier = std::mem::replace(&mut above, row);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_words_come_nearest_first() {
        let known = ["service-policies", "services", "service", "identities"];
        assert_eq!(similar("servces", known, 3), ["services", "service"]);
        assert_eq!(similar("policies", known, 3), ["service-policies"]);
        assert_eq!(similar("SERVICES", known, 1), ["services"]);
        assert!(similar("xyz", known, 3).is_empty());
    }

    #[test]
    fn two_swapped_letters_are_one_edit() {
        assert_eq!(nearest("crtl", ["ctrl", "web"]), Some("ctrl"));
        assert_eq!(nearest("wbe", ["ctrl", "web"]), Some("web"));
        assert_eq!(distance("abcd", "badc", 4), 2);
        assert_eq!(distance("abc", "cab", 3), 2);
        assert_eq!(nearest("wxy", ["ctrl", "web"]), None);
    }
}
