//! The steps of a login as requests: their bodies as form and as JSON, and their answers (docs/protocol/auth.md 15.4).
//!
//! A step is read by [`LoginForm::read`]; [`ResponseFormat::wanted`] says how to answer, and which visitor the request is. Before any
//! work is done for it, [`Login::admit`](crate::login::Login::admit) judges the visitor. What the credential proves goes to
//! [`PendingLogins::step`](crate::logins::PendingLogins::step), which says what is missing: [`missing_body`] or a page asks for that.
//! When nothing is, the answer is 302 to [`Login::next`](crate::login::Login::next).

use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::authorize::{MAX_CONFIG_TYPE, MAX_CONFIG_TYPES};
use crate::browser;
use crate::login::{Missing, Totp, Visitor};
use crate::params::{MAX_BYTES, Params};
use crate::secret::SECRET_LENGTH;
use crate::token_request::{MAX_CSR, MAX_TOKEN, is_media_type};

/// The header of a login page, and of the first answers, with the id of the login. Go SDKs read it.
pub const AUTH_REQUEST_ID: &str = "auth-request-id";
/// The header, with the value `true`, that says that a one-time code is missing. Go SDKs read it.
pub const TOTP_REQUIRED: &str = "totp-required";

/// Longest user name, in bytes.
pub const MAX_USERNAME: usize = 1024;
/// Longest password, in bytes.
pub const MAX_PASSWORD: usize = 4096;
/// Longest one-time or recovery code, in bytes.
pub const MAX_CODE: usize = 13;
/// Longest public key of an end, in base64: 65 bytes in weft's form.
pub const MAX_END_KEY: usize = 128;
/// Longest text in the report of an SDK or a machine, in bytes.
pub const MAX_REPORT: usize = 255;

/// Members of `sdkInfo` and their form fields.
const SDK: [(&str, &[&str]); 6] = [
    ("appId", &["sdkAppId", "sdkAppID"]),
    ("appVersion", &["sdkAppVersion"]),
    ("branch", &["sdkBranch"]),
    ("revision", &["sdkRevision"]),
    ("type", &["sdkType"]),
    ("version", &["sdkVersion"]),
];

/// Members of `envInfo` and their form fields.
const ENV: [(&str, &[&str]); 6] = [
    ("arch", &["envArch"]),
    ("os", &["envOs"]),
    ("osRelease", &["envOsRelease"]),
    ("osVersion", &["envOsVersion"]),
    ("domain", &["envDomain"]),
    ("hostname", &["envHostname"]),
];

/// Why a body is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// 415: it is neither a form nor JSON.
    #[error("the body is neither application/json nor application/x-www-form-urlencoded")]
    MediaType,
    /// 413: it is too long.
    #[error("the body has more than {MAX_BYTES} bytes")]
    TooLong,
    /// 400: it cannot be read.
    #[error("the body cannot be read")]
    Unreadable,
    /// 400: a field is there twice, has another type than text, or is too long.
    #[error("{0}")]
    Field(String),
}

impl FormError {
    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::MediaType => 415,
            Self::TooLong => 413,
            Self::Unreadable | Self::Field(_) => 400,
        }
    }

    /// The code of the API error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::MediaType => "UNSUPPORTED_MEDIA_TYPE",
            Self::TooLong => "REQUEST_ENTITY_TOO_LARGE",
            Self::Unreadable => "COULD_NOT_PARSE_BODY",
            Self::Field(_) => "COULD_NOT_VALIDATE",
        }
    }
}

/// What a step of a login says.
#[derive(Clone, Default, PartialEq)]
pub struct LoginForm {
    /// The login.
    pub id: Option<String>,
    /// Name of a login by password.
    pub username: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// One-time or recovery code.
    pub code: Option<String>,
    /// External token. Programs send it in `Authorization`; the page has a field.
    pub token: Option<String>,
    /// Config types by id or name.
    pub config_types: Vec<String>,
    /// The request for a session certificate, PEM.
    pub csr: Option<String>,
    /// The public key that proves the client to the ends of its connections, in base64 (docs/protocol/sdk.md 14.6).
    pub end_key: Option<String>,
    /// The report of the SDK, if there is one: an object of texts.
    pub sdk: Option<Value>,
    /// The report of the machine, if there is one: an object of texts.
    pub env: Option<Value>,
}

impl fmt::Debug for LoginForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginForm").field("username", &self.username).finish_non_exhaustive()
    }
}

impl LoginForm {
    /// Reads the body of a `POST`, and the id from the query if the body has none.
    pub fn read(content_type: Option<&str>, body: &[u8], query: &str) -> Result<Self, FormError> {
        if body.len() > MAX_BYTES {
            return Err(FormError::TooLong);
        }
        let form = if is_media_type(content_type, "application/json") {
            Json::read(body)?.into_form()?
        } else if is_media_type(content_type, "application/x-www-form-urlencoded") {
            let text = std::str::from_utf8(body).map_err(|_| FormError::Unreadable)?;
            Self::of(&params("", text)?)?
        } else {
            return Err(FormError::MediaType);
        };
        let id = match form.id {
            Some(id) => Some(id),
            None => id_of(query)?,
        };
        Ok(Self { id, ..form })
    }

    /// Reads a request with parameters in its query and without a body, such as `DELETE /oidc/login/totp/enroll`.
    pub fn of_query(query: &str) -> Result<Self, FormError> {
        let form = Self::of(&params(query, "")?)?;
        let id = id_of(query)?;
        Ok(Self { id, ..form })
    }

    fn of(params: &Params<'_>) -> Result<Self, FormError> {
        let one = |name, most| -> Result<Option<String>, FormError> {
            params.one(name, most).map(|text| text.map(str::to_owned)).map_err(field)
        };
        let types = params.many("configTypes", MAX_CONFIG_TYPES, MAX_CONFIG_TYPE);
        Ok(Self {
            id: one("id", SECRET_LENGTH)?,
            username: one("username", MAX_USERNAME)?,
            password: one("password", MAX_PASSWORD)?,
            code: one("code", MAX_CODE)?,
            token: one("token", MAX_TOKEN)?,
            config_types: types.map_err(field)?,
            csr: one("csrPem", MAX_CSR)?,
            end_key: one("endKey", MAX_END_KEY)?,
            sdk: report_of_form(params, &SDK)?,
            env: report_of_form(params, &ENV)?,
        })
    }
}

/// The id of a login in a query: `authRequestID`, else `id`.
pub fn id_of(query: &str) -> Result<Option<String>, FormError> {
    let params = params(query, "")?;
    let one = |name| params.one(name, SECRET_LENGTH).map_err(field);
    let id = match one("authRequestID")? {
        Some(id) => Some(id),
        None => one("id")?,
    };
    Ok(id.map(str::to_owned))
}

fn params<'a>(query: &'a str, form: &'a str) -> Result<Params<'a>, FormError> {
    Params::read(query, form).map_err(field)
}

fn field(problem: crate::problem::OidcError) -> FormError {
    FormError::Field(problem.description)
}

fn report_of_form(
    params: &Params<'_>,
    members: &[(&str, &[&'static str])],
) -> Result<Option<Value>, FormError> {
    let mut report = Map::new();
    for (member, fields) in members {
        for name in *fields {
            if let Some(text) = params.one(name, MAX_REPORT).map_err(field)? {
                report.insert((*member).to_owned(), text.into());
            }
        }
    }
    Ok((!report.is_empty()).then_some(Value::Object(report)))
}

/// The body as JSON. Unknown members are ignored.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Json {
    id: Option<String>,
    username: Option<String>,
    password: Option<String>,
    code: Option<String>,
    token: Option<String>,
    config_types: Option<Vec<String>>,
    csr_pem: Option<String>,
    end_key: Option<String>,
    sdk_info: Option<Map<String, Value>>,
    env_info: Option<Map<String, Value>>,
}

impl Json {
    fn read(body: &[u8]) -> Result<Self, FormError> {
        // A list would be read as the members in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(FormError::Unreadable);
        }
        serde_json::from_slice(body).map_err(|error| match error.is_data() {
            true => FormError::Field("a field is there twice, or is no text".to_owned()),
            false => FormError::Unreadable,
        })
    }

    fn into_form(self) -> Result<LoginForm, FormError> {
        let types = self.config_types.unwrap_or_default();
        if types.len() > MAX_CONFIG_TYPES || types.iter().any(|it| it.len() > MAX_CONFIG_TYPE) {
            return Err(FormError::Field("configTypes has too many or too long names".to_owned()));
        }
        Ok(LoginForm {
            id: limited("id", self.id, SECRET_LENGTH)?,
            username: limited("username", self.username, MAX_USERNAME)?,
            password: limited("password", self.password, MAX_PASSWORD)?,
            code: limited("code", self.code, MAX_CODE)?,
            token: limited("token", self.token, MAX_TOKEN)?,
            config_types: types.into_iter().filter(|it| !it.is_empty()).collect(),
            csr: limited("csrPem", self.csr_pem, MAX_CSR)?,
            end_key: limited("endKey", self.end_key, MAX_END_KEY)?,
            sdk: report_of_json(self.sdk_info, &SDK)?,
            env: report_of_json(self.env_info, &ENV)?,
        })
    }
}

fn limited(name: &str, text: Option<String>, most: usize) -> Result<Option<String>, FormError> {
    match text {
        Some(text) if text.len() > most => {
            Err(FormError::Field(format!("the field {name} has more than {most} bytes")))
        }
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

/// The known members of a report. C SDKs spell `appID`.
fn report_of_json(
    report: Option<Map<String, Value>>,
    members: &[(&str, &[&str])],
) -> Result<Option<Value>, FormError> {
    let mut known = Map::new();
    for (name, value) in report.unwrap_or_default() {
        let name = if name == "appID" { "appId" } else { name.as_str() };
        let is_known = members.iter().any(|(member, _)| *member == name);
        match value {
            Value::String(text) if is_known && text.len() > MAX_REPORT => {
                let text = format!("the field {name} has more than {MAX_REPORT} bytes");
                return Err(FormError::Field(text));
            }
            Value::String(text) if is_known && !text.is_empty() => {
                known.insert(name.to_owned(), text.into());
            }
            _ => {}
        }
    }
    Ok((!known.is_empty()).then_some(Value::Object(known)))
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// JSON, for programs.
    Json,
    /// A page, for people.
    Page,
}

impl ResponseFormat {
    /// The form that a header `Accept` asks for: a page if `text/html` comes first by its weight; JSON if that is taken, or
    /// there is no header. None: neither is taken, and the answer is 406 `NOT_ACCEPTABLE`.
    #[must_use]
    pub fn wanted(accept: Option<&str>) -> Option<Self> {
        let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
            return Some(Self::Json);
        };
        let page = best(accept, &["text/html", "text/*"]);
        let json = best(accept, &["application/json", "application/*", "*/*"]);
        match (page, json) {
            (None, None) => None,
            (Some(page), Some(json)) if page < json => Some(Self::Json),
            (Some(_), _) => Some(Self::Page),
            (None, Some(_)) => Some(Self::Json),
        }
    }
}

impl ResponseFormat {
    /// The visitor that a request is, with the secret of its cookie.
    #[must_use]
    pub fn visitor(self, cookie: Option<&str>) -> Visitor {
        match self {
            Self::Json => Visitor::Json,
            Self::Page => browser::visitor(cookie),
        }
    }
}

/// The best entry of a header `Accept` for one of these ranges, as weight and place, in an order in which better is more.
fn best(accept: &str, ranges: &[&str]) -> Option<(u16, std::cmp::Reverse<usize>)> {
    let entries = accept.split(',').take(64).enumerate();
    let weights = entries.filter_map(|(place, entry)| {
        let mut parts = entry.split(';').map(str::trim);
        let range = parts.next()?;
        if !ranges.iter().any(|one| one.eq_ignore_ascii_case(range)) {
            return None;
        }
        let weight =
            parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let weight = weight.map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok())?;
        let weight = (weight.clamp(0.0, 1.0) * 1000.0) as u16;
        (weight > 0).then_some((weight, std::cmp::Reverse(place)))
    });
    weights.max()
}

/// The signer of an external token that is missing, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SignerInfo {
    /// Its id.
    pub id: String,
    /// `externalAuthUrl`.
    pub url: Option<String>,
    /// `clientId`.
    pub client_id: Option<String>,
    /// Scopes that clients ask of the provider. None: not set.
    pub scopes: Option<Vec<String>>,
}

/// `authQueries` of what is missing: TOTP before EXT-JWT, as C SDKs look at the first one only. `signer` belongs to
/// `missing.signer`.
#[must_use]
pub fn auth_queries(missing: &Missing, signer: Option<&SignerInfo>) -> Value {
    let totp = missing.totp.map(|totp| {
        let mut query = json!({
            "typeId": "TOTP", "provider": "ziti", "httpMethod": "POST",
            "httpUrl": "./oidc/login/totp", "format": "numeric", "minLength": 6, "maxLength": 8,
        });
        if totp == Totp::Enrolled {
            query["isTotpEnrolled"] = true.into();
        }
        query["scopes"] = Value::Null;
        query
    });
    let token = missing.signer.as_ref().map(|id| {
        let mut query = json!({"typeId": "EXT-JWT", "provider": "url"});
        let signer = signer.filter(|signer| signer.id == *id);
        if let Some(url) = signer.and_then(|signer| signer.url.as_ref()) {
            query["httpUrl"] = url.as_str().into();
        }
        query["id"] = id.as_str().into();
        if let Some(client) = signer.and_then(|signer| signer.client_id.as_ref()) {
            query["clientId"] = client.as_str().into();
        }
        query["scopes"] = signer.and_then(|signer| signer.scopes.clone()).into();
        query
    });
    totp.into_iter().chain(token).collect()
}

/// The body of the answer to a step after which something is missing, JSON: `{"authQueries":[..]}`. With a missing one-time
/// code the answer has the header [`TOTP_REQUIRED`]. weft adds `identityName`, the name of the login's owner if it has one, with
/// which programs ask for a code.
#[must_use]
pub fn missing_body(missing: &Missing, signer: Option<&SignerInfo>, owner: Option<&str>) -> String {
    let mut body = json!({"authQueries": auth_queries(missing, signer)});
    if let Some(owner) = owner {
        body["identityName"] = owner.into();
    }
    body.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Option<&str> = Some("application/x-www-form-urlencoded");
    const JSON: Option<&str> = Some("application/json; charset=utf-8");

    #[test]
    fn forms_and_json_say_the_same() {
        let form = "id=i&username=u&password=p%26&configTypes=a&configTypes=b&csrPem=c&endKey=e&sdkAppID=x&sdkAppVersion=1\
            &sdkBranch=b&sdkRevision=r&sdkType=t&sdkVersion=v&envArch=a&envOs=o&envOsRelease=r&envOsVersion=v\
            &envDomain=d&envHostname=h&unknown=1";
        let json = r#"{"id":"i","username":"u","password":"p&","configTypes":["a","b"],"csrPem":"c","endKey":"e",
            "sdkInfo":{"appID":"x","appVersion":"1","branch":"b","revision":"r","type":"t","version":"v","other":[]},
            "envInfo":{"arch":"a","os":"o","osRelease":"r","osVersion":"v","domain":"d","hostname":"h","deviceId":"1"},
            "unknown":{"a":1}}"#;
        let by_form = LoginForm::read(FORM, form.as_bytes(), "").unwrap();
        let by_json = LoginForm::read(JSON, json.as_bytes(), "").unwrap();
        assert!(by_form == by_json);
        assert_eq!(by_form.password.as_deref(), Some("p&"));
        assert_eq!(by_form.sdk.as_ref().unwrap()["appId"], "x");
        assert_eq!(by_form.env.as_ref().unwrap()["hostname"], "h");
        assert!(!format!("{by_form:?}").contains("p&"), "no password in a log");
        let other = LoginForm::read(FORM, b"sdkAppId=y", "").unwrap();
        assert_eq!(other.sdk.unwrap()["appId"], "y");
    }

    #[test]
    fn the_id_is_in_the_body_or_the_query() {
        let id =
            |body: &str, query: &str| LoginForm::read(FORM, body.as_bytes(), query).unwrap().id;
        assert_eq!(id("id=a", "authRequestID=b&id=c").as_deref(), Some("a"));
        assert_eq!(id("", "authRequestID=b&id=c").as_deref(), Some("b"));
        assert_eq!(id("code=1", "id=c").as_deref(), Some("c"));
        assert_eq!(id("", ""), None);
        let form = LoginForm::of_query("id=c&code=123456").unwrap();
        assert_eq!((form.id.as_deref(), form.code.as_deref()), (Some("c"), Some("123456")));
        let json = LoginForm::read(JSON, b"{}", "id=c").unwrap();
        assert_eq!(json.id.as_deref(), Some("c"));
    }

    #[test]
    fn bad_bodies_are_refused() {
        let long = format!("username={}", "u".repeat(MAX_USERNAME + 1));
        let long_report = format!(r#"{{"sdkInfo":{{"type":"{}"}}}}"#, "t".repeat(MAX_REPORT + 1));
        let huge = vec![b'a'; MAX_BYTES + 1];
        for (kind, body, status) in [
            (None, &b"id=a"[..], 415),
            (Some("text/plain"), b"id=a", 415),
            (Some("multipart/form-data; boundary=x"), b"", 415),
            (FORM, &huge, 413),
            (FORM, &[0xff], 400),
            (FORM, b"id=a&id=b", 400),
            (FORM, long.as_bytes(), 400),
            (FORM, b"code=12345678901234", 400),
            (JSON, b"", 400),
            (JSON, b"{", 400),
            (JSON, b"[]", 400),
            (JSON, b"{\"id\":1}", 400),
            (JSON, b"{\"id\":\"a\",\"id\":\"b\"}", 400),
            (JSON, b"{\"configTypes\":\"a\"}", 400),
            (JSON, long_report.as_bytes(), 400),
        ] {
            let error = LoginForm::read(kind, body, "").unwrap_err();
            assert_eq!(error.status(), status, "{kind:?} {error}");
        }
        assert_eq!(LoginForm::read(None, b"", "").unwrap_err().code(), "UNSUPPORTED_MEDIA_TYPE");
        assert_eq!(LoginForm::read(JSON, b"{", "").unwrap_err().code(), "COULD_NOT_PARSE_BODY");
        assert_eq!(
            LoginForm::read(JSON, b"{\"id\":1}", "").unwrap_err().code(),
            "COULD_NOT_VALIDATE"
        );
    }

    #[test]
    fn the_answer_is_what_the_client_takes() {
        use ResponseFormat::{Json, Page};
        for (accept, wanted) in [
            (None, Some(Json)),
            (Some(""), Some(Json)),
            (Some("*/*"), Some(Json)),
            (Some("application/json"), Some(Json)),
            (Some("application/json, text/plain, */*"), Some(Json)),
            (Some("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"), Some(Page)),
            (Some("text/html"), Some(Page)),
            (Some("text/html;q=0.5, application/json"), Some(Json)),
            (Some("application/json;q=0.5, text/html;level=1; q=0.9"), Some(Page)),
            (Some("text/html, application/json"), Some(Page)),
            (Some("application/json, text/html"), Some(Json)),
            (Some("image/png"), None),
            (Some("text/html;q=0, application/json;q=0"), None),
            (Some("text/html;q=x"), None),
        ] {
            assert_eq!(ResponseFormat::wanted(accept), wanted, "{accept:?}");
        }
    }

    #[test]
    fn queries_are_exact() {
        let missing = Missing { totp: Some(Totp::Enrolled), signer: Some("s".into()) };
        let signer = SignerInfo {
            id: "s".into(),
            url: Some("https://idp.example".into()),
            client_id: Some("c".into()),
            scopes: Some(vec!["openid".into()]),
        };
        assert_eq!(
            missing_body(&missing, Some(&signer), None),
            r#"{"authQueries":[{"typeId":"TOTP","provider":"ziti","httpMethod":"POST","httpUrl":"./oidc/login/totp","format":"numeric","minLength":6,"maxLength":8,"isTotpEnrolled":true,"scopes":null},{"typeId":"EXT-JWT","provider":"url","httpUrl":"https://idp.example","id":"s","clientId":"c","scopes":["openid"]}]}"#
        );
        let missing = Missing { totp: Some(Totp::NotEnrolled), signer: None };
        assert_eq!(
            missing_body(&missing, None, None),
            r#"{"authQueries":[{"typeId":"TOTP","provider":"ziti","httpMethod":"POST","httpUrl":"./oidc/login/totp","format":"numeric","minLength":6,"maxLength":8,"scopes":null}]}"#
        );
        assert_eq!(
            missing_body(&Missing::default(), None, Some("ann")),
            r#"{"authQueries":[],"identityName":"ann"}"#
        );
    }
}
