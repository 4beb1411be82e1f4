//! `weft login` and `weft logout`: a login that later commands use.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use weft_client::{Address, Credentials, ManagementClient, SavedLogin, Tls, trust};
use weft_contract::resource::session::ApiSessionDetail;
use weft_identity::TrustBundle;

use crate::{
    cli::{LoginArgs, LoginHome},
    failure::{Failure, chain},
};

/// Logs in and saves the login.
pub(crate) async fn login(args: LoginArgs) -> Result<(), Failure> {
    let directory = directory(args.home.config_dir.as_deref())?;
    let address: Address = args.url.parse()?;
    let bundle = match &args.ca {
        Some(path) => bundle_of(path)?,
        None => fetch_bundle(&address, &directory, args.yes).await?,
    };
    let client = ManagementClient::new(address.clone(), &Tls::Anonymous(bundle.clone()))?;
    let password = match args.password {
        Some(password) => password,
        None => ask_password(&args.username)?,
    };
    let credentials = Credentials::password(args.username.clone(), password)?;
    let session = client.login(&credentials).await.map_err(|error| {
        // Wrong credentials are not the end of a login.
        let hint = if error.is_unauthorized() { " (wrong user name or password?)" } else { "" };
        Failure::new(chain(&error)).during(format!("{address} refused the login{hint}"))
    })?;
    save(&client, &session, &bundle, &args.username, &directory)?;
    println!("logged in to {address} as {}", session.identity.name);
    Ok(())
}

/// Saves what `client` logged in with.
pub(crate) fn save(
    client: &ManagementClient,
    session: &ApiSessionDetail,
    bundle: &TrustBundle,
    username: &str,
    directory: &Path,
) -> Result<(), Failure> {
    let token = client.token().ok_or_else(|| Failure::new("the controller gave no session"))?;
    let login = SavedLogin {
        controller: client.address().to_string(),
        username: username.to_owned(),
        token,
        expires_at: session.expires_at,
        ca: bundle.to_pem(),
    };
    Ok(login.save(directory)?)
}

/// Ends the saved login at the controller and forgets it.
pub(crate) async fn logout(home: LoginHome) -> Result<(), Failure> {
    let directory = directory(home.config_dir.as_deref())?;
    let Some(login) = SavedLogin::load(&directory)? else {
        println!("there is no saved login");
        return Ok(());
    };
    // The session may have ended by itself, or the controller be away: forget it all the same.
    if let Err(error) = ManagementClient::resume(&login)?.logout().await {
        eprintln!("weft: the session could not be ended at the controller: {}", chain(&error));
    }
    SavedLogin::remove(&directory)?;
    println!("logged out of {}", login.controller);
    Ok(())
}

/// A client with the saved login.
pub(crate) async fn resume(config_dir: Option<&Path>) -> Result<ManagementClient, Failure> {
    let directory = directory(config_dir)?;
    let login = SavedLogin::load(&directory)?.ok_or_else(|| {
        Failure::not_logged_in(format!(
            "there is no saved login in {}: log in with `weft login`",
            directory.display()
        ))
    })?;
    Ok(ManagementClient::resume(&login)?)
}

/// The folder of saved logins.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    directories::ProjectDirs::from("", "", "weft")
        .map(|folders| folders.config_dir().to_owned())
        .ok_or_else(|| Failure::new("there is no home folder; name one with --config-dir"))
}

fn bundle_of(path: &Path) -> Result<TrustBundle, Failure> {
    let text = std::fs::read(path)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    TrustBundle::from_pem(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// The controller's own word on whom to trust. It is believed if it is what an earlier login to
/// the same controller saved, or if the user says so.
async fn fetch_bundle(
    address: &Address,
    directory: &Path,
    yes: bool,
) -> Result<TrustBundle, Failure> {
    if let Ok(Some(login)) = SavedLogin::load(directory)
        && login.controller == address.to_string()
        && let Ok(bundle) = login.bundle()
        && ManagementClient::new(address.clone(), &Tls::Anonymous(bundle.clone()))?
            .version()
            .await
            .is_ok()
    {
        return Ok(bundle);
    }
    let stranger = trust::meet(address).await?;
    let bundle = stranger.bundle;
    if yes {
        return Ok(bundle);
    }
    eprintln!(
        "{address} is not known here. Its certificate has the SHA-1 fingerprint {}",
        stranger.leaf.fingerprint()
    );
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            "nobody can be asked whether to trust it: name its authorities with --ca FILE, or trust \
             it with --yes",
        ));
    }
    eprint!("Trust it from now on? [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::new)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(bundle);
    }
    Err(Failure::new("not trusted; nothing was saved"))
}

/// Asks for a password at the terminal.
pub(crate) fn ask_password(username: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage("a password is needed: give --password or set WEFT_PASSWORD"));
    }
    rpassword::prompt_password(format!("Password of {username}: ")).map_err(Failure::new)
}
