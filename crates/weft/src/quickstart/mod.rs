//! `weft quickstart`: a whole network in one process and one folder.
//!
//! Every step looks whether it was done before, so that an interrupted start goes on where it
//! stopped and a later start resumes: keys and files, administrator, router, policies. At the end
//! the network proves itself with the code of `weft verify traffic`.

mod banner;
mod plan;
mod router;

use std::{
    future::Future,
    io::{self, Write},
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;
use weft_client::{ManagementClient, Tls};
use weft_config::{RouterConfig, router::Listener};
use weft_model::entity::{Authenticator, Identity};
use weft_router::Router;

use crate::{
    cli::QuickstartArgs,
    compose::{
        self,
        controller::{Core, RunningController},
    },
    controller::make_admin,
    failure::Failure,
    home::Home,
    pki, signals, verify,
};
use plan::Plan;

const USERNAME: &str = "admin";
const ADMIN_NAME: &str = "Default Admin";
/// Letters and digits that are not mistaken for each other.
const PASSWORD_ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const PASSWORD_LENGTH: usize = 20;
/// How long the router may take to be ready.
const ROUTER_LIMIT: Duration = Duration::from_secs(30);
/// How much the self-check moves.
const CHECK: verify::Amount =
    verify::Amount { bytes: 2 << 20, round_trips: 20, patience: Duration::from_secs(20) };

/// Brings a network up and keeps it up until it is told to stop.
pub(crate) async fn quickstart(args: QuickstartArgs) -> Result<(), Failure> {
    let begun = Instant::now();
    let stop = signals::first()?;
    let home = Home::open(args.home.as_deref())?;
    let is_new = home.is_new();
    say(format_args!(
        "{} {}",
        if is_new { "new network in" } else { "network in" },
        home.root().display()
    ));
    prepare(&home, &args)?;
    let mut network = Network::default();
    let up = Box::pin(network.bring_up(&home, &args, is_new, &stop));
    let up = unless_stopped(&stop, up).await;
    if let Ok(Up { username, router, controller }) = &up {
        let taken = begun.elapsed();
        let username = username.as_deref();
        let facts = banner::Facts { home: &home, controller, router, username, taken };
        say(format_args!("{}", banner::text(&facts)));
        stop.cancelled().await;
        say(format_args!("\nstopping"));
    }
    let stopped = network.shutdown().await;
    up.map(drop).and(stopped)
}

/// What the banner needs to know.
struct Up {
    username: Option<String>,
    controller: String,
    router: String,
}

/// Makes keys and files, or looks at those that are there.
fn prepare(home: &Home, args: &QuickstartArgs) -> Result<(), Failure> {
    if home.is_new() {
        Plan::of(args)?.carry_out(home)?;
        step("keys, certificates and configuration files written");
        return Ok(());
    }
    let ignored = plan::creation_options(args);
    if !ignored.is_empty() {
        step(&format!("ignored, because they only count at creation: {}", ignored.join(", ")));
    }
    if pki::renew_if_due(home)? {
        step("the controller's certificate was made anew");
    }
    Ok(())
}

/// What runs.
#[derive(Default)]
struct Network {
    controller: Option<RunningController>,
    router: Option<Router>,
}

impl Network {
    async fn bring_up(
        &mut self,
        home: &Home,
        args: &QuickstartArgs,
        is_new: bool,
        stop: &CancellationToken,
    ) -> Result<Up, Failure> {
        let core = Core::open(&home.controller_file()).await?;
        ensure_admin(&core, args).await?;
        let username = username(&core);
        let controller = self.controller.insert(core.serve().await?);
        let controller_address = controller.api_address().to_owned();
        step(&format!("controller runs at https://{controller_address}"));
        let client = administrator(controller)?;
        let config = compose::router::load(&home.router_file())?;
        if router::ensure(&client, &config).await? {
            step(&format!("edge router `{}` enrolled", router::NAME));
        }
        let router = self.router.insert(compose::router::start(&config).await?);
        let router_address = advertised(&config);
        if tokio::time::timeout(ROUTER_LIMIT, router.online()).await.is_err() {
            return Err(Failure::new(format!(
                "the router did not get ready in {} s; RUST_LOG=info says more",
                ROUTER_LIMIT.as_secs()
            )));
        }
        step(&format!("edge router online at {router_address}"));
        self_check(&client, is_new, stop).await?;
        if let Err(error) = client.logout().await {
            tracing::debug!(%error, "the session of the start was not ended");
        }
        Ok(Up { username, controller: controller_address, router: router_address })
    }

    async fn shutdown(self) -> Result<(), Failure> {
        if let Some(router) = self.router {
            router.shutdown().await;
        }
        match self.controller {
            Some(controller) => controller.shutdown().await,
            None => Ok(()),
        }
    }
}

/// Makes the administrator if there is none.
async fn ensure_admin(core: &Core, args: &QuickstartArgs) -> Result<(), Failure> {
    if core.controller().has_default_admin() {
        return Ok(());
    }
    let username = args.username.as_deref().unwrap_or(USERNAME);
    match &args.password {
        Some(password) => {
            make_admin(core, ADMIN_NAME, username, password).await?;
            step(&format!("administrator `{username}` made, with the password that was given"));
        }
        None => {
            let password = new_password();
            make_admin(core, ADMIN_NAME, username, &password).await?;
            step(&format!(
                "administrator `{username}` made; password (shown only now): {password}"
            ));
        }
    }
    Ok(())
}

/// The login name of the administrator.
fn username(core: &Core) -> Option<String> {
    let snapshot = core.controller().snapshot();
    let admin = snapshot.list::<Identity>().find(|identity| identity.is_default_admin)?;
    let mut own = snapshot.list::<Authenticator>().filter(|it| it.identity_id == admin.base.id);
    own.find_map(|authenticator| authenticator.updb.as_ref().map(|updb| updb.username.to_string()))
}

/// A client of the management API for this process itself: nobody remembers the password.
fn administrator(running: &RunningController) -> Result<ManagementClient, Failure> {
    let controller = running.controller();
    let token = controller
        .open_operator_session()
        .ok_or_else(|| Failure::new("the database has no default administrator any more"))?;
    let trust = Tls::Anonymous(controller.keys().bundle.clone());
    let client = ManagementClient::new(running.api_address().parse()?, &trust)?;
    client.set_token(token.as_ref());
    Ok(client)
}

/// A new network must prove itself. One that people have worked with may be as they want it, and
/// stays up.
async fn self_check(
    client: &ManagementClient,
    is_new: bool,
    stop: &CancellationToken,
) -> Result<(), Failure> {
    match verify::measure(client, &CHECK, &ProgressBar::hidden(), stop).await {
        Ok(measured) => step(&format!("self-check passed: {}", banner::checked(&measured))),
        Err(failure) if is_new || stop.is_cancelled() => return Err(failure.during("self-check")),
        Err(failure) => step(&format!("self-check FAILED: {failure}")),
    }
    Ok(())
}

/// Where SDKs are told to connect.
fn advertised(config: &RouterConfig) -> String {
    let edge = config.listeners.iter().find_map(|listener| match listener {
        Listener::Edge(edge) => Some(edge.advertise.to_string()),
        _ => None,
    });
    edge.unwrap_or_default()
}

fn new_password() -> String {
    let mut random = rand::rng();
    let pick = |_| PASSWORD_ALPHABET[random.random_range(0..PASSWORD_ALPHABET.len())] as char;
    (0..PASSWORD_LENGTH).map(pick).collect()
}

/// The self-check is not cut short: it removes what it made first.
async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    const GRACE: Duration = Duration::from_secs(10);
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => done,
        () = stop.cancelled() => match tokio::time::timeout(GRACE, work).await {
            Ok(Err(failure)) => Err(failure),
            _ => Err(Failure::interrupted()),
        },
    }
}

fn step(text: &str) {
    say(format_args!("  {text}"));
}

/// Prints a line. Nobody reading is no reason to stop.
fn say(text: std::fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_long_and_unlike() {
        let (one, other) = (new_password(), new_password());
        assert_eq!(one.len(), PASSWORD_LENGTH);
        assert_ne!(one, other);
        assert!(one.bytes().all(|byte| PASSWORD_ALPHABET.contains(&byte)));
    }
}
