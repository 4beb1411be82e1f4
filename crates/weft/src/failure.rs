//! How a command fails: what is printed, and the exit status.

use std::{fmt, process::ExitCode};

/// Why a command did not do what was asked, in one sentence for people.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Something went wrong (status 1).
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), status: 1 }
    }

    /// The command line made no sense (status 2).
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), status: 2 }
    }

    /// There is no login, or it has ended (status 3).
    pub(crate) fn not_logged_in(message: impl fmt::Display) -> Self {
        Self { message: message.to_string(), status: 3 }
    }

    /// Ctrl-C or a termination signal ended it (status 130).
    pub(crate) fn interrupted() -> Self {
        Self { message: "interrupted".to_owned(), status: 130 }
    }

    /// The same with a word on what was being done in front.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// Prints the message and gives the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        eprintln!("weft: {}", self.message);
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors repeat their cause already.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

impl From<weft_client::Error> for Failure {
    fn from(error: weft_client::Error) -> Self {
        if error.is_unauthorized() {
            return Self::not_logged_in(format!(
                "{error}; the login may have ended: `weft login` begins a new one"
            ));
        }
        Self::new(chain(&error))
    }
}

impl From<weft_identity::Error> for Failure {
    fn from(error: weft_identity::Error) -> Self {
        Self::new(chain(&error))
    }
}

impl From<weft_config::Error> for Failure {
    fn from(error: weft_config::Error) -> Self {
        Self::new(chain(&error))
    }
}
