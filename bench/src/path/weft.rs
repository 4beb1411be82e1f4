//! A weft network of one controller and one edge router, started for the run: from an SDK to an
//! SDK, and from an SDK to a TCP server that the router's tunnel hosts.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use weft_client::{ControllerAddress, Credentials, ManagementClient, Tls, trust};
use weft_contract::{Kind, resource};
use weft_sdk::{Endpoint, IdentityFile};

use super::tcp::serve_tcp;
use crate::apart::start_relay;
use crate::work::{AnyStream, Path, serve};
use crate::{ends, program};

pub(super) const USER: &str = "admin";
pub(super) const PASSWORD: &str = "weft-bench";
/// Longest wait for a program, router or service to be ready.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A running network; stopped when dropped.
pub(crate) struct Network {
    process: Child,
    client: ManagementClient,
    dialer: Endpoint,
    host: Endpoint,
    _home: TempDir,
}

impl Network {
    /// Starts a network and logs two identities in.
    pub(crate) async fn start() -> io::Result<Self> {
        let home = tempfile::tempdir()?;
        let [control, router] = [program::free_port()?, program::free_port()?];
        let mut quickstart = Command::new(program::weft()?);
        quickstart
            .args(["quickstart", "--username", USER, "--password", PASSWORD])
            .args(["--ctrl-port", &control.to_string(), "--router-port", &router.to_string()])
            .arg("--home")
            .arg(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let process = start_relay(&mut quickstart)?;
        let mut process = Stopped(Some(process));
        let client = log_in(&format!("localhost:{control}")).await?;
        router_online(&client).await?;
        for (name, kind) in [("bench-dial", "Dial"), ("bench-bind", "Bind")] {
            let policy = json!({
                "name": name, "type": kind, "semantic": "AnyOf",
                "identityRoles": ["#all"], "serviceRoles": ["#all"],
            });
            create(&client, &resource::service_policy::KIND, &policy).await?;
        }
        let dialer = endpoint(&client, "bench-dialer").await?;
        let host = host(&client, "bench-host").await?;
        let process = process.0.take().ok_or_else(|| io::Error::other("already taken"))?;
        Ok(Self { process, client, dialer, host, _home: home })
    }

    /// The process of controller and router.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The management API, as its administrator.
    pub(crate) fn client(&self) -> &ManagementClient {
        &self.client
    }

    /// A service that an SDK in this process hosts.
    pub(crate) async fn sdk_to_sdk(
        self: &Arc<Self>,
        name: &str,
        encrypted: bool,
    ) -> io::Result<Weft> {
        let service = json!({"name": name, "encryptionRequired": encrypted});
        create(&self.client, &resource::service::KIND, &service).await?;
        let (host, service) = (self.host.clone(), name.to_owned());
        let bound = ends::serve(async move { host.bind(&service).await }).await?;
        let mut listener = bound.map_err(io::Error::other)?;
        ends::serve(async move {
            while let Ok(incoming) = listener.accept().await {
                tokio::spawn(async move {
                    let stream = incoming.accept().await.map_err(io::Error::other)?;
                    serve(Box::pin(stream)).await
                });
            }
        });
        self.reach(name).await
    }

    /// A service that the router's tunnel hosts: a TCP server in this process.
    pub(crate) async fn sdk_to_tunnel(
        self: &Arc<Self>,
        name: &str,
        encrypted: bool,
    ) -> io::Result<Weft> {
        let server = serve_tcp(std::net::Ipv4Addr::LOCALHOST).await?;
        let types: Vec<Value> = self
            .client
            .list(&resource::config::CONFIG_TYPE_KIND, Some("name = \"host.v1\""))
            .await
            .map_err(io::Error::other)?;
        let host_v1 = types.first().and_then(|found| found.get("id")).cloned();
        let config = json!({
            "name": name, "configTypeId": host_v1.unwrap_or_default(),
            "data": {"protocol": "tcp", "address": "127.0.0.1", "port": server.port()},
        });
        let config = create(&self.client, &resource::config::CONFIG_KIND, &config).await?;
        let service = json!({"name": name, "encryptionRequired": encrypted, "configs": [config]});
        create(&self.client, &resource::service::KIND, &service).await?;
        self.reach(name).await
    }

    /// Waits until the service can be dialed.
    async fn reach(self: &Arc<Self>, service: &str) -> io::Result<Weft> {
        let path = Weft { network: Arc::clone(self), service: service.to_owned() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match path.connect().await {
                Ok(_) => return Ok(path),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kills the process when dropped, unless the process was taken out.
pub(super) struct Stopped(pub(super) Option<Child>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(process) = &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A service of the network.
pub(crate) struct Weft {
    network: Arc<Network>,
    service: String,
}

impl Path for Weft {
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>> {
        async move {
            let dialed = self.network.dialer.dial(&self.service).await;
            Ok(Box::pin(dialed.map_err(io::Error::other)?) as AnyStream)
        }
        .boxed()
    }

    fn relay(&self) -> Vec<u32> {
        vec![self.network.pid()]
    }
}

pub(super) async fn log_in(address: &str) -> io::Result<ManagementClient> {
    let address: ControllerAddress = address.parse().map_err(io::Error::other)?;
    let credentials = Credentials::password(USER, PASSWORD).map_err(io::Error::other)?;
    let attempt = || async {
        let stranger = trust::meet(&address).await?;
        let client = ManagementClient::new(address.clone(), &Tls::Anonymous(stranger.bundle))?;
        client.login(&credentials).await?;
        Ok::<_, weft_client::Error>(client)
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline => return Err(io::Error::other(error)),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

pub(super) async fn router_online(client: &ManagementClient) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let routers: Vec<Value> =
            client.list(&resource::edge_router::KIND, None).await.map_err(io::Error::other)?;
        let online = |router: &Value| router.get("isOnline") == Some(&Value::Bool(true));
        if routers.iter().any(online) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("the router did not come online"));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Makes an entity and returns its id.
pub(crate) async fn create(
    client: &ManagementClient,
    kind: &Kind,
    body: &Value,
) -> io::Result<String> {
    let operation = kind.create().ok_or_else(|| io::Error::other("cannot be created"))?;
    let made: Value =
        client.call(operation, &[], &[], Some(body)).await.map_err(io::Error::other)?;
    let id = made.get("id").and_then(Value::as_str).map(ToOwned::to_owned);
    id.ok_or_else(|| io::Error::other("the controller answered without an id"))
}

/// Makes an identity, enrolls it and logs it in, on the client's thread.
pub(crate) async fn endpoint(client: &ManagementClient, name: &str) -> io::Result<Endpoint> {
    let file = enrolled(client, name).await?;
    Endpoint::from_identity(file).await.map_err(io::Error::other)
}

/// Makes an identity, enrolls it and logs it in, on the thread of servers.
pub(crate) async fn host(client: &ManagementClient, name: &str) -> io::Result<Endpoint> {
    let file = enrolled(client, name).await?;
    ends::serve(Endpoint::from_identity(file)).await?.map_err(io::Error::other)
}

/// Makes an identity and enrolls it.
pub(crate) async fn enrolled(client: &ManagementClient, name: &str) -> io::Result<IdentityFile> {
    let body = json!({
        "name": name, "type": "Default", "isAdmin": false, "enrollment": {"ott": true},
    });
    let id = create(client, &resource::identity::KIND, &body).await?;
    let identity: Value =
        client.get(&resource::identity::KIND, &id).await.map_err(io::Error::other)?;
    let token = identity.pointer("/enrollment/ott/jwt").and_then(Value::as_str);
    let token = token.ok_or_else(|| io::Error::other("the identity has no enrollment token"))?;
    weft_sdk::enroll(token).await.map_err(io::Error::other)
}
