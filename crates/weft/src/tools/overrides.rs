//! `weft override`: configs that one identity sees for a service instead of the service's own.

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;
use weft_contract::resource::identity::ServiceConfigDetail;

use super::{kind, row};
use crate::cli::{OverrideArgs, OverrideCommand};
use crate::entity::name;
use crate::failure::Result;
use crate::output;

/// Runs the subcommand.
pub(crate) async fn overrides(args: OverrideArgs) -> Result<()> {
    let client = args.session.client().await?;
    match &args.command {
        OverrideCommand::List { identity } => list(&client, &args, identity).await,
        OverrideCommand::Set { identity, service, config } => {
            change(&client, "associateIdentitysServiceConfigs", identity, service, config).await?;
            output::line(format!("{identity} sees {config} for {service}"));
            Ok(())
        }
        OverrideCommand::Remove { identity, service, config } => {
            let operation = "disassociateIdentitysServiceConfigs";
            change(&client, operation, identity, service, config).await?;
            output::line(format!("{identity} sees {service} as everybody does"));
            Ok(())
        }
    }
}

async fn list(client: &ManagementClient, args: &OverrideArgs, identity: &str) -> Result<()> {
    let id = name::resolve(client, kind("identity")?, identity).await?;
    let list = row(Api::Management, "listIdentitysServiceConfigs")?;
    let found: Vec<ServiceConfigDetail> = client.list_all(list, &[&id], None).await?;
    let found: Vec<Value> = found
        .iter()
        .map(|pair| json!({"service": pair.service.name, "config": pair.config.name}))
        .collect();
    let none = format!("no overrides: {identity} has the configs of its services");
    output::list(args.output.format(), found, &["service", "config"], &none);
    Ok(())
}

async fn change(
    client: &ManagementClient,
    operation: &str,
    identity: &str,
    service: &str,
    config: &str,
) -> Result<()> {
    let identity = name::resolve(client, kind("identity")?, identity).await?;
    let service = name::resolve(client, kind("service")?, service).await?;
    let config = name::resolve(client, kind("config")?, config).await?;
    let body = json!([{"serviceId": service, "configId": config}]);
    let row = row(Api::Management, operation)?;
    let _: Value = client.call(row, &[&identity], &[], Some(&body)).await?;
    Ok(())
}
