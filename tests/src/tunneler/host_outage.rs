//! Hosts whose router, rights, service or controller is away for a while, and what they say meanwhile.

use super::*;

/// A host and a client of the service `echo`.
struct Bed {
    network: Network,
    host: Running,
    client: Running,
}

impl Bed {
    async fn new() -> Self {
        let network = Network::start().await;
        service(&network, "echo", true, &[(HOST_V1, at("tcp", application().await))]).await;
        let host = Running::host(&network).await;
        let client = Running::proxy(&network, &[("echo", Protocol::Tcp)]).await;
        let bed = Self { network, host, client };
        bed.works().await;
        bed
    }

    /// Waits until a client is served.
    async fn works(&self) {
        until_some(async || {
            let ports = self.client.tunneler.ports();
            let at = ports.into_iter().next()?.listening.ok()?;
            soon(talk(at, 1000)).await.ok()
        })
        .await;
        self.host.hosts("echo").await;
        let all = self.host.tunneler.status().services;
        assert!(all.iter().all(|one| one.hosting.iter().all(|host| host.problem.is_none())));
    }

    /// Waits until the host says that the service is not hosted, for a reason with this text.
    async fn says(&self, reason: &str) {
        until_some(async || {
            let all = self.host.tunneler.status().services;
            let hosting = all.into_iter().find(|one| one.name == "echo")?.hosting;
            let is_meant = |problem: &String| problem.contains(reason);
            let why = hosting.iter().any(|host| host.problem.as_ref().is_some_and(is_meant));
            (why && hosting.iter().all(|host| host.terminators == 0)).then_some(())
        })
        .await;
    }

    /// The id of the only entity of a kind for which the filter holds.
    async fn id(&self, kind: &weft_contract::kind::Kind, filter: &str) -> String {
        let found: Vec<Value> = self.network.admin.list(kind, Some(filter)).await.unwrap();
        assert_eq!(found.len(), 1);
        found[0]["id"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_hosted_again_after_its_router_was_away_for_long() {
    let mut bed = Bed::new().await;
    for with_controller in [false, true] {
        bed.network.stop_router().await;
        // The host has read the routers, and there is none that it could be connected to.
        bed.says("is online: router1").await;
        if with_controller {
            bed.network.stop_controller().await;
            bed.network.start_controller().await;
        }
        bed.network.start_router().await;
        bed.works().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_is_hosted_again_after_the_right_to_host_it_was_away() {
    let bed = Bed::new().await;
    let kind = &resource::service_policy::KIND;
    let id = bed.id(kind, "name = \"echo Bind\"").await;
    let policy: Value = bed.network.admin.get(kind, &id).await.unwrap();
    bed.network.patch(kind, &id, &json!({"identityRoles": ["#nobody"]})).await;
    until_some(async || {
        let status = bed.host.tunneler.status();
        status.services.iter().all(|one| !one.can_bind && one.hosting.is_empty()).then_some(())
    })
    .await;
    bed.network.patch(kind, &id, &json!({"identityRoles": policy["identityRoles"]})).await;
    bed.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_made_again_is_hosted_again() {
    let bed = Bed::new().await;
    let id = bed.id(&resource::service::KIND, "name = \"echo\"").await;
    bed.network.admin.delete(&resource::service::KIND, &id).await.unwrap();
    let config = bed.id(&resource::config::CONFIG_KIND, "name contains \"echo\"").await;
    let body = json!({"name": "echo", "encryptionRequired": true, "configs": [config]});
    let id = bed.network.create(&resource::service::KIND, &body).await;
    for kind in ["Dial", "Bind"] {
        let (name, body) =
            (format!("name = \"echo {kind}\""), json!({"serviceRoles": [format!("@{id}")]}));
        let policy = bed.id(&resource::service_policy::KIND, &name).await;
        bed.network.patch(&resource::service_policy::KIND, &policy, &body).await;
    }
    bed.works().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_config_asks_for_no_host_says_so() {
    let bed = Bed::new().await;
    let kind = &resource::config::CONFIG_KIND;
    let id = bed.id(kind, "name contains \"echo\"").await;
    let config: Value = bed.network.admin.get(kind, &id).await.unwrap();
    let mut wrong = config["data"].clone();
    wrong["listenOptions"] = json!({"connectTimeout": "5s or so"});
    bed.network.patch(kind, &id, &json!({"data": wrong})).await;
    bed.says("host.v1").await;
    bed.network.patch(kind, &id, &json!({"data": config["data"]})).await;
    bed.works().await;
    let service = bed.id(&resource::service::KIND, "name = \"echo\"").await;
    bed.network.patch(&resource::service::KIND, &service, &json!({"configs": []})).await;
    bed.says("no config says where its application is").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_hosts_again_after_its_right_was_away() {
    let network = Network::start().await;
    service(&network, "echo", true, &[(HOST_V1, at("tcp", application().await))]).await;
    let of = async |kind, name: &str| {
        let filter = format!("name = \"{name}\"");
        let found: Vec<Value> = network.admin.list(kind, Some(&filter)).await.unwrap();
        found[0]["id"].as_str().unwrap().to_owned()
    };
    let router = of(&resource::identity::KIND, "router1").await;
    let roles = json!({"roleAttributes": ["hosts"]});
    network.patch(&resource::identity::KIND, &router, &roles).await;
    let client = Running::proxy(&network, &[("echo", Protocol::Tcp)]).await;
    talked(client.port("echo").await, 1000).await;
    let (kind, policy) =
        (&resource::service_policy::KIND, of(&resource::service_policy::KIND, "echo Bind").await);
    let hosts = async || network.list(&resource::terminator::KIND).await.len();
    for _ in 0..2 {
        network.patch(kind, &policy, &json!({"identityRoles": ["#nobody"]})).await;
        until_some(async || (hosts().await == 0).then_some(())).await;
        network.patch(kind, &policy, &json!({"identityRoles": ["#hosts"]})).await;
        talked(client.port("echo").await, 1000).await;
        assert_eq!(hosts().await, 1);
    }
}
