//! Fitting of a table to a narrower terminal: the columns that stay, their widths, and text that is
//! broken or cut. Widths are in terminal cells.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Replaces text that was cut.
pub(super) const CUT: char = '…';
/// Smallest readable width of a column.
const LEAST: usize = 10;
/// Cells around a column: a space on both sides, and a line.
const AROUND: usize = 3;

/// Width that a column needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    /// Width that shows everything in one line.
    pub(super) all: usize,
    /// True if the column is shown in full or not at all, such as ids.
    pub(super) whole: bool,
    /// True if other columns shown in full leave before this one is cut, such as names.
    pub(super) first: bool,
}

impl Need {
    fn least(&self) -> usize {
        if self.whole { self.all } else { self.all.min(LEAST) }
    }
}

/// The width of each column; `None` if it is left out. Columns are left out in the order of
/// `leaving` until the rest fits; spare width goes to columns that need more. One column always stays.
pub(super) fn widths(needs: &[Need], leaving: &[usize], terminal: usize) -> Vec<Option<usize>> {
    let widths = widths_of(needs, leaving, &[], terminal);
    let is_cut = |(need, width): (&Need, &Option<usize>)| {
        need.first && width.is_none_or(|width| width < need.all)
    };
    if !needs.iter().zip(&widths).any(is_cut) {
        return widths;
    }
    let is_left = |at: &usize| needs.get(*at).is_some_and(|need| need.whole);
    let left: Vec<usize> = leaving.iter().copied().filter(is_left).collect();
    widths_of(needs, leaving, &left, terminal)
}

/// The same, without the columns that are `left` out in any case.
fn widths_of(
    needs: &[Need],
    leaving: &[usize],
    left: &[usize],
    terminal: usize,
) -> Vec<Option<usize>> {
    let stays = |at: usize| !left.contains(&at) || left.len() == needs.len();
    let mut widths: Vec<Option<usize>> =
        needs.iter().enumerate().map(|(at, need)| stays(at).then(|| need.least())).collect();
    let taken = |widths: &[Option<usize>]| {
        1 + widths.iter().flatten().map(|width| width + AROUND).sum::<usize>()
    };
    for column in leaving {
        let left = widths.iter().flatten().count();
        if taken(&widths) <= terminal || left == 1 {
            break;
        }
        if let Some(width) = widths.get_mut(*column) {
            *width = None;
        }
    }
    let mut spare = terminal.saturating_sub(taken(&widths));
    let mut short: Vec<(usize, &mut usize)> = (needs.iter().zip(&mut widths))
        .filter_map(|(need, width)| {
            let width = width.as_mut()?;
            Some((need.all - *width, width)).filter(|(missing, _)| *missing > 0)
        })
        .collect();
    short.sort_by_key(|(missing, _)| *missing);
    let mut waiting = short.len();
    for (missing, width) in short {
        let given = missing.min(spare / waiting.max(1));
        *width += given;
        spare -= given;
        waiting -= 1;
    }
    // If even these are too wide, the widest ones shrink further.
    let mut over = taken(&widths).saturating_sub(terminal);
    while over > 0
        && let Some(widest) = widths.iter_mut().flatten().max().filter(|widest| **widest > 1)
    {
        *widest -= 1;
        over -= 1;
    }
    widths
}

/// Treatment of words wider than their column, and of lines beyond the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Long {
    /// Words are cut, and lines beyond this number dropped.
    Cut(usize),
    /// Words are broken, and there is no last line.
    Broken,
}

/// Text as lines of a column; the second value is true if the text was cut.
pub(super) fn wrap(text: &str, width: usize, long: Long) -> (Vec<String>, bool) {
    let (mut lines, mut cut) = (Vec::new(), false);
    for given in text.split('\n') {
        let mut line = String::new();
        for word in given.split(' ') {
            let joined = line.width() + usize::from(!line.is_empty()) + word.width();
            if !line.is_empty() && joined > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
            while line.width() > width {
                let rest = match long {
                    Long::Cut(_) => {
                        cut = true;
                        line = shortened(&line, width);
                        break;
                    }
                    Long::Broken => line.split_off(head(&line, width)),
                };
                lines.push(std::mem::replace(&mut line, rest));
            }
        }
        lines.push(line);
    }
    if let Long::Cut(most) = long
        && lines.len() > most
    {
        cut = true;
        lines.truncate(most);
        if let Some(last) = lines.last_mut().filter(|last| !last.ends_with(CUT)) {
            last.push_str(&format!(" {CUT}"));
            *last = shortened(last, width);
        }
    }
    (lines, cut)
}

/// The beginning of a text, with [`CUT`] at the end if it was cut.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = text[..head(text, width.saturating_sub(1)).min(text.len())].to_owned();
    if short.width() >= width {
        short.clear();
    }
    short.push(CUT);
    short
}

/// Bytes of a text that fit into a width, at least those of one character.
fn head(text: &str, width: usize) -> usize {
    let mut taken = 0;
    for (at, character) in text.char_indices() {
        taken += character.width().unwrap_or_default();
        if taken > width && at > 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(all: &[usize]) -> Vec<Need> {
        all.iter().map(|all| Need { all: *all, whole: false, first: false }).collect()
    }

    #[test]
    fn what_has_room_is_left_alone() {
        let found = widths(&needs(&[5, 20, 3]), &[2, 1, 0], 5 + 20 + 3 + 10);
        assert_eq!(found, [Some(5), Some(20), Some(3)]);
    }

    #[test]
    fn columns_shrink_before_they_leave() {
        let found = widths(&needs(&[5, 40, 30]), &[2, 1, 0], 60);
        assert_eq!(found, [Some(5), Some(23), Some(22)]);
        let found = widths(&needs(&[5, 40, 30]), &[2, 1, 0], 30);
        assert_eq!(found, [Some(5), Some(18), None]);
        let need = |all, whole| Need { all, whole, first: false };
        let whole = [need(40, true), need(12, false)];
        assert_eq!(widths(&whole, &[0, 1], 60), [Some(40), Some(12)]);
        assert_eq!(widths(&whole, &[0, 1], 56), [None, Some(12)]);
    }

    #[test]
    fn an_id_leaves_before_a_name_is_cut() {
        let needs = [
            Need { all: 36, whole: true, first: false },
            Need { all: 24, whole: false, first: true },
            Need { all: 20, whole: false, first: false },
        ];
        let leaving = [0, 2, 1];
        assert_eq!(widths(&needs, &leaving, 90), [Some(36), Some(24), Some(20)]);
        assert_eq!(widths(&needs, &leaving, 80), [None, Some(24), Some(20)]);
        assert_eq!(widths(&needs, &leaving, 40), [None, Some(17), Some(16)]);
    }

    #[test]
    fn one_column_stays_in_any_terminal() {
        let whole = [Need { all: 40, whole: true, first: false }; 2];
        assert_eq!(widths(&whole, &[1, 0], 20), [Some(16), None]);
        assert_eq!(widths(&whole, &[1, 0], 0), [Some(1), None]);
        assert!(widths(&[], &[], 80).is_empty());
    }

    #[test]
    fn lines_break_between_words_and_long_words_are_cut() {
        let cut = |text: &str, width| wrap(text, width, Long::Cut(2)).0.join("|");
        assert_eq!(cut("staff, admins", 20), "staff, admins");
        assert_eq!(cut("staff, admins", 8), "staff,|admins");
        assert_eq!(cut("staff, administrators", 8), "staff,|adminis…");
        assert_eq!(cut("a, b, c, d, e", 5), "a, b,|c, d…");
        assert_eq!(cut("", 5), "");
        assert!(!wrap("staff, admins", 8, Long::Cut(2)).1 && wrap("abcdef", 3, Long::Cut(2)).1);
        assert!(wrap("a b c", 1, Long::Cut(2)).1);
        // Wide characters take two cells.
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日", 1), "…");
    }

    #[test]
    fn nothing_is_lost_where_words_are_broken() {
        let (lines, cut) = wrap("-----BEGIN\nabcdefghij k", 4, Long::Broken);
        assert_eq!(lines, ["----", "-BEG", "IN", "abcd", "efgh", "ij k"]);
        assert!(!cut);
    }

    proptest! {
        #[test]
        fn tables_are_never_wider_than_the_terminal(
            all in prop::collection::vec((0..80usize, any::<bool>(), any::<bool>()), 1..8),
            terminal in 5..200usize,
        ) {
            let need = |(all, whole, first): &(usize, bool, bool)| {
                Need { all: *all, whole: *whole, first: *first && !whole }
            };
            let needs: Vec<Need> = all.iter().map(need).collect();
            let leaving: Vec<usize> = (0..needs.len()).rev().collect();
            let found = widths(&needs, &leaving, terminal);
            let taken: usize = 1 + found.iter().flatten().map(|width| width + AROUND).sum::<usize>();
            prop_assert!(taken <= terminal, "{found:?}");
            prop_assert!(found.iter().flatten().count() > 0);
            for (need, width) in needs.iter().zip(&found) {
                prop_assert!(width.is_none_or(|width| width <= need.all));
            }
        }

        #[test]
        fn lines_are_never_wider_than_the_column(text in "[a-z 日…\n]{0,60}", width in 2..30usize) {
            for long in [Long::Cut(3), Long::Broken] {
                let (lines, _) = wrap(&text, width, long);
                prop_assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
                if long == Long::Broken {
                    let strip = |text: &str| text.replace([' ', '\n'], "");
                    prop_assert_eq!(strip(&lines.concat()), strip(&text));
                } else {
                    prop_assert!(lines.len() <= 3);
                }
            }
        }
    }
}
