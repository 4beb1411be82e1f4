//! Prints the tables of `docs/router-config.md` anew: keys as the code has them, with the tests that
//! the page names already. Rows without a test end in `?`.

use std::collections::HashMap;

fn main() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/router-config.md");
    let page = std::fs::read_to_string(path).unwrap_or_default();
    let mut tests: HashMap<String, String> = HashMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if let [key, of, .., test] = cells.as_slice() {
            tests.insert(format!("{key} {of}"), (*test).to_owned());
            tests.entry((*key).to_owned()).or_insert_with(|| (*test).to_owned());
        }
    }
    let mut section = String::new();
    for row in weft_config::router_keys() {
        let top = row.key.split(['.', '[']).next().unwrap_or_default();
        if top != section {
            section = top.to_owned();
            println!("\n### {top}\n");
            println!("| key | of | type | default | allowed | moved by |");
            println!("|---|---|---|---|---|---|");
        }
        let cells = row.cells();
        let exact = format!("{} {}", cells[0], cells[1]);
        let test = tests.get(&exact).or_else(|| tests.get(&cells[0]));
        println!("| {} | {} |", cells.join(" | "), test.map_or("?", String::as_str));
    }
}
