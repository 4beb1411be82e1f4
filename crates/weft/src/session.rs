//! The login of a command: the current one, or the one that the command line names.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use weft_client::{
    Credentials, Error, FactorProblem, LoginProtocol, Logins, ManagementClient, SavedLogin,
};
use weft_contract::resource::session::ApiSessionDetail;

use crate::cli::CodeSource;
use crate::codes::Codes;
use crate::failure::{Failure, Result};

/// Folder of the saved logins.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct LoginFolder {
    /// Folder of saved logins [default: weft in the user's configuration folder, ~/.config on Linux]
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        env = "WEFT_CONFIG_DIR",
        hide_env = true,
        help_heading = "Settings",
        global = true
    )]
    pub(crate) config_dir: Option<PathBuf>,
}

/// Which saved login to use.
#[derive(Debug, Args, Clone, Default)]
pub(crate) struct LoginChoice {
    /// Use this saved login instead of the current one (`weft logins` lists them)
    #[arg(
        long,
        value_name = "LOGIN",
        add = ArgValueCompleter::new(saved_logins),
        env = "WEFT_LOGIN",
        hide_env = true,
        help_heading = "Settings",
        global = true
    )]
    pub(crate) login: Option<String>,
    #[command(flatten)]
    pub(crate) folder: LoginFolder,
}

impl LoginFolder {
    pub(crate) fn logins(&self) -> Result<Logins> {
        if let Some(given) = &self.config_dir {
            return Ok(Logins::in_directory(given));
        }
        directories::ProjectDirs::from("", "", "weft")
            .map(|folders| Logins::in_directory(folders.config_dir()))
            .ok_or_else(|| Failure::new("there is no home folder; name one with --config-dir"))
    }
}

impl LoginChoice {
    /// The login for completions, which know the environment, but no flags of the command line.
    pub(crate) fn of_environment() -> Self {
        Self {
            login: std::env::var("WEFT_LOGIN").ok().filter(|name| !name.is_empty()),
            folder: LoginFolder { config_dir: std::env::var_os("WEFT_CONFIG_DIR").map(Into::into) },
        }
    }

    /// The login and its name.
    pub(crate) fn saved(&self) -> Result<(String, SavedLogin)> {
        let logins = self.folder.logins()?;
        if let Some(found) = logins.load(self.login.as_deref())? {
            return Ok(found);
        }
        let names = logins.names()?;
        let folder = logins.directory().display();
        let hint = match names.as_slice() {
            [] => "log in with `weft login`".to_owned(),
            names => format!("`weft use NAME` chooses one of {}", names.join(", ")),
        };
        Err(Failure::not_logged_in(match &self.login {
            Some(name) => format!("there is no saved login `{name}`; {hint}"),
            None if names.is_empty() => format!("there is no saved login in {folder}: {hint}"),
            None => format!("no login of those in {folder} is chosen: {hint}"),
        }))
    }

    /// A client with the login. A login by certificate is renewed if its session has ended; a code of a second
    /// factor comes from the environment or the person at the terminal then.
    pub(crate) async fn client(&self) -> Result<ManagementClient> {
        let (name, login) = self.saved()?;
        if login.tokens.is_some() {
            let refreshed = refreshed(&self.folder.logins()?, &name, login.clone()).await;
            return match refreshed? {
                Refreshed::Client(client) => Ok(*client),
                Refreshed::Ended(_) if login.key.is_some() => self.renewed(&name, login).await,
                Refreshed::Ended(failure) => Err(failure),
            };
        }
        let client = ManagementClient::resume(&login)?;
        if login.key.is_none() || !has_ended(&client).await? {
            return Ok(client);
        }
        self.renewed(&name, login).await
    }

    /// A client with a new session of a login by certificate whose session has ended.
    async fn renewed(&self, name: &str, login: SavedLogin) -> Result<ManagementClient> {
        let codes = Codes::new(&CodeSource::of_environment(), &[])?;
        let client = ManagementClient::resume(&login)?;
        let client = client.with_codes(Some(codes.of_client()));
        let client = client.with_second_tokens(login.second_tokens());
        let client = client.with_protocol(LoginProtocol::Announced);
        let session = client.login(&Credentials::Certificate).await;
        let session = session.map_err(|error| not_renewed(name, error))?;
        let renewed = with_session(login, &client, &session)?;
        self.folder.logins()?.save(name, &renewed)?;
        Ok(client)
    }

    /// A client with the tokens of the login, refreshed, for a command that runs on when they end. None if the login has no
    /// such tokens: another one is renewed by a certificate, which may need a person at the terminal.
    pub(crate) async fn client_of_tokens(&self) -> Result<Option<ManagementClient>> {
        let (name, login) = self.saved()?;
        if login.tokens.is_none() {
            return Ok(None);
        }
        match refreshed(&self.folder.logins()?, &name, login).await? {
            Refreshed::Client(client) => Ok(Some(*client)),
            Refreshed::Ended(failure) => Err(failure),
        }
    }
}

/// A login whose tokens were refreshed if they had to be.
enum Refreshed {
    Client(Box<ManagementClient>),
    /// Its session has ended.
    Ended(Failure),
}

/// A client with a login whose tokens are refreshed if they have ended or are about to. If they cannot be refreshed now, they
/// are used as long as they are good. Commands that run at the same time may do that together: the controller gives them the
/// same tokens, and whoever is late takes those of the file.
async fn refreshed(logins: &Logins, name: &str, login: SavedLogin) -> Result<Refreshed> {
    let mut login = login;
    let of = |client| Ok(Refreshed::Client(Box::new(client)));
    for _ in 0..2 {
        let client = ManagementClient::resume(&login)?;
        let Some(tokens) = login.tokens.clone() else { return of(client) };
        let is_due = tokens.end_soon();
        if !is_due && !has_ended(&client).await? {
            return of(client);
        }
        match tokens.refreshed(&login.address()?, &login.tls()?).await {
            Ok(tokens) => {
                let used = login.token.clone();
                let renewed = login.with_tokens(tokens);
                // Another command may have saved newer tokens meanwhile.
                if logins.load(Some(name))?.is_some_and(|(_, now)| now.token == used) {
                    logins.save(name, &renewed)?;
                }
                return of(ManagementClient::resume(&renewed)?);
            }
            Err(error) if error.is_temporary() && is_due && !tokens.have_ended() => {
                return of(client);
            }
            Err(error) if error.is_temporary() => return Err(error.into()),
            Err(error) => {
                let now = logins.load(Some(name))?.map(|(_, login)| login);
                match now.filter(|now| now.token != login.token && now.tokens.is_some()) {
                    Some(other) => login = other,
                    None => return Ok(Refreshed::Ended(ended(name, &error))),
                }
            }
        }
    }
    Ok(Refreshed::Ended(ended(name, &"its tokens are refused")))
}

/// A login with the session of a client: with its tokens if the controller announces OpenID Connect, which are refreshed, or
/// else with its opaque token.
pub(crate) fn with_session(
    login: SavedLogin,
    client: &ManagementClient,
    session: &ApiSessionDetail,
) -> Result<SavedLogin> {
    // Later commands show the token to nobody who did not ask for it.
    let second_token = login.second_token.clone().filter(|_| client.shows_second_token());
    let login = SavedLogin { second_token, ..login };
    if let Some(tokens) = client.saved_tokens()? {
        return Ok(login.with_tokens(tokens));
    }
    let token = client.token().ok_or_else(|| Failure::new("the controller gave no session"))?;
    Ok(SavedLogin { token, expires_at: session.expires_at, tokens: None, ..login })
}

/// The session of a login has ended at the controller.
fn ended(name: &str, reason: &dyn std::fmt::Display) -> Failure {
    Failure::not_logged_in(format!("the session of the login `{name}` has ended: {reason}"))
        .and("hint: `weft login` begins a new one")
}

/// Why a saved login whose session has ended got no new one.
fn not_renewed(name: &str, error: Error) -> Failure {
    let during = format!("the session of the login `{name}` has ended, and there is no new one");
    match error {
        Error::SecondFactor(FactorProblem::NoCode) => {
            Failure::not_logged_in(error).during(during).and(
                "hint: run the command at a terminal, which asks for a code, or set WEFT_CODE or \
                 WEFT_TOTP_SECRET_FILE",
            )
        }
        error => Failure::from(error).during(during),
    }
}

/// Completes names of saved logins.
pub(crate) fn saved_logins(current: &OsStr) -> Vec<CompletionCandidate> {
    let begun = current.to_str().unwrap_or_default();
    let names = LoginChoice::of_environment().folder.logins().ok().and_then(|all| all.names().ok());
    let names = names.unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(begun)).map(CompletionCandidate::new).collect()
}

async fn has_ended(client: &ManagementClient) -> Result<bool, Error> {
    match client.current_identity().await {
        Ok(_) => Ok(false),
        Err(error) if error.is_unauthorized() => Ok(true),
        Err(error) => Err(error),
    }
}
