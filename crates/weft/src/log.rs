//! The log, on standard error. One record is one line: text from peers is escaped, so that it
//! cannot begin a record or control the terminal.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::{Args, ValueEnum};
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use weft_agent::Level;
use weft_identity::text_of;

use crate::output::printable;

/// The form of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// Objects for programs, one on each line
    Json,
}

/// Settings of the log of a controller, router or tunneler.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct LogArgs {
    /// Form of the log on standard error
    #[arg(
        long,
        value_name = "FORM",
        value_enum,
        default_value_t,
        env = "WEFT_LOG_FORMAT",
        help_heading = "Log"
    )]
    pub(crate) log_format: LogFormat,
    /// File with the levels of the log, for instance `weft_router=debug,info`, which is read again at
    /// each SIGHUP. While the file exists, it counts in place of RUST_LOG
    #[arg(long, value_name = "FILE", env = "WEFT_LOG_LEVELS", help_heading = "Log")]
    pub(crate) log_levels: Option<PathBuf>,
}

/// Applies a filter.
type SetFilter = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

static LOG: OnceLock<Log> = OnceLock::new();

/// The log of this process, whose levels can change.
struct Log {
    levels: Levels,
    told: Mutex<ToldLevels>,
    set: SetFilter,
}

/// Levels that users of this machine have set since the start, or since the levels were read again.
#[derive(Clone, Default)]
struct ToldLevels {
    /// In place of all others.
    level: Option<Level>,
    /// Of modules.
    modules: BTreeMap<String, Level>,
}

/// Most modules with a level that a user of this machine has set.
const MAX_TOLD: usize = 64;

/// Bytes of the file of levels that are read, from its beginning.
const MAX_LEVELS: u64 = 64 * 1024;

/// Begins to log, at `level` unless the file of levels or `RUST_LOG` sets others.
pub(crate) fn start(level: &'static str, args: &LogArgs) {
    let levels = Levels { usual: level, file: args.log_levels.clone() };
    let filter = levels.filter().unwrap_or_else(|problem| {
        crate::output::note(format_args!("weft: {problem}, and ignored"));
        EnvFilter::new(own(level))
    });
    // Colours only on a terminal, and not if `NO_COLOR` is set.
    let is_coloured = io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|asked| asked.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // Such errors would be printed on standard error, too, and a failure to print them is a panic: when a
    // terminal closes, the program still has to undo its changes of the machine.
    let log = log.log_internal_errors(false);
    match args.log_format {
        LogFormat::Text => {
            let log = log.with_ansi(is_coloured).fmt_fields(Fields).with_filter_reloading();
            let handle = log.reload_handle();
            levels.follow(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
            log.init();
        }
        LogFormat::Json => {
            let log = log.json().flatten_event(true).with_filter_reloading();
            let handle = log.reload_handle();
            levels.follow(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
            log.init();
        }
    }
}

/// Reads the file of levels again, if there is one. Levels that were set meanwhile are forgotten.
pub(crate) fn read_levels_again() {
    if let Some(log) = LOG.get()
        && let Err(problem) = log.tell(ToldLevels::forget)
    {
        tracing::warn!(problem, "the levels of the log stay as they are");
    }
}

/// Sets the level of the log until the levels are read again. Returns what it was.
///
/// # Errors
/// If the log cannot be changed.
pub(crate) fn set_level(level: Level) -> Result<&'static str, String> {
    let log = LOG.get().ok_or(NO_LOG)?;
    let before = log.tell(|told| Ok(told.level.replace(level)))?;
    Ok(before.map_or(CONFIGURED, Level::name))
}

/// Sets the level of a module, or with `None` has it as that of the log again, until the levels are read again. Returns
/// what it was.
///
/// # Errors
/// If the module has no good name, there are too many, or the log cannot be changed.
pub(crate) fn set_module_level(module: &str, level: Option<Level>) -> Result<&'static str, String> {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte);
    if module.is_empty() || !module.bytes().all(is_good) {
        return Err("a part of the log is a module, such as weft_router::link".to_owned());
    }
    let log = LOG.get().ok_or(NO_LOG)?;
    let before = log.tell(|told| {
        let Some(level) = level else { return Ok(told.modules.remove(module)) };
        let before = told.modules.insert(module.to_owned(), level);
        if told.modules.len() > MAX_TOLD {
            return Err(format!("more than {MAX_TOLD} modules with levels of their own"));
        }
        Ok(before)
    })?;
    Ok(before.map_or("default", Level::name))
}

/// The name of the levels of the file, of `RUST_LOG` or of the program.
const CONFIGURED: &str = "the configured levels";
const NO_LOG: &str = "this process has no log";

/// A level in the words of the log. weft ends no record with a panic, so that nothing is left of it at the lowest ones.
fn word(level: Level) -> &'static str {
    match level {
        Level::Panic | Level::Fatal => "off",
        level => level.name(),
    }
}

impl Log {
    /// Changes the levels that were set, and applies them.
    fn tell<T>(
        &self,
        change: impl FnOnce(&mut ToldLevels) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut told = self.told.lock();
        let mut new = told.clone();
        let done = change(&mut new)?;
        (self.set)(self.levels.filter_with(&new)?)?;
        *told = new;
        Ok(done)
    }
}

impl ToldLevels {
    fn forget(&mut self) -> Result<(), String> {
        *self = Self::default();
        Ok(())
    }
}

/// Sources of the levels.
struct Levels {
    usual: &'static str,
    file: Option<PathBuf>,
}

impl Levels {
    fn filter(&self) -> Result<EnvFilter, String> {
        self.filter_with(&ToldLevels::default())
    }

    /// The filter with the levels that were set.
    fn filter_with(&self, told: &ToldLevels) -> Result<EnvFilter, String> {
        let with = |levels: &str| {
            let modules = told.modules.iter();
            let modules = modules.map(|(module, level)| format!(",{module}={}", word(*level)));
            EnvFilter::try_new(own(levels) + &modules.collect::<String>())
        };
        if let Some(level) = told.level {
            return with(word(level)).map_err(|error| error.to_string());
        }
        if let Some(file) = &self.file
            && let Some(text) = read(file)?
        {
            let read = with(text.trim());
            return read.map_err(|error| format!("{}: not understood: {error}", file.display()));
        }
        match std::env::var(EnvFilter::DEFAULT_ENV) {
            Ok(text) if !text.trim().is_empty() => {
                with(&text).map_err(|error| format!("RUST_LOG is not understood: {error}"))
            }
            _ => with(self.usual).map_err(|error| error.to_string()),
        }
    }

    /// Makes the levels changeable.
    fn follow(self, set: impl Fn(EnvFilter) -> Result<(), String> + Send + Sync + 'static) {
        let _ = LOG.set(Log { levels: self, told: Mutex::default(), set: Box::new(set) });
    }
}

/// The level of a module of rustls that warns of every client which names an address in place of a host (SNI). Native
/// SDKs do so at each connection, and are served.
const NAMES: &str = "rustls::msgs::handshake=error";

/// Levels in which `debug` or `trace` without a module is the level of weft's own crates; other libraries
/// stay at `info`, so that their records do not hide those of weft. Unless levels of rustls are named, it does not
/// warn of [`NAMES`].
fn own(levels: &str) -> String {
    let is_wide = |level: &str| matches!(level.to_ascii_lowercase().as_str(), "debug" | "trace");
    let (wide, others): (Vec<&str>, Vec<&str>) =
        levels.split(',').map(str::trim).partition(|level| is_wide(level));
    let own = match wide.last() {
        Some(level) => format!("info,weft={level},{}", others.join(",")),
        None => levels.to_owned(),
    };
    if levels.contains("rustls") { own } else { format!("{own},{NAMES}") }
}

/// The contents of the file; `None` if it does not exist or is blank.
fn read(file: &Path) -> Result<Option<String>, String> {
    use std::io::Read as _;
    let opened = match std::fs::File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", file.display())),
    };
    let mut text = Vec::new();
    let read = opened.take(MAX_LEVELS).read_to_end(&mut text);
    read.map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text_of(text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok((!text.trim().is_empty()).then_some(text))
}

/// Writer of a record's fields, with control characters and ends of lines escaped.
struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, to: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = Visitor { to, is_first: true, written: Ok(()) };
        fields.record(&mut visitor);
        visitor.written
    }
}

struct Visitor<'w> {
    to: Writer<'w>,
    is_first: bool,
    written: fmt::Result,
}

impl Visitor<'_> {
    fn write(&mut self, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
        let (to, name) = (&mut self.to, field.name());
        // The place in the source of another library: a record of the crate `log` has such fields.
        if name.starts_with("log.") {
            return Ok(());
        }
        if !std::mem::take(&mut self.is_first) {
            to.write_char(' ')?;
        }
        match name {
            "message" => {}
            name if to.has_ansi_escapes() => {
                write!(to, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?;
            }
            name => write!(to, "{name}=")?,
        }
        printable::write_line(to, format_args!("{value:?}"))
    }
}

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.written.is_ok() {
            self.written = self.write(field, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log line about a peer with this name.
    fn logged(name: &str, is_coloured: bool) -> String {
        let written = Written::default();
        let to = written.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(is_coloured)
            .without_time()
            .fmt_fields(Fields)
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(log, || {
            let span = tracing::info_span!("peer", %name);
            let _entered = span.enter();
            let error = io::Error::other(name.to_owned());
            let problem: &(dyn std::error::Error + 'static) = &error;
            tracing::warn!(shown = %name, debug = ?name, text = name, problem, "refused {name}");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_peer_forges_no_record_and_reaches_no_terminal() {
        let name = "x\n2026-01-01T00:00:00Z  INFO weft: all is well\r\u{1b}[2J\u{9b}H\u{202e}";
        let text = logged(name, false);
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(
            text.trim_end().chars().all(|one| !one.is_control() && one != '\u{202e}'),
            "{text:?}"
        );
        assert_eq!(text.matches(r"\u{1b}[2J\u{9b}H").count(), 6, "{text}");
        // Colours of the log itself are allowed.
        let text = logged("x\u{1b}[2J", true);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.contains("\u{1b}[3mshown") && !text.contains("\u{1b}[2J"), "{text:?}");
    }

    #[test]
    fn the_file_of_levels_counts_while_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("levels");
        let levels = Levels { usual: "info", file: Some(file.clone()) };
        // Other tests may run with other levels.
        let usual = levels.filter().unwrap().to_string();
        std::fs::write(&file, "weft_router=debug,warn\n").unwrap();
        let read = levels.filter().unwrap().to_string();
        assert!(read.contains("weft_router=debug") && read.contains("warn"), "{read}");
        std::fs::write(&file, "weft=nonsense=debug").unwrap();
        assert!(levels.filter().unwrap_err().contains("levels: not understood"));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(levels.filter().unwrap().to_string(), usual);
    }

    #[test]
    fn levels_that_were_set_count_in_place_of_others_until_they_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("levels");
        std::fs::write(&file, "weft_router=debug,warn").unwrap();
        let levels = Levels { usual: "info", file: Some(file) };
        let (set, log) = (Arc::<Mutex<String>>::default(), levels);
        let to = Arc::clone(&set);
        let log = Log {
            levels: log,
            told: parking_lot::Mutex::default(),
            set: Box::new(move |filter| {
                *to.lock().unwrap() = filter.to_string();
                Ok(())
            }),
        };
        let now = || set.lock().unwrap().clone();
        let module = |level| {
            log.tell(|told| Ok(told.modules.insert("weft_link".to_owned(), level))).unwrap();
        };
        module(Level::Trace);
        assert!(
            now().contains("weft_router=debug") && now().contains("weft_link=trace"),
            "{}",
            now()
        );
        assert_eq!(log.tell(|told| Ok(told.level.replace(Level::Debug))), Ok(None));
        assert!(!now().contains("weft_router") && now().contains("weft=debug"), "{}", now());
        assert!(now().contains("weft_link=trace"), "{}", now());
        assert_eq!(log.tell(|told| Ok(told.level.replace(Level::Fatal))), Ok(Some(Level::Debug)));
        assert!(now().contains("off"), "{}", now());
        log.tell(ToldLevels::forget).unwrap();
        assert!(now().contains("weft_router=debug") && !now().contains("weft_link"), "{}", now());
    }

    #[test]
    fn a_level_without_a_module_is_that_of_weft() {
        let plain = |levels: &str| own(levels).replace(&format!(",{NAMES}"), "");
        assert_eq!(plain("weft_router=debug,info"), "weft_router=debug,info");
        assert_eq!(plain("warn"), "warn");
        let levels = EnvFilter::try_new(own("debug")).unwrap().to_string();
        assert!(levels.contains("weft=debug") && levels.contains("info"), "{levels}");
        let levels = EnvFilter::try_new(own("rustls=trace, TRACE")).unwrap().to_string();
        assert!(levels.contains("weft=trace") && levels.contains("rustls=trace"), "{levels}");
    }

    #[test]
    fn clients_that_name_an_address_are_not_warned_of() {
        let logged = |levels: &str| {
            let written = Written::default();
            let to = written.clone();
            let log = tracing_subscriber::fmt()
                .with_env_filter(EnvFilter::try_new(own(levels)).unwrap())
                .with_writer(move || to.clone())
                .finish();
            tracing::subscriber::with_default(log, || {
                tracing::warn!(target: "rustls::msgs::handshake", "Illegal SNI extension");
                tracing::warn!(target: "rustls::conn", "another");
            });
            let bytes = written.0.lock().unwrap().clone();
            let text = String::from_utf8(bytes).unwrap();
            (text.contains("Illegal SNI"), text.contains("another"))
        };
        for levels in ["info", "debug", "weft_router=debug,warn"] {
            assert_eq!(logged(levels), (false, true), "{levels}");
        }
        assert_eq!(logged("rustls=trace"), (true, true));
    }

    #[test]
    fn the_place_in_the_source_of_another_library_is_left_out() {
        let written = Written::default();
        let to = written.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .fmt_fields(Fields)
            .with_writer(move || to.clone())
            .finish();
        tracing::subscriber::with_default(log, || {
            tracing::info!(log.file = "/build/x.rs", log.line = 7, size = 3, "read");
        });
        let bytes = written.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with(" read size=3\n"), "{text:?}");
    }

    #[test]
    fn a_record_reads_as_before() {
        let text = logged("web", false);
        let fields = r#"refused web shown=web debug="web" text="web" problem=web"#;
        assert!(text.contains(fields) && text.contains("peer{name=web}"), "{text}");
    }
}
