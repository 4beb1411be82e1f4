//! Paths from a leaf to an anchor: the certificates are looked for among those at hand, in any order, and
//! every rule is checked.
//!
//! The rules are those of RFC 5280 section 6. An anchor is believed as the operator gave it: of its own
//! rules only those on what it may issue count. A refusal says which certificate breaks which rule.

mod names;
mod policies;

use std::time::SystemTime;

use crate::certificate::{Certificate, MAX_CHAIN};
use crate::error::Error;
use crate::signed::NotSigned;
use crate::trust::RequiredKeyUsage;

/// Most signatures that are verified while a path is looked for. Each takes up to 0.2 ms.
const MAX_SIGNATURES: usize = 100;
/// Most comparisons of names with constraints while a path is looked for. Each takes up to 1 µs.
const MAX_COMPARISONS: usize = 250_000;

/// What is left of the work that a search may take.
struct Budget {
    signatures: usize,
    comparisons: usize,
}

/// The search for a path.
pub(crate) struct Search<'a> {
    /// Certificates that a path may end at, if they are authorities.
    pub(crate) anchors: &'a [Certificate],
    /// Certificates that a path may lead through.
    pub(crate) others: &'a [Certificate],
    /// The usage that the leaf has to allow.
    pub(crate) usage: RequiredKeyUsage,
    /// True if the dates of the leaf do not matter.
    pub(crate) ignore_leaf_validity: bool,
    /// The time at which the certificates have to be valid.
    pub(crate) now: SystemTime,
}

/// Why no path leads on from a certificate; the later the variant, the more it says.
#[derive(Debug)]
enum Dead {
    /// No certificate at hand has the name of the issuer.
    Unknown,
    /// The certificates that have the name of the issuer did not sign this one.
    NotSigned,
    /// A rule.
    Rule(Error),
}

impl Dead {
    fn rank(&self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::NotSigned => 1,
            Self::Rule(_) => 2,
        }
    }

    /// Keeps the reason that says more; of two equal ones the first.
    fn or(self, other: Self) -> Self {
        if other.rank() > self.rank() { other } else { self }
    }
}

impl Search<'_> {
    /// The path from the leaf to an anchor, both included.
    pub(crate) fn path(&self, leaf: &Certificate) -> Result<Vec<Certificate>, Error> {
        self.check_leaf(leaf)?;
        let mut path = vec![leaf.clone()];
        let mut budget = Budget { signatures: MAX_SIGNATURES, comparisons: MAX_COMPARISONS };
        let reason = match self.extend(&mut path, &mut budget) {
            Ok(()) => return Ok(path),
            Err(Dead::Rule(error)) => return Err(error),
            Err(Dead::Unknown) => "no authority that is trusted here has issued it",
            Err(Dead::NotSigned) => "the trusted authority of its issuer's name has not issued it",
        };
        Err(Error::NotIssued { subject: leaf.subject().to_owned(), reason })
    }

    fn check_leaf(&self, leaf: &Certificate) -> Result<(), Error> {
        if !self.ignore_leaf_validity {
            leaf.check_valid_at(self.now)?;
        }
        self.check_content(leaf).map_err(|rule| refused(leaf, &rule))
    }

    /// Checks the rules that hold for a leaf and for the authorities between it and the anchor.
    fn check_content(&self, certificate: &Certificate) -> Result<(), String> {
        let rules = certificate.rules();
        if let Some(fault) = &rules.fault {
            return Err(fault.clone());
        }
        self.check_purposes(certificate)
    }

    /// Checks that the usages that a certificate names, if it names some, include that of the search.
    fn check_purposes(&self, certificate: &Certificate) -> Result<(), String> {
        let Some(purposes) = certificate.rules().purposes else { return Ok(()) };
        match self.usage {
            RequiredKeyUsage::Any => Ok(()),
            _ if purposes.any => Ok(()),
            RequiredKeyUsage::Client if purposes.client => Ok(()),
            RequiredKeyUsage::Server if purposes.server => Ok(()),
            RequiredKeyUsage::Client => Err("it is not for clients (extended key usage)".into()),
            RequiredKeyUsage::Server => Err("it is not for servers (extended key usage)".into()),
        }
    }

    /// Extends a path to an anchor. After an error the path is as before.
    fn extend(&self, path: &mut Vec<Certificate>, budget: &mut Budget) -> Result<(), Dead> {
        let Some(head) = path.last().cloned() else { return Err(Dead::Unknown) };
        let issuers = |all| named(all, head.issuer_der());
        let mut dead = Dead::Unknown;
        for anchor in issuers(self.anchors) {
            match self.end(path, &head, anchor, budget) {
                Ok(()) => return Ok(()),
                Err(why) => dead = dead.or(why),
            }
        }
        for issuer in issuers(self.others) {
            match self.step(path, &head, issuer, budget) {
                Ok(()) => return Ok(()),
                Err(why) => dead = dead.or(why),
            }
        }
        Err(dead)
    }

    /// Ends a path at an anchor.
    fn end(
        &self,
        path: &mut Vec<Certificate>,
        head: &Certificate,
        anchor: &Certificate,
        budget: &mut Budget,
    ) -> Result<(), Dead> {
        check_signature(head, anchor, budget)?;
        self.check_issuer(anchor, anchor.may_issue(), path.len() - 1)?;
        let above = |rule: String| Dead::Rule(refused_authority(anchor, &rule));
        // Of an anchor, what cannot be read could be a rule on what it may issue.
        anchor.rules().malformed.clone().map_or(Ok(()), Err).map_err(above)?;
        self.check_purposes(anchor).map_err(above)?;
        path.push(anchor.clone());
        let whole =
            names::check(path, &mut budget.comparisons).and_then(|()| policies::check(path));
        whole.map_err(|error| {
            path.pop();
            Dead::Rule(error)
        })
    }

    /// Extends a path by an authority, and then to an anchor.
    fn step(
        &self,
        path: &mut Vec<Certificate>,
        head: &Certificate,
        issuer: &Certificate,
        budget: &mut Budget,
    ) -> Result<(), Dead> {
        // Two certificates of one authority on a path would be a loop (RFC 4158 section 5.2).
        if path.iter().any(|one| one.is_of_same_holder(issuer)) {
            return Err(Dead::Unknown);
        }
        check_signature(head, issuer, budget)?;
        self.check_issuer(issuer, issuer.is_ca(), path.len() - 1)?;
        let above = |rule: String| Dead::Rule(refused_authority(issuer, &rule));
        self.check_content(issuer).map_err(above)?;
        if path.len() + 1 >= MAX_CHAIN {
            return Err(above(format!("more than {MAX_CHAIN} certificates would be in its chain")));
        }
        path.push(issuer.clone());
        self.extend(path, budget).inspect_err(|_| {
            path.pop();
        })
    }

    /// Checks that a certificate may issue others, with so many authorities between it and the leaf.
    fn check_issuer(
        &self,
        issuer: &Certificate,
        is_authority: bool,
        below: usize,
    ) -> Result<(), Dead> {
        let rules = issuer.rules();
        let no = |rule: String| Err(Dead::Rule(refused_authority(issuer, &rule)));
        if !is_authority {
            return no("it is no certificate authority (basic constraints)".into());
        }
        if rules.signs_certificates == Some(false) {
            return no("it may not sign certificates (its key usage lacks keyCertSign)".into());
        }
        if let Some(most) = rules.path_len.filter(|most| below > *most as usize) {
            return no(format!(
                "it allows {most} authorities below it (path length), and there are {below}"
            ));
        }
        issuer.check_valid(true, self.now).map_err(Dead::Rule)
    }
}

fn named<'c>(all: &'c [Certificate], name: &[u8]) -> impl Iterator<Item = &'c Certificate> {
    all.iter().filter(move |one| one.subject_der() == name)
}

fn check_signature(
    certificate: &Certificate,
    issuer: &Certificate,
    budget: &mut Budget,
) -> Result<(), Dead> {
    let no = |rule: &str| Dead::Rule(refused(certificate, rule));
    budget.signatures = budget
        .signatures
        .checked_sub(1)
        .ok_or_else(|| no("too many certificates of the same names were sent with it"))?;
    certificate.check_signature_by(issuer).map_err(|why| match why {
        NotSigned::Wrong => match issuer.public_key() {
            Ok(_) => Dead::NotSigned,
            Err(error) => no(&format!("the key of its issuer cannot be used: {error}")),
        },
        NotSigned::Algorithm(name) => {
            no(&format!("its signature algorithm {name} is not accepted"))
        }
    })
}

fn refused(certificate: &Certificate, rule: &str) -> Error {
    Error::Refused(format!("`{}`: {rule}", certificate.subject()))
}

fn refused_authority(issuer: &Certificate, rule: &str) -> Error {
    Error::Refused(format!("its issuer `{}`: {rule}", issuer.subject()))
}
