//! Which endpoint answers a request (docs/protocol/auth.md 15.3).

use weft_contract::ErrorCode;
use weft_contract::resource::session::method;
use weft_kernel::Result;
use weft_oidc::login_form::{LoginForm, id_of};

use super::reply::body_of;
use super::{OidcReply, OidcRequest};
use crate::handle::Auth;

impl Auth {
    /// Answers a request to the provider.
    pub async fn oidc(&self, request: OidcRequest) -> OidcReply {
        if request.issuer().is_none() {
            let text = "no issuer has this host; the provider answers at the addresses and names of its server";
            return OidcReply::coded(404, "NOT_FOUND", text);
        }
        match self.oidc_endpoint(request).await {
            Ok(reply) => reply,
            Err(failure) => OidcReply::failure(&failure),
        }
    }

    async fn oidc_endpoint(&self, request: OidcRequest) -> Result<OidcReply> {
        let path = request.path.trim_end_matches('/').to_owned();
        Ok(match (request.method.as_str(), path.as_str()) {
            ("GET", "/.well-known/openid-configuration") => self.discovery(&request),
            ("GET", "/keys") => self.published_keys()?,
            ("GET" | "POST", "/authorize") => self.begin_login(&request),
            ("GET", "/authorize/callback") => self.finish_login(&request),
            ("GET", "/login/password" | "/login/username") => {
                self.login_page(&request, method::PASSWORD)
            }
            ("GET", "/login/cert") => self.login_page(&request, method::CERT),
            ("GET", "/login/ext-jwt") => self.login_page(&request, method::EXT_JWT),
            ("GET", "/login/auth-queries") => self.missing_factors(&request),
            ("GET", "/login/totp") => self.login_page(&request, "totp"),
            (_, path) if path.starts_with("/login/") => self.step(&request, path).await?,
            ("POST", "/revoke" | "/oauth/revoke") => Box::pin(self.revoke(&request)).await,
            ("GET" | "POST", "/end_session") => Box::pin(self.end_session(&request)).await,
            ("GET", "/logged-out") => {
                let has_ended = !request.query.split('&').any(|pair| pair == "kept=1");
                OidcReply::page(200, &weft_oidc::pages::logged_out(&request.host, has_ended))
            }
            ("POST", "/device_authorization") => self.begin_device(&request),
            ("GET", "/device") => self.device_page(&request),
            ("POST", "/device") => self.enter_device(&request),
            ("GET", "/device/consent") => {
                let id = id_of(&request.query).ok().flatten().unwrap_or_default();
                self.consent_page(&request, &id)
            }
            ("POST", "/device/consent") => self.decide_device(&request),
            ("POST", "/oauth/token") => Box::pin(self.token_endpoint(&request)).await,
            ("GET" | "POST", "/userinfo") => self.userinfo(&request),
            _ => return Err(ErrorCode::NotFound.into()),
        })
    }

    /// A step of a login, answered as JSON or as a page.
    async fn step(&self, request: &OidcRequest, path: &str) -> Result<OidcReply> {
        let reply = match (request.method.as_str(), path) {
            ("POST", "/login/password" | "/login/username") => {
                Box::pin(self.primary_factor(request, method::PASSWORD)).await
            }
            ("POST", "/login/cert") => Box::pin(self.primary_factor(request, method::CERT)).await,
            ("POST", "/login/ext-jwt") => {
                Box::pin(self.primary_factor(request, method::EXT_JWT)).await
            }
            _ => match self.totp_step(request, path).await? {
                Ok(reply) | Err(reply) => reply,
            },
        };
        // A page that was made already, such as the one with the recovery codes.
        if reply.is_page() {
            return Ok(reply);
        }
        let read = LoginForm::read(request.content_type.as_deref(), &request.body, &request.query);
        let id = read.ok().and_then(|form| form.id).unwrap_or_default();
        Ok(self.shown(request, &id, reply))
    }

    /// A step with a one-time code.
    async fn totp_step(
        &self,
        request: &OidcRequest,
        path: &str,
    ) -> Result<Result<OidcReply, OidcReply>> {
        Ok(match (request.method.as_str(), path) {
            ("POST", "/login/totp") => Box::pin(self.totp_code(request)).await,
            ("POST", "/login/totp/enroll") => Box::pin(self.begin_totp(request)).await,
            ("POST", "/login/totp/enroll/verify") => Box::pin(self.verify_totp(request)).await,
            ("DELETE", "/login/totp/enroll") => Box::pin(self.drop_totp(request)).await,
            _ => return Err(ErrorCode::NotFound.into()),
        })
    }

    /// The document from which clients learn the endpoints.
    fn discovery(&self, request: &OidcRequest) -> OidcReply {
        let algorithm = self.token_keys().signer().public().algorithm();
        let algorithms = [weft_identity::token::algorithm_name(algorithm)];
        match request.issuer() {
            Some(issuer) => OidcReply::public(issuer.discovery(&algorithms)),
            None => OidcReply::failure(&ErrorCode::NotFound.into()),
        }
    }

    /// The keys that verify the tokens of this network.
    fn published_keys(&self) -> Result<OidcReply> {
        Ok(OidcReply::public(body_of(&self.published_token_keys()?)))
    }
}
