//! Settings of controllers (docs/protocol/management-api.md 5, notes): those of one controller, the
//! global ones, and the effective ones, which are both merged. Changes are sent to the path of the
//! effective settings, as the API's description says.

use url::Url;
use weft_contract::resource::controller_setting as contract;
use weft_contract::resource::controller_setting::{
    ControllerSettingBody, ControllerSettingDetail, ControllerSettingEffective,
    ControllerSettings as Settings, GLOBAL, OidcBody, OidcDetail,
};
use weft_contract::{Api, Kind as ContractKind, Verb};
use weft_kernel::call::HandlerRow;
use weft_kernel::decision::Decision;
use weft_kernel::{Call, Caller, Failure, Reply, Result, convert};
use weft_model::entity::{ControllerSetting, UriList};
use weft_model::{Base, Id};

use crate::Controller;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{self, Readable, Resource, detail_base, find};
use crate::domain::values::Show as _;

/// The resource.
pub(crate) struct ControllerSettings;

/// Addresses in one list at most.
const MAX_URIS: usize = 100;

fields! {
    ControllerSettings of ControllerSetting, set by ControllerSettingBody,
    shown as ControllerSettingDetail, searched as "controller-settings";

    tags;
    oidc_redirect_uris { merged }
    oidc_post_logout_uris { merged }
    read controller_id, oidc;
    show oidc by |_, it| oidc(it);
    search "controllerId" in base.id;
}

impl Readable for ControllerSettings {
    const KIND: &'static ContractKind = &contract::KIND;
}

fn oidc(record: &ControllerSetting) -> Option<OidcDetail> {
    let detail = OidcDetail {
        post_logout_uris: record.oidc_post_logout_uris.show(),
        redirect_uris: record.oidc_redirect_uris.show(),
    };
    (detail != OidcDetail::default()).then_some(detail)
}

impl Resource for ControllerSettings {
    /// The id of this controller.
    type Prepared = Id;

    fn chosen_id(body: &ControllerSettingBody) -> Option<Result<Id>> {
        let id = body.controller_id.as_deref().unwrap_or_default();
        Some(convert::id_field("controllerId", id))
    }

    async fn prepare(
        controller: &Controller,
        _caller: &Caller,
        _body: &ControllerSettingBody,
        _verb: Verb,
        _id: &Id,
    ) -> Result<Id> {
        Ok(Id::new(&controller.kernel().settings().id))
    }

    fn merge(
        record: &mut ControllerSetting,
        body: &ControllerSettingBody,
        _own: &Id,
        verb: Verb,
    ) -> Result<()> {
        if let Some(oidc) = &body.oidc {
            set_oidc(record, oidc)?;
        }
        Self::set(record, body, verb)
    }

    fn validate(
        _decision: &mut Decision<'_>,
        _before: Option<&ControllerSetting>,
        after: &mut ControllerSetting,
        own: &Id,
    ) -> Result<()> {
        let id = &after.base.id;
        if id == own || id.as_str() == GLOBAL {
            return Ok(());
        }
        let reason = format!("must be the id of a controller, or {GLOBAL}");
        Err(Failure::field("controllerId", reason, id.as_str()))
    }
}

fn set_oidc(record: &mut ControllerSetting, body: &OidcBody) -> Result<()> {
    let OidcBody { redirect_uris, post_logout_uris } = body;
    if let Some(uris) = redirect_uris {
        record.oidc_redirect_uris = Some(uris_of("oidc.redirectUris", uris)?);
    }
    if let Some(uris) = post_logout_uris {
        record.oidc_post_logout_uris = Some(uris_of("oidc.postLogoutUris", uris)?);
    }
    Ok(())
}

/// Checks that each text is an absolute address. Any scheme is allowed, because login redirects go
/// to programs with schemes of their own.
fn uris_of(field: &str, uris: &[String]) -> Result<UriList> {
    if uris.len() > MAX_URIS {
        let reason = format!("takes at most {MAX_URIS} addresses");
        return Err(Failure::field(field, reason, uris.len().to_string()));
    }
    for (at, uri) in uris.iter().enumerate() {
        if let Err(error) = Url::parse(uri) {
            let reason = format!("must be a whole address: {error}");
            return Err(Failure::field(&format!("{field}[{at}]"), reason, uri.as_str()));
        }
    }
    Ok(UriList { uris: uris.to_vec() })
}

/// The operations with paths of their own.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "detailControllerSettingEffective", &effective),
    (Api::Management, "updateControllerSetting", &resource::replace::<ControllerSettings>),
    (Api::Management, "patchControllerSetting", &resource::patch::<ControllerSettings>),
    (Api::Management, "deleteControllerSetting", &resource::delete::<ControllerSettings>),
];

/// The effective settings of a controller. A controller without settings of its own has the global
/// ones.
async fn effective(controller: Controller, caller: Caller, call: Call) -> Result<Reply> {
    let context = controller.context(&caller);
    let (view, id) = (context.view(), call.id(0));
    let is_known = id == GLOBAL || id == controller.kernel().settings().id;
    let own = find::<ControllerSettings>(view, id).map(|own| (**own).clone());
    let own = match own {
        Some(own) => own,
        None if is_known => ControllerSetting {
            base: Base::new(Id::new(id), controller.kernel().started()),
            ..ControllerSetting::default()
        },
        None => return Err(Failure::not_found("controller setting", id)),
    };
    let global = find::<ControllerSettings>(view, GLOBAL).map(|it| (**it).clone());
    let effective = own.over(&global.unwrap_or_default());
    Reply::detail(&ControllerSettingEffective {
        base: detail_base::<ControllerSettings>(&own.base),
        effective: Settings { oidc: oidc(&effective) },
        instance: Settings { oidc: oidc(&own) },
    })
}
