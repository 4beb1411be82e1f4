//! Converts between values of the API contract and values of the model.

use std::sync::Arc;

use serde_json::Value;
use weft_contract::json::{JsonMap as ContractMap, TagValue, Tags, Username, WrongLength};
use weft_contract::resource::client::{EnvInfo as EnvDetail, SdkInfo as SdkDetail};
use weft_contract::{
    Base as ContractBase, Cause, EntityRef, ErrorCode, NamedRole, Timestamp as TimeWord, Word,
};
use weft_model::entity::{Base, EnvInfo, Identity, Record, SdkInfo};
use weft_model::role::{self, Roles};
use weft_model::{Choice, Id, JsonMap, Timestamp};

use super::view::View;
use crate::failure::{Failure, Result};

/// A time of the model in the form of the API.
pub fn time(at: Timestamp) -> TimeWord {
    TimeWord::from_millis(at.0)
}

/// A time of the API in the form of the model.
pub fn from_time(at: TimeWord) -> Timestamp {
    Timestamp(at.millis())
}

/// Tags of the model in the form of the API.
pub fn tags(map: &JsonMap) -> Tags {
    map.iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Bool(value) => TagValue::Bool(*value),
                Value::Number(value) => TagValue::Number(value.clone()),
                Value::String(value) => TagValue::Text(value.clone()),
                _ => TagValue::Null,
            };
            (name.clone(), value)
        })
        .collect()
}

/// Tags of the API in the form of the model.
pub fn from_tags(tags: &Tags) -> JsonMap {
    let members = tags.iter().map(|(name, value)| {
        let value = match value {
            TagValue::Null => Value::Null,
            TagValue::Bool(value) => Value::Bool(*value),
            TagValue::Number(value) => Value::Number(value.clone()),
            TagValue::Text(value) => Value::String(value.clone()),
        };
        (name.clone(), value)
    });
    members.collect::<ContractMap>().into()
}

/// Most bytes of an entity's tags, as JSON. Every change of the entity contains all of its tags, and
/// the log of the database keeps thousands of changes.
pub const MAX_TAGS: usize = 64 << 10;

/// Checks the tags of an entity: they have at most [`MAX_TAGS`].
pub fn bounded_tags(tags: &JsonMap) -> Result<()> {
    let length = tags.to_text().len();
    if length > MAX_TAGS {
        let reason = format!("must have at most {MAX_TAGS} bytes of JSON in all, and has {length}");
        return Err(Failure::field("tags", reason, ""));
    }
    Ok(())
}

/// Checks a tag that says how much an identity may have: a whole number, also as text.
pub fn limit_tag(name: &str, value: &Value) -> Result<()> {
    let most = Identity::MAX_OF_LIMIT_TAG;
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    if number.is_none_or(|number| number > most) {
        let reason = format!("{name} must be a whole number from 0 to {most}");
        return Err(Failure::field("tags", reason, value.to_string()));
    }
    Ok(())
}

/// A JSON object of the model in the form of the API.
pub fn json(map: &JsonMap) -> ContractMap {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The base of a detail.
pub fn base(collection: &str, base: &Base, links: &[&str]) -> ContractBase {
    ContractBase {
        links: weft_contract::entity::links(collection, base.id.as_str(), links),
        created_at: time(base.created_at),
        id: base.id.to_string(),
        tags: tags(&base.tags),
        updated_at: time(base.updated_at),
    }
}

/// A reference to an entity with a name.
pub fn mention<T: Record>(view: View<'_>, collection: &str, id: &Id) -> EntityRef {
    let name = view.get::<T>(id.as_str()).and_then(|record| record.name().cloned());
    EntityRef::new(collection, id.as_str(), name.as_deref().unwrap_or_default())
}

/// Texts as owned strings.
pub fn strings<S: AsRef<str>>(texts: &[S]) -> Vec<String> {
    texts.iter().map(|text| text.as_ref().to_owned()).collect()
}

/// Ids as owned strings.
pub fn ids(ids: &[Id]) -> Vec<String> {
    ids.iter().map(Id::to_string).collect()
}

/// The program of a client, as its login described it.
pub fn sdk(sdk: &SdkInfo) -> SdkDetail {
    SdkDetail {
        app_id: sdk.app_id.clone(),
        app_version: sdk.app_version.clone(),
        branch: sdk.branch.clone(),
        revision: sdk.revision.clone(),
        r#type: sdk.kind.clone(),
        version: sdk.version.clone(),
    }
}

/// The machine of a client, as its login described it.
pub fn env(env: &EnvInfo) -> EnvDetail {
    EnvDetail {
        arch: env.arch.clone(),
        domain: env.domain.clone(),
        hostname: env.hostname.clone(),
        os: env.os.clone(),
        os_release: env.os_release.clone(),
        os_version: env.os_version.clone(),
    }
}

/// A choice of the model in the words of the API. A choice without a word does not compile.
pub fn word<C: Choice, W: Word + Default>(choice: C) -> W {
    const { assert!(are_among(C::TEXTS, W::WORDS), "a choice has no word") };
    W::parse(choice.as_str()).unwrap_or_default()
}

/// The choice of the model that a word of the API names. A word without a choice does not compile.
pub fn choice<W: Word, C: Choice>(word: W) -> C {
    const { assert!(are_among(W::WORDS, C::TEXTS), "a word has no choice") };
    C::parse(word.as_str()).unwrap_or_default()
}

const fn are_among(texts: &[&str], words: &[&str]) -> bool {
    match texts {
        [] => true,
        [text, rest @ ..] => is_among(text, words) && are_among(rest, words),
    }
}

const fn is_among(text: &str, words: &[&str]) -> bool {
    match words {
        [] => false,
        [word, rest @ ..] => same(text.as_bytes(), word.as_bytes()) || is_among(text, rest),
    }
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([a, one @ ..], [b, other @ ..]) => *a == *b && same(one, other),
        _ => false,
    }
}

/// Checks a name in a body: it is not too long, and has no control characters.
pub fn plain(field: &str, name: &str, most: usize) -> Result<()> {
    if name.len() > most {
        let reason = format!("must be at most {most} bytes long, and has {}", name.len());
        let shown: String = name.chars().take(32).collect();
        return Err(Failure::field(field, reason, format!("{shown}...")));
    }
    match name.chars().find(|one| one.is_control()) {
        Some(found) => {
            let found = found.escape_unicode();
            let reason = format!("must have no control characters, and has {found}");
            Err(Failure::field(field, reason, name))
        }
        None => Ok(()),
    }
}

/// Checks a user name: its length, and that it has no control characters.
pub fn username(field: &str, name: &str) -> Result<Arc<str>> {
    plain(field, name, usize::MAX)?;
    let wrong = |reason: WrongLength| Failure::field(field, reason.to_string(), name);
    Ok(Username::try_from(name.to_owned()).map_err(wrong)?.as_str().into())
}

/// Reads an id in a body: not empty, not too long, no control characters.
pub fn id_field(field: &str, text: &str) -> Result<Id> {
    Id::parse(text).map_err(|error| Failure::field(field, error.to_string(), text))
}

/// Reads ids in a body as a sorted set.
pub fn id_set(field: &str, texts: &[String]) -> Result<Vec<Id>> {
    let mut ids: Vec<Id> =
        texts.iter().map(|text| id_field(field, text)).collect::<Result<_, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// Reads role attributes in a body.
pub fn attributes(texts: &[String]) -> Result<Vec<Arc<str>>> {
    role::attributes(texts)
        .map_err(|error| Failure::field("roleAttributes", error.to_string(), error.value()))
}

/// Reads the roles of a policy in a body.
pub fn roles(field: &str, texts: &[String]) -> Result<Roles> {
    let roles = Roles::parse(texts)
        .map_err(|error| Failure::field(field, error.to_string(), texts.join(", ")))?;
    for attribute in &roles.attributes {
        // A list may name what no entity can have.
        if !attribute.starts_with(['#', '@']) {
            role::check_attribute(attribute)
                .map_err(|error| Failure::field(field, error.to_string(), error.value()))?;
        }
    }
    Ok(roles)
}

/// Roles with names in place of ids; ids of no entity are left out (docs/protocol/management-api.md
/// 7.4).
pub fn display<T: Record>(view: View<'_>, roles: &Roles) -> Vec<NamedRole> {
    let all = roles.all.then(|| "#all".to_owned());
    let attributes = roles.attributes.iter().map(|attribute| format!("#{attribute}"));
    let plain = all.into_iter().chain(attributes);
    let plain = plain.map(|role| NamedRole { name: role.clone(), role });
    let named = roles.ids.iter().filter_map(|id| {
        let record = view.get::<T>(id.as_str())?;
        Some(NamedRole { name: format!("@{}", record.name()?), role: format!("@{id}") })
    });
    plain.chain(named).collect()
}

/// The failure for a body that could not be parsed.
impl From<weft_contract::BodyError> for Failure {
    fn from(error: weft_contract::BodyError) -> Self {
        Failure::new(error.code()).with_cause(error.cause())
    }
}

/// The failure for a filter, sort order or page that could not be parsed.
impl From<weft_model::filter::FilterError> for Failure {
    fn from(error: weft_model::filter::FilterError) -> Self {
        let code = ErrorCode::parse(error.code().as_str()).unwrap_or(ErrorCode::InvalidFilter);
        Failure::new(code).with_cause(Cause::error(ErrorCode::Unhandled, error.message()))
    }
}

impl From<weft_model::filter::PageError> for Failure {
    fn from(error: weft_model::filter::PageError) -> Self {
        let reason = error.to_string();
        Failure::coded_field(ErrorCode::InvalidPagination, error.field, reason, error.value)
    }
}
