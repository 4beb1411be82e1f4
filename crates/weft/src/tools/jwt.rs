//! `weft jwt KIND NAME`: enrollment tokens of identities, routers, authorities and the network.

use std::path::Path;

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::{Api, headers};

use super::{kind, row};
use crate::{
    cli::{JwtArgs, JwtOf},
    entity::{name, token},
    failure::Failure,
    output,
};

/// Reads a token and prints it, or writes it to a file.
pub(crate) async fn jwt(args: JwtArgs) -> Result<(), Failure> {
    let client = args.session.client().await?;
    let token = match &args.of {
        JwtOf::Identity { which } => of_entity(&client, "identity", which).await?,
        JwtOf::EdgeRouter { which } => of_entity(&client, "edge-router", which).await?,
        JwtOf::TransitRouter { which } => of_entity(&client, "transit-router", which).await?,
        JwtOf::Enrollment { which } => of_entity(&client, "enrollment", which).await?,
        JwtOf::Ca { which } => of_ca(&client, which).await?,
        JwtOf::Network => of_network(&client).await?,
    };
    match &args.out {
        Some(path) => write(path, &token),
        None => {
            output::line(token);
            Ok(())
        }
    }
}

async fn of_entity(
    client: &ManagementClient,
    of: &'static str,
    which: &str,
) -> Result<String, Failure> {
    let kind = kind(of)?;
    let id = name::resolve(client, kind, which).await?;
    token::read(client, kind, &id).await.map_err(|failure| {
        failure.and(match of {
            "identity" => {
                format!(
                "make one: weft create enrollment --identity {which} --method ott --expires-at 24h"
            )
            }
            "edge-router" => format!("make one: weft re-enroll edge-router {which}"),
            _ => "it was used already, or withdrawn".to_owned(),
        })
    })
}

async fn of_ca(client: &ManagementClient, which: &str) -> Result<String, Failure> {
    let id = name::resolve(client, kind("ca")?, which).await?;
    let row = row(Api::Management, "getCaJwt")?;
    let text = client.raw(Api::Management, row, &[&id], &[], None).await?;
    String::from_utf8(text).map_err(Failure::new)
}

async fn of_network(client: &ManagementClient) -> Result<String, Failure> {
    let list = row(Api::Management, "listNetworkJWTs")?;
    let found: Vec<Value> = client.list_all(list, &[], None).await?;
    let token = found.iter().find_map(|item| item.get("token")?.as_str());
    token
        .map(str::to_owned)
        .ok_or_else(|| Failure::not_found(format!("the network offers no {} token", headers::JWT)))
}

fn write(path: &Path, token: &str) -> Result<(), Failure> {
    std::fs::write(path, token)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    output::line(format!("enrollment token in {}", path.display()));
    Ok(())
}
