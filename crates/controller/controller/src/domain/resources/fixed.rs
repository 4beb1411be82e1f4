//! Constant entities: identity types and posture check types (docs/protocol/management-api.md 8).

use serde::Serialize;
use weft_contract::entity::{Base, links};
use weft_contract::resource::identity_type::{COLLECTION as IDENTITY_TYPES, IdentityTypeDetail};
use weft_contract::resource::posture_check::{
    OperatingSystemDetail, PostureCheckTypeDetail, TYPE_COLLECTION as CHECK_TYPES,
};
use weft_contract::{Api, Timestamp};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert, list};
use weft_model::Meter;
use weft_model::filter::{Column, PageRules, Symbols, Type, Value};

use crate::Controller;
use crate::domain::seeds::{self, PostureCheckTypeSeed};

/// The members that lists of constants can be filtered by.
pub(super) struct Constant {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
}

static SYMBOLS: Symbols<Timestamp, Constant> = Symbols {
    kind: "constants",
    id: |it| it.id,
    shared: &[],
    columns: &[
        Column::one("id", Type::String, |_, it: &Constant| Value::text(it.id)).public(),
        Column::one("createdAt", Type::Time, |at: &Timestamp, _| Value::unix_millis(at.millis()))
            .public(),
        Column::one("updatedAt", Type::Time, |at: &Timestamp, _| Value::unix_millis(at.millis()))
            .public(),
        Column::one("isSystem", Type::Bool, |_, _| Value::Bool(false)).public(),
        Column::map("tags", |_, _, _| Value::Null).public(),
        Column::one("name", Type::String, |_, it: &Constant| Value::text(it.name)).public(),
    ],
};

/// A kind of constant entities.
pub(super) trait Constants: 'static {
    /// The answer to a read.
    type Detail: Serialize + 'static;

    /// The word for the kind in messages.
    const NAME: &'static str;

    /// The entities.
    fn all() -> Vec<Constant>;

    /// An entity as the API shows it, in a network that began at this time.
    fn shown(id: &str, at: Timestamp) -> Self::Detail;
}

struct IdentityTypes;

struct CheckTypes;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listIdentityTypes", &list::<IdentityTypes>),
    (Api::Management, "detailIdentityType", &detail::<IdentityTypes>),
    (Api::Management, "listPostureCheckTypes", &list::<CheckTypes>),
    (Api::Management, "detailPostureCheckType", &detail::<CheckTypes>),
];

impl Constants for IdentityTypes {
    type Detail = IdentityTypeDetail;

    const NAME: &'static str = "identity type";

    fn all() -> Vec<Constant> {
        seeds::IDENTITY_TYPES.iter().map(|name| Constant { id: name, name }).collect()
    }

    fn shown(id: &str, at: Timestamp) -> IdentityTypeDetail {
        IdentityTypeDetail { base: base(IDENTITY_TYPES, id, at), name: id.to_owned() }
    }
}

impl Constants for CheckTypes {
    type Detail = PostureCheckTypeDetail;

    const NAME: &'static str = "posture check type";

    fn all() -> Vec<Constant> {
        let seeds = seeds::POSTURE_CHECK_TYPES.iter();
        seeds.map(|seed| Constant { id: seed.id, name: seed.name }).collect()
    }

    fn shown(id: &str, at: Timestamp) -> PostureCheckTypeDetail {
        let seed = seeds::POSTURE_CHECK_TYPES.iter().find(|seed| seed.id == id);
        let system = |(name, versions): &(&str, &[&str])| OperatingSystemDetail {
            r#type: (*name).to_owned(),
            versions: convert::strings(versions).into(),
        };
        let systems = |seed: &PostureCheckTypeSeed| seed.systems.iter().map(system).collect();
        PostureCheckTypeDetail {
            base: base(CHECK_TYPES, id, at),
            name: seed.map(|seed| seed.name.to_owned()).unwrap_or_default(),
            operating_systems: seed.map(systems).unwrap_or_default(),
            version: "1".to_owned(),
        }
    }
}

/// The base of a constant without links.
pub(super) fn base(collection: &str, id: &str, at: Timestamp) -> Base {
    Base {
        links: links(collection, id, &[]),
        created_at: at,
        id: id.to_owned(),
        updated_at: at,
        ..Base::default()
    }
}

/// When the network began: its types are as old as its default auth policy.
fn began(controller: &Controller) -> Timestamp {
    use weft_model::entity::AuthPolicy;
    let snapshot = controller.kernel().snapshot();
    let policy = snapshot.get::<AuthPolicy>(&AuthPolicy::DEFAULT_ID.into());
    policy.map_or(Timestamp::ZERO, |policy| convert::time(policy.base.created_at))
}

/// Handles the GET of all entities of a kind.
pub(super) async fn list<K: Constants>(
    controller: Controller,
    caller: Caller,
    call: Call,
) -> Result<Reply> {
    let mut all = K::all();
    all.sort_unstable_by_key(|it| it.id);
    let at = began(&controller);
    let selection = list::selection(&caller, &call.query, &SYMBOLS, &PageRules::LIST)?;
    let request = controller.kernel().scans().asked_by(&caller);
    let effort = selection.effort_of(all.len());
    let page = move |meter: &Meter| {
        let rows = all.iter().map(|it| SYMBOLS.row(&at, it));
        list::answer(&selection, &SYMBOLS, rows, meter, |it| Ok(K::shown(it.id, at)))
    };
    request.counted(effort, page).await
}

/// Handles the GET of one entity of a kind.
pub(super) async fn detail<K: Constants>(
    controller: Controller,
    _caller: Caller,
    call: Call,
) -> Result<Reply> {
    let (all, id) = (K::all(), call.id(0));
    let found = all.iter().find(|it| it.id == id).ok_or_else(|| Failure::not_found(K::NAME, id))?;
    Reply::detail(&K::shown(found.id, began(&controller)))
}
