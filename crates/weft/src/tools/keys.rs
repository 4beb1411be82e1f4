//! `weft keys`: the keys that sign tokens.

use serde_json::{Value, json};
use weft_contract::Api;
use weft_contract::resource::token_key::{KeyStage, TokenKey, TokenKeys, TokenKeysRolled};

use super::row;
use crate::cli::{KeysArgs, KeysCommand};
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted};

/// Runs the subcommand.
pub(crate) async fn keys(args: KeysArgs) -> Result<()> {
    let client = args.session.client().await?;
    let format = args.output.format();
    match args.command {
        KeysCommand::List => {
            let operation = row(Api::Weft, "listTokenKeys")?;
            let answer: Value = client.call_in(Api::Weft, operation, &[], &[], None).await?;
            show(format, &answer, |keys: &TokenKeys| {
                listed(&keys.keys, &keys.next_roll_at.to_string())
            })
        }
        KeysCommand::Roll { stolen, key } => {
            let operation = row(Api::Weft, "rollTokenKeys")?;
            let body = match key {
                Some(key) => json!({"stolen": stolen, "key": key}),
                None => json!({"stolen": stolen}),
            };
            let answer: Value = client.call_in(Api::Weft, operation, &[], &[], Some(&body)).await?;
            show(format, &answer, rolled)
        }
    }
}

fn show<T: serde::de::DeserializeOwned>(
    format: Format,
    answer: &Value,
    text: impl FnOnce(&T) -> String,
) -> Result<()> {
    let read: T = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    output::value(format, answer, || text(&read));
    Ok(())
}

/// The keys, a line for each.
fn listed(keys: &[TokenKey], next: &str) -> String {
    let mut lines: Vec<String> = keys.iter().map(line).collect();
    lines.push(format!("the next key signs {next} at the latest, if nothing asks for it before"));
    lines.join("\n")
}

fn line(key: &TokenKey) -> String {
    let TokenKey { id, since, stage } = key;
    let does = match stage {
        KeyStage::Signing => "signs since",
        KeyStage::Ahead => "signs next, published since",
        KeyStage::Former => "verifies what it signed until",
        KeyStage::Gone => "counts no more since",
        KeyStage::Stolen => "stolen, counts no more since",
    };
    format!("{id}  {does} {since}")
}

fn rolled(rolled: &TokenKeysRolled) -> String {
    let signing = rolled.keys.iter().find(|key| key.stage == KeyStage::Signing);
    let signing = signing.map_or("another key", |key| key.id.as_str());
    let mut lines = Vec::new();
    if !rolled.dropped.is_empty() {
        let keys = counted(rolled.dropped.len(), "key was", "keys were");
        let ended = usize::try_from(rolled.ended_sessions).unwrap_or_default();
        let sessions = counted(ended, "session has", "sessions have");
        lines.push(format!("{keys} dropped: {}", rolled.dropped.join(", ")));
        lines.push(format!("{sessions} ended with all tokens"));
    }
    lines.push(format!("{signing} signs now"));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, stage: &str) -> Value {
        json!({"id": id, "stage": stage, "since": "2026-01-31T12:00:00.000Z"})
    }

    #[test]
    fn it_says_what_each_key_does_and_what_ended() {
        let keys: Vec<TokenKey> = serde_json::from_value(json!([
            key("k2", "signing"),
            key("k3", "ahead"),
            key("k1", "former"),
            key("k0", "stolen")
        ]))
        .unwrap();
        let said = listed(&keys, "2026-03-02T12:00:00.000Z");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "k2  signs since 2026-01-31T12:00:00.000Z");
        assert!(lines[1].contains("signs next") && lines[3].contains("stolen"), "{said}");
        assert!(lines[4].contains("2026-03-02"), "{said}");

        let told = |dropped: Value, ended: i64| -> TokenKeysRolled {
            serde_json::from_value(json!({"dropped": dropped, "endedSessions": ended,
                "keys": [key("k2", "signing")], "nextRollAt": "2026-03-02T12:00:00.000Z"}))
            .unwrap()
        };
        assert_eq!(rolled(&told(json!([]), 0)), "k2 signs now");
        let said = rolled(&told(json!(["k0", "k1"]), 1));
        assert_eq!(
            said,
            "2 keys were dropped: k0, k1\n1 session has ended with all tokens\nk2 signs now"
        );
    }
}
