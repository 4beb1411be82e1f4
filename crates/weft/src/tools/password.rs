//! `weft password`: one's own password, or that of another identity.

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;
use weft_contract::resource::authenticator::method::UPDB;

use super::{kind, row};
use crate::cli::PasswordArgs;
use crate::entity::name;
use crate::failure::{Failure, Result};
use crate::{ask, output, weak};

/// Sets the password.
pub(crate) async fn password(args: PasswordArgs) -> Result<()> {
    let client = args.session.client().await?;
    match &args.identity {
        Some(identity) => of_another(&client, &args, identity).await,
        None => own(&client, &args).await,
    }
}

/// The authenticator with a password.
fn with_password(found: &[Value]) -> Option<(&str, &str)> {
    let found = found.iter().find(|it| it.get("method").and_then(Value::as_str) == Some(UPDB))?;
    Some((found.get("id")?.as_str()?, found.get("username")?.as_str()?))
}

async fn own(client: &ManagementClient, args: &PasswordArgs) -> Result<()> {
    let list = row(Api::Management, "listCurrentIdentityAuthenticators")?;
    let found: Vec<Value> = client.list_all(list, &[], None).await?;
    let (id, username) = with_password(&found)
        .ok_or_else(|| Failure::not_found("this login has no password of its own"))?;
    let current = match &args.current_password {
        Some(current) => current.clone(),
        None => ask::password(username).await?,
    };
    let fresh = fresh(args, username).await?;
    let body = json!({"currentPassword": current, "password": fresh});
    let patch = row(Api::Management, "patchCurrentIdentityAuthenticator")?;
    let _: Value = client.call(patch, &[id], &[], Some(&body)).await?;
    output::line(format!("the password of {username} is changed"));
    Ok(())
}

async fn of_another(client: &ManagementClient, args: &PasswordArgs, identity: &str) -> Result<()> {
    let owner = name::resolve(client, kind("identity")?, identity).await?;
    let list = row(Api::Management, "getIdentityAuthenticators")?;
    let found: Vec<Value> = client.list_all(list, &[&owner], None).await?;
    let authenticators = kind("authenticator")?;
    match with_password(&found) {
        Some((id, username)) => {
            let mut body = json!({"password": fresh(args, username).await?});
            if let Some(username) = &args.username {
                body["username"] = json!(username);
            }
            let patch = authenticators.patch();
            let patch = patch.ok_or_else(|| Failure::new("authenticators cannot be changed"))?;
            let _: Value = client.call(patch, &[id], &[], Some(&body)).await?;
        }
        None => {
            let username = args.username.as_deref().unwrap_or(identity);
            let password = fresh(args, username).await?;
            let body = json!({"method": UPDB, "identityId": owner, "username": username,
                "password": password});
            let create = authenticators.create();
            let create = create.ok_or_else(|| Failure::new("authenticators cannot be made"))?;
            let _: Value = client.call(create, &[], &[], Some(&body)).await?;
            output::line(format!("{identity} can log in as {username} from now on"));
        }
    }
    output::line(format!("the password of {identity} is set"));
    Ok(())
}

async fn fresh(args: &PasswordArgs, of: &str) -> Result<String> {
    const CANNOT: &str = "a new password is needed: give --new-password or set WEFT_NEW_PASSWORD";
    let password = match &args.new_password {
        Some(password) => password.clone(),
        None => ask::new_password(of, CANNOT).await?,
    };
    weak::warn(of, &password);
    Ok(password)
}
