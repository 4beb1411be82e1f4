//! `weft second-factor`: sets up the second factor of an identity, or of the one that is logged in.

use weft_client::NewFactor;
use weft_identity::IdentityFile;

use crate::cli::SecondFactorArgs;
use crate::codes::Secrets;
use crate::failure::{Failure, Result};
use crate::{ask, output};

/// Most codes that a person is asked for.
const ATTEMPTS: u32 = 3;

/// Shows the URL for the authenticator app, and completes the factor with a code of the app.
pub(crate) async fn second_factor(args: SecondFactorArgs) -> Result<()> {
    let (values, identity) = (args.totp_secret_file.as_slice(), args.identity.as_slice());
    let secret = Secrets::read(values, identity)?.of(args.identity.as_deref());
    let factor = match &args.identity {
        Some(path) => NewFactor::begin(&IdentityFile::read_to_use(path)?).await?,
        None => {
            // A login by certificate may get a new session first.
            args.session.client().await?;
            NewFactor::of_login(&args.session.saved()?.1).await?
        }
    };
    let done = match (factor.url(), args.code, secret) {
        (None, ..) => Err(Failure::refused("the identity has a second factor already")
            .and("hint: if its app is lost, an administrator removes it: weft remove mfa NAME")),
        (Some(_), Some(code), _) => complete(&factor, Some(code), "give the next one").await,
        (Some(_), None, Some(secret)) => {
            let code = secret.code(false).await;
            complete(&factor, code, "is the secret in the file the one that was shown?").await
        }
        (Some(url), None, None) => ask_for_codes(&factor, url).await,
    };
    factor.end().await;
    done
}

async fn complete(factor: &NewFactor, code: Option<String>, advice: &str) -> Result<()> {
    let is_taken = match code {
        Some(code) => factor.complete(&code).await?,
        None => false,
    };
    match is_taken {
        true => {
            completed();
            Ok(())
        }
        false => Err(Failure::refused(format!("the controller refused the code: {advice}"))),
    }
}

async fn ask_for_codes(factor: &NewFactor, url: &str) -> Result<()> {
    output::line(format!("for the authenticator app: {url}"));
    output::line("codes for a time without the app, each good once:");
    for codes in factor.recovery_codes().chunks(10) {
        output::line(format!("  {}", codes.join(" ")));
    }
    for _ in 0..ATTEMPTS {
        let Some(code) = ask::code("A code of the app: ").await else { break };
        if factor.complete(&code).await? {
            completed();
            return Ok(());
        }
        output::say("the controller refused the code");
    }
    Err(Failure::refused("the second factor is not complete yet")
        .and("hint: the same command with --code CODE completes it"))
}

fn completed() {
    output::line("the second factor is complete: logins of the identity need a code from now on");
}
