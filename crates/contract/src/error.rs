//! Errors on the wire: codes, their status and message, and the shape of the body.
//!
//! Clients compare codes and statuses; messages are for people (docs/protocol/management-api.md
//! 3.1, 3.2; docs/protocol/auth.md 1.4).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::envelope::{Empty, Meta};
use crate::json::{JsonMap, null_default};

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $code:literal $status:literal $message:literal,)+) => {
        /// The kind of an error, in one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The HTTP status of answers with this code.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// The message for people.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$variant => $message,)+ }
            }

            /// Reads a code; `None` for an unknown word.
            #[must_use]
            pub fn parse(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

codes! {
    /// The resource is not there, or not for this caller.
    NotFound = "NOT_FOUND" 404 "The resource requested was not found or is no longer available",
    /// An unexpected error; its text is in the cause.
    Unhandled = "UNHANDLED" 500 "An unhandled error occurred",
    /// The body, a parameter or a field has an invalid value.
    CouldNotValidate = "COULD_NOT_VALIDATE" 400
        "The supplied request contains an invalid document or no valid accept content were available, see cause",
    /// The body is not JSON, or not of a known shape.
    CouldNotParseBody = "COULD_NOT_PARSE_BODY" 400 "The body of the request could not be parsed",
    /// The connection failed while the body was read.
    CouldNotReadBody = "COULD_NOT_READ_BODY" 500 "The body of the request could not be read",
    /// The body is over the limit.
    RequestEntityTooLarge = "REQUEST_ENTITY_TOO_LARGE" 413 "The body of the request is too large",
    /// The media type of the body is not one this operation takes.
    InvalidContentType = "INVALID_CONTENT_TYPE" 400
        "The content type of the request is not supported by this operation",
    /// Legacy enrollment whose Accept header excludes JSON.
    UnsupportedMedia = "UNSUPPORTED_MEDIA" 415 "The media type is not supported",
    /// OIDC login with a body of another type.
    UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE" 415 "The media type is not supported",
    /// A text is not a UUID.
    InvalidUuid = "INVALID_UUID" 400 "The supplied UUID is invalid",
    /// The path exists, the method on it does not.
    MethodNotAllowed = "METHOD_NOT_ALLOWED" 405
        "The requested method can not be used on this resource",
    /// A field has a value that some operations refuse with this code.
    InvalidField = "INVALID_FIELD" 400 "The value of a field is not accepted",
    /// The filter cannot be understood.
    InvalidFilter = "INVALID_FILTER" 400 "The filter query supplied is invalid",
    /// A field cannot be sorted by.
    InvalidSortIdentifier = "INVALID_SORT_IDENTIFIER" 400 "The sort order supplied is invalid",
    /// Limit or offset is not a number.
    InvalidPagination = "INVALID_PAGINATION" 400 "The pagination properties supplied are invalid",
    /// The request has no session, or its session lacks a permission.
    Unauthorized = "UNAUTHORIZED" 401
        "The request could not be completed. The session is not authorized or the credentials are invalid",
    /// A login failed.
    InvalidAuth = "INVALID_AUTH" 401 "The authentication request failed",
    /// The login method is unknown.
    InvalidAuthMethod = "INVALID_AUTH_METHOD" 400 "The supplied authentication method is invalid",
    /// An entity that must stay: the default administrator, an entity that belongs to a router, a
    /// system entity.
    EntityCanNotBeDeleted = "ENTITY_CAN_NOT_BE_DELETED" 400 "The entity requested for delete can not be deleted",
    /// A system entity was to be changed.
    EntityCanNotBeUpdated = "ENTITY_CAN_NOT_BE_UPDATED" 400 "The entity requested for update can not be updated",
    /// Other entities still name the entity.
    CanNotDeleteReferencedEntity = "CAN_NOT_DELETE_REFERENCED_ENTITY" 409
        "The entity requested for delete can not be deleted, others refer to it",
    /// A body names an entity that does not exist.
    ReferencedEntityNotFound = "REFERENCED_ENTITY_NOT_FOUND" 400 "The entity referred to does not exist",
    /// An enrollment of that method is outstanding.
    EnrollmentExists = "ENROLLMENT_EXISTS" 409 "An enrollment of the specified method already exists",
    /// The enrollment has expired.
    EnrollmentExpired = "ENROLLMENT_EXPIRED" 400 "The enrollment has expired",
    /// The identity of that certificate has been enrolled.
    EnrollmentIdentityAlreadyEnrolled = "ENROLLMENT_IDENTITY_ALREADY_ENROLLED" 409
        "The identity is already enrolled",
    /// The CA may not be used to enroll.
    EnrollmentCaNotValid = "ENROLLMENT_CA_NOT_VALID" 400 "The CA of the enrollment is not valid",
    /// No CA may be used to enroll.
    EnrollmentNoValidCas = "ENROLLMENT_NO_VALID_CAS" 400 "No valid CA exists for this enrollment",
    /// The enrollment does not exist.
    InvalidEnrollmentToken = "INVALID_ENROLLMENT_TOKEN" 400 "The supplied token is not valid",
    /// The enrollment is of another method.
    InvalidEnrollMethod = "INVALID_ENROLL_METHOD" 400 "The supplied enrollment method is invalid",
    /// A certificate signing request is missing or broken.
    MissingOrInvalidCsr = "MISSING_OR_INVALID_CSR" 400
        "The certificate signing request is missing or could not be parsed",
    /// The signer does not allow this enrollment.
    InvalidEnrollmentNotAllowed = "INVALID_ENROLLMENT_NOT_ALLOWED" 409 "The enrollment is not allowed",
    /// The enrollment was completed before.
    InvalidEnrollmentAlreadyEnrolled = "INVALID_ENROLLMENT_ALREADY_ENROLLED" 410
        "The enrollment has been completed already",
    /// A certificate signing request is refused.
    CouldNotProcessCsr = "COULD_NOT_PROCESS_CSR" 400 "The supplied CSR could not be processed",
    /// The common name of a router's request is not the id of the router.
    EdgeRouterEnrollCommonNameInvalid = "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID" 400
        "The edge router CSR must have the id of the edge router as its common name",
    /// The bytes are not a certificate.
    CouldNotParseX509FromDer = "COULD_NOT_PARSE_x509_FROM_DER" 400 "The x509 certificate could not be parsed",
    /// No CA vouches for the certificate.
    CertFailedValidation = "CERT_FAILED_VALIDATION" 400 "The supplied certificate failed to validate against any known CA",
    /// Another authenticator has the certificate.
    CertInUse = "CERT_IN_USE" 409 "The supplied certificate is already in use",
    /// The CA has been verified before.
    CaAlreadyVerified = "CA_ALREADY_VERIFIED" 409 "The CA has been verified already",
    /// A PEM block of another type than a certificate.
    ExpectedPemCertificate = "EXPECTED_PEM_CERTIFICATE" 400 "A PEM encoded certificate was expected",
    /// A PEM block holds no DER.
    CouldNotParseDerBlock = "COULD_NOT_PARSE_DER_BLOCK" 400 "The DER block could not be parsed",
    /// The text is not PEM.
    CouldNotParsePemBlock = "COULD_NOT_PARSE_PEM_BLOCK" 400 "The PEM block could not be parsed",
    /// The common name is not the verification token.
    InvalidCommonName = "INVALID_COMMON_NAME" 400 "The common name of the certificate is not the verification token",
    /// The CA in question did not sign the certificate.
    CertificateFailedValidation = "CERTIFICATE_FAILED_VALIDATION" 400 "The certificate is not signed by the CA",
    /// A CA certificate was expected.
    CertificateIsNotCa = "CERTIFICATE_IS_NOT_CA" 400 "The certificate is not a CA",
    /// Exactly one certificate was expected.
    InvalidCertPem = "INVALID_CERT_PEM" 400 "The PEM must hold exactly one certificate",
    /// The certificate is not the one that was issued.
    InvalidClientCert = "INVALID_CLIENT_CERT" 400 "The supplied client certificate is invalid",
    /// Members of an authenticator do not fit its method.
    InvalidAuthenticatorProperties = "INVALID_AUTHENTICATOR_PROPERTIES" 400
        "The properties of the authenticator are invalid",
    /// The authenticator is of another kind than the request is for.
    CanNotUpdateAuthenticator = "CAN_NOT_UPDATE_AUTHENTICATOR" 409
        "The authenticator can not be updated in this way",
    /// The router is of another kind than the request is for.
    CanNotUpdateRouter = "CAN_NOT_UPDATE_ROUTER" 409 "The router can not be updated in this way",
    /// The identity has an authenticator of the method already, and may have one.
    MaxAuthenticatorMethodsReached = "MAX_AUTHENTICATOR_METHODS_REACHED" 409
        "The identity has an authenticator of this method already",
    /// Re-enrolling a router failed.
    FailedErReenrollment = "FAILED_ER_REENROLLMENT" 500 "The edge router could not be re-enrolled",
    /// The certificate lacks the claim that names its identity.
    MissingCertClaim = "MISSING_CERT_CLAIM" 400 "The certificate lacks the expected claim",
    /// The identity has MFA already.
    MfaExists = "MFA_EXISTS" 409 "The identity is enrolled in MFA already",
    /// The enrollment in MFA was not begun.
    MfaEnrollmentNotStarted = "MFA_ENROLLMENT_NOT_STARTED" 404 "The MFA enrollment was not started",
    /// The identity has no MFA.
    MfaNotEnrolled = "MFA_NOT_ENROLLED" 409 "The identity is not enrolled in MFA",
    /// The code of a second factor is wrong.
    MfaInvalidToken = "MFA_INVALID_TOKEN" 400 "The code is invalid",
    /// The operation needs a bearer session.
    InvalidBackingTokenType = "INVALID_BACKING_TOKEN_TYPE" 400 "The session is not backed by a token of the right type",
    /// The client fails posture checks.
    InvalidPosture = "INVALID_POSTURE" 409 "The posture checks of the service are not passed",
    /// No router is assigned to both the caller and the service.
    NoEdgeRoutersAvailable = "NO_EDGE_ROUTERS_AVAILABLE" 400
        "No edge routers are assigned and online to handle the requested connection",
    /// The plan of a document differs from the one that the caller expects.
    PlanHasChanged = "PLAN_HAS_CHANGED" 409 "The network has changed since the plan was made",
    /// Once a minute, one at a time.
    RateLimited = "RATE_LIMITED" 429 "The operation is rate limited, try again later",
    /// The queues of the controller are full.
    ServerTooManyRequests = "SERVER_TOO_MANY_REQUESTS" 429 "Too many requests to process, try again later",
    /// A write was given up on: it may have been made, or be made yet.
    OutcomeUnknown = "OUTCOME_UNKNOWN" 503
        "It is not known whether the change was made, look before trying again",
    /// The operation took too long.
    Timeout = "TIMEOUT" 503 "The request timed out",
    /// The controller cannot write now.
    ClusterNoLeader = "CLUSTER_NO_LEADER" 503 "The cluster has no leader",
    /// A cluster operation on a single controller.
    ServerNotRunningInHaMode = "SERVER_NOT_RUNNING_IN_HA_MODE" 400 "The controller is not part of a cluster",
    /// The leadership was not transferred.
    TransferLeadershipError = "TRANSFER_LEADERSHIP_ERROR" 500 "The leadership could not be transferred",
}

/// The whole answer of a request that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorEnvelope {
    /// The error.
    pub error: ErrorBody,
    /// The versions.
    #[serde(default, deserialize_with = "null_default")]
    pub meta: Meta,
    /// An empty object.
    #[serde(default, deserialize_with = "null_default")]
    pub data: Empty,
}

impl ErrorEnvelope {
    /// Makes the answer for one error.
    #[must_use]
    pub fn new(error: ErrorBody) -> Self {
        Self { error, meta: Meta::versions(), data: Empty {} }
    }
}

/// An error: its code, its message and its cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorBody {
    /// An [`ErrorCode`], or a word of another controller.
    #[serde(deserialize_with = "null_default")]
    pub code: String,
    /// The message for a person.
    #[serde(deserialize_with = "null_default")]
    pub message: String,
    /// The id of the request, which is also in the server's log.
    #[serde(deserialize_with = "null_default")]
    pub request_id: String,
    /// The cause of the error.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "cause")]
    pub cause: Option<Box<Cause>>,
    /// The cause, when it is only a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause_message: Option<String>,
    /// Values that the message mentions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<JsonMap>,
    /// Further data about the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonMap>,
}

impl ErrorBody {
    /// Makes the error of a code, with the message of the code.
    #[must_use]
    pub fn new(code: ErrorCode, request_id: impl Into<String>) -> Self {
        Self {
            code: code.as_str().to_owned(),
            message: code.message().to_owned(),
            request_id: request_id.into(),
            ..Self::default()
        }
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }
}

/// The cause of an error: a field, or another error; one object for both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cause {
    /// The field that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The problem with the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The value of the field; usually its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The code of the error beneath.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The message of the error beneath.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The request of the error beneath.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Further data about the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The cause of this cause.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "cause")]
    pub cause: Option<Box<Cause>>,
}

impl Cause {
    /// Makes the cause for a field with an invalid value.
    #[must_use]
    pub fn field(field: &str, reason: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            field: Some(field.to_owned()),
            reason: Some(reason.into()),
            value: Some(Value::String(value.into())),
            ..Self::default()
        }
    }

    /// Makes the cause from another error.
    #[must_use]
    pub fn error(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code: Some(code.as_str().to_owned()),
            message: Some(message.into()),
            ..Self::default()
        }
    }

    /// The cause in one line, which a command prints behind the message.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        match (&self.field, &self.reason) {
            (Some(field), Some(reason)) => parts.push(format!("{field}: {reason}")),
            (Some(text), None) | (None, Some(text)) => parts.push(text.clone()),
            (None, None) => {}
        }
        if let Some(message) = self.message.as_ref().or(self.code.as_ref()) {
            parts.push(message.clone());
        }
        if let Some(value) = &self.value
            && self.field.is_some()
        {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !text.is_empty() {
                parts.push(format!("(value `{text}`)"));
            }
        }
        if let Some(cause) = &self.cause {
            parts.push(format!("because {}", cause.summary()));
        }
        parts.join(" ")
    }
}

/// Reads a cause; some servers send a text instead of an object.
fn cause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Cause>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Object(Box<Cause>),
        Text(String),
        Other(Value),
    }
    Ok(match Option::<Written>::deserialize(deserializer)? {
        Some(Written::Object(cause)) => Some(cause),
        Some(Written::Text(message)) => {
            Some(Box::new(Cause { message: Some(message), ..Cause::default() }))
        }
        Some(Written::Other(value)) => {
            Some(Box::new(Cause { data: Some(value), ..Cause::default() }))
        }
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn codes_are_unique_and_read_back() {
        let words: HashSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
            assert!((400..600).contains(&code.status()), "{code:?}");
        }
    }

    #[test]
    fn writes_the_documented_shape() {
        let error = ErrorBody::new(ErrorCode::CouldNotValidate, "xHkB3y9wl").because(Cause::field(
            "name",
            "name must be unique",
            "svc1",
        ));
        assert_eq!(
            serde_json::to_value(ErrorEnvelope::new(error)).unwrap(),
            json!({"error": {"code": "COULD_NOT_VALIDATE",
                "message": "The supplied request contains an invalid document or no valid accept content were available, see cause",
                "requestId": "xHkB3y9wl",
                "cause": {"field": "name", "reason": "name must be unique", "value": "svc1"}},
                "meta": {"apiEnrollmentVersion": "0.0.1", "apiVersion": "0.0.1"}, "data": {}})
        );
    }

    #[test]
    fn reads_odd_errors() {
        let read: ErrorEnvelope = serde_json::from_value(json!({"error": {"code": "X",
            "message": "m", "cause": "because so", "args": {"urlVars": {}}}, "meta": null}))
        .unwrap();
        assert_eq!(read.error.cause.unwrap().summary(), "because so");
        let read: ErrorBody = serde_json::from_value(json!({"code": "X", "cause": null})).unwrap();
        assert_eq!(read.cause, None);
        let read: ErrorBody = serde_json::from_value(
            json!({"cause": {"code": "UNHANDLED", "message": "gone", "cause": {"field": "a",
                "reason": "b", "value": 3}}}),
        )
        .unwrap();
        assert_eq!(read.cause.unwrap().summary(), "gone because a: b (value `3`)");
    }
}
