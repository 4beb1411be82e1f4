//! Enumerations that are stored by number and shown by text.
//!
//! `prost` derives the numbers, which never change and are never used again; `strum` derives the
//! texts from the names of the values.

use std::str::FromStr;

use prost::encoding::{WireType, encode_varint};
use strum::VariantNames;

use crate::row::{RowError, Value, take_number};

/// An enumeration that is stored by number and shown by text; the first value is the default.
pub trait Choice:
    Copy + Default + PartialEq + Into<i32> + TryFrom<i32> + Into<&'static str> + FromStr + VariantNames
{
    /// The text of every value, in order.
    const TEXTS: &'static [&'static str] = Self::VARIANTS;

    /// Numbers that filters may say in place of texts.
    const NUMBERS: &'static [(i64, &'static str)] = &[];

    /// The text of the value in the APIs.
    fn as_str(self) -> &'static str {
        self.into()
    }

    /// The value with exactly this text.
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl<T: Choice> Value for T {
    const WIRE: WireType = WireType::Varint;

    fn put(&self, out: &mut Vec<u8>) {
        let number: i32 = (*self).into();
        encode_varint(u64::from(number.unsigned_abs()), out);
    }

    fn take(input: &mut &[u8]) -> Result<Self, RowError> {
        let number = take_number(input)?;
        let value = i32::try_from(number).ok().and_then(|number| number.try_into().ok());
        value.ok_or_else(|| RowError::malformed(format!("no value has the number {number}")))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};

    use super::*;
    use crate::entity::{
        ClaimLocation, ClaimMatcher, ClaimParser, ConfigTarget, EnrollmentMethod, IdentityType,
        PolicyType, PostureCheckType, Precedence, RevocationType, TargetToken, TerminatorStrategy,
    };
    use crate::{AuthorKind, ColdField, Semantic};

    /// Checks that the texts of a choice are these, and that they have the numbers from 0 on.
    fn choice<T: Choice + Debug + Display>(texts: &str) {
        let texts: Vec<&str> = texts.split_whitespace().collect();
        assert_eq!(T::TEXTS, texts);
        for (number, text) in texts.iter().copied().enumerate() {
            let value = T::parse(text).unwrap();
            assert_eq!((value.as_str(), value.to_string().as_str()), (text, text));
            let mut row = Vec::new();
            value.put(&mut row);
            assert_eq!(row, [number as u8], "{text}");
            assert_eq!(T::take(&mut row.as_slice()).unwrap(), value);
        }
        assert_eq!(T::default().as_str(), texts[0]);
        let unknown = T::take(&mut [texts.len() as u8].as_slice()).unwrap_err();
        assert!(unknown.to_string().contains(&texts.len().to_string()), "{unknown}");
        assert_eq!((T::parse(""), T::parse("another")), (None, None));
    }

    #[test]
    fn the_texts_and_numbers_of_every_choice() {
        choice::<AuthorKind>("controller identity cert router unattributed");
        choice::<Semantic>("AllOf AnyOf");
        choice::<ColdField>("certPem jwt sdkInfo envInfo appData data tags");
        choice::<EnrollmentMethod>("ott ottca updb erott trott");
        choice::<PostureCheckType>("OS PROCESS DOMAIN MAC MFA PROCESS_MULTI");
        choice::<PolicyType>("Dial Bind");
        choice::<IdentityType>("Default User Device Service Router");
        choice::<Precedence>("default required failed");
        choice::<ClaimLocation>("COMMON_NAME SAN_URI SAN_EMAIL");
        choice::<ClaimMatcher>("ALL PREFIX SUFFIX SCHEME");
        choice::<ClaimParser>("NONE SPLIT");
        choice::<RevocationType>("JTI IDENTITY API_SESSION");
        choice::<TargetToken>("ACCESS ID");
        choice::<ConfigTarget>("service router other");
        choice::<TerminatorStrategy>("smartrouting weighted random sticky");
    }
}
