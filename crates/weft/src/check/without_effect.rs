//! Keys whose values have no effect in this release. Commands that check a file and programs that start with it name
//! the same ones.

use weft_config::{ControllerConfig, Examined};

/// Default of `edge.api.activityUpdateBatchSize`.
const DEFAULT_ACTIVITY_BATCH: u32 = 250;

/// Keys of a controller's file whose values have no effect in this release, each with the reason.
pub(super) fn of_controller(config: &ControllerConfig) -> Vec<(String, &'static str)> {
    let mut out = Vec::new();
    let mut warn = |wanted: bool, key: &str, why| {
        if wanted {
            out.push((key.to_owned(), why));
        }
    };
    warn(!config.events.is_empty(), "events", "events are not written anywhere yet");
    warn(
        !config.additional_trust_domains.is_empty(),
        "additionalTrustDomains",
        "certificates of former trust domains are not accepted yet",
    );
    if let Some(edge) = &config.edge {
        warn(
            edge.activity_update_batch != DEFAULT_ACTIVITY_BATCH,
            "edge.api.activityUpdateBatchSize",
            "the last activity of all sessions is written together",
        );
    }
    out
}

/// Adds such keys to what is not acted upon.
pub(super) fn add<T>(examined: &mut Examined<T>, found: Vec<(String, &'static str)>) {
    for (key, why) in found {
        let about = examined.about(&key, why);
        examined.not_acted_upon.push(about);
    }
    examined.not_acted_upon.sort_by_key(|one| one.line);
}
