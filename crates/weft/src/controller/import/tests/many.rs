//! Many identities with certificates. `WEFT_MANY=NUMBER` has another number of them; `WEFT_MANY_IN=FOLDER` leaves the files
//! in a new folder, to measure the command with.

use std::path::Path;
use std::time::{Duration, Instant};

use weft_model::Kind;

use super::super::make::count;
use super::issued;
use super::made::Before;
use super::network::{Network, flag, text};

#[tokio::test]
async fn many_identities_with_certificates_are_imported() {
    let number = std::env::var("WEFT_MANY").map_or(300, |number| number.parse().unwrap());
    let folder = std::env::var_os("WEFT_MANY_IN");
    let before = Before::in_folder(folder.as_deref().map(Path::new)).await;
    let mut network = Network::new(44).with_identity("a1", "Ada");
    for at in 0..number {
        let (id, name) = (format!("i{at}"), format!("identity-{at}"));
        let (_, certificate) = issued(&before.signer, &name);
        let fields = vec![("name", text(&name)), ("type", text("Default"))];
        let cert = vec![
            ("method", text("cert")),
            ("identity", text(&id)),
            ("certPem", text(&certificate)),
            ("isIssuedByNetwork", flag(true)),
        ];
        network = network.with("identities", &id, fields);
        network = network.with("authenticators", &format!("c{at}"), cert);
    }
    before.write_network(network);
    if folder.is_some() {
        return;
    }
    let begin = Instant::now();
    before.import(false).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(60));
    let stored = count(&before.output().join("controller.db")).await.unwrap();
    assert_eq!(stored.get(&Kind::Identity), Some(&(number + 1)));
    assert_eq!(stored.get(&Kind::Authenticator), Some(&number));
}
