//! The machine and the program of a client, as its login describes them (docs/protocol/auth.md 9.1).

use serde::{Deserialize, Serialize};

use crate::body::{FieldType, Shape, body};
use crate::json::short_text as text;
use crate::schema::{HasMembers, HasSchema, Member, Object, Schema};

/// The machine of a client, as its login describes it (docs/protocol/auth.md 9.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[allow(missing_docs)]
pub struct EnvInfo {
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub arch: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 253>")]
    pub domain: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 253>")]
    pub hostname: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub os: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub os_release: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub os_version: String,
}

body! { objects of EnvInfo }

/// The program of a client, as its login describes it (docs/protocol/auth.md 9.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[allow(missing_docs)]
pub struct SdkInfo {
    #[serde(
        alias = "appID",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "text::<_, 255>"
    )]
    pub app_id: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub app_version: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub branch: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub revision: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub r#type: String,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "text::<_, 255>")]
    pub version: String,
}

body! { objects of SdkInfo }

/// A text member of [`EnvInfo`] or [`SdkInfo`] in answers, left out if it is unknown.
const fn text_if_known(name: &'static str, about: &'static str) -> Member {
    Member { name, schema: String::SCHEMA, always: false, about }
}

impl HasSchema for EnvInfo {
    const SCHEMA: Schema = Schema::Object(&Self::OBJECT);
}

impl HasMembers for EnvInfo {
    const OBJECT: Object = Object {
        name: "EnvInfo",
        about: "The machine of a client, as its login describes it.",
        includes: &[],
        members: &[
            text_if_known("arch", "The processor of the machine; up to 255 characters."),
            text_if_known("domain", "The Windows domain of the machine; up to 253 characters."),
            text_if_known("hostname", "The host name of the machine; up to 253 characters."),
            text_if_known("os", "The operating system; up to 255 characters."),
            text_if_known(
                "osRelease",
                "The release of the operating system; up to 255 characters.",
            ),
            text_if_known(
                "osVersion",
                "The version of the operating system; up to 255 characters.",
            ),
        ],
    };
}

impl HasSchema for SdkInfo {
    const SCHEMA: Schema = Schema::Object(&Self::OBJECT);
}

impl HasMembers for SdkInfo {
    const OBJECT: Object = Object {
        name: "SdkInfo",
        about: "The program of a client, as its login describes it.",
        includes: &[],
        members: &[
            text_if_known("appId", "The id of the application; up to 255 characters."),
            text_if_known("appVersion", "The version of the application; up to 255 characters."),
            text_if_known(
                "branch",
                "The branch that the SDK was built from; up to 255 characters.",
            ),
            text_if_known(
                "revision",
                "The revision that the SDK was built from; up to 255 characters.",
            ),
            text_if_known("type", "The name of the SDK; up to 255 characters."),
            text_if_known("version", "The version of the SDK; up to 255 characters."),
        ],
    };
}

impl Shape for EnvInfo {
    const SHAPE: FieldType = FieldType::Json;
}

impl Shape for SdkInfo {
    const SHAPE: FieldType = FieldType::Json;
}
