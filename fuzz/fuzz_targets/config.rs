//! Any text as a configuration: the reader returns settings or a list of problems, and never panics.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use weft_config::{ControllerConfig, EndpointsFile, RouterConfig};

fuzz_target!(|text: &str| {
    let variables = |name: &str| (name.len() < 3).then(|| "17".to_owned());
    let path = Path::new("fuzz.yml");
    let _ = ControllerConfig::from_str(text, path, &variables);
    let _ = RouterConfig::from_str(text, path, &variables);
    if let Some(file) = EndpointsFile::from_text(text) {
        assert_eq!(EndpointsFile::from_text(&file.to_text()), Some(file));
    }
});
