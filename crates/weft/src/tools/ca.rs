//! `weft ca add`: an authority of the operator's own, whose certificates log identities in.

use std::time::SystemTime;

use serde_json::{Value, json};
use weft_client::ManagementClient;
use weft_contract::{Api, headers};
use weft_identity::{Certificate, PrivateKey};

use super::verify_ca::{issue, read};
use super::{kind, row};
use crate::cli::{CaAddArgs, CaArgs, CaCommand};
use crate::failure::{Failure, Result};
use crate::output::{self, quoted};

/// Runs the subcommand.
pub(crate) async fn ca(args: CaArgs) -> Result<()> {
    match args.command {
        CaCommand::Add(args) => add(args).await,
    }
}

async fn add(args: CaAddArgs) -> Result<()> {
    let pem = read(&args.file)?;
    let authority = authority(&args, &pem, SystemTime::now())?;
    let body = body(&args, &authority, &pem)?;
    let key = args.key.as_ref().map(|key| read(key)).transpose()?;
    if let Some(key) = &key {
        // A key that does not fit is named before anything is made.
        issue("test", &pem, key)?;
    }
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
    if args.dry_run {
        output::value(args.output.format(), &body, || summary(&body, &authority));
        return Ok(());
    }
    let client = args.session.client().await?;
    let created: Value =
        client.call(row(Api::Management, "createCa")?, &[], &[], Some(&body)).await?;
    let id = created.get("id").and_then(Value::as_str).unwrap_or_default();
    let proved = prove(&client, id, &pem, key.as_deref()).await;
    let token = proved.map_err(|failure| half_made(failure, name))?;
    let next = match token {
        None => first_identity(&args, name),
        Some(token) => proof(name, &token),
    };
    let shown: Value = client.get(kind("ca")?, id).await?;
    output::value(args.output.format(), &shown, || {
        format!("{}\n{next}", summary(&body, &authority))
    });
    Ok(())
}

/// Proves to the controller that one holds the key of a new CA. Without the key: the token to prove it with.
async fn prove(
    client: &ManagementClient,
    id: &str,
    pem: &[u8],
    key: Option<&[u8]>,
) -> Result<Option<String>> {
    let made: Value = client.get(kind("ca")?, id).await?;
    let token = token_of(&made)?;
    let Some(key) = key else { return Ok(Some(token.to_owned())) };
    let proved = Some((headers::TEXT, issue(token, pem, key)?.into_bytes()));
    client.raw(Api::Management, row(Api::Management, "verifyCa")?, &[id], &[], proved).await?;
    Ok(None)
}

/// The token of a CA that is not proved. It becomes a part of a command that people copy into a shell, so that it may have
/// nothing in it that a shell reads as more than a word.
fn token_of(made: &Value) -> Result<&str> {
    let token = made.get("verificationToken").and_then(Value::as_str).unwrap_or_default();
    let is_plain = |one: char| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.');
    match !token.is_empty() && token.chars().all(is_plain) {
        true => Ok(token),
        false => Err(Failure::refused(
            "the controller gave a token to prove the key with that is empty, or has other characters than letters, \
             digits, `-`, `_` and `.`",
        )),
    }
}

/// The failure of a command that has made a CA, and no more.
fn half_made(failure: Failure, name: &str) -> Failure {
    let name = quoted(name);
    failure
        .during(format!("the CA {name} was made, and is not proved yet"))
        .and(format!("hint: weft verify ca {name} --ca-cert FILE --ca-key FILE"))
}

/// The first authority in a file.
fn authority(args: &CaAddArgs, pem: &[u8], now: SystemTime) -> Result<Certificate> {
    let file = args.file.display();
    let wrong = |what: &str| Failure::usage(format!("{file}: {what}"));
    if PrivateKey::from_pem(pem).is_ok() {
        return Err(wrong(
            "the file holds a private key, which must not leave its place: give the certificate alone, and the key with --key",
        ));
    }
    let all = Certificate::from_pem(pem).map_err(|error| wrong(&error.to_string()))?;
    let Some(found) = all.iter().find(|it| it.is_ca()) else {
        return Err(wrong(
            "the certificate is none of an authority (basic constraints, CA): it can issue nothing",
        ));
    };
    match found.is_valid_at(now) {
        true => Ok(found.clone()),
        false => Err(wrong("the certificate of the authority has expired, or is not valid yet")),
    }
}

/// The CA to make.
fn body(args: &CaAddArgs, authority: &Certificate, pem: &[u8]) -> Result<Value> {
    let name = args.name.as_deref().or_else(|| authority.common_name()).filter(|it| !it.is_empty());
    let name = name.ok_or_else(|| {
        Failure::usage("the certificate has no common name: give the CA one with --name")
    })?;
    let mut body = json!({
        "name": name,
        "certPem": String::from_utf8_lossy(pem),
        "isAuthEnabled": !args.no_login,
        "isOttCaEnrollmentEnabled": args.enroll_with_token,
        "isAutoCaEnrollmentEnabled": args.enroll_by_itself,
        "identityRoles": args.identity_roles,
    });
    if let Some(form) = &args.identity_name_format {
        body["identityNameFormat"] = json!(form);
    }
    let location = match args.claim.as_deref() {
        None => return Ok(body),
        Some("email") => "SAN_EMAIL",
        Some("uri") => "SAN_URI",
        Some(_) => "COMMON_NAME",
    };
    body["externalIdClaim"] = json!({
        "location": location, "matcher": "ALL", "matcherCriteria": "", "parser": "NONE",
        "parserCriteria": "", "index": 0,
    });
    Ok(body)
}

fn summary(body: &Value, authority: &Certificate) -> String {
    let is = |name: &str| body.get(name).and_then(Value::as_bool).unwrap_or_default();
    let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
    let may = [
        (is("isAuthEnabled"), "log in"),
        (is("isOttCaEnrollmentEnabled"), "enroll with a token"),
        (is("isAutoCaEnrollmentEnabled"), "enroll by themselves"),
    ];
    let may: Vec<&str> = may.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect();
    let may = if may.is_empty() { "do nothing yet".to_owned() } else { may.join(", ") };
    format!("CA {}: {}; its certificates may {may}", quoted(name), authority.subject())
}

/// What to do to prove that one holds the key.
fn proof(name: &str, token: &str) -> String {
    let name = quoted(name);
    format!(
        "It counts once somebody has proved that the key is yours, with a certificate of the authority whose common \
         name is\n  {token}\nWhere the key is:\n  \
         openssl req -new -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN={token} |\n    \
         openssl x509 -req -CA CA.pem -CAkey CA.key -CAcreateserial -days 1 -out proof.pem\nThen:\n  \
         weft verify ca {name} --cert proof.pem"
    )
}

/// How the first identity gets in.
fn first_identity(args: &CaAddArgs, name: &str) -> String {
    let how = match (&args.claim, args.enroll_with_token, args.enroll_by_itself) {
        (Some(claim), ..) => format!(
            "weft create identity anna --external-id VALUE, where VALUE is the {claim} of the certificate"
        ),
        (None, true, _) => format!(
            "weft create identity anna --enrollment-ottca {}, then weft jwt identity anna -o anna.jwt",
            quoted(name)
        ),
        (None, false, true) => format!(
            "weft jwt ca {} -o ca.jwt, then weft enroll ca.jwt --cert CERT --key KEY",
            quoted(name)
        ),
        (None, false, false) => format!(
            "weft update ca {} --is-ott-ca-enrollment-enabled: identities enroll with their certificates",
            quoted(name)
        ),
    };
    format!("proved: its certificates can be used now\nnext: {how}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser as _;
    use weft_identity::{Authority, AuthoritySpec};

    use super::*;
    use crate::cli::{Cli, Fixed};

    fn args(line: &str) -> CaAddArgs {
        let words = ["weft", "ca", "add"].into_iter().chain(line.split_whitespace());
        let Fixed::Ca(CaArgs { command: CaCommand::Add(args) }) = Cli::parse_from(words).command
        else {
            unreachable!("the words are of `weft ca add`")
        };
        args
    }

    fn root() -> Authority {
        Authority::make_root(&AuthoritySpec::new("Partner"), SystemTime::now()).unwrap()
    }

    #[test]
    fn a_file_without_an_authority_is_refused_by_its_name() {
        let (root, now) = (root(), SystemTime::now());
        let (pem, key) = (root.certificate().to_pem(), root.key().to_pem());
        let read = |pem: &str, now| authority(&args("ca.pem"), pem.as_bytes(), now);
        assert_eq!(read(&pem, now).unwrap(), *root.certificate());
        let leaf = issue("token", pem.as_bytes(), key.as_bytes()).unwrap();
        let later = now + Duration::from_secs(100 * 365 * 24 * 3600);
        for (text, at, says) in [
            ("nothing", now, "no certificate"),
            (leaf.as_str(), now, "none of an authority"),
            (key.as_str(), now, "holds a private key"),
            (pem.as_str(), later, "has expired"),
        ] {
            let error = read(text, at).unwrap_err().to_string();
            assert!(error.starts_with("ca.pem: ") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn a_token_that_a_shell_would_read_is_refused_and_the_ca_named() {
        let of = |token: &str| token_of(&json!({"verificationToken": token})).map(str::to_owned);
        assert_eq!(of("T0.ken-a_b").unwrap(), "T0.ken-a_b");
        for token in ["", "a b", "$(id)", "a;id", "`id`", "a\nid", "ä", "a/b"] {
            assert!(of(token).is_err(), "{token}");
        }
        assert!(token_of(&json!({})).is_err());
        let told = half_made(of("$(id)").unwrap_err(), "a b").to_string();
        assert!(told.starts_with("the CA 'a b' was made, and is not proved yet: "), "{told}");
    }

    #[test]
    fn the_flags_are_the_members_of_the_ca() {
        let root = root();
        let made = |line: &str| body(&args(line), root.certificate(), b"PEM").unwrap();
        let plain = made("ca.pem");
        assert_eq!((&plain["name"], &plain["isAuthEnabled"]), (&json!("Partner"), &json!(true)));
        assert_eq!(plain["externalIdClaim"], Value::Null);
        let whole =
            made("ca.pem -n mine --claim email --enroll-by-itself --identity-roles a,b --no-login");
        assert_eq!((&whole["name"], &whole["isAuthEnabled"]), (&json!("mine"), &json!(false)));
        assert_eq!(whole["externalIdClaim"]["location"], "SAN_EMAIL");
        assert_eq!(
            (&whole["identityRoles"], &whole["isAutoCaEnrollmentEnabled"]),
            (&json!(["a", "b"]), &json!(true))
        );
        assert!(summary(&whole, root.certificate()).ends_with("may enroll by themselves"));
        assert!(proof("a b", "T0ken").contains("weft verify ca 'a b' --cert proof.pem"));
    }
}
