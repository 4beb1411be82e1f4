//! The mesh as a picture (SVG): routers on a ring, links as lines with their costs. The picture refers
//! to no other file, and has colours for light and for dark backgrounds.

use std::f64::consts::{FRAC_PI_2, TAU};
use std::fmt::Write as _;

use super::mesh::{Known, Mesh, Node, Pair};
use super::tables::summary;
use crate::output::{printable, units};

/// Smallest distance between two routers on the ring.
const APART: f64 = 110.0;
/// Smallest radius of the ring.
const LEAST_RADIUS: f64 = 220.0;
/// Room around the ring for names.
const ROOM: f64 = 130.0;
/// The longest name, in characters.
const NAME: usize = 28;

const STYLE: &str = "\
    svg { background: #ffffff; font: 13px system-ui, sans-serif; }\n\
    text { fill: #1c2430; text-anchor: middle; }\n\
    .cost { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; font-size: 12px; }\n\
    .link { stroke: #5a7fb8; stroke-width: 2; }\n\
    .down { stroke: #b8625a; stroke-dasharray: 4 5; }\n\
    .router { fill: #2f6fd0; stroke: #ffffff; stroke-width: 2; }\n\
    .closed { fill: #ffffff; stroke: #2f6fd0; stroke-width: 4; }\n\
    .away { fill: #c3c9d2; }\n\
    @media (prefers-color-scheme: dark) {\n\
    svg { background: #12161d; }\n\
    text { fill: #e4e9f0; }\n\
    .cost { stroke: #12161d; }\n\
    .router { stroke: #12161d; }\n\
    .closed { fill: #12161d; stroke: #6aa0ee; }\n\
    .away { fill: #4a5361; }\n\
    }\n";

/// The picture.
pub(super) fn picture(mesh: &Mesh) -> String {
    let count = mesh.routers.len();
    let radius = (APART * count as f64 / TAU).max(LEAST_RADIUS);
    let side = 2.0 * (radius + ROOM);
    let middle = side / 2.0;
    let places: Vec<(f64, f64)> = (0..count)
        .map(|at| {
            let turn = TAU * at as f64 / count as f64 - FRAC_PI_2;
            (middle + radius * turn.cos(), middle + radius * turn.sin())
        })
        .collect();
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side:.0} {side:.0}\" \
         width=\"{side:.0}\" height=\"{side:.0}\" role=\"img\">\n<title>{}</title>\n\
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
    for pair in &pairs {
        cost(&mut text, pair, &places);
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

fn cost(text: &mut String, pair: &Pair, places: &[(f64, f64)]) {
    // Off the middle, where lines between opposite routers cross.
    let (from, to, share) = (places[pair.one], places[pair.other], 0.4);
    let (x, y) = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
    let shown = pair.cost_and_rate();
    let _ = writeln!(text, "<text class=\"cost\" x=\"{x:.1}\" y=\"{:.1}\">{shown}</text>", y + 4.0);
}

fn router(text: &mut String, node: &Node, (x, y): (f64, f64), middle: f64) {
    let class = match node.known {
        None | Some(Known { is_online: false, .. }) => "router away",
        Some(Known { no_traversal: true, .. }) => "router closed",
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
