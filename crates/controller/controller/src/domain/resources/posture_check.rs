//! Posture checks: conditions on the devices of identities (docs/protocol/management-api.md 7.6).
//!
//! A body may have members of every type of check. Members of other types than the check's own are
//! ignored. Only a create chooses the type.

use weft_auth::posture::wanted::{process, process_of_many, systems};
use weft_contract::body::Unread;
use weft_contract::resource::posture_check as contract;
use weft_contract::resource::posture_check::{
    OperatingSystem, OsType, PostureCheckBody, PostureCheckDetail, Process, ProcessMulti,
};
use weft_contract::{Cause, ErrorCode, Kind as ContractKind, Verb, Word as _};
use weft_kernel::decision::Decision;
use weft_kernel::{Failure, Result, convert};
use weft_model::Semantic;
use weft_model::entity::{
    MfaCheck, OsSpec, PostureCheck, PostureCheckType, ProcessSpec, ProcessesCheck,
};
use weft_model::filter::Value;
use weft_model::posture::{is_version_range, plain_hex};

use crate::domain::context::Context;
use crate::domain::fields::{Fields as _, fields};
use crate::domain::resource::{Readable, Resource};

/// The resource.
pub(crate) struct PostureChecks;

/// Longest list of systems, addresses, domains or processes.
const MAX_ITEMS: usize = 1000;
/// Longest domain, hash or fingerprint, in bytes: that of a device's report about them.
const MAX_WORD: usize = 512;
/// Longest path of a program, in bytes.
const MAX_PATH: usize = 4096;

fn mfa_flag<'a>(it: &PostureCheck, get: impl Fn(&MfaCheck) -> bool) -> Value<'a> {
    match it.check_type {
        PostureCheckType::Mfa => Value::Bool(get(&it.mfa)),
        _ => Value::Null,
    }
}

fields! {
    PostureChecks of PostureCheck, set by PostureCheckBody, shown as PostureCheckDetail,
    searched as "posture-checks";

    tags;
    name { set, shown, searched }
    check_type as type_id { kept, merged, shown by ToString::to_string, searched }
    role_attributes { set, shown, searched }
    search Column::one("promptOnUnlock", Type::Bool, |_, it| {
        mfa_flag(it, |mfa| mfa.prompt_on_unlock)
    })
    .public();
    search Column::one("promptOnWake", Type::Bool, |_, it| mfa_flag(it, |mfa| mfa.prompt_on_wake))
        .public();
    version { kept, shown }
    operating_systems { merged }
    domains { merged }
    mac_addresses { merged }
    processes { merged }
    mfa { merged }
    read domains, ignore_legacy_endpoints, mac_addresses, operating_systems, process, processes;
    read prompt_on_unlock, prompt_on_wake, semantic, timeout_seconds, type_id;
    show domains, ignore_legacy_endpoints, mac_addresses, operating_systems elsewhere;
    show process, processes, prompt_on_unlock, prompt_on_wake elsewhere;
    show semantic, timeout_seconds elsewhere;
}

impl Readable for PostureChecks {
    const KIND: &'static ContractKind = &contract::KIND;

    fn detail(context: &Context, record: &PostureCheck) -> PostureCheckDetail {
        let mut detail = Self::show(context, record);
        match record.check_type {
            PostureCheckType::Domain => detail.domains = Some(record.domains.clone()),
            PostureCheckType::Mac => detail.mac_addresses = Some(record.mac_addresses.clone()),
            PostureCheckType::Mfa => {
                detail.ignore_legacy_endpoints = Some(record.mfa.ignore_legacy_endpoints);
                detail.prompt_on_unlock = Some(record.mfa.prompt_on_unlock);
                detail.prompt_on_wake = Some(record.mfa.prompt_on_wake);
                detail.timeout_seconds = Some(record.mfa.timeout_seconds);
            }
            PostureCheckType::Os => {
                detail.operating_systems = Some(systems(&record.operating_systems));
            }
            PostureCheckType::Process => {
                detail.process = record.processes.processes.first().map(process);
            }
            PostureCheckType::ProcessMulti => {
                let processes = record.processes.processes.iter().map(process_of_many);
                detail.processes = Some(processes.collect());
                detail.semantic = Some(convert::word(record.processes.semantic));
            }
        }
        detail
    }
}

impl Resource for PostureChecks {
    type Prepared = ();

    fn merge(
        record: &mut PostureCheck,
        body: &PostureCheckBody,
        _prepared: &(),
        verb: Verb,
    ) -> Result<()> {
        set_type(record, body, verb)?;
        Self::set(record, body, verb)?;
        match record.check_type {
            PostureCheckType::Domain => {
                if let Some(domains) = &body.domains {
                    record.domains = texts("domains", &domains.read("domains")?)?;
                }
                need("domains", &record.domains)
            }
            PostureCheckType::Mac => {
                if let Some(addresses) = &body.mac_addresses {
                    record.mac_addresses = hardware_addresses(&addresses.read("macAddresses")?)?;
                }
                need("macAddresses", &record.mac_addresses)
            }
            PostureCheckType::Mfa => set_mfa(&mut record.mfa, body),
            PostureCheckType::Os => {
                if let Some(systems) = &body.operating_systems {
                    let systems = systems.read_whole("operatingSystems", verb)?;
                    record.operating_systems = os_specs(&systems)?;
                }
                need("operatingSystems", &record.operating_systems)
            }
            PostureCheckType::Process => {
                if let Some(process) = &body.process {
                    record.processes = ProcessesCheck {
                        semantic: Semantic::AllOf,
                        processes: vec![spec(&process.read_whole("process", verb)?)?],
                    };
                }
                need("process", &record.processes.processes)
            }
            PostureCheckType::ProcessMulti => set_processes(&mut record.processes, body, verb),
        }
    }

    fn validate(
        _decision: &mut Decision<'_>,
        _before: Option<&PostureCheck>,
        after: &mut PostureCheck,
        _prepared: &(),
    ) -> Result<()> {
        after.version += 1;
        Ok(())
    }
}

/// Sets the type at a create; later bodies may repeat the type but not change it.
fn set_type(record: &mut PostureCheck, body: &PostureCheckBody, verb: Verb) -> Result<()> {
    let Some(word) = &body.type_id else { return Ok(()) };
    let wanted = word.parse().map(convert::choice::<_, PostureCheckType>);
    let Some(wanted) = wanted else {
        let reason = format!("must be one of {}", contract::PostureCheckType::WORDS.join(", "));
        let cause = Cause::field("typeId", reason, &*word.0);
        return Err(Failure::new(ErrorCode::CouldNotParseBody).with_cause(cause));
    };
    if verb == Verb::Create {
        record.check_type = wanted;
    } else if wanted != record.check_type {
        let reason = format!("the check is of type {}, which cannot be changed", record.check_type);
        return Err(Failure::field("typeId", reason, &*word.0));
    }
    Ok(())
}

/// Checks that a list has an entry.
fn need<T>(field: &str, items: &[T]) -> Result<()> {
    match items.len() {
        0 => Err(Failure::field(field, format!("{field} needs at least one item"), "")),
        count => few(field, count),
    }
}

fn few(field: &str, count: usize) -> Result<()> {
    if count <= MAX_ITEMS {
        return Ok(());
    }
    let reason = format!("{field} takes at most {MAX_ITEMS} items");
    Err(Failure::field(field, reason, count.to_string()))
}

/// Checks that no text is empty or too long, or has control characters.
fn texts(field: &str, texts: &[String]) -> Result<Vec<String>> {
    few(field, texts.len())?;
    let trimmed = texts.iter().enumerate().map(|(at, text)| {
        let field = format!("{field}[{at}]");
        let text = text.trim();
        if text.is_empty() {
            return Err(Failure::field(&field, "must not be empty", ""));
        }
        convert::plain(&field, text, MAX_WORD)?;
        Ok(text.to_owned())
    });
    trimmed.collect()
}

/// Hardware addresses in the spelling in which they are compared and shown.
fn hardware_addresses(given: &[String]) -> Result<Vec<String>> {
    few("macAddresses", given.len())?;
    let plain = given.iter().enumerate().map(|(at, text)| match plain_hex(text) {
        plain if plain.is_empty() => {
            let reason = "must have hexadecimal digits, such as 00:1a:2b:3c:4d:5e";
            Err(Failure::field(&format!("macAddresses[{at}]"), reason, &**text))
        }
        plain => Ok(plain),
    });
    plain.collect()
}

fn set_mfa(mfa: &mut MfaCheck, body: &PostureCheckBody) -> Result<()> {
    let flag = |name: &str, sent: &Option<Unread<bool>>, current: bool| match sent {
        Some(sent) => sent.read(name),
        None => Ok(current),
    };
    if let Some(seconds) = &body.timeout_seconds {
        mfa.timeout_seconds = seconds.read("timeoutSeconds")?;
    }
    if mfa.timeout_seconds <= 0 {
        mfa.timeout_seconds = MfaCheck::NO_TIMEOUT;
    }
    mfa.prompt_on_wake = flag("promptOnWake", &body.prompt_on_wake, mfa.prompt_on_wake)?;
    mfa.prompt_on_unlock = flag("promptOnUnlock", &body.prompt_on_unlock, mfa.prompt_on_unlock)?;
    let legacy = &body.ignore_legacy_endpoints;
    mfa.ignore_legacy_endpoints =
        flag("ignoreLegacyEndpoints", legacy, mfa.ignore_legacy_endpoints)?;
    Ok(())
}

fn os_specs(systems: &[OperatingSystem]) -> Result<Vec<OsSpec>> {
    few("operatingSystems", systems.len())?;
    let spec = |(at, system): (usize, &OperatingSystem)| {
        let versions = system.versions.clone().unwrap_or_default();
        few(&format!("operatingSystems[{at}].versions"), versions.len())?;
        if let Some(wrong) = versions.iter().position(|range| !is_version_range(range)) {
            let field = format!("operatingSystems[{at}].versions[{wrong}]");
            let reason = "must be a range of versions such as `>=10.0.0 <11.0.0`";
            return Err(Failure::field(&field, reason, &*versions[wrong]));
        }
        let os_type = system.os_type.unwrap_or_default().as_str().to_owned();
        Ok(OsSpec { os_type, versions })
    };
    systems.iter().enumerate().map(spec).collect()
}

fn spec(process: &Process) -> Result<ProcessSpec> {
    let signer = process.signer_fingerprint.iter().filter(|text| !text.trim().is_empty());
    let given = Given {
        os_type: process.os_type,
        path: &process.path,
        hashes: &process.hashes,
        signers: signer.map(|text| text.to_lowercase()).collect(),
    };
    let mut spec = given.spec("process")?;
    spec.hashes.iter_mut().for_each(|hash| *hash = hash.to_lowercase());
    Ok(spec)
}

fn set_processes(check: &mut ProcessesCheck, body: &PostureCheckBody, verb: Verb) -> Result<()> {
    if let Some(processes) = &body.processes {
        let processes = processes.read_whole("processes", verb)?;
        few("processes", processes.len())?;
        let spec = |(at, process): (usize, &ProcessMulti)| {
            let given = Given {
                os_type: process.os_type,
                path: &process.path,
                hashes: &process.hashes,
                signers: process.signer_fingerprints.clone().unwrap_or_default(),
            };
            given.spec(&format!("processes[{at}]"))
        };
        check.processes = processes.iter().enumerate().map(spec).collect::<Result<_, _>>()?;
    }
    match &body.semantic {
        Some(semantic) => check.semantic = convert::choice(semantic.read("semantic")?),
        None if verb == Verb::Patch => {}
        None => return Err(Failure::field("semantic", "semantic in body is required", "")),
    }
    need("processes", &check.processes)
}

/// A process in a body for one process or for several.
struct Given<'a> {
    os_type: Option<OsType>,
    path: &'a Option<String>,
    hashes: &'a Option<Vec<String>>,
    signers: Vec<String>,
}

impl Given<'_> {
    fn spec(self, field: &str) -> Result<ProcessSpec> {
        let path = self.path.clone().unwrap_or_default();
        if path.trim().is_empty() {
            return Err(Failure::field(&format!("{field}.path"), "path is required", path));
        }
        convert::plain(&format!("{field}.path"), &path, MAX_PATH)?;
        let kept = |texts: Vec<String>| -> Vec<String> {
            texts.into_iter().filter(|text| !text.trim().is_empty()).collect()
        };
        let hashes = self.hashes.clone().unwrap_or_default();
        few(&format!("{field}.hashes"), hashes.len())?;
        few(&format!("{field}.signerFingerprints"), self.signers.len())?;
        for (name, texts) in [("hashes", &hashes), ("signerFingerprints", &self.signers)] {
            for (at, text) in texts.iter().enumerate() {
                convert::plain(&format!("{field}.{name}[{at}]"), text, MAX_WORD)?;
            }
        }
        Ok(ProcessSpec {
            os_type: self.os_type.unwrap_or_default().as_str().to_owned(),
            path,
            hashes: kept(hashes),
            signer_fingerprints: kept(self.signers),
        })
    }
}
