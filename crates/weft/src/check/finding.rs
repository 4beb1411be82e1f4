//! Findings of a check, and their place among the problems of the file.

use weft_config::{Examined, KeyAt};

/// Purpose of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The operator wants advice. The program may be running already, or have no certificates yet.
    Advice,
    /// The operator wants advice about a file that somebody else may have written, and does not want to tell what
    /// variables of the environment hold: a host that such a variable names is not looked up, because the question
    /// would tell DNS servers.
    AdviceOnForeign,
    /// The program is to be started now.
    Start,
}

impl Purpose {
    /// Whether the program is not to be started now.
    pub(super) fn is_advice(self) -> bool {
        self != Self::Start
    }
}

/// A problem of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) key: String,
    pub(super) message: String,
    is_warning: bool,
}

impl Finding {
    pub(super) fn mistake(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), is_warning: false }
    }

    pub(super) fn warning(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self { is_warning: true, ..Self::mistake(key, message) }
    }

    pub(super) fn is_mistake(&self) -> bool {
        !self.is_warning
    }
}

/// Adds findings to the problems of the file itself.
pub(super) fn add<T>(examined: &mut Examined<T>, findings: Vec<Finding>) {
    for Finding { key, message, is_warning } in findings {
        let about = examined.about(&key, message);
        // A problem that the file itself shows is not reported a second time.
        let told = |one: &KeyAt| one.key == about.key && one.line == about.line;
        if is_warning {
            examined.warnings.push(about);
        } else if !examined.problems.iter().any(|one| told(one) && one.message == about.message) {
            examined.problems.push(about);
        }
    }
    examined.sort();
}
