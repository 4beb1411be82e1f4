//! The identity's entity at the controller.

use std::collections::BTreeMap;

use weft_contract::entity::PrecedenceWord;
use weft_contract::resource::identity::IdentityDetail;
use weft_wire::ctrl::TerminatorPrecedence as Precedence;

/// The identity's entity at the controller.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Identity {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Data for applications of the identity.
    pub app_data: BTreeMap<String, serde_json::Value>,
    /// Its tags.
    pub tags: BTreeMap<String, serde_json::Value>,
    /// Cost of the identity's terminators, for services that `service_costs` does not name.
    pub hosting_cost: u16,
    /// Precedence of the identity's terminators, for services that `service_precedences` does not
    /// name.
    pub hosting_precedence: Precedence,
    /// Costs of the identity's terminators by the id of the service; they come before `hosting_cost`.
    pub service_costs: BTreeMap<String, u16>,
    /// Precedences of the identity's terminators by the id of the service; they come before
    /// `hosting_precedence`.
    pub service_precedences: BTreeMap<String, Precedence>,
}

impl Identity {
    pub(crate) fn of(detail: IdentityDetail) -> Self {
        let precedences = detail.service_hosting_precedences.into_iter();
        let tags = detail.base.tags.into_iter();
        Self {
            id: detail.base.id,
            name: detail.name,
            app_data: detail.app_data.into_iter().collect(),
            tags: tags.map(|(tag, value)| (tag, serde_json::json!(value))).collect(),
            hosting_cost: detail.default_hosting_cost,
            hosting_precedence: precedence(detail.default_hosting_precedence),
            service_costs: detail.service_hosting_costs,
            service_precedences: precedences.map(|(id, one)| (id, precedence(one))).collect(),
        }
    }
}

fn precedence(word: PrecedenceWord) -> Precedence {
    match word {
        PrecedenceWord::Default => Precedence::Default,
        PrecedenceWord::Required => Precedence::Required,
        PrecedenceWord::Failed => Precedence::Failed,
    }
}
