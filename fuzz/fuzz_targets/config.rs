//! Any text as a configuration: the reader returns settings or a list of problems, and never panics.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use arbitrary::{Arbitrary as _, Unstructured};
use weft_config::original::Conversion;
use weft_config::{ControllerConfig, EndpointsFile, RouterConfig};

fn target(bytes: &[u8]) {
    let Ok(text) = <&str>::arbitrary_take_rest(Unstructured::new(bytes)) else { return };
    let variables = |name: &str| (name.len() < 3).then(|| "17".to_owned());
    let path = Path::new("fuzz.yml");
    let _ = ControllerConfig::from_str(text, path, &variables);
    let _ = RouterConfig::from_str(text, path, &variables);
    if let Ok(converted) = Conversion::new("weft.db", &variables).convert(text) {
        let again = Conversion::new("weft.db", &variables).convert(&converted.text);
        assert!(again.is_ok_and(|again| again.text == converted.text));
    }
    if let Some(file) = EndpointsFile::from_text(text) {
        assert_eq!(EndpointsFile::from_text(&file.to_text()), Some(file));
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
