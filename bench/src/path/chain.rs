//! Routers in a row, of weft or of the original: the dialer at the first, the host at the last.
//!
//! The router of the controller's quickstart is not on the path. Each router is a process of its own
//! and links with the next one alone.

use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use weft_client::ManagementClient;
use weft_contract::{Api, resource};
use weft_sdk::{Endpoint, Listener};

use super::makes::Makes;
use super::messages::Messages;
use super::weft::{
    PASSWORD, PATIENCE, Stopped, USER, create, endpoint, host, log_in, router_online,
};
use super::wire::{Laid, Wire};
use crate::apart::start_relay;
use crate::work::{AnyStream, Path, serve};
use crate::{ends, program};

const SERVICE: &str = "bench";

/// Routers in a row.
pub(crate) struct Chain {
    client: ManagementClient,
    dialer: Endpoint,
    ids: Vec<String>,
    routers: Vec<Stopped>,
    wires: Vec<Laid>,
    /// True if each write of the client is a payload of its own.
    messages: bool,
    _host: Endpoint,
    _controller: Stopped,
    _home: TempDir,
}

/// The places in a chain that have wires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WiredPart {
    /// Between each router and the next
    Links,
    /// Between the client and the first router; of a lone router, the one to the server, too
    Access,
}

impl WiredPart {
    /// The connections that the router at this position of the chain takes.
    fn of(position: usize) -> Self {
        if position == 0 { Self::Access } else { Self::Links }
    }

    /// The wire of the connections that the router at this position takes, if they are to go over one.
    pub(crate) fn lay(wires: Option<(Wire, Self)>, position: usize) -> io::Result<Option<Laid>> {
        let wanted = wires.filter(|(_, place)| *place == Self::of(position));
        wanted.map(|(wire, _)| wire.lay()).transpose()
    }
}

impl Chain {
    /// Starts a controller and `length` routers of these makes, and waits until data goes over all of them.
    /// Each connection of the given place goes over a wire of its own, if there is one. With `messages` each
    /// write of the client is a payload of its own.
    pub(crate) async fn start(
        makes: &Makes,
        length: usize,
        wire: Option<(Wire, WiredPart)>,
        messages: bool,
    ) -> io::Result<Arc<Self>> {
        let home = tempfile::tempdir()?;
        let [control, own] = [program::free_port()?, program::free_port()?];
        let folder = home.path().join("controller");
        let mut controller =
            makes.controller.quickstart(&folder, [USER, PASSWORD], [control, own])?;
        let controller = Stopped(Some(start_relay(&mut controller)?));
        let client = log_in(&format!("localhost:{control}")).await?;
        router_online(&client).await?;
        only_named_routers(&client).await?;
        for (name, kind) in [("bench-dial", "Dial"), ("bench-bind", "Bind")] {
            let policy = json!({"name": name, "type": kind, "semantic": "AnyOf",
                "identityRoles": ["#all"], "serviceRoles": ["#all"]});
            create(&client, &resource::service_policy::KIND, &policy).await?;
        }
        let mut routers = Vec::new();
        let mut ids = Vec::new();
        let mut wires = Vec::new();
        for place in 0..length {
            let folder = home.path().join(format!("router{place}"));
            std::fs::create_dir_all(&folder)?;
            let laid = WiredPart::lay(wire, place)?;
            let (link, access) = match WiredPart::of(place) {
                WiredPart::Links => (laid, None),
                WiredPart::Access => (None, laid),
            };
            let text = config(&folder, control, [&link, &access], place, place + 1 == length)?;
            wires.extend(link.into_iter().chain(access));
            std::fs::write(folder.join("router.yaml"), text)?;
            let (id, router) = router(&client, &makes.routers.program()?, &folder, place).await?;
            ids.push(id);
            routers.push(router);
        }
        let dialer = endpoint(&client, "bench-dialer").await?;
        let host = host(&client, "bench-host").await?;
        for (name, at) in [("bench-dialer", ids.first()), ("bench-host", ids.last())] {
            let at = at.ok_or_else(|| io::Error::other("a chain without routers"))?;
            use_alone(&client, name, at).await?;
        }
        let service = json!({"name": SERVICE, "encryptionRequired": false});
        create(&client, &resource::service::KIND, &service).await?;
        let mut listener = ends::serve(bound(host.clone())).await??;
        ends::serve(async move {
            while let Ok(incoming) = listener.accept().await {
                tokio::spawn(async move {
                    let stream = incoming.accept().await.map_err(io::Error::other)?;
                    serve(Box::pin(stream)).await
                });
            }
        });
        let (_host, _controller, _home) = (host, controller, home);
        let chain =
            Self { client, dialer, ids, routers, wires, messages, _host, _controller, _home };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match chain.connect().await {
                Ok(_) => return Ok(Arc::new(chain)),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }
}

impl Chain {
    /// Messages of circuits that came to the router at a place from other routers so far.
    pub(crate) async fn messages(&self, place: usize) -> io::Result<u64> {
        let missing = |what: &str| io::Error::other(format!("the router tells no {what}"));
        let id = self.ids.get(place).ok_or_else(|| missing("id"))?;
        let inspect = resource::operation(Api::Fabric, "inspect");
        let inspect = inspect.ok_or_else(|| missing("inspection"))?;
        let asked = json!({"appRegex": format!("^{id}$"), "requestedValues": ["metrics"]});
        let body = Some(("application/json", asked.to_string().into_bytes()));
        let answer = self.client.raw(Api::Fabric, inspect, &[], &[], body).await;
        let answer: Value = serde_json::from_slice(&answer.map_err(io::Error::other)?)?;
        // The answer comes with or without an envelope.
        let answer = answer.get("data").unwrap_or(&answer);
        let events = answer.pointer("/values/0/value").and_then(Value::as_array);
        let is_it = |event: &&Value| {
            event.get("metric").and_then(Value::as_str) == Some("fabric.rx.msgsize")
        };
        let event = events.into_iter().flatten().find(is_it);
        let count = event.and_then(|event| event.pointer("/metrics/count"));
        count.and_then(Value::as_u64).ok_or_else(|| missing("count of messages"))
    }
}

impl Path for Chain {
    fn connect(&self) -> BoxFuture<'_, io::Result<AnyStream>> {
        async move {
            let dialed = self.dialer.dial(SERVICE).await.map_err(io::Error::other)?;
            Ok(if self.messages {
                Box::pin(Messages::of(dialed)) as AnyStream
            } else {
                Box::pin(dialed)
            })
        }
        .boxed()
    }

    fn relay(&self) -> Vec<u32> {
        self.routers.iter().filter_map(|router| router.0.as_ref()).map(Child::id).collect()
    }

    fn carried(&self) -> Option<u64> {
        Laid::sum(self.wires.iter())
    }
}

/// The service, hosted: a router is online a moment before the controller names it to SDKs.
async fn bound(host: Endpoint) -> io::Result<Listener> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match host.bind(SERVICE).await {
            Ok(listener) => return Ok(listener),
            Err(error) if Instant::now() > deadline => return Err(io::Error::other(error)),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Makes a router of a place in the chain, enrolls it and starts it.
async fn router(
    client: &ManagementClient,
    program: &FilePath,
    folder: &FilePath,
    place: usize,
) -> io::Result<(String, Stopped)> {
    let body = json!({"name": format!("bench-router{place}"), "isTunnelerEnabled": false});
    let id = create(client, &resource::edge_router::KIND, &body).await?;
    let made: Value =
        client.get(&resource::edge_router::KIND, &id).await.map_err(io::Error::other)?;
    let token = made.get("enrollmentJwt").and_then(Value::as_str);
    let token = token.ok_or_else(|| io::Error::other("the router has no enrollment token"))?;
    let (file, jwt) = (folder.join("router.yaml"), folder.join("token.jwt"));
    std::fs::write(&jwt, token)?;
    let enrolled = Command::new(program)
        .args(["router".as_ref(), "enroll".as_ref(), file.as_os_str()])
        .arg("--jwt")
        .arg(&jwt)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .output()?;
    if !enrolled.status.success() {
        let said = String::from_utf8_lossy(&enrolled.stderr).into_owned();
        return Err(io::Error::other(format!("{} did not enroll: {said}", program.display())));
    }
    let log = std::fs::File::create(folder.join("log"))?;
    let mut run = Command::new(program);
    run.args(["router".as_ref(), "run".as_ref(), file.as_os_str()])
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let router = Stopped(Some(start_relay(&mut run)?));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown: Value =
            client.get(&resource::edge_router::KIND, &id).await.map_err(io::Error::other)?;
        if shown.get("isOnline") == Some(&Value::Bool(true)) {
            return Ok((id, router));
        }
        if Instant::now() > deadline {
            return Err(io::Error::other("a router did not come online"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The file of a router that takes links of the group of its place and opens those of the next.
fn config(
    folder: &FilePath,
    control: u16,
    wires: [&Option<Laid>; 2],
    place: usize,
    is_last: bool,
) -> io::Result<String> {
    let [[link_at, link_as], [edge_at, edge_as]] = wires.map(|wire| match wire {
        Some(wire) => [wire.server, wire.beginning],
        None => [Ipv4Addr::LOCALHOST; 2],
    });
    let ([edge, link], home) = ([program::free_port()?, program::free_port()?], folder.display());
    let mut text = format!(
        "v: 3\n\
         identity: {{cert: {home}/cert.pem, server_cert: {home}/server.pem, key: {home}/key.pem, ca: {home}/ca.pem}}\n\
         ctrl: {{endpoint: 'tls:localhost:{control}'}}\n\
         edge: {{csr: {{country: US, province: NC, locality: Here, organization: Org, \
         organizationalUnit: Unit, sans: {{dns: [localhost], ip: [127.0.0.1, {link_as}, {edge_as}]}}}}}}\n\
         dialers: [{{binding: transport}}]\n\
         listeners:\n\
         - {{binding: edge, address: 'tls:{edge_at}:{edge}', options: {{advertise: '{edge_as}:{edge}'}}}}\n\
         metrics: {{reportInterval: 5s}}\n\
         link:\n"
    );
    let written = write!(
        text,
        "  listeners:\n  - {{binding: transport, bind: 'tls:{link_at}:{link}', \
         advertise: 'tls:{link_as}:{link}', groups: [place{place}]}}\n"
    );
    written.map_err(io::Error::other)?;
    if !is_last {
        let next = place + 1;
        let written = write!(
            text,
            "  dialers:\n  - {{binding: transport, groups: [place{next}], startupDelay: 100ms, \
             healthyDialBackoff: {{minRetryInterval: 100ms, maxRetryInterval: 1s}}}}\n"
        );
        written.map_err(io::Error::other)?;
    }
    Ok(text)
}

/// From now on identities use only the routers that policies of their own name.
async fn only_named_routers(client: &ManagementClient) -> io::Result<()> {
    let kind = &resource::edge_router_policy::KIND;
    let policies: Vec<Value> = client.list(kind, None).await.map_err(io::Error::other)?;
    for policy in policies {
        let roles = policy.get("identityRoles").and_then(Value::as_array);
        let all = roles.is_some_and(|roles| roles.iter().any(|role| role == "#all"));
        if let Some(id) = policy.get("id").and_then(Value::as_str).filter(|_| all) {
            client.delete(kind, id).await.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// Lets an identity use one router alone.
async fn use_alone(client: &ManagementClient, name: &str, router: &str) -> io::Result<()> {
    let filter = format!("name = \"{name}\"");
    let found: Vec<Value> =
        client.list(&resource::identity::KIND, Some(&filter)).await.map_err(io::Error::other)?;
    let id = found.first().and_then(|one| one.get("id")).and_then(Value::as_str);
    let id = id.ok_or_else(|| io::Error::other("the identity is not there"))?;
    let policy = json!({"name": format!("{name} at its router"), "semantic": "AnyOf",
        "identityRoles": [format!("@{id}")], "edgeRouterRoles": [format!("@{router}")]});
    create(client, &resource::edge_router_policy::KIND, &policy).await.map(|_| ())
}
