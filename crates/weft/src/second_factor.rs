//! `weft second-factor`: sets up the second factor of an identity.

use weft_client::NewFactor;
use weft_identity::IdentityFile;

use crate::{ask, cli::SecondFactorArgs, failure::Failure, output};

/// Most codes that a person is asked for.
const ATTEMPTS: u32 = 3;

/// Shows the URL for the authenticator app, and completes the factor with a code of the app.
pub(crate) async fn second_factor(args: SecondFactorArgs) -> Result<(), Failure> {
    let file = IdentityFile::read_to_use(&args.identity)?;
    let factor = NewFactor::begin(&file).await?;
    let done = set_up(&factor, args.code.as_deref()).await;
    factor.end().await;
    done
}

async fn set_up(factor: &NewFactor, code: Option<&str>) -> Result<(), Failure> {
    let Some(url) = factor.url() else {
        return Err(Failure::refused("the identity has a second factor already")
            .and("hint: if its app is lost, an administrator removes it: weft remove mfa NAME"));
    };
    if let Some(code) = code {
        if factor.complete(code).await? {
            completed();
            return Ok(());
        }
        return Err(Failure::refused("the controller refused the code: give the next one"));
    }
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
