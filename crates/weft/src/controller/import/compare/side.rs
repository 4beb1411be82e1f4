//! The two controllers, with the logins at them.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use weft_client::{ControllerAddress, Logins, ManagementClient};
use weft_contract::{Api, Operation};

use super::pace::Pace;
use crate::entity::listing::{Listing, Order};
use crate::failure::{Failure, Result};
use crate::session::LoginChoice;

/// Sessions are renewed this often, as far as that needs no person.
const RENEWED_EACH: Duration = Duration::from_secs(300);

/// One controller.
pub(super) struct Side {
    choice: LoginChoice,
    client: ManagementClient,
    renewed: Instant,
    /// None: it is asked as fast as it answers.
    pace: Option<Pace>,
}

/// The original and weft.
pub(super) struct Sides {
    pub(super) original: Side,
    pub(super) weft: Side,
}

impl Sides {
    /// Uses the saved login at a URL, or of this name, for the original, and the chosen login for weft.
    pub(super) async fn log_in(which: &str, session: &LoginChoice) -> Result<Self> {
        let name = login_at(&session.folder.logins()?, which)?;
        let of_original = LoginChoice { login: Some(name), folder: session.folder.clone() };
        let original = Side::open(of_original, Some(Pace::new())).await?;
        let weft = Side::open(session.clone(), None).await?;
        let sides = Self { original, weft };
        let (one, other) = sides.addresses();
        if one == other {
            return Err(Failure::usage(format!(
                "both logins are at {one}: choose weft's with `weft use NAME` or --login NAME"
            )));
        }
        Ok(sides)
    }

    /// The addresses of both.
    pub(super) fn addresses(&self) -> (String, String) {
        (self.original.client.address().to_string(), self.weft.client.address().to_string())
    }

    /// The whole lists of both below an entity.
    pub(super) async fn below(
        &mut self,
        api: Api,
        operation: &'static Operation,
        of: &str,
    ) -> Result<(Vec<Value>, Vec<Value>)> {
        let original = self.original.all(api, operation, of);
        let weft = self.weft.all(api, operation, of);
        let (original, weft) = tokio::join!(original, weft);
        Ok((original?, weft?))
    }

    /// The answers of both to a question about entities; none where it says that one of them does not exist.
    pub(super) async fn ask(
        &mut self,
        api: Api,
        operation: &'static Operation,
        ids: &[&str],
    ) -> Result<(Option<Value>, Option<Value>)> {
        let original = self.original.ask(api, operation, ids);
        let weft = self.weft.ask(api, operation, ids);
        let (original, weft) = tokio::join!(original, weft);
        Ok((original?, weft?))
    }
}

impl Side {
    async fn open(choice: LoginChoice, pace: Option<Pace>) -> Result<Self> {
        let client = choice.client().await?;
        Ok(Self { choice, client, renewed: Instant::now(), pace })
    }

    /// Waits for the turn of a request, and renews the session when it is time.
    pub(super) async fn ready(&mut self) -> Result<()> {
        if self.renewed.elapsed() > RENEWED_EACH {
            self.client = self.choice.client().await?;
            self.renewed = Instant::now();
        }
        if let Some(pace) = &mut self.pace {
            pace.turn().await;
        }
        Ok(())
    }

    /// The client, and how often it asks.
    pub(super) fn parts(&mut self) -> (&ManagementClient, &mut Option<Pace>) {
        (&self.client, &mut self.pace)
    }

    async fn all(
        &mut self,
        api: Api,
        operation: &'static Operation,
        of: &str,
    ) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        self.ready().await?;
        let mut listing = Listing::new(&self.client, api, operation, vec![of.to_owned()])
            .ordered(Order::By("id"));
        while let Some(page) = listing.next().await? {
            all.extend(page);
            if let Some(pace) = &mut self.pace {
                pace.turn().await;
            }
        }
        Ok(all)
    }

    async fn ask(
        &mut self,
        api: Api,
        operation: &'static Operation,
        ids: &[&str],
    ) -> Result<Option<Value>> {
        self.ready().await?;
        match self.client.call_in::<Value>(api, operation, ids, &[], None).await {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.status() == Some(404) => Ok(None),
            Err(error) => Err(Failure::from(error).during(self.client.address())),
        }
    }
}

/// The name of the saved login at a controller.
fn login_at(logins: &Logins, which: &str) -> Result<String> {
    let names = logins.names()?;
    if names.iter().any(|name| name == which) {
        return Ok(which.to_owned());
    }
    let address: ControllerAddress = which.parse()?;
    for name in names {
        let Ok(Some((_, login))) = logins.load(Some(&name)) else { continue };
        if login.address().is_ok_and(|at| at.to_string() == address.to_string()) {
            return Ok(name);
        }
    }
    Err(Failure::not_logged_in(format!("there is no saved login at {address}"))
        .and(format!("hint: `weft login {address} --name original` logs in there, and `weft use NAME` goes back to weft's login")))
}
