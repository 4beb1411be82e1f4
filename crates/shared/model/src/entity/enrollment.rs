//! Enrollments: one-time tickets with which an identity or a router gets its first credential.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Link, OnDelete, Record};
use crate::choice::Choice;
use crate::row::row;
use crate::{Id, Kind, Timestamp};

/// Method of an enrollment, by the credential that the enrollment gives (docs/protocol/auth.md 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[repr(i32)]
pub enum EnrollmentMethod {
    /// A certificate of the network, by one-time token.
    Ott = 0,
    /// A certificate of a third-party CA, by one-time token.
    Ottca = 1,
    /// A user name and password.
    Updb = 2,
    /// Certificates of an edge router.
    Erott = 3,
    /// Certificates of a router of the fabric only.
    Trott = 4,
}

impl Choice for EnrollmentMethod {}

row! {
    /// An outstanding enrollment: of an identity or of a router.
    pub struct Enrollment {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Method of the enrollment.
        2 => pub method: EnrollmentMethod,
        /// Unique secret, a UUID.
        3 => pub token: Arc<str>,
        /// The signed ticket, as it was given out.
        4 => pub jwt: String,
        /// End of the enrollment.
        5 => pub expires_at: Timestamp,
        /// The identity that enrolls.
        6 => pub identity_id: Option<Id>,
        /// The router that enrolls.
        7 => pub router_id: Option<Id>,
        /// The CA of an `ottca` enrollment.
        8 => pub ca_id: Option<Id>,
        /// The user name of an `updb` enrollment.
        9 => pub username: Option<Arc<str>>,
    }
}

impl Enrollment {
    /// Index of the token in [`Record::UNIQUE`].
    pub const TOKEN: usize = 0;
}

impl Record for Enrollment {
    const UNIQUE: &'static [&'static str] = &["token"];
    const LINKS: &'static [Link] = &[
        Link::new("identityId", Kind::Identity, OnDelete::Cascade),
        Link::new("routerId", Kind::Router, OnDelete::Cascade),
        Link::new("caId", Kind::Ca, OnDelete::Cascade),
    ];

    fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
        each(Self::TOKEN, &self.token);
    }

    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        let ids = [&self.identity_id, &self.router_id, &self.ca_id];
        for (link, id) in ids.into_iter().enumerate() {
            if let Some(id) = id {
                each(link, id);
            }
        }
    }
}
