//! Completion by a shell: the scripts of `weft completions`, and the words of bash.
//!
//! Bash cuts the line also at `=`, `:` and before `@`, offers only the last piece for replacement, and inserts
//! what it is given without quoting it. [`Bash`] therefore gets the line as it was typed, finds its words
//! itself, and answers with the text of the last piece, quoted for the shell.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap::Command;
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use crate::cli::{self, CompletionsArgs};
use crate::failure::{Failure, Result};
use crate::output;

/// Environment variable by which a shell asks for completions.
const COMPLETE: &str = "WEFT_COMPLETE";
/// Separator of the candidates for bash: names with control characters are never offered.
const SEPARATOR: char = '\u{b}';

const SHELLS: Shells<'static> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a shell that asks for completions, and ends the process then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(cli::command_to_complete).var(COMPLETE).shells(SHELLS).complete();
}

/// Prints the script for a shell.
pub(crate) fn script(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    if args.fixed {
        clap_complete::generate(args.shell, &mut cli::command(), "weft", &mut script);
    } else {
        let shell = args.shell.to_string();
        let writer = SHELLS
            .completer(&shell)
            .ok_or_else(|| Failure::usage(format!("{shell} is only served with --static")))?;
        writer
            .write_registration(COMPLETE, "weft", "weft", "weft", &mut script)
            .map_err(Failure::new)?;
    }
    output::print(&String::from_utf8_lossy(&script));
    Ok(())
}

/// The script for bash, with NAME, BIN, COMPLETER and VAR to be replaced.
const SCRIPT: &str = r#"
_clap_complete_NAME() {
    COMPREPLY=()
    local IFS=$'\013'
    read -r -d '' -a COMPREPLY < <( \
        VAR=bash COMPLETER -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2> /dev/null \
    )
    if [[ "${#COMPREPLY[@]}" != 1 || ! "${COMPREPLY[0]}" =~ [=/:,]$ ]]; then
        compopt +o nospace 2> /dev/null
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _clap_complete_NAME BIN
else
    complete -o nospace -o bashdefault -F _clap_complete_NAME BIN
fi
"#;

/// Completion by bash.
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        var: &str,
        name: &str,
        bin: &str,
        completer: &str,
        to: &mut dyn Write,
    ) -> Result<(), Error> {
        let script = SCRIPT
            .replace("NAME", &name.replace('-', "_"))
            .replace("BIN", bin)
            .replace("COMPLETER", &quoted(completer, true))
            .replace("VAR", var);
        writeln!(to, "{script}")
    }

    /// Completes a line: the first argument is the line up to the cursor, the second one the characters at
    /// which bash cuts words.
    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        current_dir: Option<&Path>,
        to: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut args = args.iter().map(|arg| arg.to_string_lossy());
        let line = args.next().unwrap_or_default();
        let breaks = args.next().unwrap_or_default();
        let line = Line::parse(&line, &breaks);
        let words: Vec<OsString> = line.words.iter().map(OsString::from).collect();
        let last = words.len().saturating_sub(1);
        let found = clap_complete::engine::complete(command, words, last, current_dir)?;
        let values = found.iter().map(|it| it.get_value().to_string_lossy());
        let offered = values.filter_map(|value| line.piece(&value));
        let offered: Vec<String> = offered.collect();
        write!(to, "{}", offered.join(&SEPARATOR.to_string()))
    }
}

/// A line of bash up to the cursor.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// The words, without quotes; the last one is completed, and may be empty.
    words: Vec<String>,
    /// The beginning of the last word that bash keeps, without quotes.
    kept: String,
    /// The quote that is open at the cursor.
    quote: Option<char>,
}

impl Line {
    fn parse(line: &str, breaks: &str) -> Self {
        let (mut words, mut word, mut kept) = (Vec::new(), String::new(), String::new());
        let (mut quote, mut is_begun) = (None, false);
        let mut letters = line.chars();
        while let Some(letter) = letters.next() {
            match (quote, letter) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('"'), '\\') => match letters.next() {
                    Some(next) if "\"\\$`".contains(next) => word.push(next),
                    Some(next) => word.extend(['\\', next]),
                    None => {}
                },
                (Some(_), letter) => word.push(letter),
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    // Bash completes what stands behind the quote.
                    kept.clone_from(&word);
                    is_begun = true;
                }
                (None, '\\') => {
                    word.extend(letters.next());
                    is_begun = true;
                }
                (None, letter) if letter.is_whitespace() => {
                    if is_begun {
                        words.push(std::mem::take(&mut word));
                    }
                    kept.clear();
                    is_begun = false;
                }
                (None, letter) => {
                    let is_break = breaks.contains(letter);
                    let is_of_piece = "@$".contains(letter);
                    if is_break && is_of_piece {
                        kept.clone_from(&word);
                    }
                    word.push(letter);
                    is_begun = true;
                    if is_break && !is_of_piece {
                        kept.clone_from(&word);
                    }
                }
            }
        }
        words.push(word);
        Self { words, kept, quote }
    }

    /// The text by which bash is to replace the last piece, so that the last word becomes this value; `None`
    /// if the value differs in what bash keeps.
    fn piece(&self, value: &str) -> Option<String> {
        let rest = value.strip_prefix(&self.kept)?;
        Some(match self.quote {
            Some('\'') => rest.replace('\'', r"'\''"),
            Some(_) => escaped(rest, |letter| "\"\\$`".contains(letter)),
            None => quoted(rest, self.kept.is_empty()),
        })
    }
}

/// A text with a backslash before each letter that the shell would not take as it is.
fn quoted(text: &str, begins_word: bool) -> String {
    let is_first = |at: usize| at == 0 && begins_word;
    let mut quoted = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let is_plain = letter.is_alphanumeric()
            || "-_./,:=@+%^".contains(letter)
            || (letter == '#' && !is_first(at))
            || (letter == '~' && !is_first(at));
        if !is_plain {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted
}

fn escaped(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_special(letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where bash cuts words, by default.
    const BREAKS: &str = " \t\n\"'@><=;|&(:";

    fn parsed(line: &str) -> Line {
        Line::parse(line, BREAKS)
    }

    #[test]
    fn lines_are_cut_into_words_as_the_shell_does_it() {
        let words = |line: &str| parsed(line).words;
        assert_eq!(words("weft list "), ["weft", "list", ""]);
        assert_eq!(words("weft show identity Def"), ["weft", "show", "identity", "Def"]);
        assert_eq!(
            words(r"weft show identity Default\ Ad"),
            ["weft", "show", "identity", "Default Ad"]
        );
        assert_eq!(words(r#"weft why "Default Admin" w"#), ["weft", "why", "Default Admin", "w"]);
        assert_eq!(words("weft why 'a b"), ["weft", "why", "a b"]);
        assert_eq!(words("weft x --roles @Def"), ["weft", "x", "--roles", "@Def"]);
        assert_eq!(words("weft x '' "), ["weft", "x", "", ""]);
    }

    #[test]
    fn names_are_quoted_for_the_place_of_the_cursor() {
        let piece = |line: &str, value: &str| parsed(line).piece(value);
        let at = |line: &str, value: &str| piece(line, value).unwrap();
        assert_eq!(at("weft show identity D", "Default Admin"), r"Default\ Admin");
        assert_eq!(at("weft show identity \"D", "Default $1"), r"Default \$1");
        assert_eq!(at("weft show identity 'D", "Don't"), r"Don'\''t");
        // Bash keeps what stands before the `@`.
        assert_eq!(at("weft x --roles @Def", "@Default Admin"), r"@Default\ Admin");
        assert_eq!(at("weft x --roles=@", "--roles=@laptop"), "@laptop");
        assert_eq!(at("weft x a,@", "a,@laptop"), "@laptop");
        assert_eq!(at("weft x --roles '@Def", "@Default Admin"), "@Default Admin");
        assert_eq!(at("weft x --roles #", "#all"), r"\#all");
        assert_eq!(at("weft x --roles=", "--roles=#all"), "#all");
        assert_eq!(at("weft x a,", "a,b;c"), r"a,b\;c");
        assert_eq!(piece("weft x --roles=@Def", "#all"), None);
    }

    #[test]
    fn the_script_is_for_this_program() {
        let mut script = Vec::new();
        Bash.write_registration(COMPLETE, "weft", "weft", "weft", &mut script).unwrap();
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("WEFT_COMPLETE=bash weft -- "), "{script}");
        assert!(script.contains("-F _clap_complete_weft weft"), "{script}");
    }
}
