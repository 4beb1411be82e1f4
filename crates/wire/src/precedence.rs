//! Which terminators are taken first: one set of values for all wires and for configs.

use serde::Deserialize;

use crate::ctrl::TerminatorPrecedence;

/// How a terminator is preferred over others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precedence {
    /// As any other.
    #[default]
    Default,
    /// Before all others.
    Required,
    /// Only when nothing else is left.
    Failed,
}

impl Precedence {
    /// The number on the wire of SDKs.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Required => 1,
            Self::Failed => 2,
        }
    }

    /// The value of a number; unknown ones are the default.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Required,
            2 => Self::Failed,
            _ => Self::Default,
        }
    }

    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Required => "required",
            Self::Failed => "failed",
        }
    }
}

impl From<Precedence> for TerminatorPrecedence {
    fn from(precedence: Precedence) -> Self {
        match precedence {
            Precedence::Default => Self::Default,
            Precedence::Required => Self::Required,
            Precedence::Failed => Self::Failed,
        }
    }
}

impl From<TerminatorPrecedence> for Precedence {
    fn from(precedence: TerminatorPrecedence) -> Self {
        match precedence {
            TerminatorPrecedence::Default => Self::Default,
            TerminatorPrecedence::Required => Self::Required,
            TerminatorPrecedence::Failed => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_stand_for_the_same() {
        for precedence in [Precedence::Default, Precedence::Required, Precedence::Failed] {
            assert_eq!(Precedence::from_number(precedence.number()), precedence);
            assert_eq!(TerminatorPrecedence::from(precedence) as u8, precedence.number());
            assert_eq!(Precedence::from(TerminatorPrecedence::from(precedence)), precedence);
            let word = serde_json::Value::from(precedence.name());
            assert_eq!(serde_json::from_value::<Precedence>(word).unwrap(), precedence);
        }
        assert_eq!(Precedence::from_number(9), Precedence::Default);
    }
}
