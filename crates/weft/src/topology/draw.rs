//! The mesh as a drawing of characters: routers on a ring, links as lines of dots with their costs.
//! A braille character is a grid of two by four dots.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::mesh::{Mesh, Node, Pair, RouterStatus};

/// Default width, in columns.
pub(super) const USUAL: usize = 80;
/// The widest drawing, in columns.
const WIDEST: usize = 110;
/// The narrowest drawing, in columns.
const NARROWEST: usize = 40;
/// Positions of a cost along its line, as shares of the line's length, in the order in which they are
/// tried: the middle first, then places beside it.
const SHARES: [f64; 15] =
    [0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73, 0.46, 0.54, 0.38, 0.62, 0.3, 0.7, 0.2, 0.8];
/// The first character of braille, without a dot.
const NO_DOTS: u32 = 0x2800;
/// Dots of a character, by column and row.
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
/// The longest name that is drawn, in columns.
const NAME: usize = 22;

/// A grid of characters, each with dots or a letter in their place.
struct Canvas {
    width: usize,
    height: usize,
    dots: Vec<u8>,
    /// `None` where dots are shown. An empty letter is the second half of a wide one.
    letters: Vec<Option<char>>,
}

impl Canvas {
    fn new(width: usize, height: usize) -> Self {
        let count = width * height;
        Self { width, height, dots: vec![0; count], letters: vec![None; count] }
    }

    fn dot(&mut self, x: i64, y: i64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        let (column, row) = (x / 2, y / 4);
        if column < self.width && row < self.height {
            self.dots[row * self.width + column] |= DOTS[x % 2][y % 4];
        }
    }

    /// Draws a line between two dots, with gaps if it is not whole.
    fn line(&mut self, from: (i64, i64), to: (i64, i64), is_whole: bool) {
        let steps = (to.0 - from.0).abs().max((to.1 - from.1).abs()).max(1);
        for step in 0..=steps {
            if is_whole || step % 6 < 2 {
                let at = |one: i64, other: i64| {
                    let along = (other - one) as f64 * step as f64 / steps as f64;
                    one + along.round() as i64
                };
                self.dot(at(from.0, to.0), at(from.1, to.1));
            }
        }
    }

    /// True if a text fits here without touching another one.
    fn is_free(&self, column: usize, row: usize, width: usize) -> bool {
        if row >= self.height || column + width > self.width {
            return false;
        }
        let from = column.saturating_sub(1);
        let to = (column + width + 1).min(self.width);
        let line = row * self.width;
        self.letters[line + from..line + to].iter().all(Option::is_none)
    }

    /// Writes a text if it fits here.
    fn write_if_free(&mut self, column: usize, row: usize, text: &str) -> bool {
        let is_free = self.is_free(column, row, text.width());
        if is_free {
            self.write(column, row, text);
        }
        is_free
    }

    fn write(&mut self, column: usize, row: usize, text: &str) {
        let mut at = column;
        for letter in text.chars() {
            let width = letter.width().unwrap_or(0);
            if width == 0 || row >= self.height || at + width > self.width {
                continue;
            }
            let place = row * self.width + at;
            self.letters[place] = Some(letter);
            if width == 2 {
                self.letters[place + 1] = Some('\0');
            }
            at += width;
        }
    }

    fn text(&self) -> String {
        let rows = (0..self.height).map(|row| {
            let cells = row * self.width..(row + 1) * self.width;
            let line: String = cells
                .filter_map(|at| match (self.letters[at], self.dots[at]) {
                    (Some('\0'), _) => None,
                    (Some(letter), _) => Some(letter),
                    (None, 0) => Some(' '),
                    (None, dots) => char::from_u32(NO_DOTS + u32::from(dots)),
                })
                .collect();
            line.trim_end().to_owned()
        });
        let text = rows.collect::<Vec<_>>().join("\n");
        // Few routers do not reach as far down as the ring.
        text.trim_end().to_owned()
    }
}

/// The drawing, with rates if there is room for them; `None` if there is no room for every name and
/// every cost.
pub(super) fn drawing(mesh: &Mesh, pairs: &[Pair], width: usize) -> Option<String> {
    let with_rates = labeled(mesh, pairs, width, Pair::cost_and_rate);
    with_rates.or_else(|| labeled(mesh, pairs, width, Pair::cost))
}

/// The drawing, with these labels of lines.
fn labeled(
    mesh: &Mesh,
    pairs: &[Pair],
    width: usize,
    label_of: fn(&Pair) -> String,
) -> Option<String> {
    if width < NARROWEST {
        return None;
    }
    let width = width.min(WIDEST);
    let height = if mesh.routers.len() <= 3 { 13 } else { (width / 4).clamp(15, 26) };
    let mut canvas = Canvas::new(width, height);
    let labels: Vec<String> = mesh.routers.iter().map(label).collect();
    let longest = labels.iter().map(|label| label.width()).max().unwrap_or_default();
    let places = places(mesh.routers.len(), width, height, longest);
    for pair in pairs {
        let dots = |at: usize| (places[at].0 as i64 * 2, places[at].1 as i64 * 4 + 2);
        canvas.line(dots(pair.one), dots(pair.other), pair.cost.is_some());
    }
    for (label, (column, row)) in labels.iter().zip(&places) {
        let wide = label.width();
        let start = column.saturating_sub(wide / 2).min(width.saturating_sub(wide));
        if !canvas.write_if_free(start, *row, label) {
            return None;
        }
    }
    for pair in pairs {
        let (one, other) = (places[pair.one], places[pair.other]);
        let text = label_of(pair);
        let has_room = SHARES.into_iter().any(|share| {
            let between = |from: usize, to: usize| {
                (from as f64 + (to as f64 - from as f64) * share).round() as usize
            };
            let column = between(one.0, other.0).saturating_sub(text.width() / 2);
            canvas.write_if_free(column, between(one.1, other.1), &text)
        });
        if !has_room {
            return None;
        }
    }
    Some(canvas.text())
}

/// Places of the routers, by column and row: two beside each other, more on a ring, the first on top.
fn places(count: usize, width: usize, height: usize, label: usize) -> Vec<(usize, usize)> {
    let (middle_x, middle_y) = ((width - 1) as f64 / 2.0, (height - 1) as f64 / 2.0);
    // The labels around the places must fit.
    let radius_x = (middle_x - label as f64 / 2.0 - 1.0).max(4.0);
    let radius_y = middle_y;
    (0..count)
        .map(|at| {
            let turn = match count {
                2 => std::f64::consts::PI * (1.0 + at as f64),
                _ => std::f64::consts::TAU * at as f64 / count as f64 - std::f64::consts::FRAC_PI_2,
            };
            let x = middle_x + radius_x * turn.cos();
            let y = middle_y + radius_y * turn.sin();
            (x.round() as usize, y.round() as usize)
        })
        .collect()
}

/// Label of a router: ● online, ○ not; ◐ online, and carries nothing for others; ? not known.
fn label(node: &Node) -> String {
    let mark = match node.known {
        None => '?',
        Some(RouterStatus { is_online: false, .. }) => '○',
        Some(RouterStatus { no_traversal: true, .. }) => '◐',
        Some(_) => '●',
    };
    let mut name = String::new();
    for letter in crate::output::printable::line(&node.name).chars() {
        if name.width() + letter.width().unwrap_or(0) >= NAME {
            name.push('…');
            break;
        }
        name.push(letter);
    }
    format!(" {mark} {name} ")
}

#[cfg(test)]
mod tests {
    use super::super::mesh::tests::{sample, unlisted};
    use super::*;

    fn drawn(mesh: &Mesh, width: usize) -> String {
        drawing(mesh, &mesh.pairs(), width).unwrap()
    }

    /// Routers as the quickstart names them, all linked with all.
    fn quickstart(count: usize) -> (Vec<String>, Mesh) {
        let name = |number: usize| match number {
            1 => "quickstart-router".to_owned(),
            number => format!("quickstart-router-{number}"),
        };
        let names: Vec<String> = (1..=count).map(name).collect();
        let names_of: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut links = Vec::new();
        for at in 0..count {
            for further in at + 1..count {
                let cost = (100 + 10 * at + further) as u64;
                links.push((names_of[at], names_of[further], cost, false));
            }
        }
        let mesh = sample(&names_of, &links);
        (names, mesh)
    }

    #[test]
    fn a_drawing_is_whole_or_there_is_none() {
        let mut drawings = 0;
        for (count, width) in (2..=9).flat_map(|count| [30, 39, 60, 80, 110].map(|it| (count, it)))
        {
            let (names, mesh) = quickstart(count);
            let Some(text) = drawing(&mesh, &mesh.pairs(), width) else { continue };
            drawings += 1;
            assert!(width >= NARROWEST && text.lines().all(|it| it.width() <= width), "{text}");
            for name in names {
                let label = format!("● {name} ");
                let stands = text.lines().any(|line| format!("{line} ").contains(&label));
                assert!(stands, "{name}\n{text}");
            }
            for pair in mesh.pairs() {
                assert!(text.contains(&pair.cost()), "{}\n{text}", pair.cost());
            }
        }
        assert!(drawings >= 5, "{drawings}");
        let (_, three) = quickstart(3);
        assert!(drawing(&three, &three.pairs(), 80).is_some());
        // Four names do not fit beside each other in so few columns.
        let (_, many) = quickstart(9);
        assert!(drawing(&many, &many.pairs(), 60).is_none());
    }

    #[test]
    fn what_is_not_known_of_a_router_is_not_drawn() {
        let text = drawn(&unlisted(), 60);
        assert!(text.contains("? a") && text.contains("? b") && !text.contains('●'), "{text}");
    }

    #[test]
    fn every_router_and_every_cost_is_drawn() {
        let names = ["a", "away", "closed", "d", "e", "f"];
        let mut links = Vec::new();
        for (at, one) in names.iter().enumerate() {
            for (further, other) in names.iter().enumerate().skip(at + 1) {
                links.push((*one, *other, (100 + 10 * at + further) as u64, false));
            }
        }
        let mesh = sample(&names, &links);
        let text = drawn(&mesh, 80);
        for label in ["● a", "○ away", "◐ closed", "● d", "● e", "● f"] {
            assert!(text.contains(label), "{label}\n{text}");
        }
        for (.., cost, _) in &links {
            assert!(text.contains(&cost.to_string()), "{cost}\n{text}");
        }
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    }

    #[test]
    fn no_empty_lines_follow_the_drawing() {
        let text = drawn(&sample(&["a", "b", "c"], &[("a", "b", 5, false)]), 60);
        assert!(!text.lines().last().unwrap().trim().is_empty(), "{text}");
    }

    #[test]
    fn rates_are_drawn_where_there_is_room_and_unknown_ones_are_no_zeros() {
        let text = drawn(&sample(&["a", "b"], &[("a", "b", 5, false)]), 60);
        assert!(text.contains("5 · 3.5 KiB/s"), "{text}");
        let text = drawn(&sample(&["a", "b"], &[("b", "a", 5, false)]), 60);
        assert!(text.contains("5 · ?"), "{text}");
    }

    #[test]
    fn what_is_down_is_said_and_has_gaps() {
        let whole = drawn(&sample(&["a", "b"], &[("a", "b", 5, false)]), 60);
        let down = drawn(&sample(&["a", "b"], &[("a", "b", 5, true)]), 60);
        let dots =
            |text: &str| text.chars().filter(|it| ('\u{2801}'..='\u{28ff}').contains(it)).count();
        assert!(down.contains("down") && dots(&down) < dots(&whole), "{whole}\n{down}");
        let twice = drawn(&sample(&["a", "b"], &[("a", "b", 5, false), ("b", "a", 4, false)]), 60);
        assert!(twice.contains("4 ×2"), "{twice}");
    }

    #[test]
    fn any_name_and_any_width_is_drawn() {
        let long = "日本".repeat(40);
        let names = [long.as_str(), "a\u{1b}[2Jb", ""];
        for width in [0, 10, 41, 100, 500] {
            let mesh = sample(&names, &[(&long, "", 5, false)]);
            let text = drawing(&mesh, &mesh.pairs(), width);
            assert_eq!(text.is_some(), width > 80, "{width}");
            let text = text.unwrap_or_default();
            assert!(!text.contains('\u{1b}'), "{text}");
            assert!(text.lines().all(|line| line.width() <= WIDEST.min(width)), "{text}");
        }
    }
}
