//! The log, on standard error. One record is one line: what peers say stands in it as text, and can
//! neither begin a record of its own nor reach the terminal.

use std::{
    fmt,
    io::{self, IsTerminal as _},
};

use tracing::field::Field;
use tracing_subscriber::{
    EnvFilter,
    field::MakeExt as _,
    fmt::{
        FormatFields,
        format::{self, Writer},
    },
};

use crate::output::printable;

/// Begins to log, at `level` unless `RUST_LOG` says otherwise.
pub(crate) fn start(level: &str) {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            eprintln!("weft: RUST_LOG is not understood and ignored: {error}");
            EnvFilter::new(level)
        }),
        _ => EnvFilter::new(level),
    };
    // Colours are for people: neither for files nor where `NO_COLOR` is set.
    let is_coloured = io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|asked| asked.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_coloured)
        .fmt_fields(fields())
        .with_writer(io::stderr)
        .init();
}

/// Fields of records, each in one line.
fn fields() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    format::debug_fn(field).delimited(" ")
}

fn field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => {}
        name if to.has_ansi_escapes() => write!(to, "\u{1b}[3m{name}\u{1b}[0m\u{1b}[2m=\u{1b}[0m")?,
        name => write!(to, "{name}=")?,
    }
    printable::write_line(to, format_args!("{value:?}"))
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

    /// What is logged when a peer calls itself this.
    fn logged(name: &str, is_coloured: bool) -> String {
        let written = Written::default();
        let to = written.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(is_coloured)
            .without_time()
            .fmt_fields(fields())
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
        // Colours are the log's own.
        let text = logged("x\u{1b}[2J", true);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.contains("\u{1b}[3mshown") && !text.contains("\u{1b}[2J"), "{text:?}");
    }

    #[test]
    fn a_record_reads_as_before() {
        let text = logged("web", false);
        let fields = r#"refused web shown=web debug="web" text="web" problem=web"#;
        assert!(text.contains(fields) && text.contains("peer{name=web}"), "{text}");
    }
}
