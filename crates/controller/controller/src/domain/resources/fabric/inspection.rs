//! Inspections of this controller and its routers (docs/protocol/operations.md 3).
//!
//! Routers of OpenZiti also answer with the content of entities, with tokens of sessions and with their own files. The
//! permission `ops.read` is no permission to read these entities, so that such values need a caller that may read them.
//! Tokens are for administrators, as in the details of sessions; keys and passwords of a router are for nobody.

use serde_json::Value;
use weft_contract::permission::{Action, Permission, Subject};
use weft_contract::resource::fabric::inspection::{InspectBody, Inspected};
use weft_contract::{Api, Verb, headers};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result};

use super::network;
use crate::Controller;

/// The operation.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[(Api::Fabric, "inspect", &inspect)];

/// The value with the router's copy of the data model: identities, services, configs with their data, policies and
/// more. The names of further values with parts of it begin with the same words.
const DATA_MODEL: &str = "router-data-model";
/// The value that begins like [`DATA_MODEL`], and only says how far the copy has come.
const DATA_MODEL_INDEX: &str = "router-data-model-index";
/// The value with the configs that a router is kept by.
const CONFIGS_OF_ROUTER: &str = "router-config-registry";
/// The value with the state of an SDK: the names of its identity and of its services, its sessions and listeners.
const SDK_CONTEXT: &str = "sdk-context";
/// Members of a router's answer by which somebody can take over a terminator: the token of the session that hosts
/// it, and the id of the listener, which another bind with the same id replaces (docs/protocol/sdk.md 8.3).
const TOKENS: &[&str] = &["token", "listenerid"];
/// Members of a router's file that are secret.
const SECRETS: &[&str] = &["password", "secret", "pin"];
/// Members of a router's file with the place of a key, which may be the key itself.
const KEYS: &[&str] = &["key", "server_key"];
/// The text in place of what is not told.
const HIDDEN: &str = "(not shown)";

/// Refuses a caller that asks for values with the content of entities that the caller may not read. All known names
/// are ASCII; whether another program takes a different letter for one of theirs is not known here, so that names
/// with such letters are for callers that may read everything.
fn may_ask(caller: &Caller, values: &[String]) -> Result<()> {
    for value in values {
        let name = value.to_ascii_lowercase();
        let is_whole = name.starts_with(DATA_MODEL) && name != DATA_MODEL_INDEX;
        let is_whole = is_whole || name.starts_with(SDK_CONTEXT);
        let has_configs = name.starts_with(CONFIGS_OF_ROUTER);
        let needed = if (is_whole || !name.is_ascii()) && !caller.reads_all() {
            Permission::AdminReadOnly
        } else if has_configs && !caller.may(Subject::Config, Action::Read) {
            Permission::One(Subject::Config, Action::Read)
        } else {
            continue;
        };
        let shown: String = value.chars().take(64).collect();
        let text = format!("the value {shown} has entities that need the permission {needed}");
        return Err(Failure::unauthorized(text));
    }
    Ok(())
}

/// Hides what callers must not see, whatever the name of the value: keys and passwords, and tokens from callers that
/// are no administrators.
fn hide(value: &mut Value, tells_tokens: bool) {
    let is_hidden = |name: &str, text: &str| {
        let is_one_of = |names: &[&str]| names.iter().any(|it| name.eq_ignore_ascii_case(it));
        is_one_of(SECRETS)
            || (!tells_tokens && is_one_of(TOKENS))
            || (is_one_of(KEYS) && text.starts_with("pem:"))
            || has_key(text)
    };
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if !text.is_empty() && is_hidden(name, text) => {
                        *value = HIDDEN.into();
                    }
                    value => hide(value, tells_tokens),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, tells_tokens)),
        Value::String(text) if has_key(text) => *value = HIDDEN.into(),
        _ => {}
    }
}

/// Whether a text has a private key in it, or the address of one with the pin that opens it.
fn has_key(text: &str) -> bool {
    text.contains("PRIVATE KEY-----") || (text.starts_with("pkcs11:") && text.contains("pin="))
}

/// Handles an inspection. The reply has no envelope, and lists the programs that could not be
/// asked.
async fn inspect(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let body: InspectBody = call.decode(Verb::Create)?;
    let pattern = body.app_regex.unwrap_or_default();
    let values = body.requested_values.unwrap_or_default();
    may_ask(&caller, &values)?;
    let network = network(&controller)?;
    let asked = network.ask_inside(&pattern, &values).await;
    let tells_tokens = caller.is_admin();
    // Values may be large, so that they are made in the caller's turn, and not on this task.
    let make = move || {
        let mut inspected: Inspected = asked.read();
        inspected.values.iter_mut().for_each(|it| hide(&mut it.value, tells_tokens));
        serde_json::to_vec(&inspected).map_err(|error| Failure::unhandled(error.to_string()))
    };
    let text = controller.kernel().scans().work(&caller, make).await?;
    Ok(Reply::raw(headers::JSON, text))
}
