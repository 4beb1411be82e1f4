//! Posture checks: what all have, and a bucket with what those of one type have.

use weft_bolt::BoltContent;
use weft_model::entity::{
    MfaCheck, OsSpec, PostureCheck, PostureCheckType, ProcessSpec, ProcessesCheck,
};
use weft_model::posture::plain_hex;
use weft_model::{Choice, Entity, Semantic};

use crate::fields::{Fields, Taken, Untaken};
use crate::layout::Layout;
use crate::policies::semantic;

/// Reads a posture check.
pub(crate) fn posture_check(fields: &mut Fields<'_, '_>, _: Layout) -> Taken<Entity> {
    let name = fields.name()?;
    let type_id = fields.needed("typeId")?;
    let check_type = PostureCheckType::parse(&type_id)
        .ok_or_else(|| Untaken::Entity(format!("weft has no type {type_id:?}")))?;
    let check = PostureCheck {
        base: fields.base()?,
        name,
        check_type,
        role_attributes: fields.attributes()?,
        version: fields.number("version").unwrap_or_default().max(1),
        ..PostureCheck::default()
    };
    let check = match fields.bucket(&type_id) {
        Some(bucket) => fields.within(&bucket, |fields| of_type(fields, check))?,
        None => return Err(Untaken::Entity("it has no values of its type".to_owned())),
    };
    Ok(check.into())
}

fn of_type(fields: &mut Fields<'_, '_>, mut check: PostureCheck) -> Taken<PostureCheck> {
    match check.check_type {
        PostureCheckType::Os => check.operating_systems = operating_systems(fields)?,
        PostureCheckType::Domain => check.domains = fields.list("domains")?,
        PostureCheckType::Mac => {
            let addresses = fields.list("macAddresses")?;
            check.mac_addresses = addresses.iter().map(|address| plain_hex(address)).collect();
        }
        PostureCheckType::Mfa => check.mfa = mfa(fields),
        PostureCheckType::Process => {
            let signer = fields.full_text("fingerprint");
            let process = ProcessSpec {
                os_type: fields.needed("os")?,
                path: fields.needed("path")?,
                hashes: fields.list("hashes")?,
                signer_fingerprints: signer.into_iter().collect(),
            };
            let (semantic, processes) = (Semantic::AllOf, vec![process]);
            check.processes = ProcessesCheck { semantic, processes };
        }
        PostureCheckType::ProcessMulti => {
            let semantic = semantic(fields);
            check.processes = ProcessesCheck { semantic, processes: processes(fields)? };
        }
    }
    Ok(check)
}

fn mfa(fields: &mut Fields<'_, '_>) -> MfaCheck {
    let timeout = fields.number("timeoutSeconds").unwrap_or_default();
    MfaCheck {
        timeout_seconds: if timeout > 0 { timeout } else { MfaCheck::NO_TIMEOUT },
        prompt_on_wake: fields.flag("promptOnWake", false),
        prompt_on_unlock: fields.flag("promptOnUnlock", false),
        ignore_legacy_endpoints: fields.flag("ignoreLegacyEndpoints", false),
    }
}

/// A bucket for each operating system.
fn operating_systems(fields: &mut Fields<'_, '_>) -> Taken<Vec<OsSpec>> {
    let mut systems = Vec::new();
    for bucket in fields.buckets() {
        systems.push(fields.within(&bucket, |fields| {
            Ok(OsSpec { os_type: fields.needed("osType")?, versions: fields.list("osVersions")? })
        })?);
    }
    Ok(systems)
}

/// A bucket for each process, in the bucket `processes`.
fn processes(fields: &mut Fields<'_, '_>) -> Taken<Vec<ProcessSpec>> {
    let Some(bucket) = fields.bucket("processes") else { return Ok(Vec::new()) };
    let mut processes = Vec::new();
    for entry in bucket.entries() {
        let BoltContent::Bucket(process) = entry?.content else { continue };
        processes.push(fields.within(&process, |fields| {
            Ok(ProcessSpec {
                os_type: fields.needed("osType")?,
                path: fields.needed("path")?,
                hashes: fields.list("hashes")?,
                signer_fingerprints: fields.list("signerFingerprints")?,
            })
        })?);
    }
    Ok(processes)
}
