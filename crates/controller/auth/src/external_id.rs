//! Reads the external id that a certificate of a third-party CA claims (docs/protocol/auth.md
//! 14.3): locate, match, parse, and select by index.

use weft_identity::{Certificate, San};
use weft_model::entity::{ClaimLocation, ClaimMatcher, ClaimParser, ExternalIdClaim};

/// Why a certificate claims no external id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExternalIdError {
    /// The certificate has no value at the location, or none that matches.
    #[error("the certificate has no value that the external id claim of its CA accepts")]
    Nothing,
    /// There are fewer values than the index asks for.
    #[error(
        "the certificate has {0} values that the external id claim of its CA accepts, too few for \
         the index of the claim"
    )]
    Index(usize),
}

/// Checks that the parts of a claim fit together; the error names the part and the reason.
pub fn check(claim: &ExternalIdClaim) -> Result<(), (&'static str, &'static str)> {
    let is_uri = claim.location == ClaimLocation::SanUri;
    match claim.matcher {
        ClaimMatcher::Scheme if !is_uri => {
            return Err(("matcher", "SCHEME matches the location SAN_URI only"));
        }
        ClaimMatcher::Prefix | ClaimMatcher::Suffix if is_uri => {
            return Err(("matcher", "PREFIX and SUFFIX do not match the location SAN_URI"));
        }
        ClaimMatcher::All => {}
        _ if claim.matcher_criteria.is_empty() => {
            return Err(("matcherCriteria", "is required by the matcher"));
        }
        _ => {}
    }
    if claim.parser == ClaimParser::Split && claim.parser_criteria.is_empty() {
        return Err(("parserCriteria", "the separator is required by the parser SPLIT"));
    }
    Ok(())
}

/// The external id that a certificate claims.
pub fn of(claim: &ExternalIdClaim, certificate: &Certificate) -> Result<String, ExternalIdError> {
    let located: Vec<&str> = match claim.location {
        ClaimLocation::CommonName => certificate.common_name().into_iter().collect(),
        ClaimLocation::SanUri => sans(certificate, |san| match san {
            San::Uri(uri) => Some(uri),
            _ => None,
        }),
        ClaimLocation::SanEmail => sans(certificate, |san| match san {
            San::Email(email) => Some(email),
            _ => None,
        }),
    };
    let matching = located.into_iter().filter_map(|value| matched(claim, value));
    let values: Vec<&str> = match claim.parser {
        ClaimParser::None => matching.collect(),
        ClaimParser::Split => {
            matching.flat_map(|value| value.split(claim.parser_criteria.as_str())).collect()
        }
    };
    if values.is_empty() {
        return Err(ExternalIdError::Nothing);
    }
    let value = usize::try_from(claim.index).ok().and_then(|index| values.get(index));
    match value.map(|value| value.trim()) {
        None => Err(ExternalIdError::Index(values.len())),
        Some("") => Err(ExternalIdError::Nothing),
        Some(value) => Ok(value.to_owned()),
    }
}

fn sans(certificate: &Certificate, get: impl Fn(&San) -> Option<&str>) -> Vec<&str> {
    certificate.sans().iter().filter_map(get).collect()
}

/// The rest of a matching value, without its prefix or suffix.
fn matched<'v>(claim: &ExternalIdClaim, value: &'v str) -> Option<&'v str> {
    let criteria = claim.matcher_criteria.as_str();
    match claim.matcher {
        ClaimMatcher::All => Some(value),
        ClaimMatcher::Prefix => value.strip_prefix(criteria),
        ClaimMatcher::Suffix => value.strip_suffix(criteria),
        ClaimMatcher::Scheme => {
            let (scheme, _) = value.split_once(':')?;
            scheme.eq_ignore_ascii_case(criteria).then_some(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use weft_identity::{
        Authority, AuthoritySpec, CertificateRequest, KeyAlgorithm, Leaf, PrivateKey, SpiffeId,
        SubjectName,
    };

    use super::*;

    fn certificate(name: &str, sans: &[San]) -> Certificate {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let pem =
            CertificateRequest::make_pem(&key, &SubjectName::common_name(name), sans).unwrap();
        let request = CertificateRequest::from_pem(&pem).unwrap();
        let id = SpiffeId::identity("test", "somebody");
        let leaf = Leaf::for_identity(&request, &id, now);
        root.issue(&Leaf { sans: request.sans().to_vec(), ..leaf }).unwrap()
    }

    fn claim(location: ClaimLocation, matcher: ClaimMatcher, criteria: &str) -> ExternalIdClaim {
        ExternalIdClaim {
            location,
            matcher,
            matcher_criteria: criteria.into(),
            ..ExternalIdClaim::default()
        }
    }

    #[test]
    fn values_are_located_matched_and_parsed() {
        use ClaimLocation as L;
        use ClaimMatcher as M;
        let mail = |text: &str| San::Email(text.into());
        let uri = |text: &str| San::Uri(text.into());
        let cert = certificate(
            "dev:42:berlin",
            &[mail("a@example.com"), uri("spiffe://x/y"), uri("urn:dev:7"), mail("b@other.net")],
        );
        let all = claim(L::CommonName, M::All, "");
        assert_eq!(of(&all, &cert).unwrap(), "dev:42:berlin");
        let split = ExternalIdClaim {
            parser: ClaimParser::Split,
            parser_criteria: ":".into(),
            index: 1,
            ..all
        };
        assert_eq!(of(&split, &cert).unwrap(), "42");
        assert_eq!(
            of(&ExternalIdClaim { index: 3, ..split }, &cert),
            Err(ExternalIdError::Index(3))
        );
        assert_eq!(of(&claim(L::CommonName, M::Prefix, "dev:"), &cert).unwrap(), "42:berlin");
        assert_eq!(of(&claim(L::SanEmail, M::Suffix, "@other.net"), &cert).unwrap(), "b");
        assert_eq!(of(&claim(L::SanUri, M::Scheme, "urn"), &cert).unwrap(), "urn:dev:7");
        assert_eq!(of(&claim(L::SanEmail, M::Suffix, "@no"), &cert), Err(ExternalIdError::Nothing));
    }

    #[test]
    fn the_last_of_several_common_names_is_claimed() {
        let now = SystemTime::now();
        let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let named = |name: &str| SubjectName::common_name(name).to_der().unwrap();
        for last in ["alice", "bob"] {
            // One sequence of the parts of two names: CN=Users, CN=alice.
            let parts: Vec<u8> =
                ["Users", last].iter().flat_map(|name| named(name)[2..].to_vec()).collect();
            let subject = [&[0x30, u8::try_from(parts.len()).unwrap()], &parts[..]].concat();
            let leaf = Leaf::for_key(
                key.public(),
                &SubjectName::default(),
                Vec::new(),
                weft_identity::KeyPurpose::Client,
                now,
            );
            let cert = root.issue(&Leaf { subject, ..leaf.unwrap() }).unwrap();
            assert_eq!(cert.subject(), format!("CN=Users, CN={last}"));
            let all = claim(ClaimLocation::CommonName, ClaimMatcher::All, "");
            assert_eq!(of(&all, &cert).unwrap(), last);
            let first = claim(ClaimLocation::CommonName, ClaimMatcher::Prefix, "Us");
            assert_eq!(of(&first, &cert), Err(ExternalIdError::Nothing));
        }
    }

    #[test]
    fn combinations_that_mean_nothing_are_refused() {
        use ClaimLocation as L;
        use ClaimMatcher as M;
        for (location, matcher, criteria, field) in [
            (L::CommonName, M::Scheme, "urn", "matcher"),
            (L::SanUri, M::Prefix, "urn", "matcher"),
            (L::SanEmail, M::Suffix, "", "matcherCriteria"),
        ] {
            assert_eq!(check(&claim(location, matcher, criteria)).unwrap_err().0, field);
        }
        let split =
            ExternalIdClaim { parser: ClaimParser::Split, ..claim(L::SanUri, M::Scheme, "urn") };
        assert_eq!(check(&split).unwrap_err().0, "parserCriteria");
        assert_eq!(check(&claim(L::SanUri, M::All, "")), Ok(()));
    }
}
