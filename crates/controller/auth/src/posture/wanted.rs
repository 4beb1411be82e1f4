//! The expectations of posture checks, as the APIs show them.

use weft_contract::resource::posture_check::{
    OperatingSystemDetail, ProcessDetail, ProcessMultiDetail,
};
use weft_model::entity::{OsSpec, ProcessSpec};

/// Operating systems as the API shows them.
pub fn systems(specs: &[OsSpec]) -> Vec<OperatingSystemDetail> {
    let shown = |spec: &OsSpec| OperatingSystemDetail {
        r#type: spec.os_type.clone(),
        versions: spec.versions.clone().into(),
    };
    specs.iter().map(shown).collect()
}

/// The process of a check for one process.
pub fn process(spec: &ProcessSpec) -> ProcessDetail {
    ProcessDetail {
        hashes: spec.hashes.clone().into(),
        os_type: spec.os_type.clone(),
        path: spec.path.clone(),
        signer_fingerprint: spec.signer_fingerprints.first().cloned().unwrap_or_default(),
    }
}

/// A process of a check for several.
pub fn process_of_many(spec: &ProcessSpec) -> ProcessMultiDetail {
    ProcessMultiDetail {
        hashes: spec.hashes.clone(),
        os_type: spec.os_type.clone(),
        path: spec.path.clone(),
        signer_fingerprints: spec.signer_fingerprints.clone(),
    }
}
