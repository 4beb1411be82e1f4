//! Failures of commands: the message and the exit status.

use std::fmt;
use std::process::ExitCode;

pub(crate) use weft_client::chain;
use weft_client::{ApiError, FactorProblem};
use weft_contract::ErrorBody;

use crate::output::{counted, note, printable};

/// Exit statuses; `weft --help` lists them.
mod status {
    pub(super) const FAILED: u8 = 1;
    pub(super) const USAGE: u8 = 2;
    pub(super) const NOT_ALLOWED: u8 = 3;
    pub(super) const NOT_FOUND: u8 = 4;
    pub(super) const REFUSED: u8 = 5;
    pub(super) const UNREACHABLE: u8 = 6;
    pub(super) const DIFFERENT: u8 = 8;
    pub(super) const INTERRUPTED: u8 = 130;
}

/// The result of a command, or of a part of it.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed: one sentence for people, details, and the exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    /// Details, one line each.
    details: Vec<String>,
    status: u8,
    /// True if the same attempt may succeed later.
    may_pass: bool,
}

impl Failure {
    fn of(message: impl fmt::Display, status: u8) -> Self {
        Self { message: message.to_string(), details: Vec::new(), status, may_pass: false }
    }

    /// A failure (status 1).
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        Self::of(message, status::FAILED)
    }

    /// A failure that an error and its causes explain (status 1).
    pub(crate) fn caused_by(error: &dyn std::error::Error) -> Self {
        Self::new(chain(error))
    }

    /// Wrong usage (status 2).
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::of(message, status::USAGE)
    }

    /// There is no login, it has ended, or it lacks the permission (status 3).
    pub(crate) fn not_logged_in(message: impl fmt::Display) -> Self {
        Self::of(message, status::NOT_ALLOWED)
    }

    /// A second factor was not given (status 3), with advice.
    pub(crate) fn of_factor(message: impl fmt::Display, problem: &FactorProblem) -> Self {
        let failure = Self::not_logged_in(message);
        match problem {
            FactorProblem::NoCode => failure.and(
                "hint: give --code or set WEFT_CODE; at a terminal the command asks for a code; for a \
                 command that nobody watches: --totp-secret-file or WEFT_TOTP_SECRET_FILE",
            ),
            FactorProblem::Refused => failure.and(
                "hint: wait for the next code; the clocks of this device and of the controller may \
                 differ",
            ),
            _ => failure,
        }
    }

    /// The named entity does not exist, or the name is ambiguous (status 4).
    pub(crate) fn not_found(message: impl fmt::Display) -> Self {
        Self::of(message, status::NOT_FOUND)
    }

    /// The controller refused, or a file is not acceptable (status 5).
    pub(crate) fn refused(message: impl fmt::Display) -> Self {
        Self::of(message, status::REFUSED)
    }

    /// The controller or a router cannot be reached or is busy (status 6).
    pub(crate) fn unreachable(message: impl fmt::Display) -> Self {
        Self::of(message, status::UNREACHABLE)
    }

    /// There are differences, and the command was asked to fail then (status 8).
    pub(crate) fn different(message: impl fmt::Display) -> Self {
        Self::of(message, status::DIFFERENT)
    }

    /// Ctrl-C or a termination signal ended the command (status 130).
    pub(crate) fn interrupted() -> Self {
        Self::of("interrupted", status::INTERRUPTED)
    }

    /// True if the controller could not be reached, or not answer: the same attempt may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        self.may_pass
    }

    /// True if what was asked for is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.status == status::NOT_FOUND
    }

    /// The failure, without a message if the command was interrupted: for commands that run until
    /// somebody ends them.
    pub(crate) fn unsaid_if_interrupted(self) -> Self {
        match self.status {
            status::INTERRUPTED => Self { message: String::new(), ..self },
            _ => self,
        }
    }

    /// The failure, with the operation in front.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// The failure, with one more detail.
    #[must_use]
    pub(crate) fn and(mut self, detail: impl fmt::Display) -> Self {
        self.details.push(detail.to_string());
        self
    }

    /// Prints the message and returns the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        // Text of peers must not look like a line of weft: further lines are indented.
        let shown = |text: &str| printable::lines(text).replace('\n', "\n  ");
        if !self.message.is_empty() {
            note(format_args!("weft: {}", shown(&self.message)));
        }
        for detail in &self.details {
            note(format_args!("  {}", shown(detail)));
        }
        ExitCode::from(self.status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<weft_client::Error> for Failure {
    fn from(error: weft_client::Error) -> Self {
        if let weft_client::Error::SecondFactor(problem) = &error {
            return Self::of_factor(&error, problem);
        }
        let failure = match error.api() {
            Some(refusal) => Self::from(refusal),
            None if matches!(
                error,
                weft_client::Error::Address { .. } | weft_client::Error::LoginName(_)
            ) =>
            {
                Self::usage(&error)
            }
            // The file with the token is not acceptable.
            None if matches!(error, weft_client::Error::Token(_)) => Self::refused(&error),
            None if error.is_temporary() => Self::of(chain(&error), status::UNREACHABLE),
            None => Self::new(chain(&error)),
        };
        Self { may_pass: error.is_temporary(), ..failure }
    }
}

/// The controller's refusal: its cause, or else its message, with the code in brackets.
impl From<&ApiError> for Failure {
    fn from(refusal: &ApiError) -> Self {
        let body = &refusal.body;
        let status = match refusal.status {
            401 | 403 => status::NOT_ALLOWED,
            404 => status::NOT_FOUND,
            429 | 503 => status::UNREACHABLE,
            400..500 => status::REFUSED,
            _ => status::FAILED,
        };
        // Values in the message, such as names, must not begin a line.
        let mut failure = Self::of(printable::line(&refusal.to_string()), status);
        if refusal.status == 429
            && let Some(wait) = refusal.retry_after
        {
            failure.details.push(format!("wait: {} s, then try again", wait.as_secs().max(1)));
        }
        if refusal.status >= 500 && !body.request_id.is_empty() {
            let log = format!("request: {} (its id in the controller's log)", body.request_id);
            failure.details.push(printable::line(&log));
        }
        if refusal.status == 401 {
            failure.details.push(not_allowed(body).to_owned());
        }
        failure
    }
}

/// Advice about a 401.
fn not_allowed(body: &ErrorBody) -> &'static str {
    let cause = body.cause.as_ref().map(|cause| cause.summary()).unwrap_or_default();
    if cause.contains("permission") || cause.contains("administrator") {
        "hint: this login lacks the permission; `weft status` says who is logged in"
    } else {
        "hint: the login may have ended: `weft login` begins a new one"
    }
}

impl From<weft_identity::Error> for Failure {
    fn from(error: weft_identity::Error) -> Self {
        Self::new(chain(&error))
    }
}

/// A mistake in a file is wrong usage (status 2), reported with all its reasons.
impl From<weft_config::Error> for Failure {
    fn from(error: weft_config::Error) -> Self {
        match &error {
            weft_config::Error::Invalid(invalid) => {
                let mistakes = counted(invalid.problems.len(), "mistake", "mistakes");
                let text = format!("{}: {mistakes}", invalid.path.display());
                Self::usage(text).and(invalid.report())
            }
            other => Self::usage(chain(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_contract::{Cause, ErrorCode};

    use super::*;

    fn refusal(status: u16, code: ErrorCode, cause: Cause) -> Failure {
        let body = ErrorBody::new(code, "r1").because(cause);
        Failure::from(&ApiError { status, body, retry_after: None, challenge: None })
    }

    #[test]
    fn refusals_begin_with_the_cause_and_say_it_once() {
        let cause = Cause::field("name", "name must be unique", "web");
        let failure = refusal(400, ErrorCode::CouldNotValidate, cause);
        assert_eq!(failure.status, status::REFUSED);
        let text = "name must be unique (value `web`) (400 COULD_NOT_VALIDATE)";
        assert_eq!(failure.message, text);
        assert!(failure.details.is_empty(), "{:?}", failure.details);
        let other = Cause::field("port", "must be 1 to 65535", "0");
        let text = "port: must be 1 to 65535 (value `0`) (400 COULD_NOT_VALIDATE)";
        assert_eq!(refusal(400, ErrorCode::CouldNotValidate, other).message, text);
    }

    #[test]
    fn values_stay_in_their_line() {
        let cause = Cause::field("name", "bad: a\nb", "a\nb\u{1b}[2J");
        let failure = refusal(400, ErrorCode::CouldNotValidate, cause);
        assert!(failure.message.contains(r"(value `a\nb\u{1b}[2J`)"), "{}", failure.message);
        assert!(!failure.message.contains(['\n', '\u{1b}']), "{}", failure.message);
    }

    #[test]
    fn hints_tell_an_ended_login_from_a_missing_permission() {
        let ended = Cause::error(ErrorCode::Unhandled, "no valid session");
        let ended = refusal(401, ErrorCode::Unauthorized, ended);
        assert_eq!(ended.status, status::NOT_ALLOWED);
        assert!(ended.details.last().unwrap().contains("weft login"));
        let text = "the operation needs the permission service.create";
        let lacking =
            refusal(401, ErrorCode::Unauthorized, Cause::error(ErrorCode::Unhandled, text));
        assert!(lacking.details.last().unwrap().contains("lacks the permission"));
        let gone = refusal(404, ErrorCode::NotFound, Cause::default());
        assert_eq!(gone.status, status::NOT_FOUND);
    }
}
