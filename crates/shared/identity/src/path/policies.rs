//! Certificate policies (RFC 5280 section 6.1, with the changes of RFC 9618).
//!
//! Nothing here asks for a policy, but an authority may demand that every certificate below it follows one:
//! then a path without a policy that all of its certificates share is refused.

use std::collections::{BTreeMap, BTreeSet};

use x509_parser::asn1_rs::{Tag, oid};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::certificate::Certificate;
use crate::der::Element;
use crate::error::Error;

/// The policies that are valid at a certificate, each with the policies by which the next certificate may
/// continue it. Policies are OIDs in DER, without tag and length.
type Valid<'a> = BTreeMap<&'a [u8], BTreeSet<&'a [u8]>>;

const ANY_POLICY: &[u8] = &oid!(raw 2.5.29.32.0);

/// What the extensions of one certificate say of policies.
#[derive(Default)]
struct PolicyExtensions<'a> {
    /// `None` if the certificate names no policies.
    policies: Option<BTreeSet<&'a [u8]>>,
    /// Policies of the issuer, and those of the subject that count as equal.
    mappings: Vec<(&'a [u8], &'a [u8])>,
    require_explicit: Option<usize>,
    inhibit_mapping: Option<usize>,
    inhibit_any: Option<usize>,
}

/// Numbers of certificates until a rule holds; 0: it holds.
struct Until {
    explicit: usize,
    no_mapping: usize,
    no_any: usize,
}

/// Checks a path: leaf first, anchor last. Rules that the anchor states do not count.
pub(super) fn check(path: &[Certificate]) -> Result<(), Error> {
    let [below @ .., _anchor] = path else { return Ok(()) };
    if !below.iter().any(|one| one.rules().has_policy_constraints) {
        return Ok(());
    }
    let n = below.len();
    let mut until = Until { explicit: n + 1, no_mapping: n + 1, no_any: n + 1 };
    let mut valid = Some(Valid::from([(ANY_POLICY, BTreeSet::from([ANY_POLICY]))]));
    for (left, certificate) in below.iter().enumerate().rev() {
        let refused = |rule: &str| Error::Refused(format!("`{}`: {rule}", certificate.subject()));
        let extensions = extensions(certificate.der())
            .ok_or_else(|| refused("its extensions on certificate policies are malformed"))?;
        let is_self_issued = certificate.subject_der() == certificate.issuer_der();
        let takes_any = until.no_any > 0 || (left > 0 && is_self_issued);
        valid = valid.zip(extensions.policies.as_ref()).and_then(|(former, named)| {
            Some(next(&former, named, takes_any)).filter(|valid| !valid.is_empty())
        });
        if left > 0 {
            if extensions.mappings.iter().any(|(one, other)| [*one, *other].contains(&ANY_POLICY)) {
                return Err(refused("its policy mappings map the policy `any`"));
            }
            valid = valid.and_then(|valid| {
                Some(mapped(valid, &extensions.mappings, until.no_mapping > 0))
                    .filter(|valid| !valid.is_empty())
            });
        }
        let demanded = until.explicit == 0;
        until.pass(&extensions, left == 0, is_self_issued);
        if (demanded || (left == 0 && until.explicit == 0)) && valid.is_none() {
            return Err(refused(
                "an authority above it demands a certificate policy (policy constraints), and it has none \
                 that all certificates up to there share",
            ));
        }
    }
    Ok(())
}

impl Until {
    /// Goes on to the next certificate.
    fn pass(&mut self, extensions: &PolicyExtensions<'_>, is_leaf: bool, is_self_issued: bool) {
        if is_leaf || !is_self_issued {
            self.explicit = self.explicit.saturating_sub(1);
            self.no_mapping = self.no_mapping.saturating_sub(1);
            self.no_any = self.no_any.saturating_sub(1);
        }
        let least =
            |now: &mut usize, skip: Option<usize>| *now = skip.map_or(*now, |it| it.min(*now));
        match is_leaf {
            // A leaf can demand a policy of itself only.
            true => least(&mut self.explicit, extensions.require_explicit.filter(|it| *it == 0)),
            false => {
                least(&mut self.explicit, extensions.require_explicit);
                least(&mut self.no_mapping, extensions.inhibit_mapping);
                least(&mut self.no_any, extensions.inhibit_any);
            }
        }
    }
}

/// The policies that are valid at a certificate that names these.
fn next<'a>(former: &Valid<'a>, named: &BTreeSet<&'a [u8]>, takes_any: bool) -> Valid<'a> {
    let mut valid = Valid::new();
    let expected: BTreeSet<&[u8]> = former.values().flatten().copied().collect();
    for policy in named.iter().filter(|policy| **policy != ANY_POLICY) {
        if expected.contains(policy) || former.contains_key(ANY_POLICY) {
            valid.insert(policy, BTreeSet::from([*policy]));
        }
    }
    if takes_any && named.contains(ANY_POLICY) {
        for policy in expected {
            valid.entry(policy).or_insert_with(|| BTreeSet::from([policy]));
        }
    }
    valid
}

/// The policies after a certificate's mappings.
fn mapped<'a>(mut valid: Valid<'a>, mappings: &[(&'a [u8], &'a [u8])], may_map: bool) -> Valid<'a> {
    let mut new = Valid::new();
    for (issuers, subjects) in mappings {
        new.entry(issuers).or_default().insert(subjects);
    }
    for (policy, equal) in new {
        match may_map {
            false => drop(valid.remove(policy)),
            true if valid.contains_key(policy) || valid.contains_key(ANY_POLICY) => {
                valid.insert(policy, equal);
            }
            true => {}
        }
    }
    valid
}

/// Reads the extensions of a certificate; `None` if one is malformed.
fn extensions(certificate: &[u8]) -> Option<PolicyExtensions<'_>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let mut extensions = PolicyExtensions::default();
    for extension in certificate.iter_extensions() {
        let value = extension.value;
        if extension.oid == oid!(2.5.29.32) {
            extensions.policies = Some(policies(value)?);
        } else if extension.oid == oid!(2.5.29.33) {
            extensions.mappings = mappings(value)?;
        } else if extension.oid == oid!(2.5.29.36) {
            for constraint in Element::only(value)?.children()? {
                let least = Some(number(constraint.any.data)?);
                match (constraint.any.header.is_contextspecific(), constraint.any.tag().0) {
                    (true, 0) => extensions.require_explicit = least,
                    (true, 1) => extensions.inhibit_mapping = least,
                    _ => return None,
                }
            }
        } else if extension.oid == oid!(2.5.29.54) {
            let skip = Element::only(value)?;
            extensions.inhibit_any = Some(number(skip.any.data)?);
        }
    }
    Some(extensions)
}

fn policies(value: &[u8]) -> Option<BTreeSet<&[u8]>> {
    let all = Element::only(value)?.children()?;
    all.iter().map(|policy| oid(policy.children()?.first()?)).collect()
}

fn mappings(value: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let all = Element::only(value)?.children()?;
    all.iter()
        .map(|mapping| match mapping.children()?.as_slice() {
            [issuers, subjects] => Some((oid(issuers)?, oid(subjects)?)),
            _ => None,
        })
        .collect()
}

fn oid<'a>(element: &Element<'a>) -> Option<&'a [u8]> {
    (element.any.tag() == Tag::Oid).then_some(element.any.data)
}

/// A number of certificates; one too large for any path counts as the largest.
fn number(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [] => None,
        [first, ..] if *first >= 0x80 => None,
        few if few.len() <= 4 => {
            Some(few.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
        }
        _ => Some(usize::MAX),
    }
}
