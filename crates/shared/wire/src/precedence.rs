//! The precedence of a terminator, on all wires and in configs: its numbers and its words.

use crate::ctrl::TerminatorPrecedence;

impl TerminatorPrecedence {
    /// The number on the wire of SDKs.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Required => 1,
            Self::Failed => 2,
        }
    }

    /// The precedence of a number on the wire of SDKs; an unknown number is the default precedence.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        Self::try_from(i32::from(number)).unwrap_or_default()
    }

    /// The word for the precedence in configs and APIs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Required => "required",
            Self::Failed => "failed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_stand_for_the_same() {
        use TerminatorPrecedence::{Default, Failed, Required};
        for precedence in [Default, Required, Failed] {
            assert_eq!(TerminatorPrecedence::from_number(precedence.number()), precedence);
            assert_eq!(precedence as u8, precedence.number());
            let word = serde_json::Value::from(precedence.name());
            assert_eq!(serde_json::from_value::<TerminatorPrecedence>(word).unwrap(), precedence);
        }
        assert_eq!(TerminatorPrecedence::from_number(9), Default);
    }
}
