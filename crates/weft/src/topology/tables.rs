//! The mesh in tables.

use serde_json::json;

use super::mesh::{Link, Mesh, Pair};
use crate::output::{
    table::{self, Column, Rows},
    units,
};

/// How wide the terminal is; none where there is none.
pub(super) fn width() -> Option<usize> {
    table::terminal()
}

/// The mesh in one line.
pub(super) fn summary(mesh: &Mesh) -> String {
    let online = mesh.routers.iter().filter(|node| node.is_online).count();
    let down = mesh.links.iter().filter(|link| link.detail.down).count();
    let counted = |count: i64, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {many}"),
    };
    let down = if down > 0 { format!(", {down} of them down") } else { String::new() };
    format!(
        "{}, {online} of them online; {}{down}; {}",
        counted(mesh.routers.len() as i64, "router", "routers"),
        counted(mesh.links.len() as i64, "link", "links"),
        counted(mesh.circuits, "circuit", "circuits")
    )
}

/// What it costs from one router to the next, each row a router and each column the same ones.
pub(super) fn matrix(mesh: &Mesh, pairs: &[Pair]) -> String {
    let count = mesh.routers.len();
    let mut columns = vec![Column { title: "LINK COST".to_owned(), pointer: "/name".to_owned() }];
    columns.extend(
        (0..count).map(|at| Column { title: (at + 1).to_string(), pointer: format!("/{at}") }),
    );
    let mut rows = Rows::new(columns);
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
    rows.fitted().text
}

/// The routers.
pub(super) fn routers(mesh: &Mesh) -> String {
    let columns = [
        ("ROUTER", "name"),
        ("ONLINE", "online"),
        ("COST", "cost"),
        ("NO TRAVERSAL", "closed"),
        ("LINKS", "links"),
        ("CIRCUITS", "circuits"),
    ];
    let mut rows = rows(&columns);
    for (at, node) in mesh.routers.iter().enumerate() {
        let links = mesh.links.iter().filter(|link| link.from == at || link.to == at).count();
        let online = match (node.disabled, node.is_online) {
            (true, _) => "disabled",
            (_, true) => "yes",
            (_, false) => "no",
        };
        rows.push(&json!({
            "name": node.name, "online": online, "cost": node.cost, "links": links,
            "closed": if node.no_traversal { "yes" } else { "" },
            "circuits": counted(mesh, node.circuits),
        }));
    }
    rows.fitted().text
}

/// The links.
pub(super) fn links(mesh: &Mesh) -> String {
    let columns = [
        ("FROM", "from"),
        ("TO", "to"),
        ("STATE", "state"),
        ("STATIC", "static"),
        ("LATENCY", "latency"),
        ("COST", "cost"),
        ("CIRCUITS", "circuits"),
        ("CONNECTIONS", "connections"),
        ("ID", "id"),
    ];
    let mut rows = rows(&columns);
    for link in &mesh.links {
        let detail = &link.detail;
        let state = if detail.down { "down" } else { &detail.state };
        rows.push(&json!({
            "from": mesh.routers[link.from].name, "to": mesh.routers[link.to].name,
            "state": state, "static": detail.static_cost, "latency": latency(link),
            "cost": detail.cost, "circuits": counted(mesh, link.circuits),
            "connections": connections(link), "id": detail.id,
        }));
    }
    rows.fitted().text
}

/// What both ends measured, the one that dialed first.
pub(super) fn latency(link: &Link) -> String {
    let (one, other) = (link.detail.source_latency, link.detail.dest_latency);
    format!("{} / {}", units::nanoseconds(one), units::nanoseconds(other))
}

/// How many connections of which type: `3 link.default, 1 link.ack`.
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

fn counted(mesh: &Mesh, circuits: usize) -> String {
    if mesh.is_counted { circuits.to_string() } else { "?".to_owned() }
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
    use super::super::mesh::tests::sample;
    use super::*;

    #[test]
    fn tables_say_what_operators_look_at() {
        let links = [("a", "closed", 7, false), ("a", "away", 9, true)];
        let mesh = sample(&["a", "away", "closed"], &links);
        assert_eq!(
            summary(&mesh),
            "3 routers, 2 of them online; 2 links, 1 of them down; 1 circuit"
        );
        let links = self::links(&mesh);
        for text in ["2.00 ms / 3.00 ms", "Connected", "down", "closed", "l0"] {
            assert!(links.contains(text), "{text}\n{links}");
        }
        let routers = self::routers(&mesh);
        let row = |name: &str| routers.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(row("away").contains("no") && row("closed").contains("yes"), "{routers}");
    }

    #[test]
    fn a_matrix_says_who_costs_what_to_whom() {
        let mesh = sample(&["a", "b", "c"], &[("a", "b", 7, false), ("c", "b", 9, true)]);
        let text = matrix(&mesh, &mesh.pairs());
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
