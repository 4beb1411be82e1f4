//! `weft jwt KIND NAME`: enrollment tokens of identities, routers, authorities and the network.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use serde_json::Value;
use weft_client::ManagementClient;
use weft_contract::{Api, headers};
use weft_identity::write_private;

use super::{kind, row};
use crate::cli::{JwtArgs, JwtOf};
use crate::entity::{name, token};
use crate::failure::{Failure, Result};
use crate::output;

/// Reads a token and prints it, or writes it to a file.
pub(crate) async fn jwt(args: JwtArgs) -> Result<()> {
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
        Some(path) => write(path, &token, args.force),
        None => {
            output::line(token);
            Ok(())
        }
    }
}

async fn of_entity(client: &ManagementClient, of: &'static str, which: &str) -> Result<String> {
    let kind = kind(of)?;
    let id = name::resolve(client, kind, which).await?;
    token::find(client, kind, &id).await?.ok_or_else(|| {
        token::missing(kind, &id).and(match of {
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

async fn of_ca(client: &ManagementClient, which: &str) -> Result<String> {
    let id = name::resolve(client, kind("ca")?, which).await?;
    let row = row(Api::Management, "getCaJwt")?;
    let text = client.raw(Api::Management, row, &[&id], &[], None).await?;
    String::from_utf8(text).map_err(Failure::new)
}

async fn of_network(client: &ManagementClient) -> Result<String> {
    let list = row(Api::Management, "listNetworkJWTs")?;
    let found: Vec<Value> = client.list_all(list, &[], None).await?;
    let token = found.iter().find_map(|item| item.get("token")?.as_str());
    token
        .map(str::to_owned)
        .ok_or_else(|| Failure::not_found(format!("the network offers no {} token", headers::JWT)))
}

/// Writes a token to a file, which must not exist unless `force`. A device or pipe, such as
/// `/dev/stdout`, is written to directly.
fn write(path: &Path, token: &str, force: bool) -> Result<()> {
    let wrong = |error: &dyn Display| Failure::new(format!("{}: {error}", path.display()));
    let there = fs::metadata(path);
    match there {
        Ok(there) if !there.is_file() => {
            return fs::write(path, token).map_err(|error| wrong(&error));
        }
        Ok(_) if force => write_private(path, token.as_bytes())?,
        Ok(_) => {
            return Err(wrong(&"exists already; nothing was written. Overwrite it with --force"));
        }
        Err(_) => token::write_new(path, token).map_err(|error| wrong(&error))?,
    }
    output::line(format!("enrollment token in {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_overwritten_only_when_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("laptop.json");
        fs::write(&path, "a key").unwrap();
        let refused = write(&path, "a.b.c", false).unwrap_err().to_string();
        assert!(refused.contains("laptop.json: exists already"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "a key");
        write(&path, "a.b.c", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a.b.c");
        assert!(write(folder.path(), "a.b.c", true).is_err());
    }
}
