//! What the form has no place for stays as it is at entities that are there already.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use weft_client::ManagementClient;
use weft_contract::resource;

use super::form::roles_of;
use crate::change::export;
use crate::change::file::Files;
use crate::failure::{Failure, Result};

/// The members of each section that an export may lack although the entity has them.
const LACKING: [(&str, &[&str]); 6] = [
    ("config-types", &["target"]),
    ("edge-routers", &["cost", "configs", "ctrlChanListeners"]),
    ("external-jwt-signers", &["enrollAuthPolicy", "enrollToCertEnabled", "enrollToTokenEnabled"]),
    (
        "identities",
        &[
            "appData",
            "defaultHostingCost",
            "defaultHostingPrecedence",
            "serviceConfigs",
            "serviceHostingCosts",
            "serviceHostingPrecedences",
        ],
    ),
    ("service-policies", &["postureCheckRoles"]),
    ("services", &["authenticatedEnds", "maxIdleTimeMillis"]),
];

/// Completes the entries that came in the form of OpenZiti with what their entities have here, and names
/// the default administrator of this network in place of the other one.
///
/// # Errors
/// When the network cannot be read: what is not known cannot stay.
pub(in crate::change) async fn keep(files: &mut Files, client: &ManagementClient) -> Result<()> {
    let mut sections: Vec<&str> = Vec::new();
    for (section, _) in files.of_openziti() {
        let lacking = LACKING.iter().find(|(of, _)| *of == section).map(|(of, _)| *of);
        sections.extend(lacking.filter(|it| !sections.contains(it)));
    }
    if !sections.is_empty() {
        let network = export::network(client, &sections.join(",")).await?;
        complete(files, network);
    }
    if files.of_openziti().any(|(section, _)| !roles_of(section).is_empty())
        && !files.admins.is_empty()
    {
        let kind = resource::kind("identity")
            .ok_or_else(|| Failure::new("this release of weft does not know identities"))?;
        let found: Vec<Value> = client.list(kind, Some("isDefaultAdmin = true")).await?;
        if let Some(id) = found.first().and_then(|admin| admin["id"].as_str()) {
            rename(files, id);
        }
    }
    Ok(())
}

/// Puts members of the entities of a network into entries that lack them.
fn complete(files: &mut Files, network: Map<String, Value>) {
    let mut there: HashMap<(String, String), Map<String, Value>> = HashMap::new();
    for (section, entities) in network {
        let Value::Array(entities) = entities else { continue };
        for entity in entities {
            let Value::Object(members) = entity else { continue };
            let Some(name) = members.get("name").and_then(Value::as_str) else { continue };
            there.insert((section.clone(), name.to_owned()), members);
        }
    }
    for (section, entry) in files.of_openziti() {
        let Some((_, lacking)) = LACKING.iter().find(|(of, _)| *of == section) else { continue };
        let Some(name) = entry.get("name").and_then(Value::as_str) else { continue };
        let Some(has) = there.get(&(section.to_owned(), name.to_owned())) else { continue };
        for member in *lacking {
            let Some(value) = has.get(*member) else { continue };
            // Exports have an empty list of posture checks in every policy.
            if entry.get(*member).is_none_or(|said| *said == json!([])) {
                entry.insert((*member).to_owned(), value.clone());
            }
        }
    }
}

/// Has roles name the default administrator by id where they name the other network's.
fn rename(files: &mut Files, id: &str) {
    let admins: Vec<String> = files.admins.iter().map(|name| format!("@{name}")).collect();
    for (section, entry) in files.of_openziti() {
        for (member, of) in roles_of(section) {
            let roles = entry.get_mut(*member).filter(|_| *of == "identities");
            for role in roles.and_then(Value::as_array_mut).into_iter().flatten() {
                if role.as_str().is_some_and(|role| admins.iter().any(|admin| admin == role)) {
                    *role = format!("@{id}").into();
                }
            }
        }
    }
}
