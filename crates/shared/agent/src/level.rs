//! The levels of a log, with the numbers and names that requests and messages give them.

use std::str::FromStr;

/// The level of a log, from the fewest records to the most. The number is the one on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Records of a panic only.
    Panic = 0,
    /// Records that end the program.
    Fatal = 1,
    /// Errors.
    Error = 2,
    /// Warnings.
    Warn = 3,
    /// What a program does.
    Info = 4,
    /// How it does that.
    Debug = 5,
    /// Every step.
    Trace = 6,
}

impl Level {
    /// All levels, by their number.
    pub const ALL: [Self; 7] =
        [Self::Panic, Self::Fatal, Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];

    /// The level of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Fatal => "fatal",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        let name = if name == "warning" { "warn" } else { &name };
        Self::ALL
            .into_iter()
            .find(|level| level.name() == name)
            .ok_or_else(|| "a level is panic, fatal, error, warn, info, debug or trace".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_those_of_the_wire() {
        for (number, name) in
            ["panic", "fatal", "error", "warn", "info", "debug", "trace"].into_iter().enumerate()
        {
            let level = Level::from_number(number as u8).unwrap();
            assert_eq!((level.number(), level.name()), (number as u8, name));
            assert_eq!(name.parse(), Ok(level));
        }
        assert_eq!(Level::from_number(7), None);
        assert_eq!(" Warning ".parse(), Ok(Level::Warn));
        assert!("loud".parse::<Level>().is_err());
    }
}
