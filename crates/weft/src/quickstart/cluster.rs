//! Several controllers, each a process of its own, and their etcd.
//!
//! What has to be done before the first of them runs, the administrator and a session for the start, is done in this
//! process with the files of the first controller. Sessions hold at all controllers of a network.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use weft_client::{ManagementClient, Tls};
use weft_contract::resource::edge_router::{self, EdgeRouterDetail};
use weft_identity::TrustBundle;

use super::banner::{ShownController, ShownEtcd};
use super::children::{Child, Program, ToldBy};
use super::progress::step;
use super::{Administrator, controllers, ensure_admin, etcd, username};
use crate::check::Purpose;
use crate::cli::QuickstartArgs;
use crate::compose::controller::Core;
use crate::failure::{Failure, Result};
use crate::home::Home;
use crate::output::counted;
use crate::pki;

/// Time for all controllers to become ready, and the pause between two looks.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);
/// Time for a controller to stop before it is killed: its own limits together are shorter.
const GRACE: Duration = Duration::from_secs(20);

/// Several controllers and their etcd, as child processes.
#[derive(Default)]
pub(super) struct Cluster {
    controllers: Vec<Child>,
    etcd: Option<Child>,
}

/// What is known of a cluster that is up.
pub(super) struct UpCluster {
    /// The administrator's login name.
    pub(super) username: Option<String>,
    /// A client of the first controller, with a session of the administrator.
    pub(super) client: ManagementClient,
    pub(super) controllers: Vec<ShownController>,
    pub(super) etcd: ShownEtcd,
}

impl Cluster {
    /// Starts etcd and all controllers, and waits until they answer.
    pub(super) async fn bring_up(
        &mut self,
        home: &Home,
        args: &QuickstartArgs,
    ) -> Result<UpCluster> {
        let address = etcd::address(home)?;
        let child = self.etcd.insert(etcd::start(home, args)?);
        etcd::ready(home, child, &address).await?;
        step(&format!("etcd runs at http://{address}"));
        let etcd = ShownEtcd { address: address.to_string(), process: child.process() };
        let wanted = Administrator::of(args);
        let Opened { username, token } = opened(home.controller_file(), wanted).await?;
        let mut shown = Vec::new();
        for number in 1..=home.controller_count() {
            let (name, address) =
                (controllers::name(number), controllers::advertised(home, number)?);
            let child = Child::start(Program {
                name: format!("controller `{name}`"),
                args: ["controller", "run", "--exit-with-parent"]
                    .into_iter()
                    .map(Into::into)
                    .chain([home.file_of_controller(number).into()])
                    .collect(),
                log: home.controller_log(number),
                grace: GRACE,
                told_by: ToldBy::EndOfInput,
            })?;
            let process = child.process();
            self.controllers.push(child);
            let address = address.to_string();
            shown.push(ShownController { number, name, address, process });
        }
        let trust = weft_identity::read_file(&home.pki(pki::ROOT_CERT))?;
        let trust = Tls::Anonymous(TrustBundle::from_pem(&trust)?);
        let deadline = Instant::now() + LIMIT;
        let mut clients = Vec::new();
        for controller in &shown {
            let client = ManagementClient::new(controller.address.parse()?, &trust)?;
            client.set_token(&token);
            answers(home, controller, &client, deadline).await?;
            clients.push(client);
        }
        step(&format!("{} run", counted(shown.len(), "controller", "controllers")));
        let first = clients.into_iter().next();
        let client = first.ok_or_else(|| Failure::new("there are no controllers"))?;
        Ok(UpCluster { username, client, controllers: shown, etcd })
    }

    /// Stops the controllers at the same time, and then etcd.
    pub(super) async fn shutdown(self) {
        self.controllers.iter().for_each(Child::tell_to_stop);
        for controller in self.controllers {
            controller.stopped().await;
        }
        if let Some(etcd) = self.etcd {
            etcd.tell_to_stop();
            etcd.stopped().await;
        }
    }
}

/// Waits until a controller answers in the session of the start.
async fn answers(
    home: &Home,
    controller: &ShownController,
    client: &ManagementClient,
    deadline: Instant,
) -> Result<()> {
    loop {
        let listed: Result<Vec<EdgeRouterDetail>, _> = client.list(&edge_router::KIND, None).await;
        let error = match listed {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        if Instant::now() > deadline {
            let log = home.controller_log(controller.number);
            let what = format!("controller `{}` is not ready", controller.name);
            let failure = Failure::from(error).during(what);
            return Err(failure.and(format!("its log is {}", log.display())));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What was done with the files of the first controller.
struct Opened {
    username: Option<String>,
    token: String,
}

/// Makes the administrator if there is none, and a session of it. The runtime is one of its own, so that no task of
/// this controller outlives the work.
async fn opened(file: PathBuf, wanted: Administrator) -> Result<Opened> {
    let work = async move {
        let core = Core::open(&file, Purpose::Advice).await?;
        let opened = open(&core, &wanted).await;
        core.close().await?;
        opened
    };
    let whole = move || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Failure::new(format!("cannot start: {error}")))?;
        let done = runtime.block_on(Box::pin(work));
        runtime.shutdown_background();
        done
    };
    tokio::task::spawn_blocking(whole).await.map_err(Failure::new)?
}

async fn open(core: &Core, wanted: &Administrator) -> Result<Opened> {
    ensure_admin(core, wanted).await?;
    let token = core.controller().auth().open_operator_session();
    let token = token.ok_or_else(|| Failure::new("there is no default administrator any more"))?;
    Ok(Opened { username: username(core), token: token.to_string() })
}
