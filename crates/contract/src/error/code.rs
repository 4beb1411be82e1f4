//! The codes of errors, with the HTTP status and the message of each.

use crate::entity::words;

words! {
    /// The kind of an error, in one word.
    pub enum ErrorCode {
        /// The resource does not exist, or the caller may not see it.
        NotFound = "NOT_FOUND",
        /// An unexpected error; its text is in the cause.
        Unhandled = "UNHANDLED",
        /// The body, a parameter or a field has an invalid value.
        CouldNotValidate = "COULD_NOT_VALIDATE",
        /// The body is not JSON, or not of a known shape.
        CouldNotParseBody = "COULD_NOT_PARSE_BODY",
        /// The connection failed while the body was read.
        CouldNotReadBody = "COULD_NOT_READ_BODY",
        /// The body is larger than the limit: 1 MiB, or 16 MiB for documents of whole networks.
        RequestEntityTooLarge = "REQUEST_ENTITY_TOO_LARGE",
        /// The operation does not accept the media type of the body.
        InvalidContentType = "INVALID_CONTENT_TYPE",
        /// Legacy enrollment whose Accept header excludes JSON.
        UnsupportedMedia = "UNSUPPORTED_MEDIA",
        /// OIDC login with a body of another type.
        UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE",
        /// A text is not a UUID.
        InvalidUuid = "INVALID_UUID",
        /// The path exists, the method on it does not.
        MethodNotAllowed = "METHOD_NOT_ALLOWED",
        /// A field has a value that some operations refuse with this code.
        InvalidField = "INVALID_FIELD",
        /// The filter cannot be understood.
        InvalidFilter = "INVALID_FILTER",
        /// A field cannot be sorted by.
        InvalidSortIdentifier = "INVALID_SORT_IDENTIFIER",
        /// Limit or offset is not a number.
        InvalidPagination = "INVALID_PAGINATION",
        /// The request has no session, or its session lacks a permission.
        Unauthorized = "UNAUTHORIZED",
        /// A login failed.
        InvalidAuth = "INVALID_AUTH",
        /// The login method is unknown.
        InvalidAuthMethod = "INVALID_AUTH_METHOD",
        /// The entity is the default administrator, belongs to a router, or is a system entity.
        EntityCanNotBeDeleted = "ENTITY_CAN_NOT_BE_DELETED",
        /// A system entity was to be changed.
        EntityCanNotBeUpdated = "ENTITY_CAN_NOT_BE_UPDATED",
        /// Other entities still name the entity.
        CanNotDeleteReferencedEntity = "CAN_NOT_DELETE_REFERENCED_ENTITY",
        /// A body names an entity that does not exist.
        ReferencedEntityNotFound = "REFERENCED_ENTITY_NOT_FOUND",
        /// An enrollment of that method is outstanding.
        EnrollmentExists = "ENROLLMENT_EXISTS",
        /// The enrollment has expired.
        EnrollmentExpired = "ENROLLMENT_EXPIRED",
        /// The identity of that certificate has been enrolled.
        EnrollmentIdentityAlreadyEnrolled = "ENROLLMENT_IDENTITY_ALREADY_ENROLLED",
        /// The CA may not be used to enroll.
        EnrollmentCaNotValid = "ENROLLMENT_CA_NOT_VALID",
        /// No CA may be used to enroll.
        EnrollmentNoValidCas = "ENROLLMENT_NO_VALID_CAS",
        /// The enrollment does not exist.
        InvalidEnrollmentToken = "INVALID_ENROLLMENT_TOKEN",
        /// The enrollment is of another method.
        InvalidEnrollMethod = "INVALID_ENROLL_METHOD",
        /// A certificate signing request is missing or broken.
        MissingOrInvalidCsr = "MISSING_OR_INVALID_CSR",
        /// The signer does not allow this enrollment.
        InvalidEnrollmentNotAllowed = "INVALID_ENROLLMENT_NOT_ALLOWED",
        /// The enrollment was completed before.
        InvalidEnrollmentAlreadyEnrolled = "INVALID_ENROLLMENT_ALREADY_ENROLLED",
        /// A certificate signing request is refused.
        CouldNotProcessCsr = "COULD_NOT_PROCESS_CSR",
        /// The common name of a router's request is not the id of the router.
        EdgeRouterEnrollCommonNameInvalid = "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID",
        /// The bytes are not a certificate.
        CouldNotParseX509FromDer = "COULD_NOT_PARSE_x509_FROM_DER",
        /// No CA that the controller trusts has issued the certificate.
        CertFailedValidation = "CERT_FAILED_VALIDATION",
        /// Another authenticator has the certificate.
        CertInUse = "CERT_IN_USE",
        /// The CA has been verified before.
        CaAlreadyVerified = "CA_ALREADY_VERIFIED",
        /// A PEM block of another type than a certificate.
        ExpectedPemCertificate = "EXPECTED_PEM_CERTIFICATE",
        /// A PEM block holds no DER.
        CouldNotParseDerBlock = "COULD_NOT_PARSE_DER_BLOCK",
        /// The text is not PEM.
        CouldNotParsePemBlock = "COULD_NOT_PARSE_PEM_BLOCK",
        /// The common name is not the verification token.
        InvalidCommonName = "INVALID_COMMON_NAME",
        /// The CA in question did not sign the certificate.
        CertificateFailedValidation = "CERTIFICATE_FAILED_VALIDATION",
        /// A CA certificate was expected.
        CertificateIsNotCa = "CERTIFICATE_IS_NOT_CA",
        /// Exactly one certificate was expected.
        InvalidCertPem = "INVALID_CERT_PEM",
        /// The certificate is not the one that was issued.
        InvalidClientCert = "INVALID_CLIENT_CERT",
        /// Members of an authenticator do not fit its method.
        InvalidAuthenticatorProperties = "INVALID_AUTHENTICATOR_PROPERTIES",
        /// The authenticator is of another kind than the request is for.
        CanNotUpdateAuthenticator = "CAN_NOT_UPDATE_AUTHENTICATOR",
        /// The router is of another kind than the request is for.
        CanNotUpdateRouter = "CAN_NOT_UPDATE_ROUTER",
        /// The identity has an authenticator of the method already, and may have only one.
        MaxAuthenticatorMethodsReached = "MAX_AUTHENTICATOR_METHODS_REACHED",
        /// Re-enrolling a router failed.
        FailedErReenrollment = "FAILED_ER_REENROLLMENT",
        /// The certificate lacks the claim that names its identity.
        MissingCertClaim = "MISSING_CERT_CLAIM",
        /// The identity has MFA already.
        MfaExists = "MFA_EXISTS",
        /// The enrollment in MFA was not begun.
        MfaEnrollmentNotStarted = "MFA_ENROLLMENT_NOT_STARTED",
        /// The identity has no MFA.
        MfaNotEnrolled = "MFA_NOT_ENROLLED",
        /// The code of a second factor is wrong.
        MfaInvalidToken = "MFA_INVALID_TOKEN",
        /// The operation needs a bearer session.
        InvalidBackingTokenType = "INVALID_BACKING_TOKEN_TYPE",
        /// The client fails posture checks.
        InvalidPosture = "INVALID_POSTURE",
        /// No router is assigned to both the caller and the service.
        NoEdgeRoutersAvailable = "NO_EDGE_ROUTERS_AVAILABLE",
        /// The plan of a document differs from the one that the caller expects.
        PlanHasChanged = "PLAN_HAS_CHANGED",
        /// A snapshot or a check of the database runs already, or the last snapshot is less than a
        /// minute old.
        RateLimited = "RATE_LIMITED",
        /// The queues of the controller are full.
        ServerTooManyRequests = "SERVER_TOO_MANY_REQUESTS",
        /// The controller stopped waiting for a write, which has been made, will be made, or is lost.
        OutcomeUnknown = "OUTCOME_UNKNOWN",
        /// The operation took too long.
        Timeout = "TIMEOUT",
        /// The controller cannot write now.
        ClusterNoLeader = "CLUSTER_NO_LEADER",
        /// The operation is for clusters, and the controller is not part of one.
        ServerNotRunningInHaMode = "SERVER_NOT_RUNNING_IN_HA_MODE",
        /// The leadership was not transferred.
        TransferLeadershipError = "TRANSFER_LEADERSHIP_ERROR",
    }
}

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
