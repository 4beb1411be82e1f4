//! The beginning of a login and its callback (docs/protocol/auth.md 15.4).

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use weft_oidc::authorize::{AuthorizeRequest, Refusal};
use weft_oidc::browser;
use weft_oidc::login_form::id_of;
use weft_oidc::logins::Callback;
use weft_oidc::params::Params;

use super::{OidcReply, OidcRequest};
use crate::handle::Auth;

impl OidcRequest {
    /// The address that the login counts for.
    pub(super) fn address(&self) -> IpAddr {
        let remote = self.caller.origin.remote.map(|remote| remote.ip());
        remote.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// The body as the text of a form; empty if it is none.
    pub(super) fn form(&self) -> &str {
        let is_form = self.content_type.as_deref().is_some_and(|media| {
            media.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
        });
        let text = std::str::from_utf8(&self.body).ok();
        text.filter(|_| is_form).unwrap_or_default()
    }
}

impl Auth {
    /// `/authorize`: begins a login.
    pub(super) fn begin_login(&self, request: &OidcRequest) -> OidcReply {
        let Some(issuer) = request.issuer() else { return OidcReply::refused_host() };
        let params = match Params::read(&request.query, request.form()) {
            Ok(params) => params,
            Err(problem) => return OidcReply::problem(&problem),
        };
        let wanted = match AuthorizeRequest::read(&params, issuer.url(), &request.door.logins) {
            Ok(wanted) => wanted,
            Err(Refusal::Direct(problem)) if request.wants_page() => {
                let page = weft_oidc::pages::problem(&request.host, &problem.description);
                return OidcReply::page(problem.status(), &page);
            }
            Err(Refusal::Direct(problem)) => return OidcReply::problem(&problem),
            Err(Refusal::Redirect { to, .. }) => return OidcReply::redirect(to),
        };
        let has_certificate = request.caller.leaf().is_some();
        let page = |id: &str| wanted.login_path(has_certificate, id);
        let random = [self.kernel().ids().bytes(), self.kernel().ids().bytes()];
        let (session, address) = (self.kernel().ids().token().to_string(), request.address());
        let begun = self.unfinished().lock().begin(
            wanted.clone(),
            session,
            request.browser(),
            address,
            &random,
            Instant::now(),
        );
        OidcReply::redirect(page(&begun.id))
            .of_login(&begun.id)
            .with("set-cookie", browser::set_cookie(&begun.browser))
    }

    /// `/authorize/callback`: gives the client its code.
    pub(super) fn finish_login(&self, request: &OidcRequest) -> OidcReply {
        let id = match id_of(&request.query) {
            Ok(id) => id.unwrap_or_default(),
            Err(error) => return OidcReply::form(&error),
        };
        let random = self.kernel().ids().bytes();
        let mut unfinished = self.unfinished().lock();
        match unfinished.callback(&id, request.visitor(), &random, Instant::now()) {
            Ok(Callback::Code(to) | Callback::NotFinished(to)) => OidcReply::redirect(to),
            Err(_) if request.wants_page() => {
                OidcReply::page(403, &weft_oidc::pages::elsewhere(&request.host))
            }
            Err(refused) => OidcReply::refused(refused),
        }
    }

    /// `/login/auth-queries`: what a login still needs.
    pub(super) fn missing_factors(&self, request: &OidcRequest) -> OidcReply {
        let id = match id_of(&request.query) {
            Ok(id) => id.unwrap_or_default(),
            Err(error) => return OidcReply::form(&error),
        };
        let missing = {
            let unfinished = self.unfinished().lock();
            let login = unfinished.get(&id, Instant::now());
            let seen = login.and_then(|login| login.admit(request.visitor()).map(|()| login));
            match seen {
                Ok(login) => login.missing().unwrap_or_default(),
                Err(refused) => return OidcReply::refused(refused),
            }
        };
        self.missing_in(&id, &missing)
    }
}

impl OidcReply {
    pub(super) fn refused_host() -> Self {
        Self::coded(404, "NOT_FOUND", "no issuer has this host")
    }
}
