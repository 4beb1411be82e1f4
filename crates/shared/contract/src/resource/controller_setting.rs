//! Settings of controllers that are kept in the model: those of one controller, and those of all
//! of them under the id `global` (docs/protocol/management-api.md 5, notes, and 6).

use crate::body::Body;
use crate::collection;
use crate::entity::detail;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, delete, detail as get, patch, replace};
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "controller-settings";
/// The id of the global settings, which hold for every controller without a value of its own.
pub const GLOBAL: &str = "global";

const EFFECTIVE: &str = "/controller-settings/{id}/effective";

/// Operations of the management API. Changes are sent to the path of the effective settings, as the
/// original's description of the API says.
pub const MANAGEMENT: &[Operation] = &[
    collection::CONTROLLER_SETTINGS.list("listControllerSettings").statuses(&[200, 400, 401, 429]),
    collection::CONTROLLER_SETTINGS
        .create::<ControllerSettingBody>("createControllerSetting")
        .statuses(&[201, 400, 401, 429]),
    collection::CONTROLLER_SETTINGS.get("detailControllerSetting").statuses(&[200, 401, 404, 429]),
    get(
        "detailControllerSettingEffective",
        EFFECTIVE,
        Access::AdminOrReadOnly,
        "controllerSettingEffective",
    )
    .statuses(&[200, 401, 404, 429]),
    replace::<ControllerSettingBody>("updateControllerSetting", EFFECTIVE, Access::Admin)
        .statuses(&[200, 400, 401, 404, 429]),
    patch::<ControllerSettingBody>("patchControllerSetting", EFFECTIVE, Access::Admin)
        .statuses(&[200, 400, 401, 404, 429]),
    delete("deleteControllerSetting", EFFECTIVE, Access::Admin)
        .statuses(&[200, 400, 401, 409, 429]),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "controller-setting",
    plural: COLLECTION,
    aliases: &[],
    about: "settings of one controller, or of all of them as `global`",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: ControllerSettingBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "REDIRECTS", pointer: "/oidc/redirectUris" },
        Column { title: "AFTER LOGOUT", pointer: "/oidc/postLogoutUris" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of controller settings that callers set.
    body ControllerSettingBody;
    /// Settings of one controller, or of all controllers.
    detail ControllerSettingDetail with Base;

    /// The controller that the settings are for, or `global` for all controllers. Set when the
    /// settings are created.
    Create controller_id: String => "controllers";
    /// The settings of logins by OpenID Connect.
    Optional oidc: OidcBody;
    /// The settings of logins by OpenID Connect; null if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown oidc: Option<OidcDetail>;
    /// Labels of the settings.
    Optional tags: Tags;
}

members! {
    /// The settings of logins by OpenID Connect.
    body OidcBody;
    /// The settings of logins by OpenID Connect. A member that is not set is absent.
    detail OidcDetail;

    /// The URIs to which a client may be sent after a logout; 100 at most.
    Optional post_logout_uris: Vec<String>;
    /// The URIs to which a client may be sent after a logout.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown post_logout_uris: Option<Vec<String>>;
    /// The URIs to which a client may be sent after a login; 100 at most.
    Optional redirect_uris: Vec<String>;
    /// The URIs to which a client may be sent after a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown redirect_uris: Option<Vec<String>>;
}

detail! {
    /// The effective settings of a controller: its own settings, and the global ones where it has
    /// none.
    pub struct ControllerSettingEffective with Base {
        /// The settings that the controller uses.
        pub effective: ControllerSettings,
        /// The settings of this controller alone.
        pub instance: ControllerSettings,
    }
}

detail! {
    /// Settings of controllers.
    pub struct ControllerSettings {
        /// The settings of logins by OpenID Connect; null if there are none.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub oidc: Option<OidcDetail>,
    }
}
