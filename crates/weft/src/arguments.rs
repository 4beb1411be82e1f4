//! Preparation of the command line, so that the parser reads words as they were meant.
//!
//! - A value may begin with a dash (`--cert-pem "$(cat ca.pem)"`, `-p -secret`): it is joined to
//!   its flag with an equals sign. A word that looks like a flag stays one, so that a forgotten
//!   value is noticed and does not swallow the next flag.
//! - Settings of a command may be anywhere, also before its name (`weft --login prod list
//!   services`): they are moved behind it.

use std::collections::VecDeque;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command, Error};

/// Flags with one value that most commands have and that may come before the command's name.
pub(crate) const SETTINGS: &[&str] = &["output", "login", "config-dir"];

/// The words in the form that the parser wants.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    pub(crate) words: Vec<OsString>,
    /// Flags without a value, each with the word in the value's place.
    lone: Vec<(String, String)>,
}

/// Prepares the words, of which the first is the program. `program` must have been built.
pub(crate) fn settle(program: &Command, words: impl IntoIterator<Item = OsString>) -> Settled {
    let mut words: VecDeque<OsString> = words.into_iter().collect();
    let first: Vec<OsString> = words.pop_front().into_iter().collect();
    let place = first.len();
    let settled = Settled { words: first, lone: Vec::new() };
    Walk { command: program, words, settled, carried: Vec::new(), place }.into_settled()
}

/// State of the walk from word to word.
struct Walk<'c> {
    /// The innermost command so far.
    command: &'c Command,
    /// Words that are left.
    words: VecDeque<OsString>,
    settled: Settled,
    /// Settings found before the name of the innermost command.
    carried: Vec<OsString>,
    /// Index of the word behind that name, where the settings are put.
    place: usize,
}

impl Walk<'_> {
    fn into_settled(mut self) -> Settled {
        while let Some(word) = self.words.pop_front() {
            match word.to_str().map(str::to_owned) {
                Some(text) if text == "--" => {
                    self.settled.words.push(word);
                    break;
                }
                Some(text) if text.starts_with('-') => self.flag(&text),
                Some(text) => self.name_or_argument(text),
                None => self.settled.words.push(word),
            }
        }
        self.settled.words.extend(self.words);
        self.settled.words.splice(self.place..self.place, self.carried);
        self.settled
    }

    fn name_or_argument(&mut self, text: String) {
        let below = self.command.find_subcommand(&text);
        self.settled.words.push(text.into());
        if let Some(below) = below {
            self.command = below;
            self.place = self.settled.words.len();
        }
    }

    fn flag(&mut self, text: &str) {
        let name = text.strip_prefix("--");
        let known = name.map(|name| name.split_once('=').map_or(name, |(name, _)| name));
        let arg = match known {
            Some(known) => long(self.command, known),
            None => last_letter(self.command, text.trim_start_matches('-')),
        };
        let is_setting = known.is_some_and(|known| SETTINGS.contains(&known));
        if arg.is_none() && is_setting && self.command.has_subcommands() {
            let count = usize::from(known == name);
            let carried = self.with_values(text, count);
            return self.carried.extend(carried);
        }
        // A flag with an equals sign has its value already.
        let count = arg
            .filter(|arg| known == name && takes_value(arg))
            .map_or(0, |arg| arg.get_num_args().map_or(1, |range| range.min_values()));
        let found = self.with_values(text, count);
        self.settled.words.extend(found);
    }

    /// A flag with its `count` values. A single value that begins with a dash is joined to it.
    fn with_values(&mut self, flag: &str, count: usize) -> Vec<OsString> {
        let mut found = vec![OsString::from(flag)];
        for _ in 0..count {
            let Some(next) = self.words.front() else { break };
            if let Some(text) = next.to_str().filter(|text| is_flag(self.command, text)) {
                self.settled.lone.push((flag.to_owned(), text.to_owned()));
                break;
            }
            found.extend(self.words.pop_front());
        }
        match found.as_mut_slice() {
            [flag, value] if count == 1 && value.as_encoded_bytes().starts_with(b"-") => {
                flag.push("=");
                flag.push(value);
                found.truncate(1);
            }
            _ => {}
        }
        found
    }
}

/// True if the word behind a flag is another flag and not a value: it is a flag of the command, or
/// a misspelled one.
fn is_flag(command: &Command, word: &str) -> bool {
    let Some(rest) = word.strip_prefix('-') else { return false };
    if rest.is_empty() || word.contains(char::is_whitespace) {
        return false;
    }
    let Some(name) = rest.strip_prefix('-') else {
        return rest.chars().next().is_some_and(|letter| short(command, letter).is_some());
    };
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let letters = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    name.is_empty()
        || name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(letters)
}

fn long<'c>(command: &'c Command, name: &str) -> Option<&'c Arg> {
    command.get_arguments().find(|arg| {
        arg.get_long() == Some(name)
            || arg.get_all_aliases().is_some_and(|aliases| aliases.contains(&name))
    })
}

fn short(command: &Command, letter: char) -> Option<&Arg> {
    command.get_arguments().find(|arg| arg.get_short() == Some(letter))
}

/// The flag of the last of several letters, if it takes a value.
fn last_letter<'c>(command: &'c Command, letters: &str) -> Option<&'c Arg> {
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        let arg = short(command, letter)?;
        if takes_value(arg) {
            return rest.as_str().is_empty().then_some(arg);
        }
    }
    None
}

/// True if the flag takes the next word as its value.
fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
        && !arg.is_require_equals_set()
        && arg.get_num_args().is_none_or(|range| range.min_values() > 0)
}

impl Settled {
    /// Adds a tip to an error about a missing value or an unknown flag: how a value that looks like a
    /// flag is written.
    pub(crate) fn explain(&self, mut error: Error) -> Error {
        let text = |context: Option<&ContextValue>| match context {
            Some(ContextValue::String(text)) => Some(text.clone()),
            _ => None,
        };
        let arg = text(error.get(ContextKind::InvalidArg));
        let arg = arg.as_deref().and_then(|arg| arg.split([' ', '=']).next()).unwrap_or_default();
        let value = text(error.get(ContextKind::InvalidValue));
        let example = match error.kind() {
            ErrorKind::InvalidValue if value.is_some_and(|value| value.is_empty()) => {
                Some(format!("{arg}=--value"))
            }
            ErrorKind::UnknownArgument => {
                let lone = self.lone.iter().find(|(_, next)| next.split('=').next() == Some(arg));
                lone.map(|(flag, next)| format!("{flag}={next}"))
            }
            _ => None,
        };
        if let Some(example) = example {
            let tip = format!("a value that looks like a flag follows an equals sign: {example}");
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        error
    }
}

/// Most commands and kinds that are suggested for an unknown one.
const SUGGESTED: usize = 3;

/// Replaces the suggestions for an unknown command or kind: names without aliases, the nearest first.
pub(crate) fn suggest(program: &Command, words: &[OsString], mut error: Error) -> Error {
    let unknown = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => word.clone(),
        _ => return error,
    };
    let mut parent = program;
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        if word == unknown {
            break;
        }
        parent = parent.find_subcommand(word).unwrap_or(parent);
    }
    let shown = parent.get_subcommands().filter(|command| !command.is_hide_set());
    let near = weft_config::similar(&unknown, shown.map(Command::get_name), SUGGESTED);
    error.remove(ContextKind::SuggestedSubcommand);
    if !near.is_empty() {
        let near = near.into_iter().map(str::to_owned).collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
    }
    error
}

#[cfg(test)]
mod tests {
    use clap::ArgMatches;

    use super::*;
    use crate::cli;

    fn parse(words: &[&str]) -> Result<ArgMatches, Error> {
        let mut command = cli::command();
        command.build();
        parse_by(&mut command, words)
    }

    fn parse_by(command: &mut Command, words: &[&str]) -> Result<ArgMatches, Error> {
        let settled = settle(command, ["weft"].iter().chain(words).map(OsString::from));
        let done = command.try_get_matches_from_mut(&settled.words);
        done.map_err(|error| settled.explain(error))
    }

    /// The value of a flag of the innermost command.
    fn value<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
        let mut matches = matches;
        while let Some((_, below)) = matches.subcommand() {
            matches = below;
        }
        matches.try_get_one::<T>(id).ok().flatten().cloned()
    }

    #[test]
    fn values_may_begin_with_a_dash() {
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let made = ["create", "ca", "partner", "--cert-pem", pem, "--identity-roles", "-odd"];
        let rest = ["--is-auth-enabled", "--is-auto-ca-enrollment-enabled"];
        let last = ["--is-ott-ca-enrollment-enabled=false"];
        let made = parse(&[&made[..], &rest, &last].concat()).unwrap();
        assert_eq!(value::<String>(&made, "body/certPem").unwrap(), pem);
        assert_eq!(value::<String>(&made, "body/identityRoles").unwrap(), "-odd");
        for password in ["-Secret", "-----", "-5", "--with spaces", "-=x"] {
            for words in [&["login", "-p", password][..], &["login", "--password", password]] {
                let login = parse(&[words, &["-u", "-me", "ctrl:1"]].concat()).unwrap();
                assert_eq!(value::<String>(&login, "password").unwrap(), password);
                assert_eq!(value::<String>(&login, "username").unwrap(), "-me");
                assert_eq!(value::<String>(&login, "url").unwrap(), "ctrl:1");
            }
        }
        let login = parse(&["login", "-yp", "-Secret"]).unwrap();
        assert_eq!(value::<String>(&login, "password").unwrap(), "-Secret");
        let login = parse(&["--login", "-odd", "login", "--password=--yes"]);
        assert_eq!(login.unwrap_err().kind(), ErrorKind::UnknownArgument);
        let login = parse(&["login", "--password=--yes"]).unwrap();
        assert_eq!(value::<String>(&login, "password").unwrap(), "--yes");
        let made = parse(&["create", "service", "web", "--max-idle-time-millis", "-1"]);
        assert_ne!(made.unwrap_err().kind(), ErrorKind::UnknownArgument);
    }

    #[test]
    fn few_names_are_suggested_for_an_unknown_one_and_the_nearest_first() {
        let suggested = |words: &[&str]| {
            let mut command = cli::command();
            command.build();
            let words: Vec<OsString> = ["weft"].iter().chain(words).map(OsString::from).collect();
            let error = command.try_get_matches_from_mut(&words).unwrap_err();
            match suggest(&command, &words, error).get(ContextKind::SuggestedSubcommand) {
                Some(ContextValue::Strings(near)) => near.clone(),
                _ => Vec::new(),
            }
        };
        let near = suggested(&["list", "servces"]);
        assert!(near[0] == "services" && near.len() <= SUGGESTED, "{near:?}");
        assert_eq!(suggested(&["lsit"]), ["list"]);
        assert_eq!(suggested(&["create", "identiy"]), ["identity"]);
        assert!(suggested(&["list", "zzzzzz"]).is_empty());
    }

    #[test]
    fn a_forgotten_value_swallows_no_flag() {
        for words in [
            &["update", "service-policy", "staff", "--name", "--type", "Bind"][..],
            &["update", "service-policy", "staff", "--name", "--tpye", "Bind"],
            &["update", "service", "web", "--name", "--encryption-requird"],
            &["update", "service", "web", "--name", "--encryption-required=true"],
            &["create", "identity", "laptop", "--role-attributes", "-o", "laptop.jwt"],
            &["login", "--password", "-y"],
            &["login", "-p", "--", "ctrl:1"],
        ] {
            let error = parse(words).unwrap_err();
            let text = error.to_string();
            let kinds = [ErrorKind::InvalidValue, ErrorKind::UnknownArgument];
            assert!(kinds.contains(&error.kind()), "{words:?}\n{text}");
            assert!(text.contains("follows an equals sign: -"), "{text}");
        }
        let error = parse(&["update", "service", "web", "--name"]).unwrap_err();
        assert!(error.to_string().contains("--name=--value"), "{error}");
    }

    #[test]
    fn values_are_not_taken_for_commands() {
        let found = parse(&["list", "services", "--sort", "list", "--limit", "3"]).unwrap();
        assert_eq!(value::<String>(&found, "sort").unwrap(), "list");
        let found = parse(&["--login", "list", "list", "services"]).unwrap();
        assert_eq!(value::<String>(&found, "login").unwrap(), "list");
        let found = parse(&["list", "services", "--of", "identity", "delete"]).unwrap();
        assert_eq!(found.subcommand_name(), Some("list"));
    }

    /// Every command without subcommands, by its names from the outermost in.
    fn leaves(command: &Command, path: &[String], found: &mut Vec<(Vec<String>, Vec<String>)>) {
        if !command.has_subcommands() {
            let longs = command.get_arguments().filter_map(|arg| arg.get_long());
            let settings = longs.filter(|long| SETTINGS.contains(long)).map(str::to_owned);
            found.push((path.to_vec(), settings.collect()));
        }
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            leaves(below, &[path, &[below.get_name().to_owned()]].concat(), found);
        }
    }

    #[test]
    fn settings_may_stand_anywhere() {
        let mut command = cli::command();
        command.build();
        let mut found = Vec::new();
        leaves(&command, &[], &mut found);
        let mut tried = 0;
        for (path, settings) in &found {
            for setting in settings {
                let flag = format!("--{setting}");
                for (at, words) in (0..=path.len()).flat_map(|at| {
                    [(at, vec![flag.clone(), "json".into()]), (at, vec![format!("{flag}=json")])]
                }) {
                    let mut line = path.clone();
                    line.splice(at..at, words);
                    let line: Vec<&str> = line.iter().map(String::as_str).collect();
                    // Arguments may be missing, but none is misplaced.
                    if let Err(error) = parse_by(&mut command, &line) {
                        assert_eq!(
                            error.kind(),
                            ErrorKind::MissingRequiredArgument,
                            "{line:?}\n{error}"
                        );
                    }
                    tried += 1;
                }
            }
        }
        assert!(tried > 500, "{tried}");
        let found = parse(&["jwt", "network", "--config-dir", "x"]).unwrap();
        let folder = value::<std::path::PathBuf>(&found, "config_dir").unwrap();
        assert_eq!(folder, std::path::Path::new("x"));
    }

    #[test]
    fn a_setting_that_a_command_does_not_have_is_refused() {
        for words in [
            &["--login", "x", "controller", "run", "c.yml"][..],
            &["completions", "bash", "--output", "json"],
            &["--login", "x"],
        ] {
            let error = parse(words).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnknownArgument, "{words:?}\n{error}");
        }
    }
}
