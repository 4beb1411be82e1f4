//! One-time codes: how they are made and checked, and the provisioning of authenticator apps
//! (docs/protocol/auth.md 11.1). Pure: random bytes and the time are arguments.

use qrcodegen::{QrCode, QrCodeEcc};
use totp_rs::{Algorithm, Builder, Secret, Totp};
use weft_contract::operation::escape;
use weft_model::Timestamp;
use weft_model::entity::Mfa;

/// Life of a code, in seconds.
const STEP: u64 = 30;
/// Steps before and after the present one whose codes are accepted.
const SKEW: u16 = 2;
/// Digits of a code.
const DIGITS: u8 = 6;
/// Bytes of a secret. This is shorter than RFC 4226 asks for, and the length that apps are known to
/// accept.
pub const SECRET: usize = 10;
/// Number of recovery codes of a second factor, their length, and random bytes of each.
const CODES: usize = 20;
const CODE_LENGTH: usize = 6;
const CODE_BYTES: usize = 8;
/// Random bytes for all recovery codes.
pub(crate) const CODES_BYTES: usize = CODES * CODE_BYTES;
/// Width and height of a QR code in pixels, and its white border in modules.
const PIXELS: usize = 256;
const EDGE: i32 = 4;

/// The codes that an operation accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Codes of the app.
    Totp,
    /// Codes of the app, and recovery codes, which are then removed.
    TotpOrRecovery,
}

/// A secret in its stored form.
pub fn secret(bytes: [u8; SECRET]) -> String {
    Secret::from(bytes.to_vec()).to_base32()
}

/// Makes recovery codes.
pub(crate) fn recovery_codes(bytes: [u8; CODES_BYTES]) -> Vec<String> {
    let code = |chunk: &[u8]| {
        let mut code = Secret::from(chunk.to_vec()).to_base32();
        code.truncate(CODE_LENGTH);
        code
    };
    bytes.chunks(CODE_BYTES).map(code).collect()
}

fn totp(secret: &str) -> Option<Totp> {
    let secret = Secret::try_from_base32(secret).ok()?;
    let builder = Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(DIGITS)
        .with_skew(SKEW)
        .with_step_duration(STEP)
        .with_secret(secret);
    Some(builder.build_noncompliant())
}

/// Checks a code: a code of the app is accepted once, a recovery code is removed.
pub fn accept(mfa: &mut Mfa, code: &str, takes: Takes, now: Timestamp) -> bool {
    if takes == Takes::TotpOrRecovery
        && let Some(at) = mfa.recovery_codes.iter().position(|own| own == code)
    {
        mfa.recovery_codes.remove(at);
        return true;
    }
    let seconds = u64::try_from(now.secs()).unwrap_or(0);
    let is_number = code.len() == usize::from(DIGITS) && code.bytes().all(|b| b.is_ascii_digit());
    let step = is_number.then(|| totp(&mfa.secret)?.check(code, seconds)).flatten();
    match step {
        Some(step) if step > mfa.last_step => {
            mfa.last_step = step;
            true
        }
        _ => false,
    }
}

/// The address that provisions an app. The app shows the name of the identity, if it is in the
/// address.
pub(crate) fn provisioning_url(issuer: &str, identity: &str, secret: &str) -> String {
    let (issuer, identity) = (escape(issuer), escape(identity));
    let label = match identity.is_empty() {
        true => issuer.clone(),
        false => format!("{issuer}:{identity}"),
    };
    format!("otpauth://totp/{label}?issuer={issuer}&secret={secret}")
}

/// Why a text has no QR code.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The address is too long.
    #[error("the address is too long for a QR code")]
    TooLong,
    /// The picture cannot be encoded.
    #[error("the picture could not be written: {0}")]
    Png(#[from] png::EncodingError),
}

/// A text as a QR code with medium error correction, in PNG.
pub(crate) fn qr_png(text: &str) -> Result<Vec<u8>, PictureError> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).map_err(|_| PictureError::TooLong)?;
    let modules = code.size() + 2 * EDGE;
    // The module of a pixel: the code fills the picture whatever its size.
    let module = |pixel: usize| (pixel as i32 * modules) / PIXELS as i32 - EDGE;
    let mut pixels = Vec::with_capacity(PIXELS * PIXELS);
    for y in 0..PIXELS {
        pixels.extend((0..PIXELS).map(|x| match code.get_module(module(x), module(y)) {
            true => 0_u8,
            false => u8::MAX,
        }));
    }
    let mut picture = Vec::new();
    let mut encoder = png::Encoder::new(&mut picture, PIXELS as u32, PIXELS as u32);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&pixels)?;
    Ok(picture)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mfa() -> Mfa {
        Mfa { secret: "JBSWY3DPEHPK3PXP".into(), ..Mfa::default() }
    }

    /// The test vectors of docs/protocol/auth.md 11.1.
    #[test]
    fn codes_are_those_of_the_protocol() {
        for (seconds, code) in [
            (59, "996554"),
            (1_111_111_109, "071271"),
            (1_234_567_890, "742275"),
            (2_000_000_000, "890699"),
        ] {
            let now = Timestamp::from_secs(seconds);
            assert!(accept(&mut mfa(), code, Takes::Totp, now), "{seconds}");
            for skew in [60, -60] {
                let near = Timestamp::from_secs((seconds + skew).max(0));
                assert!(accept(&mut mfa(), code, Takes::Totp, near), "{seconds} {skew}");
            }
            let far = Timestamp::from_secs(seconds + 120);
            assert!(!accept(&mut mfa(), code, Takes::Totp, far));
        }
    }

    #[test]
    fn codes_work_once() {
        let now = Timestamp::from_secs(1_234_567_890);
        let mut mfa = mfa();
        assert!(accept(&mut mfa, "742275", Takes::Totp, now));
        assert!(!accept(&mut mfa, "742275", Takes::Totp, now));
        mfa.recovery_codes = vec!["ABC234".into(), "XYZ567".into()];
        assert!(!accept(&mut mfa, "ABC234", Takes::Totp, now));
        assert!(!accept(&mut mfa, "abc234", Takes::TotpOrRecovery, now));
        assert!(accept(&mut mfa, "ABC234", Takes::TotpOrRecovery, now));
        assert!(!accept(&mut mfa, "ABC234", Takes::TotpOrRecovery, now));
        assert_eq!(mfa.recovery_codes, ["XYZ567"]);
        for odd in ["", "+42275", "74227", "7422750", "７４２２７５", "-00001"] {
            assert!(!accept(&mut mfa, odd, Takes::TotpOrRecovery, now), "{odd}");
        }
    }

    #[test]
    fn secrets_and_recovery_codes_have_their_form() {
        let is_base32 = |text: &str| text.bytes().all(|b| matches!(b, b'A'..=b'Z' | b'2'..=b'7'));
        let secret = secret([7; SECRET]);
        assert!(secret.len() == 16 && is_base32(&secret));
        let bytes: [u8; CODES_BYTES] = std::array::from_fn(|at| at as u8);
        let codes = recovery_codes(bytes);
        assert_eq!(codes.len(), 20);
        assert!(codes.iter().all(|code| code.len() == 6 && is_base32(code)));
    }

    #[test]
    fn names_are_escaped_in_the_address() {
        assert_eq!(
            provisioning_url("openziti.io", "Anna & Ben/1", "ABC"),
            "otpauth://totp/openziti.io:Anna%20%26%20Ben%2F1?issuer=openziti.io&secret=ABC"
        );
    }

    #[test]
    fn a_picture_is_a_png_of_256_pixels() {
        let picture = qr_png(&provisioning_url("openziti.io", &"x".repeat(100), "ABC")).unwrap();
        let decoder = png::Decoder::new(std::io::Cursor::new(picture));
        let reader = decoder.read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (256, 256));
        assert!(matches!(qr_png(&"x".repeat(5000)), Err(PictureError::TooLong)));
    }
}
