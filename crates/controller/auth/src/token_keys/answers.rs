//! The operations on the keys of tokens.

use weft_contract::resource::token_key::{
    KeyStage, RollBody, TokenKey, TokenKeys as Shown, TokenKeysRolled,
};
use weft_contract::{Api, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};

use super::Stage;
use super::roll::{DroppedKeys, KnownTokenKey};
use crate::handle::Auth;

/// The operations.
pub const HANDLERS: &[HandlerRow<Auth>] =
    &[(Api::Weft, "listTokenKeys", &list), (Api::Weft, "rollTokenKeys", &roll)];

async fn list(auth: Auth, _caller: Caller, _call: Call) -> Result<Reply> {
    let next_roll_at = convert::time(auth.next_token_key_at());
    Reply::detail(&Shown { keys: keys(&auth), next_roll_at })
}

async fn roll(auth: Auth, caller: Caller, call: Call) -> Result<Reply> {
    let body: RollBody = call.decode_optional(Verb::Create)?;
    let key = body.key.as_deref().filter(|key| !key.is_empty());
    caller.begin()?;
    let dropped = match (body.stolen.unwrap_or(false), key) {
        (true, key) => auth.drop_stolen_token_keys(&caller, key).await?,
        (false, Some(key)) => {
            return Err(Failure::field("key", "is for a key that was stolen (`stolen`)", key));
        }
        (false, None) => {
            auth.roll_token_keys(&caller)?;
            DroppedKeys::default()
        }
    };
    Reply::detail(&TokenKeysRolled {
        dropped: dropped.keys,
        ended_sessions: i64::try_from(dropped.sessions).unwrap_or(i64::MAX),
        keys: keys(&auth),
        next_roll_at: convert::time(auth.next_token_key_at()),
    })
}

fn keys(auth: &Auth) -> Vec<TokenKey> {
    let former = auth.former_signer();
    let signs = |kid: &str| former.as_ref().is_some_and(|former| former.kid() == kid);
    let shown = |key: KnownTokenKey| match signs(&key.kid) {
        true => TokenKey { stage: KeyStage::Signing, ..shown(key) },
        false => shown(key),
    };
    auth.known_token_keys().into_iter().map(shown).collect()
}

fn shown(KnownTokenKey { kid, stage }: KnownTokenKey) -> TokenKey {
    TokenKey {
        id: kid,
        since: convert::time(stage.since()),
        stage: match stage {
            Stage::Ahead { .. } => KeyStage::Ahead,
            Stage::Signing { .. } => KeyStage::Signing,
            Stage::Former { .. } => KeyStage::Former,
            Stage::Gone { stolen: false, .. } => KeyStage::Gone,
            Stage::Gone { stolen: true, .. } => KeyStage::Stolen,
        },
    }
}
