mod login;
mod logins;
mod strings;

use std::net::IpAddr;
use std::time::Instant;

use weft_model::Timestamp;

use crate::authorize::{AuthorizeRequest, PrimaryFactor};
use crate::client::{UriSources, Uris};
use crate::login::{Missing, Owner, Primary};
use crate::logins::{Begun, PendingLogins};
use crate::params::Params;
use crate::secret::RandomBytes;

const ISSUER: &str = "https://ctrl.example:1280/oidc";
const REDIRECT: &str = "http://localhost:8080/auth/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// A request with a `state` of this many bytes.
fn request(state: usize) -> AuthorizeRequest {
    let query = format!(
        "client_id=openziti&response_type=code&scope=openid&redirect_uri={REDIRECT}&state={}&nonce=n\
         &code_challenge_method=S256&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
        "s".repeat(state)
    );
    let (uris, _) = Uris::of_logins(&UriSources::default());
    AuthorizeRequest::read(&Params::read(&query, "").unwrap(), ISSUER, &uris).unwrap()
}

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

/// Random bytes that were not there before.
fn random(next: &mut u32) -> RandomBytes {
    *next += 1;
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&next.to_be_bytes());
    bytes[4..8].copy_from_slice(&next.wrapping_mul(2_654_435_761).to_be_bytes());
    bytes
}

fn owner(identity: &str, authenticator: &str) -> Owner {
    Owner { identity: identity.to_owned(), authenticator: authenticator.to_owned() }
}

fn primary(identity: &str, authenticator: &str, wanted: Missing) -> Primary {
    let at = Timestamp::from_secs(1000);
    Primary { owner: owner(identity, authenticator), method: PrimaryFactor::Password, at, wanted }
}

fn begin(logins: &mut PendingLogins<()>, next: &mut u32, now: Instant) -> Begun {
    let random = [random(next), random(next)];
    logins.begin(request(1), format!("session-{next}"), None, address(1), &random, now)
}
