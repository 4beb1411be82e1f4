//! Scopes: what a client asks for beside an access token.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest parameter `scope`, in bytes.
pub const MAX_SCOPE: usize = 1024;

/// A set of the scopes that exist. Others are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scopes {
    /// `openid`: an ID token.
    pub openid: bool,
    /// `offline_access`: a refresh token.
    pub offline_access: bool,
}

impl Scopes {
    /// The names of all scopes.
    pub const ALL: [&str; 2] = ["openid", "offline_access"];

    /// The scopes in a list that is separated by spaces.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::of(text.split(' '))
    }

    /// The scopes with these names, such as those of a token.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut scopes = Self::default();
        for name in names {
            scopes.openid |= name == Self::ALL[0];
            scopes.offline_access |= name == Self::ALL[1];
        }
        scopes
    }

    /// True without any.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// True if all of these are in `other`.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.openid <= other.openid && self.offline_access <= other.offline_access
    }

    /// The names.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let held = [self.openid, self.offline_access];
        let named = Self::ALL.iter().zip(held).filter(|(_, held)| *held);
        named.map(|(name, _)| (*name).to_owned()).collect()
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_scopes_are_dropped() {
        let scopes = Scopes::parse("offline_access email openid openid  ");
        assert_eq!(scopes.to_string(), "openid offline_access");
        assert_eq!(Scopes::parse("OpenID profile"), Scopes::default());
        assert!(Scopes::parse("").is_empty());
        let openid = Scopes::parse("openid");
        assert!(openid.is_within(scopes) && !scopes.is_within(openid));
        assert_eq!(Scopes::of(scopes.names().iter().map(String::as_str)), scopes);
    }
}
