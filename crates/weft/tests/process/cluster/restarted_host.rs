//! A host that restarts while etcd has no quorum.

use super::*;

/// The ids of the terminators in etcd, as a controller shows them.
async fn durable(operator: &Operator) -> Vec<String> {
    let found = operator.list(&resource::terminator::KIND).await;
    found.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a controller knows a terminator that can be dialed, durable or not.
async fn dialable(operator: &Operator) {
    let explain = resource::operation(Api::Weft, "explainPath").unwrap();
    let look = async || {
        let ids = ["client", "echo"];
        let path: Value =
            operator.client.call_in(Api::Weft, explain, &ids, &[], None).await.unwrap();
        match path.pointer("/entries/0/terminators/0/cost").is_some_and(Value::is_number) {
            true => Ok(()),
            false => Err(path.to_string()),
        }
    };
    until("a terminator", PATIENCE, look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_restarts_without_etcd_can_be_dialed_through_every_controller() {
    let Some(mut cluster) = Cluster::make().await else { return };
    cluster = cluster.with_second().await;
    let ([mut first, mut second], _router, operators) = cluster.start_all().await;
    let identity = operators[0].identity("host").await;
    let host = Endpoint::from_identity(identity.clone()).await.unwrap();
    let client = operators[1].endpoint("client").await;
    let hosting = streams::Server::sdk(&host, "echo", Manner::Echo).await;
    dial(&client).await;
    let former = durable(&operators[0]).await;
    assert_eq!(former.len(), 1);

    cluster.etcd.kill();
    for controller in [&mut first, &mut second] {
        controller.says("this controller is cut off from the others", PATIENCE).await;
    }
    drop(hosting);
    host.close().await.unwrap();
    let gone = async || match client.dial("echo").await {
        Ok(_) => Err("it is still dialed".to_owned()),
        Err(_) => Ok(()),
    };
    until("nobody hosts", PATIENCE, gone).await;
    let host = Endpoint::from_identity(identity).await.unwrap();
    let _hosting = streams::Server::sdk(&host, "echo", Manner::Echo).await;
    dial(&client).await;
    // Each controller by itself leads to it. One that restarts hears of it from the other one.
    first.kill();
    dial(&client).await;
    first = cluster.start(0).await;
    let operator = Operator::log_in(cluster.ports[0]).await;
    router_online(&operator).await;
    dialable(&operator).await;
    second.kill();
    dial(&client).await;
    second = cluster.start(1).await;
    assert_eq!(durable(&operator).await, former);

    // Everything is written when etcd is back.
    cluster.etcd.run();
    for operator in [operator, Operator::log_in(cluster.ports[1]).await] {
        let look = async || match durable(&operator).await {
            found if found.len() == 1 && found != former => Ok(()),
            found => Err(format!("{found:?}")),
        };
        until("the terminator in etcd", PATIENCE, look).await;
    }
    dial(&client).await;
    drop((host, first, second));
}
