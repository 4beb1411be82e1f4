//! Which chains are accepted. The right answers are those of Go's `crypto/x509`, with which the original
//! decides; where a row differs, its comment says why.

use std::time::SystemTime;

use super::made::{
    Form, Made, ca, distinguished, general, inhibit_any_policy, key_usage, name_constraints, names,
    policies, policy_constraints, policy_mapping, purposes,
};
use crate::extension::{CLIENT_AUTH, SERVER_AUTH, usage};
use crate::public::Signature;
use crate::{Certificate, KeyAlgorithm, PrivateKey, RequiredKeyUsage, TrustBundle, Verify};

const CODE_SIGNING: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 3];
const ANY_USAGE: &[u64] = &[2, 5, 29, 37, 0];
const UNKNOWN: &[u64] = &[1, 2, 3, 4];

/// A root, and an authority below it.
struct Two {
    root: Made,
    middle: Made,
}

impl Two {
    fn new(root: Form, middle: Form) -> Self {
        let root = root.by_itself();
        let middle = middle.by(&root);
        Self { root, middle }
    }

    fn plain() -> Self {
        Self::new(Form::authority("root"), Form::authority("middle"))
    }

    /// The answer to a leaf of the authority, if the root is trusted.
    fn answer(&self, leaf: &Form) -> Result<(), String> {
        self.answer_for(RequiredKeyUsage::Client, leaf)
    }

    fn answer_for(&self, usage: RequiredKeyUsage, leaf: &Form) -> Result<(), String> {
        let leaf = leaf.by(&self.middle);
        answer(usage, &[&leaf, &self.middle], &[&self.root])
    }
}

fn answer(usage: RequiredKeyUsage, shown: &[&Made], trusted: &[&Made]) -> Result<(), String> {
    let bundle = TrustBundle::new(trusted.iter().map(|one| one.certificate.clone()));
    let der: Vec<_> = shown.iter().map(|one| one.certificate.der().clone()).collect();
    let how = Verify { usage, ..Verify::default() };
    bundle.verify(&der, how, SystemTime::now()).map(drop).map_err(|error| error.to_string())
}

/// Compares an answer with the right one: nothing, or a part of the refusal.
fn check(what: &str, found: Result<(), String>, wanted: Result<(), &str>) {
    match (&found, wanted) {
        (Ok(()), Ok(())) => {}
        (Err(text), Err(part)) if text.contains(part) => {}
        _ => panic!("{what}: {found:?}, wanted {wanted:?}"),
    }
}

fn unknown(critical: bool) -> super::made::Ext {
    (UNKNOWN, critical, vec![5, 0])
}

#[test]
fn leafs_of_every_form() {
    let leaf = || Form::named("leaf");
    let raw = |number: &'static [u64], value: &[u8]| (number, true, value.to_vec());
    let location = general(6, b"http://crl.example/x.crl");
    let points = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_sequence(|writer| {
                writer.next().write_tagged(yasna::Tag::context(0), |writer| {
                    writer.write_tagged_implicit(yasna::Tag::context(0), |writer| {
                        writer.write_sequence(|writer| writer.next().write_der(&location));
                    });
                });
            });
        });
    });
    let table: [(&str, Form, Result<(), &str>); 24] = [
        ("plain", leaf(), Ok(())),
        ("an authority", leaf().with(ca(true, None)), Ok(())),
        ("an authority without authorities below", leaf().with(ca(true, Some(0))), Ok(())),
        ("version 1", Form::version_1("leaf"), Ok(())),
        ("version 2", Form { version: 2, ..leaf() }, Ok(())),
        ("critical policies", leaf().with(policies(true, &[&[1, 2, 3]])), Ok(())),
        ("critical distribution points", leaf().with(raw(&[2, 5, 29, 31], &points)), Ok(())),
        ("critical inhibit any policy", leaf().with(inhibit_any_policy(0)), Ok(())),
        (
            "critical names",
            leaf().with((&[2, 5, 29, 17], true, names(&[general(2, b"a")]).2)),
            Ok(()),
        ),
        ("critical key usage", leaf().with(key_usage(usage::DIGITAL_SIGNATURE)), Ok(())),
        ("a key usage for other things", leaf().with(key_usage(usage::CRL_SIGN)), Ok(())),
        ("an unknown extension", leaf().with(unknown(false)), Ok(())),
        // Go refuses to read these two, because RFC 5280 has them never critical. They say nothing.
        ("a critical key id", leaf().with(raw(&[2, 5, 29, 14], &[4, 1, 7])), Ok(())),
        ("a critical key id of the issuer", leaf().with(raw(&[2, 5, 29, 35], &[0x30, 0])), Ok(())),
        (
            "a critical unknown extension",
            leaf().with(unknown(true)),
            Err("`CN=leaf`: its critical extension 1.2.3.4 is not understood"),
        ),
        (
            "a demand for stapled answers",
            leaf().with(raw(&[1, 3, 6, 1, 5, 5, 7, 1, 24], &[0x30, 3, 2, 1, 5])),
            Err("its critical extension 1.3.6.1.5.5.7.1.24"),
        ),
        (
            "the same extension twice",
            leaf().with(unknown(false)).with(unknown(false)),
            Err("it has the extension 1.2.3.4 twice"),
        ),
        (
            "malformed constraints",
            leaf().with(raw(&[2, 5, 29, 19], &[0x30, 5])),
            Err("its extension 2.5.29.19 (basicConstraints) is malformed"),
        ),
        (
            "malformed names",
            leaf().with((&[2, 5, 29, 17], false, vec![0x30, 3, 0x82])),
            Err("its extension 2.5.29.17 (subjectAltName) is malformed"),
        ),
        (
            "no usage at all",
            leaf().with(purposes(&[])),
            Err("2.5.29.37 (extendedKeyUsage) is malformed"),
        ),
        ("for clients", leaf().with(purposes(&[CODE_SIGNING, CLIENT_AUTH])), Ok(())),
        ("for anything", leaf().with(purposes(&[ANY_USAGE])), Ok(())),
        (
            "for servers",
            leaf().with(purposes(&[SERVER_AUTH])),
            Err("`CN=leaf`: it is not for clients"),
        ),
        ("expired", leaf().valid(-3, -2), Err("`CN=leaf` was valid until")),
    ];
    let two = Two::plain();
    for (what, form, wanted) in table {
        check(what, two.answer(&form), wanted);
    }
    let server = leaf().with(purposes(&[CLIENT_AUTH]));
    check(
        "servers",
        two.answer_for(RequiredKeyUsage::Server, &server),
        Err("it is not for servers"),
    );
    check("any usage", two.answer_for(RequiredKeyUsage::Any, &server), Ok(()));
}

#[test]
fn issuers_of_every_form() {
    let root = || Form::authority("root");
    let middle = || Form::authority("middle");
    let plain = || Form::named("middle");
    let signs = usage::KEY_CERT_SIGN | usage::CRL_SIGN;
    let table: [(&str, Form, Form, Result<(), &str>); 23] = [
        ("plain", root(), middle(), Ok(())),
        ("a root of version 1", Form::version_1("root"), middle(), Ok(())),
        ("with its key usage", root(), middle().with(key_usage(signs)), Ok(())),
        ("a root with its key usage", root().with(key_usage(signs)), middle(), Ok(())),
        (
            "a key usage for other things",
            root(),
            middle().with(key_usage(usage::DIGITAL_SIGNATURE)),
            Err(
                "its issuer `CN=middle`: it may not sign certificates (its key usage lacks keyCertSign)",
            ),
        ),
        (
            "a root with a key usage for other things",
            root().with(key_usage(usage::CRL_SIGN)),
            middle(),
            Err("its issuer `CN=root`: it may not sign certificates"),
        ),
        (
            "version 1",
            root(),
            Form::version_1("middle"),
            Err("`CN=middle`: it is no certificate authority"),
        ),
        (
            "without constraints",
            root(),
            plain(),
            Err("`CN=middle`: it is no certificate authority"),
        ),
        (
            "no authority",
            root(),
            plain().with(ca(false, None)),
            Err("it is no certificate authority"),
        ),
        (
            "a root without constraints",
            Form::named("root"),
            middle(),
            Err("`CN=root`: it is no cert"),
        ),
        ("room for one", Form::named("root").with(ca(true, Some(1))), middle(), Ok(())),
        (
            "a root without room",
            Form::named("root").with(ca(true, Some(0))),
            middle(),
            Err(
                "its issuer `CN=root`: it allows 0 authorities below it (path length), and there are 1",
            ),
        ),
        ("room for leafs", root(), plain().with(ca(true, Some(0))), Ok(())),
        (
            "a critical unknown extension",
            root(),
            middle().with(unknown(true)),
            Err("its issuer `CN=middle`: its critical extension 1.2.3.4 is not understood"),
        ),
        (
            "a root for servers",
            root().with(purposes(&[SERVER_AUTH])),
            middle(),
            Err("its issuer `CN=root`: it is not for clients"),
        ),
        ("a root for clients", root().with(purposes(&[CLIENT_AUTH])), middle(), Ok(())),
        (
            "a root that says twice whether it is one",
            Form::named("root").with(ca(false, None)).with(ca(true, None)),
            middle(),
            Err("its issuer `CN=root`: it has the extension 2.5.29.19 (basicConstraints) twice"),
        ),
        (
            "a root of version 1 with extensions",
            Form { version: 1, ..root() },
            middle(),
            Err("its issuer `CN=root`: it has extensions, but is not of version 3"),
        ),
        // Go refuses this one. Whoever puts an anchor into a bundle trusts it, whatever it says.
        ("a root with one", root().with(unknown(true)), middle(), Ok(())),
        (
            "for servers",
            root(),
            middle().with(purposes(&[SERVER_AUTH])),
            Err("it is not for clients"),
        ),
        (
            "expired",
            root(),
            middle().valid(-3, -2),
            Err("of the authority `CN=middle` was valid until"),
        ),
        (
            "not yet good",
            root(),
            middle().valid(2, 3),
            Err("of the authority `CN=middle` is valid from"),
        ),
        (
            "an expired root",
            root().valid(-3, -2),
            middle(),
            Err("authority `CN=root` was valid until"),
        ),
    ];
    for (what, root, middle, wanted) in table {
        check(what, Two::new(root, middle).answer(&Form::named("leaf")), wanted);
    }
    // Every authority in between counts.
    let Two { root, middle } = Two::new(
        Form::named("root").with(ca(true, Some(1))),
        Form::named("middle").with(ca(true, Some(0))),
    );
    let low = Form::authority("low").by(&middle);
    let leaf = Form::named("leaf").by(&low);
    let shown = [&leaf, &low, &middle];
    check(
        "too long",
        answer(RequiredKeyUsage::Any, &shown, &[&root]),
        Err("`CN=middle`: it allows 0"),
    );
    check("as an anchor", answer(RequiredKeyUsage::Any, &shown, &[&low]), Ok(()));
}

#[test]
fn signatures_count() {
    let two = Two::plain();
    let namesake = Two::plain();
    let leaf = Form::named("leaf").by(&namesake.middle);
    let shown = [&leaf, &two.middle];
    check(
        "another's",
        answer(RequiredKeyUsage::Any, &shown, &[&two.root]),
        Err("has not issued it"),
    );
    let stranger = Form::named("leaf").by(&Form::authority("stranger").by_itself());
    check(
        "unknown",
        answer(RequiredKeyUsage::Any, &[&stranger], &[&two.root]),
        Err("no authority that is trusted"),
    );
    let inner = Form { inner: Some(Signature::EcdsaSha384), ..Form::named("leaf") };
    check("two algorithms", two.answer(&inner), Err("has not issued it"));
    let good = Form::named("leaf").by(&two.root).certificate;
    let bundle = TrustBundle::new([two.root.certificate.clone()]);
    let sha1 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1];
    let sha256 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
    let mut changed = 0;
    for place in 0..good.der().len() {
        let mut der = good.der().to_vec();
        der[place] ^= 1;
        let Ok(wrong) = Certificate::from_der(der) else { continue };
        changed += 1;
        bundle.verify_leaf(&wrong, Verify::default(), SystemTime::now()).unwrap_err();
    }
    assert!(changed > 100, "most changed certificates can be read: {changed}");
    // The OIDs have different lengths: that of ECDSA with SHA-1 is filled up.
    let mut der = good.der().to_vec();
    let places: Vec<usize> = (0..der.len()).filter(|at| der[*at..].starts_with(&sha256)).collect();
    for at in places {
        der[at..at + 7].copy_from_slice(&sha1);
        der[at + 7] = 1;
    }
    let weak = Certificate::from_der(der).unwrap();
    let refused = bundle.verify_leaf(&weak, Verify::default(), SystemTime::now());
    check(
        "another algorithm",
        refused.map(drop).map_err(|it| it.to_string()),
        Err("is not accepted"),
    );
}

#[test]
fn chains_are_found_whatever_is_sent_with_the_leaf() {
    let Two { root, middle } = Two::plain();
    let low = Form::authority("low").by(&middle);
    let leaf = Form::named("leaf").by(&low);
    let other = Two::plain();
    let peer = Form::named("another leaf").by(&low);
    let expired = Form::authority("middle").valid(-3, -2).for_key(&middle.key, &root);
    let cross = Form::authority("low").for_key(&low.key, &other.middle);
    let root_below = Form::authority("root").for_key(&root.key, &low);
    let missing = || Err("no authority that is trusted here has issued it");
    // What is shown, what is trusted, and the answer.
    type Row<'a> = (&'a str, Vec<&'a Made>, Vec<&'a Made>, Result<(), &'a str>);
    let table: [Row<'_>; 13] = [
        ("in order", vec![&leaf, &low, &middle], vec![&root], Ok(())),
        ("with the root", vec![&leaf, &low, &middle, &root], vec![&root], Ok(())),
        ("root first", vec![&leaf, &root, &middle, &low], vec![&root], Ok(())),
        ("some twice", vec![&leaf, &middle, &middle, &low, &leaf, &low], vec![&root], Ok(())),
        (
            "strangers",
            vec![&leaf, &other.root, &peer, &low, &other.middle, &middle],
            vec![&root],
            Ok(()),
        ),
        ("an expired namesake", vec![&leaf, &low, &expired, &middle], vec![&root], Ok(())),
        ("a cross certificate", vec![&leaf, &cross, &low, &middle], vec![&root], Ok(())),
        ("by the other way", vec![&leaf, &low, &cross, &other.middle], vec![&other.root], Ok(())),
        (
            "a circle",
            vec![&leaf, &low, &middle, &root_below],
            vec![&other.root],
            Err("has not issued it"),
        ),
        ("a part", vec![&leaf, &middle], vec![&root], missing()),
        ("a part of the bundle", vec![&leaf], vec![&other.root, &root, &middle, &low], Ok(())),
        ("the middle of the bundle", vec![&leaf, &low], vec![&middle], Ok(())),
        (
            "an expired one alone",
            vec![&leaf, &low, &expired],
            vec![&root],
            Err("`CN=middle` was valid until"),
        ),
    ];
    for (what, shown, trusted, wanted) in table {
        check(what, answer(RequiredKeyUsage::Client, &shown, &trusted), wanted);
    }
    // What is no certificate at all does not belong either.
    let bundle = TrustBundle::new([root.certificate.clone()]);
    let [leaf, low, middle] = [&leaf, &low, &middle].map(|one| one.certificate.der().clone());
    let shown = [leaf, vec![1, 2, 3].into(), middle, Vec::new().into(), low];
    bundle.verify(&shown, Verify::default(), SystemTime::now()).unwrap();
}

/// Each authority has three certificates of one name and key, so that there are 3^10 paths: the search gives up after a
/// hundred signatures, and says why.
#[test]
fn a_search_ends() {
    let top = Form::authority("top").by_itself();
    let mut issuer = Form::authority("a0").by(&top);
    let mut shown = Vec::new();
    for level in (1..=10).rev() {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let form = Form::authority(&format!("level {level}"));
        let of = |days: i64| form.clone().valid(-days, days).for_key(&key, &issuer);
        let all = [of(1), of(2), of(3)];
        issuer = all[0].clone();
        shown.extend(all);
    }
    let leaf = Form::named("leaf").by(&issuer);
    let shown: Vec<&Made> = std::iter::once(&leaf).chain(&shown).collect();
    let elsewhere = Form::authority("elsewhere").by_itself();
    let refused = answer(RequiredKeyUsage::Any, &shown, &[&elsewhere]);
    check("many paths", refused, Err("too many certificates of the same names were sent with it"));
}

#[test]
fn names_below_an_authority_that_constrains_them() {
    let dns = |text: &str| general(2, text.as_bytes());
    let mail = |text: &str| general(1, text.as_bytes());
    let uri = |text: &str| general(6, text.as_bytes());
    let ip = |bytes: &[u8]| general(7, bytes);
    let org = |org: &[u8]| distinguished(&[(6, 19, b"DE"), (10, 12, org)]);
    let below =
        |name: &[u8]| distinguished(&[(6, 19, b"DE"), (10, 12, b"example  org"), (3, 12, name)]);
    let dir = |name: &[u8]| general(4, name);
    let user = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            let kind =
                yasna::models::ObjectIdentifier::from_slice(&[1, 3, 6, 1, 4, 1, 311, 20, 2, 3]);
            writer.next().write_oid(&kind);
            writer.next().write_tagged(yasna::Tag::context(0), |w| w.write_utf8_string("a@b"));
        });
    });
    let other = {
        // A name of kind 0 is the contents of the sequence under another tag.
        let mut der = user.clone();
        der[0] = 0xa0;
        der
    };
    let net = |address: [u8; 4], mask: [u8; 4]| ip(&[address, mask].concat());
    let v6 = |first: u8, mask: u8| {
        let mut bytes = [0; 32];
        (bytes[0], bytes[16]) = (first, mask);
        ip(&bytes)
    };
    let (yes, no) = (Ok(()), Err("its name constraints do not permit `CN=leaf` the name"));
    // Permitted, excluded, names of the leaf.
    type Row<'a> = (&'a str, Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<Vec<u8>>, Result<(), &'a str>);
    let table: Vec<Row<'_>> = vec![
        (
            "other kinds",
            vec![mail("example.com")],
            vec![],
            vec![dns("a.net"), uri("spiffe://x/y")],
            yes,
        ),
        ("itself", vec![dns("example.com")], vec![], vec![dns("Example.COM")], yes),
        ("below", vec![dns("example.com")], vec![], vec![dns("a.b.example.com")], yes),
        ("not below", vec![dns("example.com")], vec![], vec![dns("badexample.com")], no),
        ("one of two", vec![dns("a.com"), dns("b.com")], vec![], vec![dns("x.b.com")], yes),
        ("one is not", vec![dns("a.com")], vec![], vec![dns("x.a.com"), dns("x.b.com")], no),
        ("a dot", vec![dns(".a.com")], vec![], vec![dns("x.a.com")], yes),
        ("a dot, itself", vec![dns(".a.com")], vec![], vec![dns("a.com")], no),
        ("everything", vec![dns("")], vec![], vec![dns("a.com")], yes),
        ("nothing", vec![], vec![dns("")], vec![dns("a.com")], no),
        ("excluded", vec![], vec![dns("a.com")], vec![dns("x.a.com")], no),
        ("excluded others", vec![], vec![dns("a.com")], vec![dns("x.b.com")], yes),
        ("a wildcard below", vec![dns("a.com")], vec![], vec![dns("*.a.com")], yes),
        ("a wildcard above", vec![dns("x.a.com")], vec![], vec![dns("*.a.com")], no),
        ("a wildcard above excluded", vec![], vec![dns("x.a.com")], vec![dns("*.a.com")], no),
        ("a wildcard of excluded", vec![], vec![dns(".a.com")], vec![dns("*.a.com")], no),
        ("a wildcard beside", vec![], vec![dns("x.b.com")], vec![dns("*.a.com")], yes),
        ("a dot at the end", vec![], vec![dns("a.com")], vec![dns("x.a.com.")], no),
        ("no name", vec![], vec![dns("a.com")], vec![dns("x..com")], no),
        ("a host", vec![mail("a.com")], vec![], vec![mail("u@A.com")], yes),
        ("a host below", vec![mail(".a.com")], vec![], vec![mail("u@x.a.com")], yes),
        ("another host", vec![mail("a.com")], vec![], vec![mail("u@b.com")], no),
        ("a mailbox", vec![mail("u@a.com")], vec![], vec![mail("u@a.com")], yes),
        ("another mailbox", vec![mail("u@a.com")], vec![], vec![mail("v@a.com")], no),
        ("no mailbox", vec![mail("a.com")], vec![], vec![mail("a.com")], no),
        ("excluded host", vec![], vec![mail("a.com")], vec![mail("u@a.com")], no),
        ("a domain", vec![uri("td")], vec![], vec![uri("spiffe://td/identity/x")], yes),
        ("another domain", vec![uri("td")], vec![], vec![uri("spiffe://other/identity/x")], no),
        (
            "a user and a port",
            vec![uri("a.com")],
            vec![],
            vec![uri("https://u:p@a.com:8/x@b")],
            yes,
        ),
        ("no host", vec![uri("a.com")], vec![], vec![uri("urn:x")], no),
        ("an address", vec![uri("a.com")], vec![], vec![uri("https://10.0.0.1/x")], no),
        ("hidden", vec![], vec![uri("a.com")], vec![uri("https://a%2ecom/x")], no),
        (
            "a net",
            vec![net([10, 1, 0, 0], [255, 255, 0, 0])],
            vec![],
            vec![ip(&[10, 1, 2, 3])],
            yes,
        ),
        (
            "another net",
            vec![net([10, 1, 0, 0], [255, 255, 0, 0])],
            vec![],
            vec![ip(&[10, 2, 2, 3])],
            no,
        ),
        ("another family", vec![v6(0x20, 0xff)], vec![], vec![ip(&[10, 2, 2, 3])], no),
        ("excluded of another", vec![], vec![v6(0x20, 0xff)], vec![ip(&[10, 2, 2, 3])], yes),
        ("no net", vec![], vec![ip(&[10, 1, 0, 0])], vec![ip(&[10, 2, 2, 3])], no),
        // Go refuses every constraint on these; below, the subject is compared as well.
        ("a name", vec![dir(&org(b"Example Org"))], vec![], vec![dir(&below(b"x"))], no),
        ("a name of another", vec![], vec![dir(&org(b"Other"))], vec![dir(&below(b"x"))], yes),
        ("an excluded name", vec![], vec![dir(&org(b"EXAMPLE ORG"))], vec![dir(&below(b"x"))], no),
        ("what nobody compares", vec![other.clone()], vec![], vec![other.clone()], no),
        ("what nobody compares, elsewhere", vec![other.clone()], vec![], vec![dns("a.com")], yes),
    ];
    for (what, permitted, excluded, leaf, wanted) in table {
        let constraints = name_constraints(&permitted, &excluded);
        let leaf = Form::named("leaf").with(names(&leaf));
        let two = Two::new(Form::authority("root"), Form::authority("m").with(constraints.clone()));
        check(what, two.answer(&leaf), wanted);
        // Those of an anchor count, too, for all that are below it.
        let two = Two::new(
            Form::authority("root").with(constraints),
            Form::of(org(b"Example Org")).with(ca(true, None)),
        );
        if wanted.is_err() {
            two.answer(&leaf).unwrap_err();
        }
    }
    let two = Two::new(
        Form::authority("root"),
        Form::authority("m").with(name_constraints(&[dir(&org(b"Example Org"))], &[])),
    );
    check("the subject", two.answer(&Form::of(below(b"x"))), Ok(()));
    check("another subject", two.answer(&Form::named("leaf")), no);
    let broken = (&[2, 5, 29, 30][..], false, vec![0x30, 4, 0xa0, 2, 0x30, 0]);
    let two = Two::new(Form::authority("root").with(broken), Form::authority("m"));
    check("malformed", two.answer(&Form::named("leaf")), Err("name constraints are malformed"));
}

#[test]
fn policies_that_an_authority_demands() {
    const ONE: &[u64] = &[1, 2, 3, 1];
    const TWO: &[u64] = &[1, 2, 3, 2];
    const ANY: &[u64] = &[2, 5, 29, 32, 0];
    let (yes, no) = (Ok(()), Err("demands a certificate policy"));
    let demand = || policy_constraints(Some(0), None);
    let named = |all: &[&[u64]]| policies(false, all);
    let middle = || Form::authority("m");
    let leaf = || Form::named("leaf");
    let table: [(&str, Form, Form, Result<(), &str>); 16] = [
        ("nothing demanded", middle(), leaf(), yes),
        ("none at all", middle().with(demand()), leaf(), no),
        ("none above", middle().with(demand()), leaf().with(named(&[ONE])), no),
        ("none below", middle().with(demand()).with(named(&[ONE])), leaf(), no),
        (
            "the same",
            middle().with(demand()).with(named(&[ONE])),
            leaf().with(named(&[ONE, TWO])),
            yes,
        ),
        ("others", middle().with(demand()).with(named(&[ONE])), leaf().with(named(&[TWO])), no),
        ("any above", middle().with(demand()).with(named(&[ANY])), leaf().with(named(&[TWO])), yes),
        ("any below", middle().with(demand()).with(named(&[ONE])), leaf().with(named(&[ANY])), yes),
        (
            "no more any below",
            middle().with(demand()).with(named(&[ONE])).with(inhibit_any_policy(0)),
            leaf().with(named(&[ANY])),
            no,
        ),
        ("later", middle().with(policy_constraints(Some(1), None)), leaf(), no),
        ("much later", middle().with(policy_constraints(Some(2), None)), leaf(), yes),
        ("the leaf demands it", middle(), leaf().with(demand()), no),
        (
            "mapped",
            middle().with(demand()).with(named(&[ONE])).with(policy_mapping(ONE, TWO)),
            leaf().with(named(&[TWO])),
            yes,
        ),
        (
            "mapped away",
            middle().with(demand()).with(named(&[ONE])).with(policy_mapping(ONE, TWO)),
            leaf().with(named(&[ONE])),
            no,
        ),
        (
            "mapped from any",
            middle().with(demand()).with(named(&[ANY])).with(policy_mapping(ONE, TWO)),
            leaf().with(named(&[TWO])),
            yes,
        ),
        (
            "any is mapped",
            middle().with(named(&[ANY])).with(policy_mapping(ANY, TWO)),
            leaf(),
            Err("map the policy `any`"),
        ),
    ];
    for (what, middle, leaf, wanted) in table {
        check(what, Two::new(Form::authority("root"), middle).answer(&leaf), wanted);
    }
    // A root is believed without policies, and what it demands itself does not count.
    let two = Two::new(Form::authority("root").with(demand()), middle());
    check("the root demands it", two.answer(&leaf()), yes);
    // Mappings end where an authority above forbids them.
    let Two { root, middle } = Two::new(
        Form::authority("root"),
        middle().with(policy_constraints(Some(0), Some(0))).with(named(&[ONE])),
    );
    let low = Form::authority("low").with(named(&[ONE])).with(policy_mapping(ONE, TWO)).by(&middle);
    let leaf = Form::named("leaf").with(named(&[TWO])).by(&low);
    check("mapped in vain", answer(RequiredKeyUsage::Any, &[&leaf, &low, &middle], &[&root]), no);
}

#[test]
fn a_pinned_leaf_is_trusted_and_issues_nothing() {
    let alone = Form::named("server").by_itself();
    check("itself", answer(RequiredKeyUsage::Server, &[&alone], &[&alone]), Ok(()));
    let below = Form::named("leaf").by(&alone);
    check(
        "below",
        answer(RequiredKeyUsage::Client, &[&below], &[&alone]),
        Err("no certificate authority"),
    );
    let authority = Form::authority("server").by_itself();
    check("an authority", answer(RequiredKeyUsage::Server, &[&authority], &[&authority]), Ok(()));
    let other = Form::version_1("leaf").by(&Two::plain().root);
    let below = Form::named("leaf").by(&other);
    check(
        "version 1",
        answer(RequiredKeyUsage::Client, &[&below], &[&other]),
        Err("no certificate authority"),
    );
}
