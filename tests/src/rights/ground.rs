//! A network with what the flows of each right need.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::{TcpStream, UdpSocket};
use weft_contract::{Kind, resource};
use weft_sdk::Endpoint;

use super::flow::{Flow, Line, application};
use super::{Dials, FLOWS, Hosts, RIGHTS, Right, name};
use crate::mesh::{links, network};
use crate::network::{Network, Peer, free_port, until_some};
use crate::sdk::echo;

const HOST_V1: &str = "NH5p4FpGR";
/// Two linked routers with tunnelers, and what the flows of all rights need.
pub(super) struct Ground {
    network: Network,
    dials: Peer,
    hosts: Peer,
    ports: HashMap<String, u16>,
    application: u16,
    /// Ids of the entities with a part in a right.
    parts: HashMap<String, String>,
    /// The endpoints of dialers, by name, and of hosts.
    dialers: HashMap<(String, Dials), Endpoint>,
    hosting: HashMap<String, Endpoint>,
}

impl Ground {
    pub(super) async fn new() -> Self {
        let network = network().await;
        for policy in network.list(&resource::service_edge_router_policy::KIND).await {
            let (kind, id) = (&resource::service_edge_router_policy::KIND, policy["id"].as_str());
            network.admin.delete(kind, id.unwrap()).await.unwrap();
        }
        let (mut ports, mut offered, mut listening) = (HashMap::new(), Vec::new(), String::new());
        for right in RIGHTS {
            for (dials, hosts) in FLOWS {
                let (name, port) = (name(right, (dials, hosts)), free_port());
                match dials {
                    Dials::Port => offered.push(format!("'{name}:{port}'")),
                    Dials::UdpPort => offered.push(format!("'{name}:{port}:udp'")),
                    Dials::Listener => listening.push_str(&format!(
                        "- {{binding: proxy, address: 'tcp:127.0.0.1:{port}', service: {name}}}\n"
                    )),
                    Dials::UdpListener => listening.push_str(&format!(
                        "- {{binding: proxy_udp, address: 'udp:127.0.0.1:{port}', service: {name}}}\n"
                    )),
                    Dials::Sdk | Dials::OldSdk => {}
                }
                ports.insert(name, port);
            }
        }
        let options = format!("{{mode: proxy, services: [{}]}}", offered.join(", "));
        let listening = format!("{listening}- {{binding: tunnel, options: {options}}}\n");
        let dials = tunneling(&network, "dials", &listening).await;
        let listening = "- {binding: tunnel, options: {mode: host}}\n";
        let hosts = tunneling(&network, "hosts", listening).await;
        links(&dials, 1).await;
        let application = application().await;
        let (parts, dialers, hosting) = Default::default();
        Self { network, dials, hosts, ports, application, parts, dialers, hosting }
    }

    async fn make(&mut self, part: String, kind: &Kind, body: Value) -> String {
        let id = self.network.create(kind, &body).await;
        self.parts.insert(part, id.clone());
        id
    }

    /// Makes what the flows of a right need, and nobody else.
    pub(super) async fn prepare(&mut self, right: Right) {
        let its = json!([format!("#{right:?}")]);
        let people = right.people();
        let dialers = json!([format!("#{people}-dialer"), format!("@{}", self.dials.id)]);
        let hosting = json!([format!("#{people}-host"), format!("@{}", self.hosts.id)]);
        for (kind, who) in [("Dial", &dialers), ("Bind", &hosting)] {
            let policy = json!({"name": format!("{right:?} {kind}"), "type": kind,
                "semantic": "AnyOf", "identityRoles": who, "serviceRoles": its,
                "postureCheckRoles": [format!("#{right:?}-{kind}")]});
            self.make(format!("{right:?} {kind}"), &resource::service_policy::KIND, policy).await;
        }
        self.serve(right).await;
        for flow in FLOWS {
            self.service(right, flow).await;
        }
        if !self.hosting.contains_key(&people) {
            self.connect(&people).await;
        }
        let host = &self.hosting[&people];
        for flow in FLOWS.into_iter().filter(|(_, hosts)| *hosts == Hosts::Sdk) {
            echo(until_some(async || host.bind(&name(right, flow)).await.ok()).await);
        }
    }

    /// Lets the services of a right be reached over all routers.
    pub(super) async fn serve(&mut self, right: Right) {
        let policy = json!({"name": format!("{right:?}"), "semantic": "AnyOf",
            "serviceRoles": [format!("#{right:?}")], "edgeRouterRoles": ["#all"]});
        let kind = &resource::service_edge_router_policy::KIND;
        self.make(format!("{right:?} services"), kind, policy).await;
    }

    async fn service(&mut self, right: Right, (dials, hosts): (Dials, Hosts)) {
        let name = name(right, (dials, hosts));
        let is_udp = matches!(dials, Dials::UdpPort | Dials::UdpListener);
        let mut configs = Vec::new();
        if hosts == Hosts::Router {
            let protocol = if is_udp { "udp" } else { "tcp" };
            let data =
                json!({"protocol": protocol, "address": "127.0.0.1", "port": self.application});
            let config = json!({"name": name, "configTypeId": HOST_V1, "data": data});
            configs.push(self.network.create(&resource::config::CONFIG_KIND, &config).await);
        }
        let service = json!({"name": name, "encryptionRequired": hosts != Hosts::Address,
            "configs": configs, "roleAttributes": [format!("{right:?}")]});
        let id = self.make(name, &resource::service::KIND, service).await;
        if hosts == Hosts::Address {
            let address = format!("tcp:127.0.0.1:{}", self.application);
            let terminator = json!({"service": id, "router": self.hosts.id,
                "binding": "transport", "address": address});
            self.network.create(&resource::terminator::KIND, &terminator).await;
        }
    }

    /// Enrolls identities of a name, which dial at one router and host at the other.
    async fn connect(&mut self, people: &str) {
        let mut files = Vec::new();
        for (who, router) in [("dialer", self.dials.id.clone()), ("host", self.hosts.id.clone())] {
            let name = format!("{people}-{who}");
            files.push(self.network.identity_file_of(&name, &[&name]).await);
            let filter = format!("name = \"{name}\"");
            let kind = &resource::identity::KIND;
            let found: Vec<Value> = self.network.admin.list(kind, Some(&filter)).await.unwrap();
            self.parts.insert(name.clone(), found[0]["id"].as_str().unwrap().to_owned());
            let policy = json!({"name": name, "semantic": "AnyOf",
                "identityRoles": [format!("#{name}")], "edgeRouterRoles": [format!("@{router}")]});
            let kind = &resource::edge_router_policy::KIND;
            self.make(format!("routers of {name}"), kind, policy).await;
        }
        let host = Endpoint::from_identity(files.remove(1)).await.unwrap();
        self.hosting.insert(people.to_owned(), host);
        let old = Endpoint::builder().router_flow_control().build(files[0].clone()).await.unwrap();
        self.dialers.insert((people.to_owned(), Dials::OldSdk), old);
        let dialer = Endpoint::from_identity(files.remove(0)).await.unwrap();
        self.dialers.insert((people.to_owned(), Dials::Sdk), dialer);
    }

    /// Opens a flow: routers hear of services and terminators after the controller.
    pub(super) async fn open(&self, right: Right, (dials, hosts): (Dials, Hosts)) -> Flow {
        let name = name(right, (dials, hosts));
        let at = SocketAddr::from(([127, 0, 0, 1], self.ports[&name]));
        let line = until_some(async || {
            let mut line = match dials {
                Dials::Sdk | Dials::OldSdk => {
                    let dialed = self.dialers[&(right.people(), dials)].dial(&name).await;
                    Line::Stream(Box::new(dialed.ok()?))
                }
                Dials::Port | Dials::Listener => {
                    Line::Stream(Box::new(TcpStream::connect(at).await.ok()?))
                }
                Dials::UdpPort | Dials::UdpListener => {
                    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
                    socket.connect(at).await.unwrap();
                    Line::Datagrams(socket)
                }
            };
            let long = Duration::from_secs(5);
            let answered = tokio::time::timeout(long, async {
                for _ in 0..20 {
                    if line.beat().await {
                        return true;
                    }
                }
                false
            });
            answered.await.is_ok_and(|it| it).then_some(line)
        });
        Flow::begin(right, (dials, hosts), line.await)
    }

    async fn delete(&self, kind: &Kind, part: &str) {
        self.network.admin.delete(kind, &self.parts[part]).await.unwrap();
    }

    async fn disable(&self, identity: &str) {
        let operations = resource::identity::KIND.operations;
        let disable = operations.iter().find(|it| it.id == "disableIdentity").unwrap();
        let body = json!({"durationMinutes": 0});
        let _: Value =
            self.network.admin.call(disable, &[identity], &[], Some(&body)).await.unwrap();
    }

    pub(super) async fn take_away(&self, right: Right) {
        let part = |what: &str| format!("{right:?}{what}");
        let check = async |policy: &str| {
            let processes = json!([{"osType": "Linux", "path": "/no/such/program"}]);
            let check = json!({"name": part(policy), "typeId": "PROCESS_MULTI",
                "semantic": "AllOf", "processes": processes,
                "roleAttributes": [format!("{right:?}-{policy}")]});
            self.network.create(&resource::posture_check::KIND, &check).await;
        };
        // The controller closes a connection that was idle, perhaps just now.
        let idle = async || self.network.admin.version().await.ok();
        until_some(idle).await;
        match right {
            Right::DialPolicy => self.delete(&resource::service_policy::KIND, &part(" Dial")).await,
            Right::BindPolicy => self.delete(&resource::service_policy::KIND, &part(" Bind")).await,
            Right::Attribute => {
                for flow in FLOWS {
                    let (kind, id) = (&resource::service::KIND, &self.parts[&name(right, flow)]);
                    self.network.patch(kind, id, &json!({"roleAttributes": []})).await;
                }
            }
            Right::DialPosture => check("Dial").await,
            Right::BindPosture => check("Bind").await,
            Right::EdgeRouterPolicies => {
                for who in ["dialer", "host"] {
                    let part = format!("routers of {right:?}-{who}");
                    self.delete(&resource::edge_router_policy::KIND, &part).await;
                }
            }
            Right::ServiceEdgeRouterPolicy => {
                let kind = &resource::service_edge_router_policy::KIND;
                self.delete(kind, &part(" services")).await;
            }
            Right::DialerDisabled => self.disable(&self.parts[&part("-dialer")]).await,
            Right::HostDisabled => self.disable(&self.parts[&part("-host")]).await,
            Right::DialerDeleted => self.delete(&resource::identity::KIND, &part("-dialer")).await,
            Right::HostDeleted => self.delete(&resource::identity::KIND, &part("-host")).await,
            Right::Service => {
                for flow in FLOWS {
                    self.delete(&resource::service::KIND, &name(right, flow)).await;
                }
            }
            Right::OwnDialerDisabled => self.disable(&self.dials.id).await,
            Right::OwnHostDisabled => self.disable(&self.hosts.id).await,
            Right::RouterDisabled => {
                let kind = &resource::edge_router::KIND;
                self.network.patch(kind, &self.hosts.id, &json!({"disabled": true})).await;
            }
        }
    }
}

/// A router with a tunneler and further listeners.
async fn tunneling(network: &Network, name: &str, listeners: &str) -> Peer {
    let link = free_port();
    let mut peer = network.enrolled_router(name, link, link).await;
    let tunnels = json!({"isTunnelerEnabled": true});
    network.patch(&resource::edge_router::KIND, &peer.id, &tunnels).await;
    peer.configure(&format!("listeners:\n{listeners}"));
    peer.start().await;
    peer
}
