//! `weft signer add` and `weft signer test`: signers of identity providers, and tests of their tokens.

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::Api;
use weft_contract::resource::auth_policy::AuthPolicyDetail;
use weft_contract::resource::external_jwt_signer::SignerDetail;
use weft_contract::resource::token_test::TokenTest;
use weft_identity::KeySet;

use super::{kind, row};
use crate::cli::{SignerAddArgs, SignerArgs, SignerCommand, SignerTestArgs};
use crate::failure::{Failure, Result};
use crate::fetch::Fetcher;
use crate::output::{self, Format, quoted};

/// The path of a provider's description, behind its issuer (OpenID Connect Discovery 4).
const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// Algorithms of signatures that a provider may use.
const ALGORITHMS: &[&str] =
    &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/// Runs the subcommand.
pub(crate) async fn signer(args: SignerArgs) -> Result<()> {
    match args.command {
        SignerCommand::Add(args) => add(args).await,
        SignerCommand::Test(args) => test(args).await,
    }
}

/// What a provider's description says.
#[derive(Debug, PartialEq, Eq)]
struct Provider {
    issuer: String,
    keys: String,
    /// What will not work, or may surprise.
    remarks: Vec<String>,
}

/// Where the description of a provider is.
fn description_of(url: &str) -> String {
    match url.ends_with(WELL_KNOWN) {
        true => url.to_owned(),
        false => format!("{}{WELL_KNOWN}", url.trim_end_matches('/')),
    }
}

/// Reads the description that was fetched from a URL.
fn read(url: &str, document: &[u8]) -> Result<Provider> {
    let wrong = |what: &str| Failure::refused(format!("{url}: {what}"));
    let document: Value = serde_json::from_slice(document)
        .map_err(|error| wrong(&format!("the description is no JSON: {error}")))?;
    let text = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
    let issuer = text("issuer").ok_or_else(|| wrong("the description has no `issuer`"))?;
    let keys = text("jwks_uri").ok_or_else(|| {
        wrong("the description has no `jwks_uri`: keys that are behind a login are given as a certificate, with `weft create signer --cert-pem`")
    })?;
    let mut remarks = Vec::new();
    if description_of(&issuer) != url {
        remarks.push(format!(
            "the provider calls itself {issuer}, which is another place: tokens must have exactly this text as `iss`"
        ));
    }
    let algorithms =
        document.get("id_token_signing_alg_values_supported").and_then(Value::as_array);
    let algorithms: Vec<&str> =
        algorithms.into_iter().flatten().filter_map(Value::as_str).collect();
    if !algorithms.is_empty() && !algorithms.iter().any(|one| ALGORITHMS.contains(one)) {
        return Err(wrong(&format!(
            "it signs with {} only: weft takes signatures by RSA and elliptic curves",
            algorithms.join(", ")
        )));
    }
    if text("device_authorization_endpoint").is_none() {
        remarks.push(
            "it has no `device_authorization_endpoint`: programs without a browser cannot log in with a code"
                .to_owned(),
        );
    }
    Ok(Provider { issuer, keys, remarks })
}

async fn add(args: SignerAddArgs) -> Result<()> {
    let url = description_of(&args.url);
    let fetcher = Fetcher::new(weft_controller::open_fetch());
    let unreachable = |url: &str, reason: String| Failure::unreachable(format!("{url}: {reason}"));
    let document = fetcher.document(&url).await.map_err(|reason| unreachable(&url, reason))?;
    let mut provider = read(&url, &document)?;
    let keys = fetcher.document(&provider.keys).await;
    let keys = keys.map_err(|reason| unreachable(&provider.keys, reason))?;
    let keys = KeySet::from_json(&keys)?;
    if keys.is_empty() {
        let text = format!("{}: the key set has no signing key with a name (`kid`)", provider.keys);
        return Err(Failure::refused(text));
    }
    let body = body(&args, &provider)?;
    if args.dry_run {
        provider.remarks.iter().for_each(output::say);
        output::value(args.output.format(), &body, || summary(&body, keys.len()));
        return Ok(());
    }
    let client = args.session.client().await?;
    provider.remarks.extend(overlaps(&client, &body).await?);
    let created: Value = client
        .call(row(Api::Management, "createExternalJwtSigner")?, &[], &[], Some(&body))
        .await?;
    provider.remarks.iter().for_each(output::say);
    output::value(args.output.format(), &created, || {
        format!(
            "{}\nnext: `weft signer test -` with a token of the provider; identities get {} with \
             `weft update identity NAME --external-id VALUE`",
            summary(&body, keys.len()),
            args.claim
        )
    });
    Ok(())
}

/// The signer to make.
fn body(args: &SignerAddArgs, provider: &Provider) -> Result<Value> {
    let audience = args.audience.as_ref().ok_or_else(|| {
        Failure::usage(
            "--audience is missing: what the provider writes into `aud` of its tokens, which its description does not \
             say. For ID tokens it is the client id (then also --target-token ID), for access tokens the name of an API",
        )
    })?;
    let host = url_host(&provider.issuer);
    let mut body = json!({
        "name": args.name.clone().unwrap_or(host),
        "issuer": provider.issuer,
        "audience": audience,
        "jwksEndpoint": provider.keys,
        "externalAuthUrl": provider.issuer,
        "claimsProperty": args.claim,
        "useExternalId": !args.by_id,
        "targetToken": args.target_token.to_uppercase(),
        "enabled": true,
    });
    if let Some(client) = &args.client_id {
        body["clientId"] = json!(client);
    }
    if !args.scopes.is_empty() {
        body["scopes"] = json!(args.scopes);
    }
    Ok(body)
}

/// The host in a URL.
fn url_host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':', '?']).next().unwrap_or_default().to_owned()
}

fn summary(body: &Value, keys: usize) -> String {
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    format!(
        "signer {}: issuer {}, {keys} keys at {}",
        quoted(text("name")),
        text("issuer"),
        text("jwksEndpoint")
    )
}

/// Warnings about enabled signers that could name the same identities as a new one.
async fn overlaps(client: &ManagementClient, new: &Value) -> Result<Vec<String>> {
    let signers: Vec<SignerDetail> = client.list(kind("external-jwt-signer")?, None).await?;
    let policies: Vec<AuthPolicyDetail> = client.list(kind("auth-policy")?, None).await?;
    let by_external = new.get("useExternalId").and_then(Value::as_bool).unwrap_or_default();
    Ok(alike(&signers, &policies, by_external))
}

/// The warnings: a policy that names no signers lets all of them log its identities in.
fn alike(
    signers: &[SignerDetail],
    policies: &[AuthPolicyDetail],
    by_external: bool,
) -> Vec<String> {
    let open = policies
        .iter()
        .filter(|it| it.primary.ext_jwt.allowed && it.primary.ext_jwt.allowed_signers.is_empty());
    let open: Vec<&str> = open.map(|policy| policy.name.as_str()).collect();
    if open.is_empty() {
        return Vec::new();
    }
    let others = signers.iter().filter(|it| it.enabled && it.use_external_id == by_external);
    others
        .map(|other| {
            format!(
                "the enabled signer {} names identities in the same way, and the auth policies {} let every signer in: \
                 whoever one provider calls like somebody of the other logs in as them; \
                 primary.extJwt.allowedSigners of a policy names its signers",
                quoted(&other.name),
                open.iter().map(|name| quoted(name).to_string()).collect::<Vec<_>>().join(", ")
            )
        })
        .collect()
}

async fn test(args: SignerTestArgs) -> Result<()> {
    let token = match args.token.as_str() {
        "-" => {
            let read = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
            let read = read.await.map_err(|error| Failure::new(error.to_string()))?;
            read.map_err(|error| Failure::new(format!("standard input: {error}")))?
        }
        token => token.to_owned(),
    };
    let client = args.session.client().await?;
    let body = json!({"token": token.trim()});
    let operation = row(Api::Weft, "testExternalToken")?;
    let answer: Value = client.call_in(Api::Weft, operation, &[], &[], Some(&body)).await?;
    let tested: TokenTest = serde_json::from_value(answer.clone())
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    output::value(args.output.format(), &answer, || lines(&tested));
    match (tested.is_good, args.output.format()) {
        (true, _) => Ok(()),
        (false, Format::Table) => Err(Failure::refused("the token logs nobody in")),
        (false, _) => Err(Failure::refused("the token logs nobody in; `checks` says why")),
    }
}

/// The checks as lines.
fn lines(tested: &TokenTest) -> String {
    let width = tested.checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let line = |name: &str, is_good: bool, text: &str| {
        let mark = if is_good { "ok  " } else { "FAIL" };
        format!("{mark}  {name:width$}  {text}")
    };
    let checks = tested.checks.iter().map(|it| line(&it.name, it.is_good, &it.text));
    let mut lines: Vec<String> = checks.collect();
    if tested.is_good {
        let who =
            if tested.identity_name.is_empty() { "its identity" } else { &tested.identity_name };
        lines.push(format!("the token logs {who} in"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(change: impl FnOnce(&mut Value)) -> Result<Provider> {
        let mut document = json!({
            "issuer": "https://idp.example/realm", "jwks_uri": "https://idp.example/keys",
            "device_authorization_endpoint": "https://idp.example/device",
            "id_token_signing_alg_values_supported": ["HS256", "RS256"],
        });
        change(&mut document);
        read(&description_of("https://idp.example/realm/"), document.to_string().as_bytes())
    }

    #[test]
    fn a_description_says_what_is_missing() {
        let whole = described(|_| ()).unwrap();
        assert_eq!(whole.keys, "https://idp.example/keys");
        assert_eq!(whole.remarks, [""; 0]);
        let without = |name: &str| {
            described(|it| {
                it.as_object_mut().unwrap().remove(name);
            })
        };
        assert!(without("issuer").unwrap_err().to_string().contains("issuer"));
        assert!(without("jwks_uri").unwrap_err().to_string().contains("--cert-pem"));
        assert_eq!(without("device_authorization_endpoint").unwrap().remarks.len(), 1);
        let other = described(|it| it["issuer"] = json!("https://other.example")).unwrap();
        assert!(other.remarks[0].contains("https://other.example"));
        let shared = described(|it| it["id_token_signing_alg_values_supported"] = json!(["HS256"]));
        assert!(shared.unwrap_err().to_string().contains("HS256"));
    }

    #[test]
    fn signers_that_name_the_same_identities_are_told() {
        let signer = |name: &str, enabled, use_external_id| SignerDetail {
            name: name.to_owned(),
            enabled,
            use_external_id,
            ..SignerDetail::default()
        };
        let signers =
            [signer("a", true, true), signer("off", false, true), signer("ids", true, false)];
        let policy = |allowed, named: &[&str]| {
            let mut policy =
                AuthPolicyDetail { name: "p".to_owned(), ..AuthPolicyDetail::default() };
            policy.primary.ext_jwt.allowed = allowed;
            policy.primary.ext_jwt.allowed_signers =
                named.iter().map(|it| (*it).to_owned()).collect();
            policy
        };
        let told = alike(&signers, &[policy(true, &[])], true);
        assert!(told.len() == 1 && told[0].contains("signer a "), "{told:?}");
        assert_eq!(alike(&signers, &[policy(true, &["a"]), policy(false, &[])], true).len(), 0);
        assert_eq!(alike(&signers, &[policy(true, &[])], false).len(), 1);
    }

    #[test]
    fn the_name_is_the_host_of_the_issuer() {
        assert_eq!(url_host("https://idp.example:8443/realms/x"), "idp.example");
    }
}
