//! The callers that may run each operation, as documented (docs/protocol/management-api.md 4, 5;
//! docs/protocol/auth.md 17; docs/protocol/operations.md 1.1), tried with every operation of the
//! tables and every kind of caller.

use std::collections::BTreeMap;
use std::sync::Arc;

use weft_contract::permission::{ADMIN_READ_ONLY, Action, Permission, Subject};
use weft_contract::{Api, ErrorCode, Method, Operation, Word as _, resource};
use weft_kernel::gate::pass;
use weft_kernel::{Caller, Login, Origin, SessionRef, Who};

use crate::testing::Bed;
use crate::{Call, Failure};

/// Operations of the management API and their callers: `nobody` means everybody, `half` callers
/// that passed the first factor, `anybody` callers with a session, `reader` callers that may read
/// everything; other words are permissions.
const MANAGEMENT: &[(&str, &str)] = &[
    (
        "admin",
        "checkDataIntegrity createAuthenticator createControllerSetting createDatabaseSnapshot \
         createRevocation deleteAuthenticator deleteControllerSetting fixDataIntegrity \
         patchAuthenticator patchControllerSetting reEnrollAuthenticator \
         requestExtendAuthenticator updateAuthenticator updateControllerSetting",
    ),
    (
        "anybody",
        "createMfaRecoveryCodes createTotpToken deleteMfa detailCurrentIdentityAuthenticator \
         detailIdentityType detailMfaRecoveryCodes detailPostureCheckType \
         extendCurrentIdentityAuthenticator extendVerifyCurrentIdentityAuthenticator \
         getCurrentIdentity listCurrentIdentityAuthenticators listEnumeratedRouterCapabilities \
         listIdentityTypes listPostureCheckTypes patchCurrentIdentityAuthenticator \
         updateCurrentIdentityAuthenticator",
    ),
    (
        "half",
        "authenticateMfa deleteCurrentAPISession detailMfa detailMfaQrCode enrollMfa \
         getCurrentAPISession verifyMfa",
    ),
    (
        "nobody",
        "authenticate detailSpec detailSpecBody listEnumeratedCapabilities listNetworkJWTs \
         listRoot listSpecs listVersion listWellKnownCas",
    ),
    (
        "reader",
        "dataIntegrityResults detailAuthenticator detailControllerSetting \
         detailControllerSettingEffective detailRevocation getIdentityAuthenticators \
         listAuthenticators listControllerSettings listRevocations listSummary",
    ),
    ("auth-policy.create", "createAuthPolicy"),
    ("auth-policy.delete", "deleteAuthPolicy"),
    ("auth-policy.read", "detailAuthPolicy listAuthPolicies"),
    ("auth-policy.update", "patchAuthPolicy updateAuthPolicy"),
    ("ca.create", "createCa"),
    ("ca.delete", "deleteCa"),
    ("ca.read", "detailCa getCaJwt listCas"),
    ("ca.update", "patchCa updateCa verifyCa"),
    ("config-type.create", "createConfigType"),
    ("config-type.delete", "deleteConfigType"),
    ("config-type.read", "detailConfigType listConfigTypes"),
    ("config-type.update", "patchConfigType updateConfigType"),
    ("config.create", "createConfig"),
    ("config.delete", "deleteConfig"),
    ("config.read", "detailConfig listConfigs listConfigsForConfigType listServiceConfig"),
    ("config.update", "patchConfig updateConfig"),
    ("controllers.read", "listControllers"),
    ("edge-router-policy.create", "createEdgeRouterPolicy"),
    ("edge-router-policy.delete", "deleteEdgeRouterPolicy"),
    (
        "edge-router-policy.read",
        "detailEdgeRouterPolicy listEdgeRouterEdgeRouterPolicies listEdgeRouterPolicies \
         listIdentitysEdgeRouterPolicies",
    ),
    ("edge-router-policy.update", "patchEdgeRouterPolicy updateEdgeRouterPolicy"),
    ("enrollment.create", "createEnrollment"),
    ("enrollment.delete", "deleteEnrollment"),
    ("enrollment.read", "detailEnrollment getIdentityEnrollments listEnrollments"),
    ("enrollment.update", "refreshEnrollment"),
    ("external-jwt-signer.create", "createExternalJwtSigner"),
    ("external-jwt-signer.delete", "deleteExternalJwtSigner"),
    ("external-jwt-signer.read", "detailExternalJwtSigner listExternalJwtSigners"),
    ("external-jwt-signer.update", "patchExternalJwtSigner updateExternalJwtSigner"),
    ("identity.create", "createIdentity"),
    ("identity.delete", "deleteIdentity"),
    (
        "identity.read",
        "detailIdentity getIdentityFailedServiceRequests getIdentityPostureData \
         listEdgeRouterIdentities listEdgeRouterPolicyIdentities listIdentities \
         listIdentityRoleAttributeUsage listIdentityRoleAttributes listIdentitysServiceConfigs \
         listServiceIdentities listServicePolicyIdentities",
    ),
    (
        "identity.update",
        "associateIdentitysServiceConfigs disableIdentity disassociateIdentitysServiceConfigs \
         enableIdentity patchIdentity removeIdentityMfa updateIdentity updateIdentityTracing",
    ),
    ("ops.delete", "deleteAPISessions deleteSession"),
    (
        "ops.read",
        "detailAPISessions detailSession detailSessionRoutePath listAPISessions listSessions",
    ),
    ("posture-check.create", "createPostureCheck"),
    ("posture-check.delete", "deletePostureCheck"),
    (
        "posture-check.read",
        "detailPostureCheck listPostureCheckRoleAttributeUsage listPostureCheckRoleAttributes \
         listPostureChecks listServicePolicyPostureChecks",
    ),
    ("posture-check.update", "patchPostureCheck updatePostureCheck"),
    ("router.create", "createEdgeRouter createRouter createTransitRouter"),
    ("router.delete", "deleteEdgeRouter deleteRouter deleteTransitRouter"),
    (
        "router.read",
        "detailEdgeRouter detailRouter detailTransitRouter listEdgeRouterPolicyEdgeRouters \
         listEdgeRouterRoleAttributeUsage listEdgeRouterRoleAttributes listEdgeRouters \
         listIdentityEdgeRouters listRouters listServiceEdgeRouterPolicyEdgeRouters \
         listServiceEdgeRouters listTransitRouters",
    ),
    (
        "router.update",
        "patchEdgeRouter patchRouter patchTransitRouter reEnrollEdgeRouter updateEdgeRouter \
         updateRouter updateTransitRouter",
    ),
    ("service-edge-router-policy.create", "createServiceEdgeRouterPolicy"),
    ("service-edge-router-policy.delete", "deleteServiceEdgeRouterPolicy"),
    (
        "service-edge-router-policy.read",
        "detailServiceEdgeRouterPolicy listEdgeRouterServiceEdgeRouterPolicies \
         listServiceEdgeRouterPolicies listServiceServiceEdgeRouterPolicies",
    ),
    (
        "service-edge-router-policy.update",
        "patchServiceEdgeRouterPolicy updateServiceEdgeRouterPolicy",
    ),
    ("service-policy.create", "createServicePolicy"),
    ("service-policy.delete", "deleteServicePolicy"),
    (
        "service-policy.read",
        "detailServicePolicy listEdgeRouterServicePolicies listIdentityServicePolicies \
         listServicePolicies listServiceServicePolicies",
    ),
    ("service-policy.update", "patchServicePolicy updateServicePolicy"),
    ("service.create", "createService"),
    ("service.delete", "deleteService"),
    (
        "service.read",
        "detailService getIdentityPolicyAdvice listConfigServices listEdgeRouterServices \
         listIdentityServices listServiceEdgeRouterPolicyServices listServicePolicyServices \
         listServiceRoleAttributeUsage listServiceRoleAttributes listServices",
    ),
    ("service.update", "patchService updateService"),
    ("terminator.create", "createTerminator"),
    ("terminator.delete", "deleteTerminator"),
    ("terminator.read", "detailTerminator listServiceTerminators listTerminators"),
    ("terminator.update", "patchTerminator updateTerminator"),
];

/// Operations of the client API and their callers; operations that are not listed need a session.
const CLIENT: &[(&str, &str)] = &[
    (
        "nobody",
        "authenticate enroll enrollCa enrollErOtt enrollOtt enrollOttCa enrollToken enrollUpdb \
         enrollmentChallenge extendRouterEnrollment getEnrollmentJwks listEnumeratedCapabilities \
         listExternalJwtSigners listNetworkJWTs listProtocols listRoot listSpecs detailSpec detailSpecBody listVersion \
         listWellKnownCas",
    ),
    (
        "half",
        "authenticateMfa deleteCurrentAPISession detailMfa detailMfaQrCode enrollMfa \
         getCurrentAPISession verifyMfa",
    ),
];

/// Operations of the fabric API and their callers; operations that are not listed need an
/// administrator.
const FABRIC: &[(&str, &str)] = &[
    (
        "reader",
        "clusterListMembers dataIntegrityResults detailRouter detailService detailTerminator listRouterTerminators \
         listRouters listServiceTerminators listServices listTerminators",
    ),
    ("ops.read", "detailCircuit detailLink listCircuits listLinks"),
    ("ops.update", "patchLink"),
    ("ops.delete", "deleteCircuit deleteLink"),
    ("granted ops.read", "inspect"),
];

/// Operations of weft's own API and their callers. Documents are judged entity by entity.
const WEFT: &[(&str, &str)] = &[
    ("ops.read", "explainPath listUnprovenEnds"),
    ("external-jwt-signer.read", "testExternalToken"),
    ("nobody", "joinCluster"),
    ("reader", "detailCluster listTokenKeys"),
    ("admin", "inviteController readmitController rollTokenKeys upgradeCluster"),
];

/// Operations with their callers.
type Table = &'static [(&'static str, &'static str)];

/// The tables, and the callers of operations that they do not list.
const APIS: [(Api, Table, Option<&str>); 4] = [
    (Api::Management, MANAGEMENT, None),
    (Api::Client, CLIENT, Some("anybody")),
    (Api::Fabric, FABRIC, Some("admin")),
    (Api::Weft, WEFT, Some("anybody")),
];

/// Every operation with its callers.
fn documented() -> Vec<(Api, &'static Operation, &'static str)> {
    let mut all = Vec::new();
    for (api, table, otherwise) in APIS {
        let mut known = BTreeMap::new();
        for (who, ids) in table {
            for id in ids.split_whitespace() {
                assert!(known.insert(id, *who).is_none(), "{id} twice");
            }
        }
        for row in resource::operations(api) {
            let who = known.remove(row.id).or(otherwise);
            all.push((api, row, who.unwrap_or_else(|| panic!("{api} {} is unknown", row.id))));
        }
    }
    all
}

/// A kind of caller.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Somebody {
    Nobody,
    /// A caller that passed the first factor only, whatever its rights.
    Half,
    Plain,
    With(Permission),
    Admin,
}

impl Somebody {
    fn all() -> Vec<Self> {
        let subjects = Subject::WORDS.iter().filter_map(|word| Subject::parse(word));
        let granted = subjects.flat_map(|subject| {
            let one = subject.actions().iter().map(move |action| Permission::One(subject, *action));
            std::iter::once(Permission::All(subject)).chain(one)
        });
        let granted = std::iter::once(Permission::AdminReadOnly).chain(granted).map(Self::With);
        let others = [Self::Nobody, Self::Half, Self::Plain, Self::Admin];
        others.into_iter().chain(granted).collect()
    }

    fn caller(self) -> Caller {
        let permissions = match self {
            Self::With(permission) => vec![permission],
            // Permissions count only after every factor was shown.
            Self::Half => vec![Permission::AdminReadOnly, Permission::All(Subject::Identity)],
            _ => Vec::new(),
        };
        let login = Login {
            identity: "somebody".into(),
            name: "somebody".into(),
            is_admin: matches!(self, Self::Admin | Self::Half),
            permissions,
            complete: self != Self::Half,
            session: SessionRef { id: "session".into(), token: "token".into(), legacy: true },
        };
        match self {
            Self::Nobody => Caller::nobody(Origin::default()),
            _ => Caller { who: Who::Identity(Arc::new(login)), origin: Origin::default() },
        }
    }

    /// Whether the documents let this caller run an operation for `who`.
    fn may(self, who: &str) -> bool {
        match (who, self) {
            ("nobody", _) => true,
            (_, Self::Nobody) => false,
            ("half", _) => true,
            (_, Self::Half) => false,
            ("anybody", _) | (_, Self::Admin) => true,
            (_, Self::Plain) | ("admin", _) => false,
            (who, Self::With(held)) => {
                let (needed, reader_may) = match who.strip_prefix("granted ") {
                    Some(needed) => (needed, false),
                    None => (who, who == "reader" || who.ends_with(".read")),
                };
                let held = held.to_string();
                held == needed
                    || needed.split_once('.').is_some_and(|(subject, _)| held == subject)
                    || (reader_may && held == ADMIN_READ_ONLY)
            }
        }
    }
}

#[test]
fn the_gate_lets_in_whom_the_documents_let_in() {
    for (api, row, who) in documented() {
        for somebody in Somebody::all() {
            let passed = pass(&somebody.caller(), row).is_ok();
            assert_eq!(passed, somebody.may(who), "{api} {} for {who}: {somebody:?}", row.id);
        }
    }
}

/// `admin_readonly` is every read: consoles log out a user to whom a read is refused.
#[test]
fn no_read_needs_an_administrator() {
    let reader = Somebody::With(Permission::AdminReadOnly).caller();
    for (api, row, _) in documented().into_iter().filter(|(_, row, _)| row.method == Method::Get) {
        assert!(pass(&reader, row).is_ok(), "{api} {}", row.id);
    }
}

/// Whether a failure is a refusal of the gate, and not of the operation.
fn is_refused_at_the_gate(failure: &Failure) -> bool {
    let text = failure.cause().and_then(|cause| cause.message.as_deref()).unwrap_or_default();
    failure.code() == ErrorCode::Unauthorized
        && (text.starts_with("the operation needs")
            || ["no valid session", "the session needs a second factor"].contains(&text))
}

/// Runs an operation on entities that do not exist, and returns whether the gate refused.
async fn is_refused(bed: &Bed, api: Api, row: &'static Operation, caller: Caller) -> bool {
    let ids = vec!["nothing"; row.places()];
    let call = Call::new(api, row, &ids);
    match bed.controller.call(caller, call).await {
        Ok(_) => false,
        Err(failure) => is_refused_at_the_gate(&failure),
    }
}

#[tokio::test]
async fn every_operation_is_behind_the_gate() {
    let bed = Bed::new().await;
    // An export asks the gate once more for each section.
    for (api, row, who) in documented().into_iter().filter(|(_, row, _)| row.id != "exportNetwork")
    {
        let needed = Permission::parse(who.trim_start_matches("granted "));
        let whole = needed.and_then(|needed| match needed {
            Permission::One(subject, _) => Some(Permission::All(subject)),
            _ => None,
        });
        let other = Permission::One(Subject::Terminator, Action::Create);
        let granted = [needed, whole, Some(Permission::AdminReadOnly), Some(other)];
        let granted = granted.into_iter().flatten().map(Somebody::With);
        let plain = [Somebody::Nobody, Somebody::Half, Somebody::Plain, Somebody::Admin];
        for somebody in plain.into_iter().chain(granted) {
            let refused = is_refused(&bed, api, row, somebody.caller()).await;
            assert_eq!(refused, !somebody.may(who), "{api} {} for {who}: {somebody:?}", row.id);
        }
    }
}
