//! The administrator of a network: a client of the management API.

use serde_json::{Value, json};
use weft_client::{ControllerAddress, Credentials, ManagementClient, Tls, trust};
use weft_contract::{Api, Kind, resource};
use weft_sdk::{Endpoint, EndpointBuilder, IdentityFile, chain};

use crate::network::{PASSWORD, USER};
use crate::wait::{PATIENCE, until};

/// A client that is logged in as the administrator.
pub(crate) struct Operator {
    pub(crate) client: ManagementClient,
}

impl Operator {
    /// Logs in as soon as the controller answers.
    pub(crate) async fn log_in(port: u16) -> Self {
        let address: ControllerAddress = format!("localhost:{port}").parse().unwrap();
        let credentials = Credentials::password(USER, PASSWORD).unwrap();
        let attempt = async || {
            let stranger = trust::meet(&address).await?;
            let client = ManagementClient::new(address.clone(), &Tls::Anonymous(stranger.bundle))?;
            client.login(&credentials).await?;
            Ok::<_, weft_client::Error>(client)
        };
        let (client, _) = until("the controller lets the operator in", PATIENCE, attempt).await;
        Self { client }
    }

    /// Creates an entity and returns its id.
    pub(crate) async fn create(&self, kind: &Kind, body: &Value) -> String {
        create(&self.client, kind, body).await.unwrap()
    }

    /// Every entity of a kind.
    pub(crate) async fn list(&self, kind: &Kind) -> Vec<Value> {
        self.client.list(kind, None).await.unwrap()
    }

    /// Number of circuits on the first page of their list.
    pub(crate) async fn circuits(&self) -> usize {
        self.circuit_ids().await.len()
    }

    /// The ids of the circuits on the first page of their list.
    pub(crate) async fn circuit_ids(&self) -> Vec<String> {
        let list = resource::fabric::circuit::KIND.list().unwrap();
        let all: Vec<Value> = self.client.call_in(Api::Fabric, list, &[], &[], None).await.unwrap();
        all.iter().map(|circuit| circuit["id"].as_str().unwrap().to_owned()).collect()
    }

    /// The ids of the circuits that each of these controllers owns.
    pub(crate) async fn circuits_of(&self, controllers: &[&str]) -> Vec<Vec<String>> {
        let list = resource::fabric::circuit::KIND.list().unwrap();
        let all: Vec<Value> = self.client.call_in(Api::Fabric, list, &[], &[], None).await.unwrap();
        let of = |owner: &&str| {
            let owned = all.iter().filter(|circuit| circuit["controllerId"] == **owner);
            owned.map(|circuit| circuit["id"].as_str().unwrap().to_owned()).collect()
        };
        controllers.iter().map(of).collect()
    }

    /// Ends a circuit.
    pub(crate) async fn end_circuit(&self, id: &str) {
        let delete = resource::operation(Api::Fabric, "deleteCircuit").unwrap();
        let at_once = json!({"immediate": true});
        let _: Value =
            self.client.call_in(Api::Fabric, delete, &[id], &[], Some(&at_once)).await.unwrap();
    }

    /// Lets every identity and every service use every router.
    pub(crate) async fn allow_all_routers(&self) {
        for (kind, who) in [
            (&resource::edge_router_policy::KIND, "identityRoles"),
            (&resource::service_edge_router_policy::KIND, "serviceRoles"),
        ] {
            let all = ["#all"];
            let roles =
                json!({"name": "all", "semantic": "AnyOf", who: all, "edgeRouterRoles": all});
            self.create(kind, &roles).await;
        }
    }

    /// True if a router is online.
    pub(crate) async fn router_online(&self) -> Result<bool, String> {
        let routers: Result<Vec<Value>, _> =
            self.client.list(&resource::edge_router::KIND, None).await;
        let routers = routers.map_err(|error| chain(&error))?;
        Ok(routers.iter().any(|router| router["isOnline"] == json!(true)))
    }

    /// Lets every identity dial and host every service, over every router.
    pub(crate) async fn allow_everybody(&self) {
        for kind in ["Dial", "Bind"] {
            let policy = json!({
                "name": kind, "type": kind, "semantic": "AnyOf",
                "identityRoles": ["#all"], "serviceRoles": ["#all"],
            });
            self.create(&resource::service_policy::KIND, &policy).await;
        }
    }

    /// A service for SDKs to host.
    pub(crate) async fn service(&self, name: &str, encrypted: bool) {
        let service = json!({
            "name": name, "encryptionRequired": encrypted, "roleAttributes": ["sdk"],
        });
        self.create(&resource::service::KIND, &service).await;
    }

    /// A service that the router's tunneler hosts: a TCP server at a port of this machine.
    pub(crate) async fn tunneled(&self, name: &str, port: u16, encrypted: bool) {
        let filter = Some("name = \"host.v1\"");
        let types: Vec<Value> =
            self.client.list(&resource::config::CONFIG_TYPE_KIND, filter).await.unwrap();
        let config = json!({
            "name": name, "configTypeId": types[0]["id"],
            "data": {"protocol": "tcp", "address": "127.0.0.1", "port": port},
        });
        let config = self.create(&resource::config::CONFIG_KIND, &config).await;
        let service = json!({"name": name, "encryptionRequired": encrypted, "configs": [config]});
        self.create(&resource::service::KIND, &service).await;
    }

    /// Creates an identity and enrolls it.
    pub(crate) async fn identity(&self, name: &str) -> IdentityFile {
        self.identity_with(name, &[]).await
    }

    /// [`Operator::identity`] with these role attributes.
    pub(crate) async fn identity_with(&self, name: &str, roles: &[&str]) -> IdentityFile {
        let body = json!({
            "name": name, "type": "Default", "isAdmin": false, "roleAttributes": roles,
            "enrollment": {"ott": true},
        });
        let id = self.create(&resource::identity::KIND, &body).await;
        let made: Value = self.client.get(&resource::identity::KIND, &id).await.unwrap();
        let token = made.pointer("/enrollment/ott/jwt").and_then(Value::as_str).unwrap();
        weft_sdk::enroll(token).await.unwrap()
    }

    /// [`Operator::identity`] for callers that try again.
    pub(crate) async fn try_identity(&self, name: &str) -> Result<IdentityFile, String> {
        let body = json!({
            "name": name, "type": "Default", "isAdmin": false, "enrollment": {"ott": true},
        });
        let failed = |error: weft_client::Error| chain(&error);
        let id = create(&self.client, &resource::identity::KIND, &body).await.map_err(failed)?;
        let made: Result<Value, _> = self.client.get(&resource::identity::KIND, &id).await;
        let made = made.map_err(failed)?;
        let token = made.pointer("/enrollment/ott/jwt").and_then(Value::as_str);
        let token = token.ok_or("there is no ticket")?;
        weft_sdk::enroll(token).await.map_err(|error| chain(&error))
    }

    /// Creates an identity, enrolls it and logs it in with default settings.
    pub(crate) async fn endpoint(&self, name: &str) -> Endpoint {
        self.endpoint_with(name, EndpointBuilder::new()).await
    }

    /// [`Operator::endpoint`] with these settings.
    pub(crate) async fn endpoint_with(&self, name: &str, how: EndpointBuilder) -> Endpoint {
        how.build(self.identity(name).await).await.unwrap()
    }
}

/// Creates an entity and returns its id: the controller has answered 201.
pub(crate) async fn create(
    client: &ManagementClient,
    kind: &Kind,
    body: &Value,
) -> Result<String, weft_client::Error> {
    let made: Value = client.call(kind.create().unwrap(), &[], &[], Some(body)).await?;
    Ok(made["id"].as_str().unwrap().to_owned())
}
