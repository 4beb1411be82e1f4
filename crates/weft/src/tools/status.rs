//! `weft status`: the login, and the size of the network.

use serde_json::{Map, Value, json};
use weft_contract::Api;

use super::row;
use crate::{
    cli::StatusArgs,
    failure::Failure,
    output::{self, table},
};

/// Asks the controller, and prints the login, the release of the controller, and the numbers of
/// entities.
pub(crate) async fn status(args: StatusArgs) -> Result<(), Failure> {
    let (name, login) = args.session.saved()?;
    let client = args.session.client().await?;
    let version = client.version().await?;
    let me = client.current_identity().await?;
    let summary = row(Api::Management, "listSummary")?;
    // A login that may not read the counts is shown everything else.
    let counts: Value = client.call(summary, &[], &[], None).await.unwrap_or_default();
    let mut shown = Map::new();
    shown.insert("login".to_owned(), json!(name));
    shown.insert("controller".to_owned(), json!(login.controller));
    shown.insert("version".to_owned(), json!(version.version));
    shown.insert("revision".to_owned(), json!(version.revision));
    shown.insert("identity".to_owned(), json!(me.name));
    shown.insert("administrator".to_owned(), json!(me.is_admin));
    if let Some(permissions) = me.permissions {
        shown.insert("permissions".to_owned(), json!(permissions));
    }
    if let Some(counts) = counts.as_object().filter(|counts| !counts.is_empty()) {
        shown.insert("entities".to_owned(), Value::Object(counts.clone()));
    }
    let shown = Value::Object(shown);
    output::value(args.output.format(), &shown, || {
        let mut flat = shown.clone();
        if let Some(own) = version.revision.strip_prefix("weft-") {
            let compatible = &version.version;
            flat["version"] = format!("weft {own}, compatible with OpenZiti {compatible}").into();
            flat.as_object_mut().and_then(|members| members.remove("revision"));
        }
        let counts = flat.as_object_mut().and_then(|members| members.remove("entities"));
        let mut text = table::one(&flat);
        if let Some(counts) = counts {
            text.push_str(&format!("\n{}", table::one(&counts)));
        }
        text
    });
    Ok(())
}
