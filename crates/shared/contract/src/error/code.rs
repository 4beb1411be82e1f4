//! The codes of errors, with the HTTP status and the message of each.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::word::Word;

/// The kind of an error, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Deserialize, Serialize, Display, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The resource does not exist, or the caller may not see it.
    #[default]
    NotFound,
    /// An unexpected error; its text is in the cause.
    Unhandled,
    /// The body, a parameter or a field has an invalid value.
    CouldNotValidate,
    /// The body is not JSON, or not of a known shape.
    CouldNotParseBody,
    /// The connection failed while the body was read.
    CouldNotReadBody,
    /// The body is larger than the limit: 1 MiB, or 16 MiB for documents of whole networks.
    RequestEntityTooLarge,
    /// The operation does not accept the media type of the body.
    InvalidContentType,
    /// Legacy enrollment whose Accept header excludes JSON.
    UnsupportedMedia,
    /// OIDC login with a body of another type.
    UnsupportedMediaType,
    /// A text is not a UUID.
    InvalidUuid,
    /// The path exists, the method on it does not.
    MethodNotAllowed,
    /// A field has a value that some operations refuse with this code.
    InvalidField,
    /// The filter cannot be understood.
    InvalidFilter,
    /// A field cannot be sorted by.
    InvalidSortIdentifier,
    /// Limit or offset is not a number.
    InvalidPagination,
    /// The request has no session, or its session lacks a permission.
    Unauthorized,
    /// A login failed.
    InvalidAuth,
    /// The login method is unknown.
    InvalidAuthMethod,
    /// The entity is the default administrator, belongs to a router, or is a system entity.
    EntityCanNotBeDeleted,
    /// A system entity was to be changed.
    EntityCanNotBeUpdated,
    /// Other entities still name the entity.
    CanNotDeleteReferencedEntity,
    /// A body names an entity that does not exist.
    ReferencedEntityNotFound,
    /// An enrollment of that method is outstanding.
    EnrollmentExists,
    /// The enrollment has expired.
    EnrollmentExpired,
    /// The identity of that certificate has been enrolled.
    EnrollmentIdentityAlreadyEnrolled,
    /// The CA may not be used to enroll.
    EnrollmentCaNotValid,
    /// No CA may be used to enroll.
    EnrollmentNoValidCas,
    /// The enrollment does not exist.
    InvalidEnrollmentToken,
    /// The enrollment is of another method.
    InvalidEnrollMethod,
    /// A certificate signing request is missing or broken.
    MissingOrInvalidCsr,
    /// The signer does not allow this enrollment.
    InvalidEnrollmentNotAllowed,
    /// The enrollment was completed before.
    InvalidEnrollmentAlreadyEnrolled,
    /// A certificate signing request is refused.
    CouldNotProcessCsr,
    /// The common name of a router's request is not the id of the router.
    EdgeRouterEnrollCommonNameInvalid,
    /// The bytes are not a certificate.
    #[serde(rename = "COULD_NOT_PARSE_x509_FROM_DER")]
    #[strum(serialize = "COULD_NOT_PARSE_x509_FROM_DER")]
    CouldNotParseX509FromDer,
    /// No CA that the controller trusts has issued the certificate.
    CertFailedValidation,
    /// Another authenticator has the certificate.
    CertInUse,
    /// The CA has been verified before.
    CaAlreadyVerified,
    /// A PEM block of another type than a certificate.
    ExpectedPemCertificate,
    /// A PEM block holds no DER.
    CouldNotParseDerBlock,
    /// The text is not PEM.
    CouldNotParsePemBlock,
    /// The common name is not the verification token.
    InvalidCommonName,
    /// The CA in question did not sign the certificate.
    CertificateFailedValidation,
    /// A CA certificate was expected.
    CertificateIsNotCa,
    /// Exactly one certificate was expected.
    InvalidCertPem,
    /// The certificate is not the one that was issued.
    InvalidClientCert,
    /// Members of an authenticator do not fit its method.
    InvalidAuthenticatorProperties,
    /// The authenticator is of another kind than the request is for.
    CanNotUpdateAuthenticator,
    /// The router is of another kind than the request is for.
    CanNotUpdateRouter,
    /// The identity has an authenticator of the method already, and may have only one.
    MaxAuthenticatorMethodsReached,
    /// Re-enrolling a router failed.
    FailedErReenrollment,
    /// The certificate lacks the claim that names its identity.
    MissingCertClaim,
    /// The identity has MFA already.
    MfaExists,
    /// The enrollment in MFA was not begun.
    MfaEnrollmentNotStarted,
    /// The identity has no MFA.
    MfaNotEnrolled,
    /// The code of a second factor is wrong.
    MfaInvalidToken,
    /// The operation needs a bearer session.
    InvalidBackingTokenType,
    /// The client fails posture checks.
    InvalidPosture,
    /// No router is assigned to both the caller and the service.
    NoEdgeRoutersAvailable,
    /// The plan of a document differs from the one that the caller expects.
    PlanHasChanged,
    /// A snapshot or a check of the database runs already, or the last snapshot is less than a
    /// minute old.
    RateLimited,
    /// The queues of the controller are full.
    ServerTooManyRequests,
    /// The controller stopped waiting for a write, which has been made, will be made, or is lost.
    OutcomeUnknown,
    /// The operation took too long.
    Timeout,
    /// The controller cannot write now.
    ClusterNoLeader,
    /// The operation is for clusters, and the controller is not part of one.
    ServerNotRunningInHaMode,
    /// The leadership was not transferred.
    TransferLeadershipError,
}

impl Word for ErrorCode {}

impl ErrorCode {
    /// The HTTP status of an answer with this code.
    #[must_use]
    pub const fn status(self) -> u16 {
        self.answer().0
    }

    /// The message for a person.
    #[must_use]
    pub const fn message(self) -> &'static str {
        self.answer().1
    }

    const fn answer(self) -> (u16, &'static str) {
        match self {
            Self::NotFound => {
                (404, "The resource requested was not found or is no longer available")
            }
            Self::Unhandled => (500, "An unhandled error occurred"),
            Self::CouldNotValidate => (
                400,
                "The supplied request contains an invalid document or no valid accept content were available, see cause",
            ),
            Self::CouldNotParseBody => (400, "The body of the request could not be parsed"),
            Self::CouldNotReadBody => (500, "The body of the request could not be read"),
            Self::RequestEntityTooLarge => (413, "The body of the request is too large"),
            Self::InvalidContentType => {
                (400, "The content type of the request is not supported by this operation")
            }
            Self::UnsupportedMedia => (415, "The media type is not supported"),
            Self::UnsupportedMediaType => (415, "The media type is not supported"),
            Self::InvalidUuid => (400, "The supplied UUID is invalid"),
            Self::MethodNotAllowed => {
                (405, "The requested method can not be used on this resource")
            }
            Self::InvalidField => (400, "The value of a field is not accepted"),
            Self::InvalidFilter => (400, "The filter query supplied is invalid"),
            Self::InvalidSortIdentifier => (400, "The sort order supplied is invalid"),
            Self::InvalidPagination => (400, "The pagination properties supplied are invalid"),
            Self::Unauthorized => (
                401,
                "The request could not be completed. The session is not authorized or the credentials are invalid",
            ),
            Self::InvalidAuth => (401, "The authentication request failed"),
            Self::InvalidAuthMethod => (400, "The supplied authentication method is invalid"),
            Self::EntityCanNotBeDeleted => {
                (400, "The entity requested for delete can not be deleted")
            }
            Self::EntityCanNotBeUpdated => {
                (400, "The entity requested for update can not be updated")
            }
            Self::CanNotDeleteReferencedEntity => {
                (409, "The entity requested for delete can not be deleted, others refer to it")
            }
            Self::ReferencedEntityNotFound => (400, "The entity referred to does not exist"),
            Self::EnrollmentExists => (409, "An enrollment of the specified method already exists"),
            Self::EnrollmentExpired => (400, "The enrollment has expired"),
            Self::EnrollmentIdentityAlreadyEnrolled => (409, "The identity is already enrolled"),
            Self::EnrollmentCaNotValid => (400, "The CA of the enrollment is not valid"),
            Self::EnrollmentNoValidCas => (400, "No valid CA exists for this enrollment"),
            Self::InvalidEnrollmentToken => (400, "The supplied token is not valid"),
            Self::InvalidEnrollMethod => (400, "The supplied enrollment method is invalid"),
            Self::MissingOrInvalidCsr => {
                (400, "The certificate signing request is missing or could not be parsed")
            }
            Self::InvalidEnrollmentNotAllowed => (409, "The enrollment is not allowed"),
            Self::InvalidEnrollmentAlreadyEnrolled => {
                (410, "The enrollment has been completed already")
            }
            Self::CouldNotProcessCsr => (400, "The supplied CSR could not be processed"),
            Self::EdgeRouterEnrollCommonNameInvalid => {
                (400, "The edge router CSR must have the id of the edge router as its common name")
            }
            Self::CouldNotParseX509FromDer => (400, "The x509 certificate could not be parsed"),
            Self::CertFailedValidation => {
                (400, "The supplied certificate failed to validate against any known CA")
            }
            Self::CertInUse => (409, "The supplied certificate is already in use"),
            Self::CaAlreadyVerified => (409, "The CA has been verified already"),
            Self::ExpectedPemCertificate => (400, "A PEM encoded certificate was expected"),
            Self::CouldNotParseDerBlock => (400, "The DER block could not be parsed"),
            Self::CouldNotParsePemBlock => (400, "The PEM block could not be parsed"),
            Self::InvalidCommonName => {
                (400, "The common name of the certificate is not the verification token")
            }
            Self::CertificateFailedValidation => (400, "The certificate is not signed by the CA"),
            Self::CertificateIsNotCa => (400, "The certificate is not a CA"),
            Self::InvalidCertPem => (400, "The PEM must hold exactly one certificate"),
            Self::InvalidClientCert => (400, "The supplied client certificate is invalid"),
            Self::InvalidAuthenticatorProperties => {
                (400, "The properties of the authenticator are invalid")
            }
            Self::CanNotUpdateAuthenticator => {
                (409, "The authenticator can not be updated in this way")
            }
            Self::CanNotUpdateRouter => (409, "The router can not be updated in this way"),
            Self::MaxAuthenticatorMethodsReached => {
                (409, "The identity has an authenticator of this method already")
            }
            Self::FailedErReenrollment => (500, "The edge router could not be re-enrolled"),
            Self::MissingCertClaim => (400, "The certificate lacks the expected claim"),
            Self::MfaExists => (409, "The identity is enrolled in MFA already"),
            Self::MfaEnrollmentNotStarted => (404, "The MFA enrollment was not started"),
            Self::MfaNotEnrolled => (409, "The identity is not enrolled in MFA"),
            Self::MfaInvalidToken => (400, "The code is invalid"),
            Self::InvalidBackingTokenType => {
                (400, "The session is not backed by a token of the right type")
            }
            Self::InvalidPosture => (409, "The posture checks of the service are not passed"),
            Self::NoEdgeRoutersAvailable => {
                (400, "No edge routers are assigned and online to handle the requested connection")
            }
            Self::PlanHasChanged => (409, "The network has changed since the plan was made"),
            Self::RateLimited => (429, "The operation is rate limited, try again later"),
            Self::ServerTooManyRequests => (429, "Too many requests to process, try again later"),
            Self::OutcomeUnknown => {
                (503, "It is not known whether the change was made, look before trying again")
            }
            Self::Timeout => (503, "The request timed out"),
            Self::ClusterNoLeader => (503, "The cluster has no leader"),
            Self::ServerNotRunningInHaMode => (400, "The controller is not part of a cluster"),
            Self::TransferLeadershipError => (500, "The leadership could not be transferred"),
        }
    }
}
