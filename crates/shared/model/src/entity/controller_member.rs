//! The controllers of a network that has several.

use std::sync::Arc;

use bytes::Bytes;

use super::{Base, Record};
use crate::row::row;
use crate::{Id, Snapshot, Timestamp};

row! {
    /// The public half of a key that signs tokens of sessions.
    pub struct TokenKey {
        /// The name of the key in tokens.
        1 => pub kid: Arc<str>,
        /// The key in DER (SubjectPublicKeyInfo), or a certificate of it.
        2 => pub data: Bytes,
        /// Whether `data` is a certificate.
        3 => pub is_certificate: bool,
    }
}

row! {
    /// An address of an API of a controller.
    pub struct ApiLocation {
        /// The name of the API, such as `edge-client`.
        1 => pub api: Arc<str>,
        /// The URL with the path of the API.
        2 => pub url: Arc<str>,
    }
}

row! {
    /// A key of the network that was made when another controller was removed, for one controller.
    pub struct HandedKey {
        /// The number of the key.
        1 => pub number: u32,
        /// The key, wrapped for the key that the controller has published for this.
        2 => pub wrapped: Bytes,
    }
}

row! {
    /// A controller of a network that has several. Its id is the common name of its certificate. Each controller writes its
    /// own, before it signs anything.
    pub struct ControllerMember {
        /// Id, times and tags.
        1 => pub base: Base,
        /// The certificate that it shows routers, in DER.
        2 => pub certificate: Bytes,
        /// The authority that issues certificates for it, and those between it and a root, in DER.
        3 => pub authorities: Vec<Bytes>,
        /// Its addresses for routers; the first one is shown.
        4 => pub ctrl_addresses: Vec<String>,
        /// The addresses of its APIs.
        5 => pub apis: Vec<ApiLocation>,
        /// The keys with which it signs tokens: those of now, of later, and former ones whose tokens may be in use.
        6 => pub token_keys: Vec<TokenKey>,
        /// When it last became a member.
        7 => pub joined_at: Timestamp,
        /// The number of the list of controllers that the last change of this one has made. The newest list has the highest
        /// number of all controllers.
        8 => pub list_index: u64,
        /// When it left the network, or was removed. No client or router is told its addresses then.
        9 => pub left_at: Option<Timestamp>,
        /// Whether it was removed: its keys count no more, and it must not come back by itself.
        10 => pub is_removed: bool,
        /// The certificate, in DER, of the one authority with which a controller of this name may become a member; empty for
        /// any.
        11 => pub awaited: Bytes,
        /// The public key for which others wrap keys of the network; empty if it has published none.
        12 => pub wrap_key: Bytes,
        /// The number of the newest key of the network that it has in its file.
        13 => pub network_key: u32,
        /// The number of the key with which it seals what it writes.
        14 => pub seals_with: u32,
        /// The number of the oldest key with which anything may be sealed, as far as it has seen.
        15 => pub sealed_since: u32,
        /// A key of the network that was made for it.
        16 => pub handed: Option<HandedKey>,
        /// The newest format of stored data that its program reads; 0 for a program that did not say so.
        17 => pub reads: u32,
    }
}

impl Record for ControllerMember {}

impl ControllerMember {
    /// Whether clients and routers may use the controller.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.left_at.is_none()
    }

    /// Whether a controller with this authority may be the member.
    #[must_use]
    pub fn admits(&self, authority: &[u8]) -> bool {
        !self.is_removed && (self.awaited.is_empty() || self.awaited == authority)
    }

    /// The entry of a controller that was let in at a time, and has not started yet.
    #[must_use]
    pub fn invited(id: Id, authority: Bytes, at: Timestamp) -> Self {
        Self { base: Base::new(id, at), left_at: Some(at), awaited: authority, ..Self::default() }
    }

    /// The entry of the controller after it has left at a time: it has no addresses. Tokens that it has signed are good
    /// until they end.
    #[must_use]
    pub fn left(&self, at: Timestamp) -> Self {
        let base = Base { updated_at: at, ..self.base.clone() };
        let (ctrl_addresses, apis) = Default::default();
        Self { base, ctrl_addresses, apis, left_at: Some(at), ..self.clone() }
    }

    /// The entry of the controller after it was removed at a time: it has no addresses and no keys.
    #[must_use]
    pub fn removed(&self, at: Timestamp) -> Self {
        let (authorities, token_keys) = Default::default();
        Self {
            certificate: Bytes::new(),
            wrap_key: Bytes::new(),
            handed: None,
            authorities,
            token_keys,
            is_removed: true,
            ..self.left(at)
        }
    }

    /// The number of the list of all controllers, by which routers tell a newer one; none if there are none.
    #[must_use]
    pub fn newest_list(snapshot: &Snapshot) -> Option<u64> {
        snapshot.list::<Self>().map(|member| member.list_index).max()
    }
}
