//! What the programs of this package do without a fuzzer: each gives the files named on its command
//! line to its target, such as inputs that broke a rule.

use std::process::ExitCode;

/// Gives every file named on the command line to a target. A rule that an input breaks ends in a
/// panic. Fails with a message when no file is named or one cannot be read.
#[must_use]
pub fn replay(target: fn(&[u8])) -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).map(std::path::PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("name the files that are to be tried; `cargo fuzz run` makes inputs of its own");
        return ExitCode::from(2);
    }
    for file in &files {
        match std::fs::read(file) {
            Ok(bytes) => target(&bytes),
            Err(problem) => {
                eprintln!("{} cannot be read: {problem}", file.display());
                return ExitCode::FAILURE;
            }
        }
        println!("{}: no rule is broken", file.display());
    }
    ExitCode::SUCCESS
}
