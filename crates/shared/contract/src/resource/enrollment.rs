//! Enrollments, by which identities and routers get their first credentials (docs/protocol/auth.md
//! 4, 5; docs/protocol/edge-control-plane.md 17.1).

use serde::{Deserialize, Deserializer, Serialize};

use crate::body::{Body, FieldType, body};
use crate::entity::{EntityRef, detail};
use crate::json::{Password, Username, null_default};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, Request, Response, action, detail as get};
use crate::paths::Api;
use crate::permission::{Action, Subject};
use crate::resource::controller::ControllerDetail;
use crate::timestamp::Timestamp;
use crate::{collection, headers};

/// The collection in paths and references.
pub const COLLECTION: &str = "enrollments";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::Enrollment, action)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::ENROLLMENTS.list("listEnrollments"),
    collection::ENROLLMENTS
        .create::<EnrollmentBody>("createEnrollment")
        .statuses(&[201, 400, 401, 409, 429, 503]),
    collection::ENROLLMENTS.get("detailEnrollment"),
    collection::ENROLLMENTS.delete("deleteEnrollment"),
    action("refreshEnrollment", "/enrollments/{id}/refresh", access(Action::Update))
        .takes::<RefreshBody>()
        .answers(Response::Created)
        .statuses(&[200, 400, 401, 429, 503]),
];

/// Operations of the client API, whose callers are not logged in yet.
pub const CLIENT: &[Operation] = &[
    action("enroll", "/enroll", Access::Public)
        .request(Request::Enrollment(EnrollBody::FIELDS))
        .query(&["method", "token"])
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 404, 409, 410, 429, 503]),
    action("enrollOtt", "/enroll/ott", Access::Public)
        .takes::<EnrollOttBody>()
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 404, 429, 503]),
    action("enrollErOtt", "/enroll/erott", Access::Public)
        .takes::<EnrollRouterBody>()
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 429, 503]),
    action("enrollCa", "/enroll/ca", Access::Public)
        .request(Request::Enrollment(EnrollBody::FIELDS))
        .statuses(&[200, 400, 404, 429, 503]),
    action("enrollOttCa", "/enroll/ottca", Access::Public)
        .takes::<EnrollOttCaBody>()
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 429, 503]),
    action("enrollUpdb", "/enroll/updb", Access::Public)
        .takes::<EnrollUpdbBody>()
        .query(&["token"])
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 404, 429, 503]),
    action("enrollToken", "/enroll/token", Access::Public)
        .request(Request::Enrollment(EnrollTokenBody::FIELDS))
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 404, 409, 410, 429, 503]),
    action("extendRouterEnrollment", "/enroll/extend/router", Access::Public)
        .takes::<ExtendRouterBody>()
        .answers(Response::Detail("enrollmentCerts"))
        .statuses(&[200, 400, 401, 429]),
    get("getEnrollmentJwks", "/enroll/jwks", Access::Public, "jwks")
        .answers(Response::Raw(headers::JSON))
        .statuses(&[200]),
    action("enrollmentChallenge", "/enroll/challenge", Access::Public)
        .takes::<ChallengeBody>()
        .answers(Response::Raw(headers::JSON))
        .statuses(&[200, 400, 429]),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "enrollment",
    plural: COLLECTION,
    aliases: &["enroll"],
    about: "a one-time chance to get a certificate or password",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: EnrollmentBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "METHOD", pointer: "/method" },
        Column { title: "IDENTITY", pointer: "/identity/name" },
        Column { title: "ROUTER", pointer: "/edgeRouter/name" },
        Column { title: "EXPIRES", pointer: "/expiresAt" },
    ],
    ..Kind::PLAIN
};

/// Ways to enroll: `em` in a JWT, `method` in a query.
pub mod method {
    /// An identity, by one-time token.
    pub const OTT: &str = "ott";
    /// An identity, by one-time token and a certificate of a known CA.
    pub const OTT_CA: &str = "ottca";
    /// An identity, by choosing a password.
    pub const UPDB: &str = "updb";
    /// An edge router, by one-time token.
    pub const EDGE_ROUTER: &str = "erott";
    /// A router without edge, by one-time token.
    pub const ROUTER: &str = "trott";
    /// A new identity, by a certificate of a known CA.
    pub const CA: &str = "ca";
    /// A new identity, by a JWT of an external signer.
    pub const TOKEN: &str = "token";
    /// No enrollment: only trust in the network.
    pub const NETWORK: &str = "network";

    /// The methods that callers of the management API can ask for.
    pub const FOR_IDENTITIES: &[&str] = &[OTT, OTT_CA, UPDB];
}

members! {
    /// The members of an enrollment that callers set.
    body EnrollmentBody;
    /// An enrollment. References that do not apply to its method are null or left out.
    detail EnrollmentDetail with Base;

    /// The CA whose certificates the enrollment takes, for the method `ottca`.
    Shown ca: Option<EntityRef>;
    /// The CA whose certificates the enrollment takes, for the method `ottca`.
    Optional ca_id: String => "cas",
        shown "The id of the CA whose certificates the enrollment takes, for the method `ottca`."
        as Option<String>;
    /// The edge router that the enrollment is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown edge_router: Option<EntityRef>;
    /// The id of the edge router that the enrollment is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown edge_router_id: String;
    /// The time at which the enrollment expires; it must be in the future.
    Create expires_at: Timestamp, shown;
    /// The identity that the enrollment is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown identity: Option<EntityRef>;
    /// The identity that the enrollment is for.
    Create identity_id: String => "identities";
    /// The id of the identity that the enrollment is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown identity_id: String;
    /// The JWT with which the identity or router enrolls.
    Shown jwt: String;
    /// The method of the enrollment: `ott` for a one-time token, `ottca` for a one-time token with
    /// a certificate of a CA, `updb` for choosing a password.
    Create method: String as FieldType::Choice(method::FOR_IDENTITIES), shown "The method.";
    /// The one-time token in the JWT.
    Shown token: String;
    /// The router without edge that the enrollment is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown transit_router: Option<EntityRef>;
    /// The id of the router without edge that the enrollment is for.
    #[serde(skip_serializing_if = "String::is_empty")]
    Shown transit_router_id: String;
    /// The username of the identity, for the method `updb`.
    Optional username: String, shown;
}

body! {
    /// Gives an enrollment a new token, a new JWT and a new time at which it expires.
    pub struct RefreshBody {
        /// The time at which the enrollment expires; it must be in the future.
        Create expires_at: Timestamp,
    }
}

body! {
    /// The JSON body that an enrolling client or router sends to `/enroll`.
    pub struct EnrollBody {
        /// The name of the new identity, for the method `ca`.
        Optional name: String,
        /// The certificate signing request of an identity, as PEM.
        Optional client_csr: String,
        /// The certificate signing request for the client certificate of a router, as PEM.
        Optional cert_csr: String,
        /// The certificate signing request for the server certificate of a router, as PEM.
        Optional server_cert_csr: String,
        /// The username, 4 to 100 characters, for the method `updb`.
        Optional username: Username,
        /// The password, 5 to 100 characters, for the method `updb`.
        Optional password: Password,
    }
}

body! {
    /// The body that an enrolling client sends to `/enroll/ott`.
    pub struct EnrollOttBody {
        /// The certificate signing request of the identity, as PEM.
        Create client_csr: String,
        /// The one-time token of the enrollment.
        Create token: String,
    }
}

body! {
    /// The body that an enrolling router sends to `/enroll/erott`.
    pub struct EnrollRouterBody {
        /// The certificate signing request for the client certificate of the router, as PEM.
        Create client_csr: String,
        /// The certificate signing request for the server certificate of the router, as PEM.
        Create server_csr: String,
        /// The one-time token of the enrollment.
        Create token: String,
    }
}

body! {
    /// The body that a client with a certificate of a known CA sends to `/enroll/ottca`.
    pub struct EnrollOttCaBody {
        /// The one-time token of the enrollment.
        Create token: String,
    }
}

body! {
    /// The body that a person sends to `/enroll/updb`.
    pub struct EnrollUpdbBody {
        /// The password that the identity shall have, 5 to 100 characters.
        Create password: Password,
        /// The username, 4 to 100 characters. It is ignored: the identity gets the username of the
        /// enrollment.
        Optional username: Username,
    }
}

body! {
    /// The body that a client with a JWT of an external signer sends to `/enroll/token`.
    pub struct EnrollTokenBody {
        /// The certificate signing request of the identity, as PEM. Without it the identity gets no
        /// certificate and logs in with JWTs of the signer.
        Optional client_csr: String,
    }
}

body! {
    /// The body that a router sends to have its certificates extended.
    pub struct ExtendRouterBody {
        /// The certificate signing request for the client certificate of the router, as PEM.
        Create cert_csr: String,
        /// The certificate signing request for the server certificate of the router, as PEM.
        Create server_cert_csr: String,
    }
}

body! {
    /// Asks the controller to prove that it has the key that signs enrollment JWTs.
    pub struct ChallengeBody {
        /// The id of the key: the `kid` of the enrollment JWT.
        Create key_id: String,
        /// A UUID that the controller has to sign.
        Create nonce: String,
    }
}

detail! {
    /// The proof that the controller has the key that signs enrollment JWTs.
    pub struct ChallengeAnswer {
        /// The algorithm of the signature, by its name in JWTs.
        pub algorithm: String,
        /// The CA bundle of the network, as PEM.
        pub ca_pool: String,
        /// The id of the key that signed.
        pub kid: String,
        /// The signature of the nonce, in base64.
        pub signature: String,
    }
}

detail! {
    /// The answer to an enrollment. Members of other methods are left out.
    pub struct EnrollmentCerts {
        /// The CA bundle of the network, as PEM.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub ca: String,
        /// The certificate and its chain, as PEM.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub cert: String,
        /// The controllers of the network.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub controllers: Vec<ControllerDetail>,
        /// The server certificate of the router and its chain, as PEM.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub server_cert: String,
        /// The username that the identity logs in with.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub username: String,
    }
}

/// The claims of an enrollment JWT (docs/protocol/auth.md 4.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollmentClaims {
    /// The address of the controller: `https://host:port`.
    pub iss: String,
    /// Id of the identity or router.
    pub sub: String,
    /// `[""]`, or the enroller for JWTs of a CA or the network.
    #[serde(default, deserialize_with = "one_or_many")]
    pub aud: Vec<String>,
    /// The time at which the enrollment expires, in seconds since 1970; absent for JWTs of a CA or
    /// the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exp: Option<i64>,
    /// The one-time token.
    #[serde(default)]
    pub jti: String,
    /// The method of the enrollment; see [`method`].
    pub em: String,
    /// The addresses of the controllers for routers.
    #[serde(default)]
    pub ctrls: Option<Vec<String>>,
    /// The address of the only controller, in older tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ctrl: Option<String>,
}

impl EnrollmentClaims {
    /// Every address of a controller that the token names.
    #[must_use]
    pub fn controllers(&self) -> Vec<String> {
        let many = self.ctrls.iter().flatten();
        self.ctrl.iter().chain(many).filter(|address| !address.is_empty()).cloned().collect()
    }
}

/// Audiences are an array, or a text when there is one.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Many(Vec<String>),
        One(String),
    }
    Ok(match null_default::<D, Option<Written>>(deserializer)? {
        Some(Written::Many(many)) => many,
        Some(Written::One(one)) => vec![one],
        None => Vec::new(),
    })
}
