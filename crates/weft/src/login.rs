//! `weft login`, `logout`, `logins` and `use`: logins that later commands use.

mod meet;
mod person;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) use person::show;
use serde_json::json;
use weft_client::{
    ControllerAddress, Credentials, Error, ExternalToken, FactorProblem, LoginKey, LoginProtocol,
    Logins, ManagementClient, SavedLogin, SavedTokens, SecondTokenFile, Tls,
};
use weft_identity::{IdentityFile, TrustBundle, text_of};

use crate::cli::{LoginArgs, LogoutArgs, UseArgs};
use crate::codes::Codes;
use crate::failure::{Failure, Result, chain};
use crate::output::{self, Format};
use crate::session::{LoginFolder, with_session};
use crate::{ask, input};

/// Default address of the controller.
const NEAR: &str = "https://localhost:1280";

/// Logs in and saves the login.
pub(crate) async fn login(args: LoginArgs) -> Result<()> {
    let logins = args.folder.logins()?;
    let key = key(&args)?;
    let file = match &key {
        Some(LoginKey::Identity(path)) => Some(IdentityFile::read(path)?),
        _ => None,
    };
    let address: ControllerAddress =
        match (&args.url, file.as_ref().and_then(|file| file.controllers().next())) {
            (Some(url), _) => url.parse()?,
            (None, Some(url)) => url.parse()?,
            (None, None) => NEAR.parse()?,
        };
    if let Some(name) = &args.name {
        // Checked before the user is asked for anything.
        logins.path(name)?;
    }
    let codes = Codes::new(&args.codes, &[])?;
    let bundle = bundle(&args, &address, &logins, file.as_ref()).await?;
    let mut login = SavedLogin {
        controller: address.to_string(),
        username: String::new(),
        token: String::new(),
        expires_at: None,
        ca: bundle.to_pem(),
        key,
        second_token: second_token(&args)?,
        tokens: None,
    };
    let who = match &args.token {
        Some(token) => by_token(&mut login, token, &codes).await?,
        None if args.browser || args.device => on_pages(&mut login, args.browser, &codes).await?,
        None => by_credentials(&mut login, &args, &codes).await?,
    };
    let name = args.name.clone().unwrap_or_else(|| free_name(&logins, &address, &login));
    let former = saved(&logins, &name);
    logins.save(&name, &login)?;
    logins.choose(&name)?;
    output::line(format!("logged in to {address} as {who}"));
    if args.second_token.is_some() && login.second_token.is_none() {
        output::line("the second token is not kept: the controller asks for none from here on");
    }
    if let Some(former) = &former {
        end_replaced(former, &login).await;
    }
    if let Some(former) = former.filter(|former| !is_same_user(former, &login)) {
        let SavedLogin { username, controller, .. } = former;
        output::line(format!("it replaces the saved login of {username} at {controller}"));
    }
    if logins.names()?.len() > 1 {
        output::line(format!("this login is called `{name}`; `weft use` switches between logins"));
    }
    Ok(())
}

/// The login that is saved under a name, if one is and can be read.
fn saved(logins: &Logins, name: &str) -> Option<SavedLogin> {
    logins.load(Some(name)).ok().flatten().map(|(_, login)| login)
}

/// Ends the session of a saved login that another one has taken the place of: nobody could refresh or end it any more. One
/// with an opaque token ends soon by itself.
async fn end_replaced(former: &SavedLogin, login: &SavedLogin) {
    let Some(tokens) = former.tokens.as_ref().filter(|_| former.token != login.token) else {
        return;
    };
    if let Err(error) = end_tokens(tokens, former).await {
        tracing::debug!(%error, "the session of the former login could not be ended");
    }
}

/// True if one login takes the place of the other: the same user, in the same way, at the same controller.
fn is_same_user(one: &SavedLogin, other: &SavedLogin) -> bool {
    one.username == other.username
        && one.controller == other.controller
        && one.key.is_some() == other.key.is_some()
}

/// The name to save a login under: that of its controller, unless another user's login has it.
fn free_name(logins: &Logins, address: &ControllerAddress, login: &SavedLogin) -> String {
    const MOST: u32 = 99;
    let own = Logins::name_for_user(address, &login.username);
    let numbered = (2..=MOST).map(|number| format!("{own}-{number}"));
    let mut names = [Logins::name_for(address), own.clone()].into_iter().chain(numbered);
    let is_free =
        |name: &String| saved(logins, name).is_none_or(|former| is_same_user(&former, login));
    names.find(is_free).unwrap_or(own)
}

/// A path that does not depend on the folder of the command.
fn whole(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// The token that is the second factor, if one was given.
fn second_token(args: &LoginArgs) -> Result<Option<SecondTokenFile>> {
    let Some(given) = &args.second_token else { return Ok(None) };
    Ok(Some(SecondTokenFile { signer: given.signer.clone(), file: whole(&given.file)? }))
}

/// The certificate to log in with, if one was given.
fn key(args: &LoginArgs) -> Result<Option<LoginKey>> {
    Ok(match (&args.identity, &args.cert, &args.key) {
        (Some(path), ..) => Some(LoginKey::Identity(whole(path)?)),
        (None, Some(cert), Some(key)) => {
            Some(LoginKey::Files { cert: whole(cert)?, key: whole(key)? })
        }
        _ => None,
    })
}

/// The bundle to trust: from the flag, the identity file, or the controller.
async fn bundle(
    args: &LoginArgs,
    address: &ControllerAddress,
    logins: &Logins,
    file: Option<&IdentityFile>,
) -> Result<TrustBundle> {
    if let Some(path) = &args.ca {
        let wrong = |error: String| Failure::new(format!("{}: {error}", path.display()));
        let text = input::read(path).map_err(|error| wrong(error.to_string()))?;
        return TrustBundle::from_pem(&text).map_err(|error| wrong(chain(&error)));
    }
    let own = file.and_then(|file| file.id.ca.strip_prefix("pem:"));
    if let Some(bundle) = own.and_then(|pem| TrustBundle::from_pem(pem.as_bytes()).ok()) {
        return Ok(bundle);
    }
    meet::bundle(address, logins, args.yes).await
}

/// Uses a session that was made elsewhere. Its second factor is given if it lacks one.
async fn by_token(login: &mut SavedLogin, token: &str, codes: &Arc<Codes>) -> Result<String> {
    token.trim().clone_into(&mut login.token);
    completed(login, codes).await
}

/// Has a person log in on the pages of the controller.
async fn on_pages(login: &mut SavedLogin, in_browser: bool, codes: &Arc<Codes>) -> Result<String> {
    let tokens = match in_browser {
        true => person::in_browser(login).await?,
        false => person::by_device(login).await?,
    };
    *login = login.clone().with_tokens(tokens);
    completed(login, codes).await
}

/// Gives the session of a login what it lacks, and returns the name of its identity. The token that is the second factor is
/// shown, and named in the saved login, only if the controller asks for it.
async fn completed(login: &mut SavedLogin, codes: &Arc<Codes>) -> Result<String> {
    let (given, tokens) = (login.second_token.clone(), login.second_tokens());
    login.second_token = None;
    let client = ManagementClient::resume(login)?.with_codes(Some(codes.of_client()));
    let client = client.with_second_tokens(tokens);
    client.complete().await?;
    login.second_token = given.filter(|_| client.shows_second_token());
    let identity = client.current_identity().await?;
    login.username.clone_from(&identity.name);
    Ok(identity.name)
}

async fn by_credentials(
    login: &mut SavedLogin,
    args: &LoginArgs,
    codes: &Arc<Codes>,
) -> Result<String> {
    let client = ManagementClient::new(login.address()?, &login.tls()?)?;
    let client = client.with_codes(Some(codes.of_client()));
    let client = client.with_second_tokens(login.second_tokens());
    let client = client.with_protocol(LoginProtocol::Announced);
    let credentials = match (&login.key, &args.ext_jwt) {
        (Some(_), _) => Credentials::Certificate,
        (None, Some(file)) => Credentials::ExternalToken(external_token(file).await?),
        (None, None) => {
            let password = match &args.password {
                Some(password) => password.clone(),
                None => ask::password(&args.username).await?,
            };
            let given = Credentials::password(args.username.clone(), password);
            given.map_err(|error| match error {
                // No request was made: the name or the password is wrong usage.
                Error::Request(reason) => Failure::usage(reason),
                other => other.into(),
            })?
        }
    };
    let session = client.login(&credentials).await;
    let session = session.map_err(|error| not_logged_in(error, &credentials, &login.controller))?;
    *login = with_session(login.clone(), &client, &session)?;
    login.username = match credentials {
        Credentials::Password { .. } => args.username.clone(),
        _ => session.identity.name.clone(),
    };
    Ok(session.identity.name)
}

/// The token of an external signer in a file; `-` is standard input.
async fn external_token(file: &Path) -> Result<ExternalToken> {
    let text = match file.to_str() {
        Some("-") => tokio::task::spawn_blocking(input::read_standard)
            .await
            .map_err(|error| Failure::new(error.to_string()))?,
        _ => input::read(file),
    };
    let wrong = |error: String| Failure::new(format!("{}: {error}", file.display()));
    let text = text.map_err(|error| wrong(error.to_string()))?;
    let text = text_of(text).map_err(|error| wrong(chain(&error)))?;
    match text.trim().is_empty() {
        true => Err(Failure::usage(format!("{}: there is no token in it", file.display()))),
        false => Ok(ExternalToken::new(&text)),
    }
}

/// Why a login failed.
fn not_logged_in(error: Error, credentials: &Credentials, controller: &str) -> Failure {
    let is_by_password = matches!(credentials, Credentials::Password { .. });
    if error.is_unauthorized() {
        // Wrong credentials do not mean that the login has ended.
        let hint = match credentials {
            Credentials::Password { .. } => " (wrong user name or password?)",
            Credentials::Certificate => " (is the certificate one of this network?)",
            Credentials::ExternalToken(_) | Credentials::ExternalTokens(_) => {
                " (an administrator learns why from `weft signer test`)"
            }
        };
        return Failure::caused_by(&error).during(format!("{controller} refused the login{hint}"));
    }
    let is_stuck = is_by_password && matches!(error, Error::SecondFactor(FactorProblem::NotSetUp));
    let failure = Failure::from(error).during(format!("cannot log in to {controller}"));
    match is_stuck {
        true => failure.and(
            "hint: that needs a login: until the second factor is set up, an administrator gives the \
             identity an auth policy without requireTotp",
        ),
        false => failure,
    }
}

/// Ends a saved login at the controller and forgets it.
pub(crate) async fn logout(args: LogoutArgs) -> Result<()> {
    let logins = args.folder.logins()?;
    let names = match (&args.name, args.all) {
        (_, true) => logins.names()?,
        (Some(name), _) => vec![name.clone()],
        (None, _) => logins.current()?.into_iter().collect(),
    };
    if names.is_empty() {
        output::line("there is no saved login");
    }
    for name in names {
        end(&logins, &name).await?;
    }
    Ok(())
}

async fn end(logins: &Logins, name: &str) -> Result<()> {
    let Some((_, login)) = logins.load(Some(name))? else {
        return Err(Failure::not_found(format!("there is no saved login `{name}`")));
    };
    // The session may have ended, or the controller may be unreachable: the login is removed
    // anyway.
    let ended = match &login.tokens {
        // The access token may have ended.
        Some(tokens) => end_tokens(tokens, &login).await,
        None => match ManagementClient::resume(&login) {
            Ok(client) => client.logout().await,
            Err(error) => Err(error),
        },
    };
    if let Err(error) = ended {
        let error = chain(&error);
        output::say(format!("weft: the session could not be ended at the controller: {error}"));
    }
    logins.remove(name)?;
    output::line(format!("logged out of {}", login.controller));
    Ok(())
}

async fn end_tokens(tokens: &SavedTokens, login: &SavedLogin) -> Result<(), Error> {
    tokens.end(&login.address()?, &login.tls()?).await
}

/// Lists the saved logins.
pub(crate) fn list(folder: &LoginFolder, format: Format) -> Result<()> {
    let logins = folder.logins()?;
    let current = logins.current()?;
    let mut found = Vec::new();
    for name in logins.names()? {
        let login = logins.load(Some(&name));
        let (login, broken) = match login {
            Ok(login) => (login.map(|(_, login)| login), None),
            Err(error) => (None, Some(error.to_string())),
        };
        found.push(json!({
            "name": name,
            "current": current.as_deref() == Some(name.as_str()),
            "controller": login.as_ref().map(|login| login.controller.clone()),
            "username": login.as_ref().map(|login| login.username.clone()),
            "certificate": login.as_ref().map(|login| login.key.is_some()),
            "expiresAt": login.and_then(|login| login.expires_at),
            "broken": broken,
        }));
    }
    let members = ["current", "name", "controller", "username", "expiresAt", "broken"];
    output::list(format, found, &members, "no saved logins; `weft login` makes one");
    Ok(())
}

/// Makes a saved login the current one.
pub(crate) fn choose(args: &UseArgs) -> Result<()> {
    let logins = args.folder.logins()?;
    let Some((name, login)) = logins.load(Some(&args.name))? else {
        let names = logins.names()?.join(", ");
        let there = if names.is_empty() { "none".to_owned() } else { names };
        let text = format!("there is no saved login `{}`; there is: {there}", args.name);
        return Err(Failure::not_found(text));
    };
    logins.choose(&name)?;
    output::line(format!("now at {} as {}", login.controller, login.username));
    Ok(())
}

/// A client that trusts this bundle and shows no certificate.
fn stranger(address: &ControllerAddress, bundle: &TrustBundle) -> Result<ManagementClient> {
    Ok(ManagementClient::new(address.clone(), &Tls::Anonymous(bundle.clone()))?)
}
