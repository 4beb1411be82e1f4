//! The mesh as tables of routers and links, with a summary.

use serde_json::json;

use super::mesh::{Link, Mesh, Pair};
use crate::output::counted;
use crate::output::table::{self, Column, Rows};
use crate::output::units::{self, UNKNOWN};

/// Width of the terminal; `None` if there is none.
pub(super) fn width() -> Option<usize> {
    table::terminal()
}

/// A summary of the mesh, which says if parts of the mesh are missing.
pub(super) fn summary(mesh: &Mesh) -> String {
    let known: Vec<_> = mesh.routers.iter().filter_map(|node| node.known).collect();
    let online = match mesh.is_partial {
        true => String::new(),
        false => format!(", {} of them online", known.iter().filter(|it| it.is_online).count()),
    };
    let down = mesh.links.iter().filter(|link| link.detail.down).count();
    let down = if down > 0 { format!(", {down} of them down") } else { String::new() };
    let missing = if mesh.is_partial {
        "\nonly routers with links: this login may not list routers"
    } else {
        ""
    };
    format!(
        "{}{online}; {}{down}; {}{missing}",
        counted(mesh.routers.len(), "router", "routers"),
        counted(mesh.links.len(), "link", "links"),
        counted(mesh.circuits, "circuit", "circuits")
    )
}

/// Costs between routers that are linked: one row and one column for each router.
pub(super) fn matrix(mesh: &Mesh, pairs: &[Pair], width: Option<usize>) -> String {
    let count = mesh.routers.len();
    let mut columns = vec![Column { title: "LINK COST".to_owned(), pointer: "/name".to_owned() }];
    columns.extend(
        (0..count).map(|at| Column { title: (at + 1).to_string(), pointer: format!("/{at}") }),
    );
    let mut rows = Rows::new(columns).breaking(&["/name"]);
    for (at, node) in mesh.routers.iter().enumerate() {
        let mut row = json!({"name": format!("{} {}", at + 1, node.name)});
        for other in 0..count {
            let pair = pairs
                .iter()
                .find(|it| (it.one, it.other) == (at, other) || (it.one, it.other) == (other, at));
            row[other.to_string()] = match pair {
                _ if other == at => json!("·"),
                None => json!(""),
                Some(pair) => pair.cost.map_or_else(|| json!("down"), |cost| json!(cost)),
            };
        }
        rows.push(&row);
    }
    shown(&rows, width)
}

pub(super) fn routers(mesh: &Mesh, width: Option<usize>) -> String {
    let columns = [
        ("ROUTER", "name"),
        ("STATE", "state"),
        ("COST", "cost"),
        ("NO TRAVERSAL", "closed"),
        ("LINKS", "links"),
        ("CIRCUITS", "circuits"),
    ];
    let mut rows = rows(&columns).breaking(&["/name"]);
    for (at, node) in mesh.routers.iter().enumerate() {
        let links = mesh.links.iter().filter(|link| link.from == at || link.to == at).count();
        let unknown = || UNKNOWN.to_owned();
        let closed = |closed| if closed { "yes".to_owned() } else { String::new() };
        rows.push(&json!({
            "name": node.name, "state": node.state(), "links": links,
            "cost": node.known.map_or_else(unknown, |it| it.cost.to_string()),
            "closed": node.known.map_or_else(unknown, |it| closed(it.no_traversal)),
            "circuits": circuits_of(mesh, node.circuits),
        }));
    }
    shown(&rows, width)
}

/// The links, with important columns on the left, as those on the right are left out first.
pub(super) fn links(mesh: &Mesh, width: Option<usize>) -> String {
    let columns = [
        ("FROM", "from"),
        ("TO", "to"),
        ("COST", "cost"),
        ("LATENCY", "latency"),
        ("STATE", "state"),
        ("CIRCUITS", "circuits"),
        ("RATE", "rate"),
        ("RATE BACK", "rateBack"),
        ("LATENCY BACK", "back"),
        ("STATIC COST", "static"),
        ("ID", "id"),
        ("CONNECTIONS", "connections"),
    ];
    let mut rows = rows(&columns).breaking(&["/from", "/to"]);
    for link in &mesh.links {
        let detail = &link.detail;
        let state = if detail.down { "down" } else { &detail.state };
        rows.push(&json!({
            "from": mesh.routers[link.from].name, "to": mesh.routers[link.to].name,
            "state": state, "static": detail.static_cost,
            "latency": units::latency(detail.source_latency),
            "back": units::latency(detail.dest_latency),
            "rate": units::rate(detail.source_rate), "rateBack": units::rate(detail.dest_rate),
            "cost": detail.cost, "circuits": circuits_of(mesh, link.circuits),
            "connections": connections(link), "id": detail.id,
        }));
    }
    shown(&rows, width)
}

/// A table, with the names of columns that did not fit.
fn shown(rows: &Rows, width: Option<usize>) -> String {
    let fitted = rows.fitted_to(width);
    match fitted.note() {
        Some(note) => format!("{}\n{note}; --output json shows everything", fitted.text),
        None => fitted.text,
    }
}

/// Number of connections by type: `3 link.default, 1 link.ack`.
fn connections(link: &Link) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for connection in &link.detail.connections {
        let known = counts.iter_mut().find(|(name, _)| *name == connection.r#type);
        match known {
            Some((_, count)) => *count += 1,
            None => counts.push((&connection.r#type, 1)),
        }
    }
    let shown: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    shown.join(", ")
}

fn circuits_of(mesh: &Mesh, circuits: usize) -> String {
    if mesh.is_counted { circuits.to_string() } else { UNKNOWN.to_owned() }
}

fn rows(columns: &[(&str, &str)]) -> Rows {
    let column = |(title, member): &(&str, &str)| Column {
        title: (*title).to_owned(),
        pointer: format!("/{member}"),
    };
    Rows::new(columns.iter().map(column).collect())
}

#[cfg(test)]
mod tests {
    use super::super::mesh::tests::{sample, unlisted};
    use super::*;

    /// The first column of a table, with broken names joined.
    fn first_column(text: &str) -> String {
        let rows = text.lines().filter_map(|line| line.strip_prefix('│'));
        rows.filter_map(|row| row.split(['│', '┆']).next()).map(str::trim).collect()
    }

    #[test]
    fn narrow_terminals_get_whole_names_and_are_told_what_is_missing() {
        let names = ["quickstart-router", "quickstart-router-2", "quickstart-router-3"];
        let pairs = [(names[0], names[1]), (names[0], names[2]), (names[1], names[2])];
        let mesh = sample(&names, &pairs.map(|(one, other)| (one, other, 17, false)));
        for width in [30, 60, 80] {
            let (routers, links) = (routers(&mesh, Some(width)), links(&mesh, Some(width)));
            for name in names {
                assert!(first_column(&routers).contains(name), "{routers}");
            }
            assert!(first_column(&links).contains(names[1]), "{links}");
            let note = links.lines().last().unwrap();
            assert!(note.starts_with("no room for ") && note.contains("ID"), "{links}");
        }
        let links = links(&mesh, Some(80));
        for title in ["COST", "LATENCY", "STATE", "CIRCUITS"] {
            assert!(links.lines().nth(1).unwrap().contains(title), "{links}");
        }
    }

    #[test]
    fn of_routers_that_a_login_may_not_list_tables_claim_nothing() {
        let mesh = unlisted();
        assert_eq!(
            summary(&mesh),
            "2 routers; 1 link; 9 circuits\n\
             only routers with links: this login may not list routers"
        );
        let routers = routers(&mesh, None);
        let row = routers.lines().find(|line| line.contains(" a ")).unwrap();
        // State, cost, traversal and circuits.
        assert_eq!(row.matches('?').count(), 4, "{routers}");
    }

    #[test]
    fn tables_say_what_operators_look_at() {
        let links = [("a", "closed", 7, false), ("a", "away", 9, true)];
        let mesh = sample(&["a", "away", "closed"], &links);
        assert_eq!(
            summary(&mesh),
            "3 routers, 2 of them online; 2 links, 1 of them down; 1 circuit"
        );
        let links = self::links(&mesh, None);
        for text in
            ["2.00 ms", "3.00 ms", "1.5 KiB/s", "2.0 KiB/s", "Connected", "down", "closed", "l0"]
        {
            assert!(links.contains(text), "{text}\n{links}");
        }
        let routers = self::routers(&mesh, None);
        let row = |name: &str| routers.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(
            row("away").contains("not connected") && row("closed").contains("yes"),
            "{routers}"
        );
    }

    #[test]
    fn a_matrix_says_who_costs_what_to_whom() {
        let mesh = sample(&["a", "b", "c"], &[("a", "b", 7, false), ("c", "b", 9, true)]);
        let text = matrix(&mesh, &mesh.pairs(), None);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| line.starts_with('│'))
            .map(|line| line.split(['│', '┆']).map(str::trim).collect())
            .collect();
        assert_eq!(rows[0][1..5], ["LINK COST", "1", "2", "3"], "{text}");
        assert_eq!(rows[1][1..5], ["1 a", "·", "7", ""], "{text}");
        assert_eq!(rows[2][1..5], ["2 b", "7", "·", "down"], "{text}");
    }
}
