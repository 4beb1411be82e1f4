//! `weft verify ca NAME`: proves to the controller that one holds the key of a certificate
//! authority.

use std::path::Path;
use std::time::SystemTime;

use serde_json::Value;
use weft_contract::{Api, headers};
use weft_identity::{
    Authority, Certificate, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
};

use super::{kind, row};
use crate::cli::VerifyCaArgs;
use crate::entity::name;
use crate::failure::{Failure, Result};
use crate::output;

/// Sends the controller a certificate that only the holder of the authority's key can issue.
pub(crate) async fn verify(args: VerifyCaArgs) -> Result<()> {
    if args.cert.is_none() && args.ca_cert.is_none() {
        return Err(missing());
    }
    let client = args.session.client().await?;
    let id = name::resolve(&client, kind("ca")?, &args.which).await?;
    let proof = match (&args.cert, &args.ca_cert, &args.ca_key) {
        (Some(path), ..) => read(path)?,
        (None, Some(cert), Some(key)) => {
            let ca: Value = client.get(kind("ca")?, &id).await?;
            let token = ca.get("verificationToken").and_then(Value::as_str).unwrap_or_default();
            if token.is_empty() {
                return Err(Failure::refused(format!("{} is verified already", args.which)));
            }
            issue(token, &read(cert)?, &read(key)?)?.into_bytes()
        }
        _ => return Err(missing()),
    };
    let row = row(Api::Management, "verifyCa")?;
    client.raw(Api::Management, row, &[&id], &[], Some((headers::TEXT, proof))).await?;
    output::line(format!("{} is verified: its certificates can be used now", args.which));
    Ok(())
}

/// The failure of a command without a proof.
fn missing() -> Failure {
    Failure::usage(
        "a proof is wanted: --ca-cert FILE --ca-key FILE to make it here, or --cert FILE, a certificate of \
         the authority whose common name is the verification token",
    )
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    crate::input::read(path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

/// A certificate of the authority with the token as its common name.
pub(super) fn issue(token: &str, cert: &[u8], key: &[u8]) -> Result<String> {
    let none = || Failure::new("the file of the authority holds no certificate");
    let key = PrivateKey::from_pem(key)?;
    let all = Certificate::from_pem(cert)?;
    // A file may have several authorities, in any order.
    let is_of_key = |it: &&Certificate| it.public_key().is_ok_and(|public| public == key.public());
    let certificate = all.iter().find(is_of_key).or(all.first()).cloned().ok_or_else(none)?;
    let authority = Authority::new(certificate, key)?;
    let own = PrivateKey::generate(KeyAlgorithm::EcP256)?;
    let subject = SubjectName::common_name(token);
    let leaf =
        Leaf::for_key(own.public(), &subject, Vec::new(), KeyPurpose::Client, SystemTime::now())?;
    Ok(authority.issue(&leaf)?.to_pem())
}

#[cfg(test)]
mod tests {
    use weft_identity::AuthoritySpec;

    use super::*;

    #[test]
    fn the_proof_carries_the_token_and_is_issued_by_the_authority() {
        let root = Authority::make_root(&AuthoritySpec::new("partner"), SystemTime::now()).unwrap();
        let (cert, key) = (root.certificate().to_pem(), root.key().to_pem());
        let proof = issue("a-token", cert.as_bytes(), key.as_bytes()).unwrap();
        let proof = Certificate::from_pem(proof.as_bytes()).unwrap().remove(0);
        assert_eq!(proof.common_name(), Some("a-token"));
        assert!(proof.is_issued_by(root.certificate()));
        let below =
            root.make_intermediate(&AuthoritySpec::new("below"), SystemTime::now()).unwrap();
        let both = weft_identity::to_pem([root.certificate(), below.certificate()]);
        let proof = issue("a-token", both.as_bytes(), below.key().to_pem().as_bytes()).unwrap();
        let proof = Certificate::from_pem(proof.as_bytes()).unwrap().remove(0);
        assert!(proof.is_issued_by(below.certificate()));
    }
}
