//! The mesh as a picture (SVG): routers on a ring, links as lines with their costs. The picture refers
//! to no other file, and has colours for light and for dark backgrounds.

use std::f64::consts::{FRAC_PI_2, TAU};
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr as _;

use super::mesh::{Mesh, Node, Pair, RouterStatus};
use super::tables::summary;
use crate::output::{printable, units};

/// Smallest distance between two routers on the ring.
const APART: f64 = 110.0;
/// Smallest radius of the ring.
const LEAST_RADIUS: f64 = 220.0;
/// Room beside the ring for names.
const ROOM: f64 = 130.0;
/// Room above and below the routers for names.
const HIGH: f64 = 60.0;
/// Positions of a cost along its line, as shares of the line's length, in the order in which they are tried: not the
/// middle at first, where lines between opposite routers cross.
const SHARES: [f64; 9] = [0.4, 0.6, 0.32, 0.68, 0.25, 0.75, 0.5, 0.46, 0.54];
/// Most lines whose costs are kept apart.
const KEPT_APART: usize = 500;
/// Width of a character of a cost, and height of a cost.
const LETTER: (f64, f64) = (6.8, 18.0);
/// The longest name, in characters.
const NAME: usize = 28;

const STYLE: &str = "\
    svg { background: #ffffff; font: 13px system-ui, sans-serif; }\n\
    text { fill: #1c2430; text-anchor: middle; }\n\
    .cost { font-size: 12px; }\n\
    .behind { fill: #ffffff; }\n\
    .link { stroke: #5a7fb8; stroke-width: 2; }\n\
    .down { stroke: #b8625a; stroke-dasharray: 4 5; }\n\
    .router { fill: #2f6fd0; stroke: #ffffff; stroke-width: 2; }\n\
    .closed { fill: #ffffff; stroke: #2f6fd0; stroke-width: 4; }\n\
    .away { fill: #c3c9d2; }\n\
    @media (prefers-color-scheme: dark) {\n\
    svg { background: #12161d; }\n\
    text { fill: #e4e9f0; }\n\
    .behind { fill: #12161d; }\n\
    .router { stroke: #12161d; }\n\
    .closed { fill: #12161d; stroke: #6aa0ee; }\n\
    .away { fill: #4a5361; }\n\
    }\n";

/// The picture.
pub(super) fn picture(mesh: &Mesh) -> String {
    let count = mesh.routers.len();
    let radius = (APART * count as f64 / TAU).max(LEAST_RADIUS);
    let width = 2.0 * (radius + ROOM);
    let middle = HIGH + radius;
    let places: Vec<(f64, f64)> = (0..count)
        .map(|at| {
            let turn = TAU * at as f64 / count as f64 - FRAC_PI_2;
            (width / 2.0 + radius * turn.cos(), middle + radius * turn.sin())
        })
        .collect();
    // Few routers do not reach as far down as the ring.
    let height = places.iter().fold(HIGH, |lowest, (_, y)| lowest.max(*y)) + HIGH;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n<title>{}</title>\n\
         <style>\n{STYLE}</style>\n",
        escaped(&summary(mesh))
    );
    let pairs = mesh.pairs();
    for pair in &pairs {
        line(&mut text, mesh, pair, &places);
    }
    for (node, place) in mesh.routers.iter().zip(&places) {
        router(&mut text, node, *place, middle);
    }
    for label in labels(&pairs, &places) {
        label.write(&mut text);
    }
    text.push_str("</svg>\n");
    text
}

fn line(text: &mut String, mesh: &Mesh, pair: &Pair, places: &[(f64, f64)]) {
    let (from, to) = (places[pair.one], places[pair.other]);
    let class = if pair.cost.is_some() { "link" } else { "link down" };
    let links = mesh
        .links
        .iter()
        .filter(|link| (link.from.min(link.to), link.from.max(link.to)) == (pair.one, pair.other));
    let told: Vec<String> = links
        .map(|link| {
            let detail = &link.detail;
            let down = if detail.down { ", down" } else { "" };
            format!(
                "{}: {} to {}, cost {} (static cost {}, latency {}), rate {}{down}",
                detail.id,
                mesh.routers[link.from].name,
                mesh.routers[link.to].name,
                detail.cost,
                detail.static_cost,
                units::latencies(detail.source_latency, detail.dest_latency),
                units::rates(detail.source_rate, detail.dest_rate)
            )
        })
        .collect();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"><title>{}</title></line>",
        from.0,
        from.1,
        to.0,
        to.1,
        escaped(&told.join("\n"))
    );
}

/// The cost of a line, before a part of the line that is covered.
struct Label {
    shown: String,
    /// The middle.
    x: f64,
    y: f64,
    width: f64,
}

impl Label {
    fn touches(&self, other: &Self) -> bool {
        (self.x - other.x).abs() < (self.width + other.width) / 2.0
            && (self.y - other.y).abs() < LETTER.1
    }

    fn write(&self, text: &mut String) {
        let Self { shown, x, y, width } = self;
        let _ = writeln!(
            text,
            "<rect class=\"behind\" x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"></rect>\n\
             <text class=\"cost\" x=\"{x:.1}\" y=\"{:.1}\">{shown}</text>",
            x - width / 2.0,
            y - LETTER.1 / 2.0,
            LETTER.1,
            y + 4.0
        );
    }
}

/// The costs of the lines, each where it touches no other one if there is such a place.
fn labels(pairs: &[Pair], places: &[(f64, f64)]) -> Vec<Label> {
    let mut labels: Vec<Label> = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let (from, to) = (places[pair.one], places[pair.other]);
        let shown = pair.cost_and_rate();
        let width = (shown.width() + 1) as f64 * LETTER.0;
        let at = |share: f64| {
            let (x, y) = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            Label { shown: shown.clone(), x, y, width }
        };
        let is_free = |label: &Label| labels.iter().all(|other| !label.touches(other));
        let tried = if pairs.len() <= KEPT_APART { &SHARES[..] } else { &[] };
        let free = tried.iter().map(|share| at(*share)).find(is_free);
        labels.push(free.unwrap_or_else(|| at(SHARES[0])));
    }
    labels
}

fn router(text: &mut String, node: &Node, (x, y): (f64, f64), middle: f64) {
    let class = match node.known {
        None | Some(RouterStatus { is_online: false, .. }) => "router away",
        Some(RouterStatus { no_traversal: true, .. }) => "router closed",
        Some(_) => "router",
    };
    let told = match node.known {
        None => format!("{}: not known whether it is online", node.name),
        Some(known) => {
            let closed = if known.no_traversal { ", carries nothing for others" } else { "" };
            format!("{}: {}, cost {}{closed}", node.name, node.state(), known.cost)
        }
    };
    let whole = printable::line(&node.name);
    let mut name: String = whole.chars().take(NAME).collect();
    if name.len() < whole.len() {
        name.push('…');
    }
    // Names are outside of the ring.
    let below = if y < middle - 1.0 { -18.0 } else { 28.0 };
    let _ = writeln!(
        text,
        "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"10\"><title>{}</title></circle>\n\
         <text x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        escaped(&told),
        y + below,
        escaped(&name)
    );
}

/// Text from others, escaped for XML: no markup, no change of direction, no characters that XML
/// cannot have.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for one in printable::lines(text).chars() {
        match one {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            one => out.push(one),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::mesh::tests::sample;
    use super::*;

    #[test]
    fn the_picture_is_whole_and_needs_nothing_else() {
        let links = [("a", "b", 17, false), ("a", "closed", 23, true)];
        let mesh = sample(&["a", "b", "closed", "away"], &links);
        let text = picture(&mesh);
        assert_eq!(text.matches("<circle").count(), 4);
        assert_eq!(text.matches("<line").count(), 2);
        for label in [">17 · 3.5 KiB/s</text>", ">down · 3.5 KiB/s</text>"] {
            assert!(text.contains(label), "{label}\n{text}");
        }
        assert!(text.contains("prefers-color-scheme: dark"));
        assert!(
            text.contains("l0: a to b, cost 17 (static cost 1, latency 2.00 ms + 3.00 ms), rate 1.5 KiB/s + 2.0 KiB/s"),
            "{text}"
        );
        for class in ["router away", "router closed", "link down"] {
            assert!(text.contains(&format!("class=\"{class}\"")), "{class}");
        }
        for tag in ["svg", "title", "style", "text", "circle", "line"] {
            let open = text.matches(&format!("<{tag}")).count();
            assert_eq!(open, text.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        let addresses = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!addresses.contains("http") && !addresses.contains("url("), "{text}");
    }

    #[test]
    fn the_picture_ends_below_the_lowest_router() {
        let height = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("r{at}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let text = picture(&sample(&names, &[]));
            let shown = text.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
            shown.and_then(|height| height.parse::<f64>().ok()).unwrap()
        };
        assert_eq!(height(1), 2.0 * HIGH);
        assert_eq!(height(3), 2.0 * HIGH + 1.5 * LEAST_RADIUS);
        assert_eq!(height(4), 2.0 * (HIGH + LEAST_RADIUS));
    }

    #[test]
    fn no_cost_covers_another() {
        let names = ["a", "b", "c", "d", "e", "f"];
        let mut links = Vec::new();
        for (at, one) in names.iter().enumerate() {
            links.extend(names[at + 1..].iter().map(|other| (*one, *other, 100, false)));
        }
        let mesh = sample(&names, &links);
        let places: Vec<(f64, f64)> = (0..6)
            .map(|at| TAU * f64::from(at) / 6.0 - FRAC_PI_2)
            .map(|turn| (LEAST_RADIUS * turn.cos(), LEAST_RADIUS * turn.sin()))
            .collect();
        let labels = labels(&mesh.pairs(), &places);
        assert_eq!(labels.len(), 15);
        for (at, label) in labels.iter().enumerate() {
            for other in &labels[at + 1..] {
                assert!(!label.touches(other), "{} {} {} {}", label.x, label.y, other.x, other.y);
            }
        }
    }

    #[test]
    fn names_are_no_markup() {
        let name = "</text><script>alert('x')</script>&\u{1b}\u{202e}\u{ffff}";
        let text = picture(&sample(&[name, "\u{202e}b"], &[(name, "\u{202e}b", 1, false)]));
        assert!(!text.contains("<script") && !text.contains('\u{1b}'), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{ffff}']), "{text}");
        assert!(text.contains("&lt;/text&gt;&lt;script&gt;"), "{text}");
        assert!(text.contains(">\\u{202e}b</text>"), "{text}");
    }

    #[test]
    fn a_mesh_without_routers_is_a_picture_too() {
        assert!(picture(&Mesh::default()).ends_with("</svg>\n"));
    }
}
