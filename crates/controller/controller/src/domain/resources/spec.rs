//! The descriptions of the APIs: a list, and each by itself (docs/protocol/management-api.md 5).

use weft_contract::entity::{Base, links};
use weft_contract::openapi::{SPECS, Spec};
use weft_contract::resource::spec::{COLLECTION, KIND, SpecDetail};
use weft_contract::{Api, Timestamp, headers};
use weft_kernel::call::HandlerRow;
use weft_kernel::{Call, Caller, Failure, Reply, Result};

use super::fixed::{Constant, Constants, base, detail, list};
use crate::Controller;

/// The operations.
pub(crate) const HANDLERS: &[HandlerRow<Controller>] = &[
    (Api::Management, "listSpecs", &list::<Specs>),
    (Api::Client, "listSpecs", &list::<Specs>),
    (Api::Management, "detailSpec", &detail::<Specs>),
    (Api::Client, "detailSpec", &detail::<Specs>),
    (Api::Management, "detailSpecBody", &body),
    (Api::Client, "detailSpecBody", &body),
];

struct Specs;

impl Constants for Specs {
    type Detail = SpecDetail;

    const NAME: &'static str = KIND.name;

    fn all() -> Vec<Constant> {
        SPECS.iter().map(|spec| Constant { id: spec.id, name: spec.id }).collect()
    }

    fn shown(id: &str, at: Timestamp) -> SpecDetail {
        let base = base(COLLECTION, id, at);
        SpecDetail {
            base: Base { links: links(COLLECTION, id, KIND.links), ..base },
            name: id.to_owned(),
        }
    }
}

/// The text of a description: YAML for clients that accept it, JSON for others.
async fn body(_controller: Controller, _caller: Caller, call: Call) -> Result<Reply> {
    let id = call.id(0);
    let spec = Spec::find(id).ok_or_else(|| Failure::not_found(KIND.name, id))?;
    let wants_yaml = call.header("accept").is_some_and(|accept| accept.contains("yaml"));
    match wants_yaml {
        true => Ok(Reply::raw(headers::YAML, spec.yaml())),
        false => Ok(Reply::raw(headers::JSON, spec.json())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_contract::{Api, ErrorCode};
    use weft_kernel::{Caller, Content};

    use crate::Origin;
    use crate::testing::{Bed, to};

    #[tokio::test]
    async fn anybody_lists_and_fetches_descriptions() {
        let bed = Bed::new().await;
        let nobody = Caller::nobody(Origin::default());
        let all = bed.list(&nobody, "listSpecs", "sort by id").await;
        let ids: Vec<_> = all.iter().map(|spec| spec["id"].as_str().unwrap()).collect();
        let known = [
            "edge-client",
            "edge-management",
            "fabric",
            "weft",
            "weft-client",
            "weft-fabric",
            "weft-management",
        ];
        assert_eq!(ids, known);
        assert_eq!(all[0]["_links"]["spec"]["href"], "./specs/edge-client/spec");
        for id in known {
            let one = bed.client(&nobody, "detailSpec", &[id], json!(null)).await.unwrap();
            assert_eq!((&one["id"], &one["name"]), (&json!(id), &json!(id)));
        }
        let missing = bed.client(&nobody, "detailSpec", &["x"], json!(null)).await.unwrap_err();
        assert_eq!(missing.code(), ErrorCode::NotFound);
    }

    #[tokio::test]
    async fn bodies_are_json_or_yaml() {
        let bed = Bed::new().await;
        for (accept, media, begin) in [
            ("*/*", "application/json", "{\"swagger\":\"2.0\""),
            ("text/yaml", "text/yaml", "swagger: '2.0'\n"),
        ] {
            let mut call = to(Api::Management, "detailSpecBody", &["edge-management"]);
            call.headers.push(("accept".into(), accept.into()));
            let reply = bed.controller.call(Caller::nobody(Origin::default()), call).await;
            let Content::Raw { media: own, body } = reply.unwrap().content else { panic!("raw") };
            assert_eq!(own, media);
            assert!(body.starts_with(begin.as_bytes()));
        }
    }
}
