//! `weft quickstart`: a whole network by one command, in one folder.
//!
//! A network with one controller and one router is one process. With several routers, each router is a process of its
//! own ([`children`]), so that they can be killed separately. With several controllers ([`cluster`]) everything is a
//! process of its own.
//!
//! Every step checks whether it was done before, so that an interrupted start continues and a later
//! start resumes: keys and files, administrator, router, policies. At the end the network proves
//! itself with the code of `weft verify traffic`.

mod banner;
mod children;
mod cluster;
mod controllers;
mod etcd;
mod plan;
mod progress;
mod router;
mod routers;
mod sockets;
mod with_parent;

use std::collections::BTreeSet;
use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use banner::{Shown, ShownController, ShownEtcd};
use children::{Child, Program, ToldBy};
use cluster::{Cluster, UpCluster};
use indicatif::ProgressBar;
use plan::{Plan, reserved};
use progress::{say, step};
use rand::RngExt as _;
use tokio_util::sync::CancellationToken;
use weft_client::{ManagementClient, Tls};
use weft_contract::Api;
use weft_contract::resource::edge_router::{self, EdgeRouterDetail};
use weft_contract::resource::fabric::link::LinkDetail;
use weft_contract::resource::{self};
use weft_model::entity::{Authenticator, Identity};
use weft_router::Router;
pub(crate) use with_parent::with_parent;

use crate::check::Purpose;
use crate::cli::QuickstartArgs;
use crate::compose::controller::{Core, RunningController};
use crate::compose::{self};
use crate::controller::make_admin;
use crate::failure::{Failure, Result, chain};
use crate::home::Home;
use crate::output::counted;
use crate::spans::Export;
use crate::{pki, signals, verify};

const USERNAME: &str = "admin";
const ADMIN_NAME: &str = "Default Admin";
/// Letters and digits that are not easily confused.
const PASSWORD_ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
const PASSWORD_LENGTH: usize = 20;
/// Time for the routers to become ready.
const ROUTER_LIMIT: Duration = Duration::from_secs(30);
/// Time for a router to stop before it is killed.
const ROUTER_GRACE: Duration = Duration::from_secs(10);
/// Time for the routers to link with each other.
const LINK_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two looks at the routers' state.
const LOOK: Duration = Duration::from_millis(200);
/// Amount of the self-check.
const CHECK: verify::Amount =
    verify::Amount { bytes: 2 << 20, round_trips: 20, patience: Duration::from_secs(20) };

/// Brings a network up and keeps it up until it is told to stop.
pub(crate) async fn quickstart(args: QuickstartArgs) -> Result<()> {
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
    if let Ok(Up { started: Started { username, controllers, etcd, .. }, routers }) = &up {
        let taken = begun.elapsed();
        let (username, etcd) = (username.as_deref(), etcd.as_ref());
        let facts = banner::Facts { home: &home, controllers, routers, etcd, username, taken };
        say(format_args!("{}", banner::text(&facts)));
        stop.cancelled().await;
        say(format_args!("\nstopping"));
    }
    let stopped = network.shutdown().await;
    up.map(drop).and(stopped)
}

/// A network that is up, for the banner.
struct Up {
    started: Started,
    routers: Vec<Shown>,
}

/// The controllers that were started.
struct Started {
    /// The administrator's login name.
    username: Option<String>,
    /// A client with a session of the administrator.
    client: ManagementClient,
    controllers: Vec<ShownController>,
    /// The etcd of several controllers.
    etcd: Option<ShownEtcd>,
}

/// The administrator of a new network, as options want it.
struct Administrator {
    username: String,
    password: Option<String>,
}

impl Administrator {
    fn of(args: &QuickstartArgs) -> Self {
        let username = args.username.as_deref().unwrap_or(USERNAME).to_owned();
        Self { username, password: args.password.clone() }
    }
}

/// Creates keys and files, or checks existing ones.
fn prepare(home: &Home, args: &QuickstartArgs) -> Result<()> {
    if home.is_new() {
        let plan = Plan::of(args).inspect_err(|_| home.leave_nothing())?;
        plan.carry_out(home)?;
        step("keys, certificates and configuration files written");
        return Ok(());
    }
    let controllers = controllers::add(home, args, reserved(home)?)?;
    if controllers > 0 {
        let controllers = counted(controllers, "more controller", "more controllers");
        step(&format!("keys, certificates and configuration of {controllers} written"));
    }
    let added = routers::add(home, args, reserved(home)?)?;
    if added > 0 {
        let routers = counted(added, "more router", "more routers");
        step(&format!("configuration of {routers} written"));
    }
    let mut ignored = plan::creation_options(args);
    ignored.retain(|option| match *option {
        "--router-port" | "--link-port" => added == 0,
        "--ctrl-port" => controllers == 0,
        _ => true,
    });
    if !ignored.is_empty() {
        step(&format!("ignored, because they only count at creation: {}", ignored.join(", ")));
    }
    let now = SystemTime::now();
    if pki::renew_if_due(home, now)? {
        step("the controller's certificate was made anew");
    }
    let renewed = controllers::renew_if_due(home, now)?;
    if renewed > 0 {
        let further = counted(renewed, "further controller", "further controllers");
        step(&format!("certificates of {further} were made anew"));
    }
    Ok(())
}

/// The running parts of the network.
#[derive(Default)]
struct Network {
    /// The only controller.
    controller: Option<RunningController>,
    /// Several controllers.
    cluster: Option<Cluster>,
    /// The only router, with its spans.
    router: Option<(Router, Export)>,
    /// Routers as child processes: several, or those of several controllers.
    children: Vec<Child>,
}

impl Network {
    async fn bring_up(
        &mut self,
        home: &Home,
        args: &QuickstartArgs,
        is_new: bool,
        stop: &CancellationToken,
    ) -> Result<Up> {
        let started = match etcd::is_part_of(home) {
            true => self.start_cluster(home, args).await?,
            false => Box::pin(self.start_controller(home, args)).await?,
        };
        let client = &started.client;
        let mut shown = Vec::new();
        let count = home.router_count();
        let is_apart = count > 1 || self.cluster.is_some();
        for number in 1..=count {
            shown.push(self.start_router(home, client, number, is_apart).await?);
        }
        let is_linked = match is_apart {
            false => true,
            true => {
                let away = away(client, &shown).await?;
                match said_of(home, &away) {
                    None => {
                        step(&format!("{} online", counted(count, "edge router", "edge routers")))
                    }
                    Some(text) if is_new => return Err(Failure::new(text)),
                    Some(text) => step(&text),
                }
                away.is_empty() && linked(client, &shown).await?
            }
        };
        Box::pin(self_check(client, is_new && is_linked, stop)).await?;
        if let Err(error) = client.logout().await {
            let problem = chain(&error);
            tracing::debug!(problem, "the session of the start was not ended");
        }
        Ok(Up { started, routers: shown })
    }

    /// Starts the only controller, in this process.
    async fn start_controller(&mut self, home: &Home, args: &QuickstartArgs) -> Result<Started> {
        let core = Core::open(&home.controller_file(), Purpose::Advice).await?;
        ensure_admin(&core, &Administrator::of(args)).await?;
        let username = username(&core);
        let controller = self.controller.insert(core.serve().await?);
        let address = controller.api_address().to_owned();
        step(&format!("controller runs at https://{address}"));
        let client = administrator(controller)?;
        let name = controllers::name(1);
        let controllers = vec![ShownController { number: 1, name, address, process: None }];
        Ok(Started { username, client, controllers, etcd: None })
    }

    /// Starts etcd and several controllers, in processes of their own.
    async fn start_cluster(&mut self, home: &Home, args: &QuickstartArgs) -> Result<Started> {
        let cluster = self.cluster.insert(Cluster::default());
        let UpCluster { username, client, controllers, etcd } =
            cluster.bring_up(home, args).await?;
        Ok(Started { username, client, controllers, etcd: Some(etcd) })
    }

    /// Enrolls a router if needed, and starts it: in a process of its own, or in this one.
    async fn start_router(
        &mut self,
        home: &Home,
        client: &ManagementClient,
        number: u8,
        is_apart: bool,
    ) -> Result<Shown> {
        let file = home.router_file(number);
        let config = compose::router::load(&file)?;
        let name = router::name(number);
        if router::ensure(client, number, &config).await? {
            step(&format!("edge router `{name}` enrolled"));
        }
        let edge = routers::edge(&config).map(|edge| edge.to_string()).unwrap_or_default();
        let process = if is_apart {
            let args = ["router", "run", "--exit-with-parent", "--grace", "0"];
            let child = Child::start(Program {
                name: format!("router `{name}`"),
                args: args.into_iter().map(Into::into).chain([file.into()]).collect(),
                log: home.router_log(number),
                grace: ROUTER_GRACE,
                told_by: ToldBy::EndOfInput,
            })?;
            let process = child.process();
            self.children.push(child);
            process
        } else {
            let export = Export::start("weft-router");
            let router = compose::router::start(&config, export.spans()).await?;
            let (router, _) = self.router.insert((router, export));
            if tokio::time::timeout(ROUTER_LIMIT, router.online()).await.is_err() {
                return Err(Failure::new(format!(
                    "the router did not get ready in {} s; RUST_LOG=info says more",
                    ROUTER_LIMIT.as_secs()
                )));
            }
            step(&format!("edge router online at {edge}"));
            None
        };
        Ok(Shown { number, name, edge, link: routers::link(&config), process })
    }

    async fn shutdown(self) -> Result<()> {
        let mut exported = None;
        if let Some((router, export)) = self.router {
            router.shutdown().await;
            // The router's spans are exported while the controller stops, so that the waits for the
            // collector do not add up.
            exported = Some(tokio::spawn(export.end()));
        }
        // All routers are told first, so that they stop at the same time.
        self.children.iter().for_each(Child::tell_to_stop);
        for child in self.children {
            child.stopped().await;
        }
        let stopped = match self.controller {
            Some(controller) => controller.shutdown().await,
            None => Ok(()),
        };
        if let Some(cluster) = self.cluster {
            cluster.shutdown().await;
        }
        if let Some(exported) = exported {
            let _ = exported.await;
        }
        stopped
    }
}

/// Waits until all of several routers are online, and returns those that are not.
async fn away<'r>(client: &ManagementClient, routers: &'r [Shown]) -> Result<Vec<&'r Shown>> {
    let deadline = Instant::now() + ROUTER_LIMIT;
    loop {
        let known: Vec<EdgeRouterDetail> = client.list(&edge_router::KIND, None).await?;
        let is_online = |router: &&Shown| {
            known.iter().any(|known| known.name == router.name && known.is_online)
        };
        let away: Vec<&Shown> = routers.iter().filter(|router| !is_online(router)).collect();
        if away.is_empty() || Instant::now() > deadline {
            return Ok(away);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Description of the routers that are not online; `None` if all are.
fn said_of(home: &Home, away: &[&Shown]) -> Option<String> {
    let each = away.iter().map(|router| {
        format!("{} (its log: {})", router.name, home.router_log(router.number).display())
    });
    let names = each.collect::<Vec<_>>().join(", ");
    (!away.is_empty()).then(|| format!("not online after {} s: {names}", ROUTER_LIMIT.as_secs()))
}

/// Waits until each of these routers is linked with every other. Returns false after the time
/// limit, which is no failure: the operator may want fewer links.
async fn linked(client: &ManagementClient, routers: &[Shown]) -> Result<bool> {
    let list = resource::operation(Api::Fabric, "listLinks")
        .ok_or_else(|| Failure::new("there is no operation that lists links"))?;
    let wanted = routers.len() * routers.len().saturating_sub(1) / 2;
    let deadline = Instant::now() + LINK_LIMIT;
    loop {
        let query = [("limit", "500")];
        let links = client.page_in::<LinkDetail>(Api::Fabric, list, &[], &query).await?.items;
        let found = pairs(&links, routers);
        if found >= wanted {
            step("every router is linked with every other");
            return Ok(true);
        }
        if Instant::now() > deadline {
            step(&format!(
                "{found} of {} linked after {} s; `weft topology` shows which",
                counted(wanted, "pair of routers is", "pairs of routers are"),
                LINK_LIMIT.as_secs()
            ));
            return Ok(false);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Number of pairs of these routers that are linked; links to other routers do not count.
fn pairs(links: &[LinkDetail], routers: &[Shown]) -> usize {
    let is_own = |name: &str| routers.iter().any(|router| router.name == name);
    let names = links.iter().map(|link| (&*link.source_router.name, &*link.dest_router.name));
    let own = names.filter(|(one, other)| one != other && is_own(one) && is_own(other));
    own.map(|(one, other)| (one.min(other), one.max(other))).collect::<BTreeSet<_>>().len()
}

/// Creates the administrator if there is none.
async fn ensure_admin(core: &Core, wanted: &Administrator) -> Result<()> {
    if core.controller().has_default_admin() {
        return Ok(());
    }
    let username = wanted.username.as_str();
    match &wanted.password {
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
    let snapshot = core.controller().kernel().snapshot();
    let admin = snapshot.list::<Identity>().find(|identity| identity.is_default_admin)?;
    let mut own = snapshot.list::<Authenticator>().filter(|it| it.identity_id == admin.base.id);
    own.find_map(|authenticator| authenticator.updb.as_ref().map(|updb| updb.username.to_string()))
}

/// A client of the management API, logged in as the administrator. The session is made inside this
/// process, which does not know the password.
fn administrator(running: &RunningController) -> Result<ManagementClient> {
    let controller = running.controller();
    let token = controller
        .auth()
        .open_operator_session()
        .ok_or_else(|| Failure::new("the database has no default administrator any more"))?;
    let trust = Tls::Anonymous(controller.auth().keys().bundle.clone());
    let client = ManagementClient::new(running.api_address().parse()?, &trust)?;
    client.set_token(token.as_ref());
    Ok(client)
}

/// Runs the self-check. If the check fails, a new network fails, too; an existing network, or one whose
/// routers have not linked yet, stays up.
async fn self_check(
    client: &ManagementClient,
    must_pass: bool,
    stop: &CancellationToken,
) -> Result<()> {
    let terms = verify::Terms { all_routers: true, ..verify::Terms::default() };
    let (export, progress) = (Export::off(), ProgressBar::hidden());
    match Box::pin(verify::measure(client, &CHECK, &terms, &export, &progress, stop)).await {
        Ok(checked) => step(&format!("self-check passed: {}", banner::checked(&checked.measured))),
        Err(failure) if must_pass || stop.is_cancelled() => {
            return Err(failure.during("self-check"));
        }
        Err(failure) => step(&format!("self-check FAILED: {failure}")),
    }
    Ok(())
}

fn new_password() -> String {
    let mut random = rand::rng();
    let pick = |_| PASSWORD_ALPHABET[random.random_range(0..PASSWORD_ALPHABET.len())] as char;
    (0..PASSWORD_LENGTH).map(pick).collect()
}

/// Runs work until the network is told to stop. Work that runs then has 10 s more, in which the
/// self-check removes its entities.
async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(number: u8) -> Shown {
        let name = router::name(number);
        Shown { number, name, edge: String::new(), link: String::new(), process: None }
    }

    #[test]
    fn only_links_between_the_routers_of_the_quickstart_count() {
        let link = |from: &str, to: &str| -> LinkDetail {
            serde_json::from_value(serde_json::json!({
                "sourceRouter": {"name": from}, "destRouter": {"name": to}}))
            .unwrap()
        };
        let (one, two, three) = (router::name(1), router::name(2), router::name(3));
        let links = [
            link(&one, &two),
            link(&two, &one),
            link("paris", &one),
            link("paris", &two),
            link("paris", "rome"),
        ];
        let routers = [shown(1), shown(2), shown(3)];
        assert_eq!(pairs(&links, &routers), 1);
        assert_eq!(pairs(&[link(&three, &two), link(&one, &two)], &routers), 2);
    }

    #[test]
    fn a_router_that_is_away_is_named_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::open(Some(folder.path())).unwrap();
        let (first, second) = (shown(1), shown(2));
        let said = said_of(&home, &[&first, &second]).unwrap();
        for router in [&first, &second] {
            let log = home.router_log(router.number).display().to_string();
            assert!(said.contains(&router.name) && said.contains(&log), "{said}");
        }
        assert_eq!(said_of(&home, &[]), None);
    }

    #[test]
    fn passwords_are_long_and_unlike() {
        let (one, other) = (new_password(), new_password());
        assert_eq!(one.len(), PASSWORD_LENGTH);
        assert_ne!(one, other);
        assert!(one.bytes().all(|byte| PASSWORD_ALPHABET.contains(&byte)));
    }
}
