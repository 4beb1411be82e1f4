//! Enumerations of the APIs: each value is a word.
//!
//! `strum` and `serde` derive the words from the names of the values, in the same style for both. A
//! word that its name does not give stands before the value.

use std::str::FromStr;

use strum::VariantNames;

use crate::shape::{FieldType, Plain};

/// An enumeration whose values are words of the APIs.
pub trait Word: Copy + FromStr + Into<&'static str> + VariantNames {
    /// Every word, in the order of the values.
    const WORDS: &'static [&'static str] = Self::VARIANTS;

    /// The word of the value.
    #[must_use]
    fn as_str(self) -> &'static str {
        self.into()
    }

    /// The value of a word that is spelled exactly.
    #[must_use]
    fn parse(word: &str) -> Option<Self> {
        word.parse().ok()
    }
}

impl<T: Word> Plain for T {
    const TYPE: FieldType = FieldType::Choice(T::WORDS);
}

#[cfg(test)]
mod tests {
    use std::fmt::{Debug, Display};

    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::entity::{DialBind, PrecedenceWord, Semantic};
    use crate::error::ErrorCode;
    use crate::paths::Api;
    use crate::permission::{Action, Subject};
    use crate::resource::ca::{ClaimLocation, ClaimMatcher, ClaimParser};
    use crate::resource::config::Target;
    use crate::resource::external_jwt_signer::TargetToken;
    use crate::resource::identity::{ConnectionStatus, IdentityType};
    use crate::resource::posture_check::{OsType, PostureCheckType};
    use crate::resource::revocation::RevocationType;
    use crate::resource::token_key::KeyStage;
    use crate::resource::why_path::Verdict;

    /// Checks the words of an enumeration, and that they are read and written; the first is the
    /// default.
    fn words<T: Word + Debug + Default + Display + PartialEq>(words: &str) {
        let words: Vec<&str> = words.split_whitespace().collect();
        assert_eq!(T::WORDS, words);
        for word in words.iter().copied() {
            let value = T::parse(word).unwrap();
            assert_eq!((value.as_str(), value.to_string().as_str()), (word, word));
        }
        assert_eq!(T::default().as_str(), words[0]);
        assert_eq!((T::parse(""), T::parse("another")), (None, None));
    }

    /// Like [`words`], also in JSON.
    fn json<T>(list: &str)
    where
        T: Word + Debug + Default + Display + PartialEq + Serialize + DeserializeOwned,
    {
        words::<T>(list);
        for word in T::WORDS {
            let value: T = serde_json::from_value((*word).into()).unwrap();
            assert_eq!(Some(value), T::parse(word));
            assert_eq!(serde_json::to_value(value).unwrap(), *word);
        }
    }

    #[test]
    fn the_words_of_every_enumeration() {
        json::<ErrorCode>(
            "NOT_FOUND UNHANDLED COULD_NOT_VALIDATE COULD_NOT_PARSE_BODY COULD_NOT_READ_BODY \
             REQUEST_ENTITY_TOO_LARGE INVALID_CONTENT_TYPE UNSUPPORTED_MEDIA \
             UNSUPPORTED_MEDIA_TYPE INVALID_UUID METHOD_NOT_ALLOWED INVALID_FIELD INVALID_FILTER \
             INVALID_SORT_IDENTIFIER INVALID_PAGINATION UNAUTHORIZED INVALID_AUTH \
             INVALID_AUTH_METHOD ENTITY_CAN_NOT_BE_DELETED ENTITY_CAN_NOT_BE_UPDATED \
             CAN_NOT_DELETE_REFERENCED_ENTITY REFERENCED_ENTITY_NOT_FOUND ENROLLMENT_EXISTS \
             ENROLLMENT_EXPIRED ENROLLMENT_IDENTITY_ALREADY_ENROLLED ENROLLMENT_CA_NOT_VALID \
             ENROLLMENT_NO_VALID_CAS INVALID_ENROLLMENT_TOKEN INVALID_ENROLL_METHOD \
             MISSING_OR_INVALID_CSR INVALID_ENROLLMENT_NOT_ALLOWED \
             INVALID_ENROLLMENT_ALREADY_ENROLLED COULD_NOT_PROCESS_CSR \
             EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID COULD_NOT_PARSE_x509_FROM_DER \
             CERT_FAILED_VALIDATION CERT_IN_USE CA_ALREADY_VERIFIED EXPECTED_PEM_CERTIFICATE \
             COULD_NOT_PARSE_DER_BLOCK COULD_NOT_PARSE_PEM_BLOCK INVALID_COMMON_NAME \
             CERTIFICATE_FAILED_VALIDATION CERTIFICATE_IS_NOT_CA INVALID_CERT_PEM \
             INVALID_CLIENT_CERT INVALID_AUTHENTICATOR_PROPERTIES CAN_NOT_UPDATE_AUTHENTICATOR \
             CAN_NOT_UPDATE_ROUTER MAX_AUTHENTICATOR_METHODS_REACHED FAILED_ER_REENROLLMENT \
             MISSING_CERT_CLAIM MFA_EXISTS MFA_ENROLLMENT_NOT_STARTED MFA_NOT_ENROLLED \
             MFA_INVALID_TOKEN INVALID_BACKING_TOKEN_TYPE INVALID_POSTURE \
             NO_EDGE_ROUTERS_AVAILABLE PLAN_HAS_CHANGED RATE_LIMITED SERVER_TOO_MANY_REQUESTS \
             OUTCOME_UNKNOWN TIMEOUT CLUSTER_NO_LEADER SERVER_NOT_RUNNING_IN_HA_MODE \
             TRANSFER_LEADERSHIP_ERROR",
        );
        words::<Api>("edge-client edge-management edge-oidc fabric health-checks metrics weft");
        json::<PostureCheckType>("OS PROCESS DOMAIN MAC MFA PROCESS_MULTI");
        json::<OsType>("Windows WindowsServer Android iOS Linux macOS");
        json::<IdentityType>("Default User Device Service Router");
        json::<ConnectionStatus>("unknown online offline");
        json::<ClaimLocation>("COMMON_NAME SAN_URI SAN_EMAIL");
        json::<ClaimMatcher>("ALL PREFIX SUFFIX SCHEME");
        json::<ClaimParser>("NONE SPLIT");
        json::<TargetToken>("ACCESS ID");
        json::<Verdict>("chosen chance dearer precedence noPath offline unfounded otherInstance");
        json::<RevocationType>("JTI IDENTITY API_SESSION");
        json::<KeyStage>("ahead signing former gone stolen");
        json::<Target>("service router other");
        json::<Semantic>("AllOf AnyOf");
        json::<DialBind>("Dial Bind Invalid");
        json::<PrecedenceWord>("default required failed");
        words::<Action>("read create update delete");
        words::<Subject>(
            "auth-policy ca config config-type edge-router-policy enrollment external-jwt-signer \
             identity posture-check router service service-edge-router-policy service-policy \
             terminator ops controllers",
        );
    }
}
