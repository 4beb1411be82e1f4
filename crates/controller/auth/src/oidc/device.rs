//! Logins for devices without a browser (RFC 8628).

use std::time::Instant;

use weft_model::Id;
use weft_model::entity::Identity;
use weft_oidc::browser;
use weft_oidc::device::{DeviceRequest, UserCode};
use weft_oidc::logins::NoDevice;
use weft_oidc::pages::{self, PageContext};
use weft_oidc::params::Params;

use super::{OidcReply, OidcRequest};
use crate::handle::Auth;

/// Longest text in a form of a page, in bytes.
const MAX_TEXT: usize = 128;

impl Auth {
    /// `POST /device_authorization`: a device asks for its codes.
    pub(super) fn begin_device(&self, request: &OidcRequest) -> OidcReply {
        let Some(issuer) = request.issuer() else { return OidcReply::refused_host() };
        let read = Params::read("", request.form()).and_then(|params| {
            let basic = request.authorizations.first().map(String::as_str);
            DeviceRequest::read(&params, basic, request.user_agent.as_deref(), request.address())
        });
        match read {
            Ok(wanted) => {
                let random = [self.kernel().ids().bytes(), self.kernel().ids().bytes()];
                let mut unfinished = self.unfinished().lock();
                let codes = unfinished.begin_device(wanted, &random, Instant::now());
                OidcReply::json(200, codes.body(issuer))
            }
            Err(problem) => OidcReply::problem(&problem),
        }
    }

    /// `GET /device`: the field for the code that a device shows.
    pub(super) fn device_page(&self, request: &OidcRequest) -> OidcReply {
        let params = Params::read(&request.query, "");
        let entered =
            params.ok().and_then(|it| it.one("user_code", MAX_TEXT).ok()?.map(UserCode::read));
        let code = entered.flatten();
        OidcReply::page(200, &pages::device_code(&request.host, code.as_ref(), None))
    }

    /// `POST /device`: a person enters the code, and logs in.
    pub(super) fn enter_device(&self, request: &OidcRequest) -> OidcReply {
        let again =
            |said: &str| OidcReply::page(400, &pages::device_code(&request.host, None, Some(said)));
        if request.is_foreign() {
            return again("Enter the code on this page.");
        }
        let params = Params::read("", request.form());
        let entered =
            params.ok().and_then(|it| it.one("user_code", MAX_TEXT).ok()?.map(str::to_owned));
        let entered = entered.unwrap_or_default();
        let random = [self.kernel().ids().bytes(), self.kernel().ids().bytes()];
        let session = self.kernel().ids().token().to_string();
        let begun = self.unfinished().lock().enter(
            &entered,
            session,
            request.browser(),
            request.address(),
            &random,
            Instant::now(),
        );
        match begun {
            Ok(begun) => {
                let has_certificate = request.caller.leaf().is_some();
                let page = if has_certificate { "cert" } else { "username" };
                let to = format!("/oidc/login/{page}?authRequestID={}", begun.id);
                OidcReply::redirect(to).with("set-cookie", browser::set_cookie(&begun.browser))
            }
            Err(NoDevice::Wrong) => again("No device shows this code, or it is too old."),
            Err(NoDevice::TooOften) => again("There were too many wrong codes. Wait five minutes."),
        }
    }

    /// `GET /device/consent`: asks the person whether the device may act for the identity.
    pub(super) fn consent_page(&self, request: &OidcRequest, id: &str) -> OidcReply {
        let is_complete = {
            let unfinished = self.unfinished().lock();
            unfinished.get(id, Instant::now()).is_ok_and(|login| login.is_complete())
        };
        if !is_complete {
            return self.next_page(request, id, None, 200);
        }
        let unfinished = self.unfinished().lock();
        let now = Instant::now();
        let shown = unfinished.get(id, now).ok().and_then(|login| {
            login.admit(browser::visitor(request.browser())).ok()?;
            let device = unfinished.device(id, now)?;
            let snapshot = self.kernel().snapshot();
            let identity = snapshot.get::<Identity>(&Id::new(&login.owner()?.identity))?;
            let asking = PageContext::of(id, login, &request.host);
            Some(pages::consent(asking, device, &identity.name, request.address()))
        });
        match shown {
            Some(page) => OidcReply::page(200, &page),
            None => OidcReply::page(403, &pages::elsewhere(&request.host)),
        }
    }

    /// `POST /device/consent`: the person agrees, or refuses.
    pub(super) fn decide_device(&self, request: &OidcRequest) -> OidcReply {
        let elsewhere = || OidcReply::page(403, &pages::elsewhere(&request.host));
        let Ok(params) = Params::read("", request.form()) else { return elsewhere() };
        let one = |name| params.one(name, MAX_TEXT).ok().flatten().unwrap_or_default().to_owned();
        let (id, agrees) = (one("id"), one("decision") == "agree");
        if request.is_foreign() {
            return elsewhere();
        }
        let mut unfinished = self.unfinished().lock();
        match unfinished.decide(&id, request.browser(), agrees, Instant::now()) {
            Ok(()) => OidcReply::page(200, &pages::device_done(&request.host, agrees)),
            Err(_) => elsewhere(),
        }
    }
}
