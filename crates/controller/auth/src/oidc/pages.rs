//! Logins on pages: what a browser sees of a login, and of its steps (docs/protocol/auth.md 15.9).
//!
//! A step answers a browser as it answers a program, and this module turns the answer into a page.

use std::time::Instant;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use weft_model::Id;
use weft_model::entity::{ExtJwtSigner, Identity, Mfa};
use weft_oidc::browser;
use weft_oidc::login::{Login, Missing, Purpose, Totp};
use weft_oidc::login_form::ResponseFormat;
use weft_oidc::pages::{self, HtmlPage, PageContext, Signer, TotpEnrollment};

use super::codes::WRONG_CODE;
use super::{LoginFacts, OidcReply, OidcRequest};
use crate::handle::Auth;
use crate::totp;

/// What the next page of a login is.
enum Next {
    Page(HtmlPage),
    /// The login is complete, and goes on at this address.
    Leave(String),
}

impl OidcReply {
    pub(super) fn page(status: u16, page: &HtmlPage) -> Self {
        Self { status, headers: page.headers().to_vec(), body: page.body().as_bytes().to_vec() }
    }
}

impl OidcRequest {
    /// Whether the answer to a step of a login is a page.
    pub(super) fn wants_page(&self) -> bool {
        self.answer() == Some(ResponseFormat::Page)
    }
}

impl Auth {
    /// The answer to a step in the form that the client wants.
    pub(super) fn shown(&self, request: &OidcRequest, id: &str, reply: OidcReply) -> OidcReply {
        if !request.wants_page() || reply.status == 302 {
            return reply;
        }
        let said = (reply.status >= 400).then(|| said_of(request, &reply));
        self.next_page(request, id, said.as_deref(), reply.status)
    }

    /// The page on which a login goes on. `said` is what was wrong with the last step.
    pub(super) fn next_page(
        &self,
        request: &OidcRequest,
        id: &str,
        said: Option<&str>,
        status: u16,
    ) -> OidcReply {
        let status = if said.is_some() { status } else { 200 };
        match self.next_of(request, id, said) {
            Some(Next::Page(page)) => OidcReply::page(status, &page).of_login(id),
            Some(Next::Leave(to)) => OidcReply::redirect(to).of_login(id),
            None => OidcReply::page(403, &pages::elsewhere(&request.host)),
        }
    }

    fn next_of(&self, request: &OidcRequest, id: &str, said: Option<&str>) -> Option<Next> {
        let visitor = browser::visitor(request.browser());
        // Pages are written without the lock of all logins.
        let (missing, seen, next) = {
            let unfinished = self.unfinished().lock();
            let login = unfinished.get(id, Instant::now()).ok()?;
            login.admit(visitor).ok()?;
            (login.missing(), Seen::of(login), login.next(id))
        };
        let asking = seen.asking(id, &request.host);
        let Some(missing) = missing else {
            return Some(Next::Page(self.first_page(request, asking, said)));
        };
        Some(match (missing.totp, &missing.signer) {
            (Some(Totp::Enrolled), _) => Next::Page(pages::totp(asking, said)),
            (Some(Totp::NotEnrolled), _) => Next::Page(match self.begun_by(id) {
                Some(mfa) => self.enrollment_page(&mfa, asking, said),
                None => pages::start_enrollment(asking, said),
            }),
            (None, Some(_)) => Next::Page(self.token_page(asking, &missing, said)),
            (None, None) => Next::Leave(next),
        })
    }

    /// The page of a login that has no factor yet, by the address that the browser asked for.
    fn first_page(
        &self,
        request: &OidcRequest,
        asking: PageContext<'_>,
        said: Option<&str>,
    ) -> HtmlPage {
        match request.path.trim_end_matches('/') {
            "/login/cert" => {
                let leaf = request.caller.leaf();
                let subject = leaf.map(|leaf| leaf.subject().to_owned());
                pages::certificate(asking, subject.as_deref(), said)
            }
            "/login/ext-jwt" => self.token_page(asking, &Missing::default(), said),
            _ => pages::password(asking, said),
        }
    }

    /// The page for an external token: of the signer that is missing, or of any signer.
    fn token_page(
        &self,
        asking: PageContext<'_>,
        missing: &Missing,
        said: Option<&str>,
    ) -> HtmlPage {
        /// Signers that a page names.
        const MOST: usize = 20;
        let snapshot = self.kernel().snapshot();
        let signers: Vec<_> = match &missing.signer {
            Some(id) => snapshot.get::<ExtJwtSigner>(&Id::new(id)).into_iter().collect(),
            None => snapshot.list::<ExtJwtSigner>().filter(|it| it.enabled).take(MOST).collect(),
        };
        let named: Vec<Signer<'_>> = signers
            .iter()
            .map(|it| Signer { name: &it.name, url: it.external_auth_url.as_deref() })
            .collect();
        pages::external_token(asking, &named, missing.signer.is_some(), said)
    }

    fn enrollment_page(&self, mfa: &Mfa, asking: PageContext<'_>, said: Option<&str>) -> HtmlPage {
        let url = self.provisioning_url(mfa);
        let picture = totp::qr_png(&url).ok();
        let qr =
            picture.map(|png| format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png)));
        let enrollment = TotpEnrollment {
            url: &url,
            secret: &mfa.secret,
            qr: qr.as_deref().unwrap_or_default(),
        };
        pages::enroll(asking, enrollment, said)
    }

    pub(super) fn provisioning_url(&self, mfa: &Mfa) -> String {
        let snapshot = self.kernel().snapshot();
        let owner = snapshot.get::<Identity>(&mfa.identity_id);
        let name = owner.map(|identity| identity.name.to_string()).unwrap_or_default();
        totp::provisioning_url(&self.kernel().settings().totp_issuer, &name, &mfa.secret)
    }

    /// The page with the recovery codes, after the first code of a second factor was right.
    pub(super) fn recovery_page(&self, request: &OidcRequest, id: &str) -> Option<OidcReply> {
        let visitor = browser::visitor(request.browser());
        let (seen, owner, next) = {
            let unfinished = self.unfinished().lock();
            let login = unfinished.get(id, Instant::now()).ok()?;
            login.admit(visitor).ok()?;
            let next = match login.is_complete() {
                true => login.next(id),
                false => format!("/oidc/login/totp?authRequestID={id}"),
            };
            (Seen::of(login), login.owner()?.identity.clone(), next)
        };
        let mfa = self.mfa_of(&owner)?;
        // The page leads to a path of this provider.
        let next = next.find("/oidc/").map_or(next.as_str(), |at| &next[at..]);
        let page = pages::recovery_codes(seen.asking(id, &request.host), &mfa.recovery_codes, next);
        Some(OidcReply::page(200, &page).of_login(id))
    }
}

/// What a page says of its login.
struct Seen {
    client: &'static str,
    /// Where the login ends; none at a device.
    origin: Option<String>,
}

impl Seen {
    fn of(login: &Login<LoginFacts>) -> Self {
        let origin = match login.purpose() {
            Purpose::Code(request) => Some(request.redirect.origin().to_owned()),
            Purpose::Device(_) => None,
        };
        Self { client: login.client().id(), origin }
    }

    fn asking<'a>(&'a self, id: &'a str, controller: &'a str) -> PageContext<'a> {
        PageContext { id, controller, client: self.client, origin: self.origin.as_deref() }
    }
}

/// What a person is told of a step that failed.
fn said_of(request: &OidcRequest, reply: &OidcReply) -> String {
    let error: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let text = match (error["code"].as_str().unwrap_or_default(), request.path.as_str()) {
        (WRONG_CODE, _) => "The code is wrong, or was used before.",
        ("INVALID_AUTH", "/login/cert") => {
            "The certificate is none of an identity of this network."
        }
        ("INVALID_AUTH", "/login/ext-jwt") => "The token is not good for a login here.",
        ("INVALID_AUTH", _) => "The name or the password is wrong.",
        ("SERVER_TOO_MANY_REQUESTS" | "RATE_LIMITED", _) => {
            "There were too many attempts. Wait a moment, and try again."
        }
        _ => error["message"].as_str().unwrap_or("This did not work. Begin anew."),
    };
    text.to_owned()
}
