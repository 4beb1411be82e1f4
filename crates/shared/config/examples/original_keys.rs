//! Prints the table of the keys of the original's controller file, for docs/protocol/config.md 4.13.

fn main() {
    println!("| key | releases | becomes |\n|---|---|---|");
    for key in weft_config::original::original_keys() {
        println!("| {} |", key.cells().join(" | "));
    }
}
