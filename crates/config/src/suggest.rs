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
    fn two_swapped_letters_are_one_edit() {
        assert_eq!(nearest("crtl", ["ctrl", "web"]), Some("ctrl"));
        assert_eq!(nearest("wbe", ["ctrl", "web"]), Some("web"));
        assert_eq!(distance("abcd", "badc", 4), 2);
        assert_eq!(distance("abc", "cab", 3), 2);
        assert_eq!(nearest("wxy", ["ctrl", "web"]), None);
    }
}
