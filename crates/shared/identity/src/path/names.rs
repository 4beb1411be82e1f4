//! Name constraints (RFC 5280 section 4.2.1.10): the names that an authority allows below itself.
//!
//! A name of a kind that cannot be compared, below an authority that constrains that kind, is refused.

use x509_parser::asn1_rs::{FromDer as _, oid};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::OID_PKCS9_EMAIL_ADDRESS;
use x509_parser::x509::{AttributeTypeAndValue, RelativeDistinguishedName, X509Name};

use crate::certificate::Certificate;
use crate::der::Element;
use crate::distinguished;
use crate::error::Error;

/// The constraints of one authority.
struct Constraints<'a> {
    permitted: Vec<GeneralName<'a>>,
    excluded: Vec<GeneralName<'a>>,
}

/// The relation of a name to a constraint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// The constraint is about names of another kind.
    OtherKind,
    Inside,
    Outside,
    /// Names of this kind, or this name, cannot be compared.
    Unclear,
}

/// Checks a path: leaf first, anchor last. Authorities constrain all certificates below them. `comparisons` is the
/// number of comparisons that are left.
pub(super) fn check(path: &[Certificate], comparisons: &mut usize) -> Result<(), Error> {
    for (place, authority) in path.iter().enumerate() {
        if !authority.rules().has_name_constraints || place == 0 {
            continue;
        }
        let refused = |what: &str| {
            let subject = authority.subject();
            Error::Refused(format!("its issuer `{subject}`: its name constraints {what}"))
        };
        let read = Constraints::of(authority.der());
        let constraints = read.ok_or_else(|| refused("are malformed"))?;
        for below in path.iter().take(place) {
            let (_, certificate) = X509Certificate::from_der(below.der())
                .map_err(|error| Error::Certificate(error.to_string()))?;
            for name in names_of(&certificate) {
                if !constraints.permit(&name, comparisons) {
                    let subject = below.subject();
                    return Err(refused(&format!("do not permit `{subject}` the name {name}")));
                }
            }
        }
    }
    Ok(())
}

/// All names of a certificate.
fn names_of<'a>(certificate: &X509Certificate<'a>) -> Vec<GeneralName<'a>> {
    let subject = certificate.tbs_certificate.subject.clone();
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let mut names = match alternative {
        Some(names) => names.value.general_names.clone(),
        // Without alternative names, mail addresses in the subject count.
        None => mail_addresses(&subject),
    };
    if subject.iter_rdn().next().is_some() {
        names.push(GeneralName::DirectoryName(subject));
    }
    names
}

fn mail_addresses<'a>(subject: &X509Name<'a>) -> Vec<GeneralName<'a>> {
    let found = subject.iter_by_oid(&OID_PKCS9_EMAIL_ADDRESS);
    found
        .map(|field| match std::str::from_utf8(field.attr_value().data) {
            Ok(text) => GeneralName::RFC822Name(text),
            Err(_) => GeneralName::Invalid(field.attr_value().tag(), field.attr_value().data),
        })
        .collect()
}

impl<'a> Constraints<'a> {
    fn of(certificate: &'a [u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let mut all = certificate.iter_extensions();
        let extension = all.find(|extension| extension.oid == oid!(2.5.29.30))?;
        let mut found = Self { permitted: Vec::new(), excluded: Vec::new() };
        for part in Element::only(extension.value)?.children()? {
            let names = match (part.any.header.is_contextspecific(), part.any.tag().0) {
                (true, 0) => &mut found.permitted,
                (true, 1) => &mut found.excluded,
                _ => return None,
            };
            for tree in part.children()? {
                // Minimum and maximum, which may follow, are not used (RFC 5280 section 4.2.1.10).
                let base = tree.children()?.into_iter().next()?;
                match GeneralName::from_der(base.raw).ok()? {
                    ([], GeneralName::DirectoryName(name)) if !distinguished::is_whole(&name) => {
                        return None;
                    }
                    ([], name) => names.push(name),
                    _ => return None,
                }
            }
        }
        Some(found)
    }

    fn permit(&self, name: &GeneralName<'_>, comparisons: &mut usize) -> bool {
        let count = self.permitted.len() + self.excluded.len();
        let Some(left) = comparisons.checked_sub(count) else { return false };
        *comparisons = left;
        let (mut is_constrained, mut is_inside) = (false, false);
        for base in &self.permitted {
            match relation(name, base, false, comparisons) {
                Relation::OtherKind => {}
                Relation::Unclear => return false,
                Relation::Inside => (is_constrained, is_inside) = (true, true),
                Relation::Outside => is_constrained = true,
            }
        }
        let mut excluded = self.excluded.iter().map(|base| relation(name, base, true, comparisons));
        (is_inside || !is_constrained)
            && excluded.all(|it| matches!(it, Relation::OtherKind | Relation::Outside))
    }
}

/// The relation of a name to a constraint. A wildcard stands for all names that it covers: it is inside a
/// permitted constraint if all of them are, and inside an excluded one if any is.
fn relation(
    name: &GeneralName<'_>,
    base: &GeneralName<'_>,
    is_excluded: bool,
    comparisons: &mut usize,
) -> Relation {
    use GeneralName as N;
    let inside = |is: bool| if is { Relation::Inside } else { Relation::Outside };
    match (name, base) {
        (N::Invalid(..), _) | (_, N::Invalid(..)) => Relation::Unclear,
        (N::DNSName(name), N::DNSName(base)) => {
            let rest = name.strip_prefix("*.");
            if !is_host(rest.unwrap_or(name)) || !is_base(base) {
                return Relation::Unclear;
            }
            match rest.filter(|_| is_excluded) {
                Some(rest) => inside(may_be_below(rest, base)),
                None => inside(is_same(name, base) || is_below(name, base)),
            }
        }
        (N::RFC822Name(name), N::RFC822Name(base)) => {
            let Some((user, host)) = name.rsplit_once('@').filter(|(_, host)| is_host(host)) else {
                return Relation::Unclear;
            };
            match base.rsplit_once('@') {
                Some((only, at)) => inside(user == only && is_same(host, at)),
                None if is_base(base) => inside(is_of_host(host, base)),
                None => Relation::Unclear,
            }
        }
        (N::URI(name), N::URI(base)) => match host_of(name) {
            Some(host) if is_base(base) => inside(is_of_host(host, base)),
            _ => Relation::Unclear,
        },
        (N::IPAddress(name), N::IPAddress(base)) => match (plain(name).len(), base.len()) {
            (4, 8) | (16, 32) => {
                let name = plain(name);
                let (address, mask) = base.split_at(name.len());
                let mut bytes = name.iter().zip(address).zip(mask);
                inside(bytes.all(|((name, base), mask)| (name ^ base) & mask == 0))
            }
            // An address of the other family.
            (4, 32) | (16, 8) => Relation::Outside,
            _ => Relation::Unclear,
        },
        (N::DirectoryName(name), N::DirectoryName(base)) => match distinguished::is_whole(name) {
            true => lies_below(name, base, comparisons).map_or(Relation::Unclear, inside),
            false => Relation::Unclear,
        },
        (N::OtherName(..), N::OtherName(..))
        | (N::X400Address(_), N::X400Address(_))
        | (N::EDIPartyName(_), N::EDIPartyName(_))
        | (N::RegisteredID(_), N::RegisteredID(_)) => Relation::Unclear,
        _ => Relation::OtherKind,
    }
}

/// True for a host name as it is compared: labels that are not empty, and no dot at the end.
fn is_host(name: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || matches!(letter, b'-' | b'_');
    name.split('.').all(|label| !label.is_empty() && label.bytes().all(is_letter))
}

/// True for a host name, possibly after a dot, or nothing, which is above every host.
fn is_base(base: &str) -> bool {
    base.is_empty() || is_host(base.strip_prefix('.').unwrap_or(base))
}

/// True if a host of one label before `rest` may be the base or below it.
fn may_be_below(rest: &str, base: &str) -> bool {
    let named = base.strip_prefix('.').unwrap_or(base);
    let above = named.split_once('.').map(|(_, above)| above);
    is_same(rest, named) || is_below(rest, base) || above.is_some_and(|above| is_same(rest, above))
}

fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// True if a host has labels before the base. An empty base is above every host.
fn is_below(host: &str, base: &str) -> bool {
    let base = base.strip_prefix('.').unwrap_or(base);
    if base.is_empty() {
        return true;
    }
    let Some(split) = host.len().checked_sub(base.len()) else { return false };
    let Some((labels, rest)) = host.split_at_checked(split) else { return false };
    labels.ends_with('.') && is_same(rest, base)
}

/// True for the very host of a constraint on mail addresses and URIs, or for one below it if the constraint
/// begins with a dot.
fn is_of_host(host: &str, base: &str) -> bool {
    match base.starts_with('.') {
        true => is_below(host, base),
        false => is_same(host, base),
    }
}

/// The host of a URI, if it has one that is a name.
fn host_of(uri: &str) -> Option<&str> {
    let (_, rest) = uri.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(host, _)| host);
    (is_host(host) && host.parse::<std::net::Ipv4Addr>().is_err()).then_some(host)
}

/// An address, that of an IPv4 host in its own form.
fn plain(address: &[u8]) -> &[u8] {
    match address {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, four @ ..] if four.len() == 4 => four,
        other => other,
    }
}

/// True if the first parts of a name are those of the base; `None` if that takes too many comparisons.
fn lies_below(name: &X509Name<'_>, base: &X509Name<'_>, comparisons: &mut usize) -> Option<bool> {
    let mut parts = name.iter_rdn();
    for base in base.iter_rdn() {
        let Some(part) = parts.next() else { return Some(false) };
        let (fields, others) = (part.iter().count(), base.iter().count());
        *comparisons = comparisons.checked_sub(fields * others)?;
        if fields != others || !is_same_part(part, base) {
            return Some(false);
        }
    }
    Some(true)
}

fn is_same_part(
    one: &RelativeDistinguishedName<'_>,
    other: &RelativeDistinguishedName<'_>,
) -> bool {
    one.iter().all(|field| other.iter().any(|other| is_same_field(field, other)))
}

/// Compares texts without regard to their string types, to case, and to how many spaces separate words.
fn is_same_field(one: &AttributeTypeAndValue<'_>, other: &AttributeTypeAndValue<'_>) -> bool {
    let plain = |field: &AttributeTypeAndValue<'_>| {
        let text = distinguished::text(field.attr_value())?.to_lowercase();
        Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    one.attr_type() == other.attr_type()
        && match (plain(one), plain(other)) {
            (Some(one), Some(other)) => one == other,
            _ => one.attr_value() == other.attr_value(),
        }
}
