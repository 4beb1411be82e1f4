//! A network of two controllers that goes on from an older state: what was changed since counts for nobody any more.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_network_goes_on_after_etcd_was_put_back() {
    let Some(cluster) = Cluster::make().await else { return };
    let mut cluster = cluster.with_second().await;
    let mut first = cluster.start(0).await;
    let second = cluster.start(1).await;
    let _router = cluster.router().await;
    let operator = Operator::log_in(cluster.ports[0]).await;
    router_online(&operator).await;
    operator.allow_everybody().await;
    operator.service("echo", true).await;
    operator.allow_all_routers().await;
    let host = operator.endpoint("host").await;
    let client = operator.endpoint("client").await;
    let _hosting = streams::Server::sdk(&host, "echo", Manner::Echo).await;
    dial(&client).await;
    cluster.etcd.keep();

    // The right is withdrawn, which the router hears of, and a service is made.
    cluster.log_in(0).await;
    let withdraw = async || {
        let done = weft(cluster.path(), &["delete", "service-policy", "Dial", "--yes"]).await;
        done.status.success().then_some(()).ok_or_else(|| text(&done))
    };
    until("the right is withdrawn", PATIENCE, withdraw).await;
    operator.service("late", true).await;
    let denied = async || match client.dial("echo").await {
        Err(_) => Ok(()),
        Ok(_) => Err("the dial succeeds"),
    };
    until("the right counts no more", PATIENCE, denied).await;

    cluster.etcd.put_back();
    first.says("it was restored from an older snapshot", PATIENCE).await;
    let alive = ["controller", "restore", "one/controller.yaml", "--from-etcd"];
    let refused = cluster.refused(&alive).await;
    assert!(refused.contains("in use by another process"), "{refused}");
    assert!(first.stop().await.success());
    let dry = cluster.run(&[&alive[..], &["--dry-run"]].concat()).await;
    assert!(dry.contains("late") && dry.contains("it is back: delete it again"), "{dry}");
    let refused = cluster.refused(&alive).await;
    assert!(refused.contains("are alive: two. Stop them first"), "{refused}");
    assert!(second.stop().await.success());
    cluster.run(&alive).await;

    let _second = cluster.start(1).await;
    let _first = cluster.start(0).await;
    for port in cluster.ports {
        let operator = Operator::log_in(port).await;
        router_online(&operator).await;
        let services: Vec<Value> = operator.list(&resource::service::KIND).await;
        assert_eq!(services.len(), 1, "{services:?}");
    }
    dial(&client).await;
    let models = async || {
        let look = async |what: &str| {
            let text = cluster.run(&["inspect", what, "-o", "json"]).await;
            let found: Vec<&str> =
                text.split('"').skip_while(|it| !it.contains("imeline")).collect();
            found.get(2).map_or(text.clone(), |timeline| (*timeline).to_owned())
        };
        cluster.log_in(0).await;
        let (controller, router) =
            (look("data-model-index").await, look("router-data-model-index").await);
        if controller == router { Ok(()) } else { Err(format!("{controller} and {router}")) }
    };
    until("the router has the model of the controllers", PATIENCE, models).await;
}
