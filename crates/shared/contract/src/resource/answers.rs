//! The types behind the names of answers in the rows of operations.
//!
//! The names are those of the definitions in the API descriptions, which programs made of them
//! know. A test tells of a row whose name is not here.

use super::*;
use crate::schema::{HasSchema, Schema};

const fn of<T: HasSchema>(name: &'static str) -> (&'static str, Schema) {
    (name, T::SCHEMA)
}

/// Every answer, by the name that rows give it.
pub const ANSWERS: &[(&str, Schema)] = &[
    of::<session::ApiSessionDetail>("apiSessionDetail"),
    of::<auth_policy::AuthPolicyDetail>("authPolicyDetail"),
    of::<authenticator::AuthenticatorDetail>("authenticatorDetail"),
    of::<ca::CaDetail>("caDetail"),
    of::<String>("capabilities"),
    of::<change::ChangePlan>("changePlan"),
    of::<fabric::circuit::CircuitDetail>("circuitDetail"),
    of::<external_jwt_signer::ClientSignerDetail>("clientExternalJwtSignerDetail"),
    of::<cluster::ClusterDetail>("cluster"),
    of::<fabric::cluster::ClusterMember>("clusterMember"),
    of::<cluster::ClusterUpgrade>("clusterUpgrade"),
    of::<config::ConfigDetail>("configDetail"),
    of::<config::ConfigTypeDetail>("configTypeDetail"),
    of::<controller::ControllerDetail>("controllerDetail"),
    of::<cluster::ControllerInvitation>("controllerInvitation"),
    of::<controller_setting::ControllerSettingDetail>("controllerSettingDetail"),
    of::<controller_setting::ControllerSettingEffective>("controllerSettingEffective"),
    of::<cluster::ControllerWelcome>("controllerWelcome"),
    of::<session::SessionCertificateCreated>("currentApiSessionCertificateCreateResponse"),
    of::<session::SessionCertificateDetail>("currentApiSessionCertificateDetail"),
    of::<session::ApiSessionDetail>("currentApiSessionDetail"),
    of::<session::ServiceUpdates>("currentApiSessionServiceUpdateList"),
    of::<edge_router::OwnEdgeRouterDetail>("currentIdentityEdgeRouterDetail"),
    of::<database::IntegrityDetail>("dataIntegrityCheckDetails"),
    of::<database::SnapshotDetail>("databaseSnapshot"),
    of::<mfa::MfaDetail>("detailMfa"),
    of::<mfa::RecoveryCodes>("detailMfaRecoveryCodes"),
    of::<edge_router::EdgeRouterDetail>("edgeRouterDetail"),
    of::<edge_router_policy::EdgeRouterPolicyDetail>("edgeRouterPolicyDetail"),
    of::<service_session::EndStatement>("endStatement"),
    of::<enrollment::EnrollmentCerts>("enrollmentCerts"),
    of::<enrollment::EnrollmentDetail>("enrollmentDetail"),
    of::<external_jwt_signer::SignerDetail>("externalJwtSignerDetail"),
    of::<fabric::router::RouterDetail>("fabricRouterDetail"),
    of::<fabric::service::ServiceDetail>("fabricServiceDetail"),
    of::<fabric::terminator::TerminatorDetail>("fabricTerminatorDetail"),
    of::<posture_data::FailedServiceRequest>("failedServiceRequest"),
    of::<identity::IdentityDetail>("identityDetail"),
    of::<authenticator::ExtendedCerts>("identityExtendCerts"),
    of::<identity_type::IdentityTypeDetail>("identityTypeDetail"),
    of::<fabric::link::LinkDetail>("linkDetail"),
    of::<server::Summary>("listSummaryCounts"),
    of::<change::NetworkExport>("networkExport"),
    of::<server::NetworkJwt>("networkJWT"),
    of::<why_path::PathExplanation>("pathExplanation"),
    of::<identity::PolicyAdvice>("policyAdvice"),
    of::<posture_check::PostureCheckDetail>("postureCheckDetail"),
    of::<posture_check::PostureCheckTypeDetail>("postureCheckTypeDetail"),
    of::<posture_data::PostureDataDetail>("postureData"),
    of::<posture_check::PostureResponseDetail>("postureResponse"),
    of::<server::Protocols>("protocols"),
    of::<revocation::RevocationDetail>("revocationDetail"),
    of::<role_attribute::RoleAttributeUsage>("roleAttributeUsageDetail"),
    of::<String>("routerCapabilities"),
    of::<router::RouterDetail>("routerDetail"),
    of::<identity::ServiceConfigDetail>("serviceConfigDetail"),
    of::<service::ServiceDetail>("serviceDetail"),
    of::<service_edge_router_policy::ServiceEdgeRouterPolicyDetail>(
        "serviceEdgeRouterPolicyDetail",
    ),
    of::<service::ServiceEdgeRouters>("serviceEdgeRouters"),
    of::<service_policy::ServicePolicyDetail>("servicePolicyDetail"),
    of::<service_session::SessionDetail>("sessionDetail"),
    of::<service_session::SessionDetail>("sessionCreated"),
    of::<service_session::SessionManagementDetail>("sessionManagementDetail"),
    of::<service_session::SessionRoutePath>("sessionRoutePathDetail"),
    of::<spec::SpecDetail>("specDetail"),
    of::<String>("string"),
    of::<terminator::TerminatorClientDetail>("terminatorClientDetail"),
    of::<terminator::TerminatorDetail>("terminatorDetail"),
    of::<token_key::TokenKeys>("tokenKeys"),
    of::<token_key::TokenKeysRolled>("tokenKeysRolled"),
    of::<token_test::TokenTest>("tokenTest"),
    of::<mfa::TotpToken>("totpToken"),
    of::<identity::TraceDetail>("traceDetail"),
    of::<unproven::UnprovenEnds>("unprovenEnds"),
    of::<server::Version>("version"),
];

/// Answers without envelope that are JSON, by the id of the operation.
pub const RAW: &[(&str, Schema)] = &[of::<fabric::inspection::Inspected>("inspect")];
