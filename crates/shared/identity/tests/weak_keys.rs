//! Authorities with keys that are too short, as old programs made them. The certificates were made with OpenSSL
//! (`openssl req -x509 -newkey rsa:1024`, `openssl x509 -req -CA`) and end in a hundred years; those of 2048 bits show
//! that nothing else is wrong with them.
#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::time::SystemTime;

use weft_identity::{Certificate, RequiredKeyUsage, TrustBundle, Verify};

/// The authority, and a leaf that it signed.
const SHORT: [&str; 2] = [
    "-----BEGIN CERTIFICATE-----\n\
     MIICBjCCAW+gAwIBAgIUacASfhX8/rK84Xq7QMGf6INnfG4wDQYJKoZIhvcNAQEL\n\
     BQAwFDESMBAGA1UEAwwJcm9vdCAxMDI0MCAXDTI2MTEzMDA4MTIyMloYDzIxMjYx\n\
     MTA2MDgxMjIyWjAUMRIwEAYDVQQDDAlyb290IDEwMjQwgZ8wDQYJKoZIhvcNAQEB\n\
     BQADgY0AMIGJAoGBAM/rZdoM4u5MHCKD7CpT5bbYnLI9ItpuvTe9kFRJD3kvPoIn\n\
     qQlOCMOAWdxdKOkFKL5hREV1LI5aPVTb4nvwAFVIIqTaP9q+OF/b0ZYXGGymJbty\n\
     u7SyPlxf1EoQ2/zUxFkAZvItMpuM4xAQgXpw0mKVH1Ge7IVEwNNZXavXD7IbAgMB\n\
     AAGjUzBRMB0GA1UdDgQWBBQjLMkjROMOnf5i0MVD5Xo/DrPr1zAfBgNVHSMEGDAW\n\
     gBQjLMkjROMOnf5i0MVD5Xo/DrPr1zAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3\n\
     DQEBCwUAA4GBAAOOwcJdQEO1QkCnxzW9hfOnB7m+Tyd93BSSnp0oeRJ3wM3pTHyt\n\
     Yny5sPfiVZJ3bfmgtEJ3/ExP101n+74VRCFoPSW+PQUkz0qV2LSTOyeACkaDHTtf\n\
     tBjzGuWNZrsSrbkePI5JsIhm1ymIXh/vfc/67RztE/9Q42JkdaMDpNVL\n\
     -----END CERTIFICATE-----\n",
    "-----BEGIN CERTIFICATE-----\n\
     MIIBXzCByQIURDgsXDf5asO2r0zRgfd2VeHvZ+QwDQYJKoZIhvcNAQELBQAwFDES\n\
     MBAGA1UEAwwJcm9vdCAxMDI0MCAXDTI2MTEzMDA4MTIyMloYDzIxMjYxMTA2MDgx\n\
     MjIyWjAPMQ0wCwYDVQQDDARsZWFmMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n\
     1m5vPQ2wKMIKV6N4hZiq3wfRfAtCtmvgCv3KEp5SR3ZzQ/fLVcaxyf+Y2im4+CNI\n\
     DzcxIAYWtLFKjorp3RrEzTANBgkqhkiG9w0BAQsFAAOBgQBdZfzAbHhWEGk8uxWJ\n\
     8cL6AsDNi6xu28O5gKPxKZAepk7ikbwyjKYVTCeuIbqvIEL4kpuD9oBjkrpu5xYd\n\
     SiAZLHZRwEABUpSfISuOU5PjPSq2WuyR4zxUEiQW1TMWO+Dc1ctfDJywcSGyxZ7j\n\
     zx6V52xFyXsAvxu3WKd++NvLEQ==\n\
     -----END CERTIFICATE-----\n",
];
const LONG: [&str; 2] = [
    "-----BEGIN CERTIFICATE-----\n\
     MIIDCzCCAfOgAwIBAgIUcrZCSKiSkU0gKIVxRPRCTQL0xmYwDQYJKoZIhvcNAQEL\n\
     BQAwFDESMBAGA1UEAwwJcm9vdCAyMDQ4MCAXDTI2MTEzMDA4MTIyNFoYDzIxMjYx\n\
     MTA2MDgxMjI0WjAUMRIwEAYDVQQDDAlyb290IDIwNDgwggEiMA0GCSqGSIb3DQEB\n\
     AQUAA4IBDwAwggEKAoIBAQCx+QDeaXO5Og4MAkQJWuG8hCG7/9kWfCSq2l9QRHZw\n\
     uc7jUnHSx8fsEjEyLABZ05jjavL5fx76NfeyS8bOtoHVY7GPMfgLD0hrO5Wbb7/H\n\
     ASQCg1GB8PH+45gl5TgdIAxq6wi9k4RJEgmUdM2bPk5ow77Yb9n4E9In223JPs7J\n\
     f+wZsfgYaPT1TzqGyAoF8vVHgTksdS0M6auD5x/ADcw0JWG176PTV99xJn6gptH7\n\
     s0gm5zO67cxOQ5i6UamVGWAUcGTGX18i4EPpJI0GMCalShz4/MXF6Gpi3Hq+HZ7a\n\
     fdCHwKxS4j2uhfY21GlVFxIZpAd+6s5TDwoNjvPHN9fXAgMBAAGjUzBRMB0GA1Ud\n\
     DgQWBBRHcX7vMe184zZEnzZ5344++npn6jAfBgNVHSMEGDAWgBRHcX7vMe184zZE\n\
     nzZ5344++npn6jAPBgNVHRMBAf8EBTADAQH/MA0GCSqGSIb3DQEBCwUAA4IBAQCO\n\
     AJa4l13GuP2b+JxHE3XTavxQhVQQRKlKEuL3BpOSOx777YchPom0ws7r4L+ljKBT\n\
     yDJiiHezYKTmsM4xPhsU0xS0gQuj9x7ggMZs4guy7BALK4sVuXPrHESeXw3hlyAP\n\
     vM+tcAq/GS5Z1SdNga2oC9YcOY/EI7XL7eYvHeTHfEWsHLROeBpsvtzl8iZk088A\n\
     n01KgA/GayVtX7SEg0ObxwQ4Uel9Axb0cKpX/b4ptKnL51Tgv6FJgOcl1p6SFCx7\n\
     7ij4NitMSk2k8ZMYIjcRCMmLoggfbE1USHR1nHnGuw/M9P2Su+VMC6jYpFK7i0FL\n\
     aw5wkV+fC9A8fuy4NQeZ\n\
     -----END CERTIFICATE-----\n",
    "-----BEGIN CERTIFICATE-----\n\
     MIIB4DCByQIUMbG6K780xhp948oE/N83VUW1GhMwDQYJKoZIhvcNAQELBQAwFDES\n\
     MBAGA1UEAwwJcm9vdCAyMDQ4MCAXDTI2MTEzMDA4MTIyNFoYDzIxMjYxMTA2MDgx\n\
     MjI0WjAPMQ0wCwYDVQQDDARsZWFmMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n\
     z5DhYdKpBvLmDcA3QMSoRdWTR4PdZZPloOwbwHRKEzI1V0iA9kUGTuQcqd1k5+6+\n\
     DDb7y203oRS+PIwOqDF+NTANBgkqhkiG9w0BAQsFAAOCAQEATosYNDmK/WM1xI0g\n\
     L85KvM/iIIw+KoExzGNMgXcrVYr0lH9ypqV8DlrVoNdYASefwmLN2bdNdFl8604W\n\
     TpfwBT/cT9CE0Wnj+10t8BM7TK0YHE9HMCJOADD5YZUNgKWa5hgp4mdnjZgBY4YF\n\
     5dHAgSg/vRLGyQTHBvGXiNy5V9DxiR2eG/GPNOo5iE0HFpDLFPtnGroAph6vDwAM\n\
     vGXgINysc2BujCrNy8O34FOK1+tE6ybSKDmn7mkGhqtzqYUJ25I0C29qgZCcq+S0\n\
     n7/XsJO3cAZAKll1CkfyQK1eo3OKliyeAJYa8cWJgEJYmcSeuQdtxCXe4X/09p/F\n\
     ovP2bQ==\n\
     -----END CERTIFICATE-----\n",
];

/// The answer to the leaf, if the authority is trusted.
fn answer(pair: [&str; 2]) -> Result<(), String> {
    let [authority, leaf] =
        pair.map(|pem| Certificate::from_pem(pem.as_bytes()).unwrap().remove(0));
    let bundle = TrustBundle::new([authority]);
    let how = Verify { usage: RequiredKeyUsage::Client, ..Verify::default() };
    let verified = bundle.verify(&[leaf.der().clone()], how, SystemTime::now());
    verified.map(drop).map_err(|error| error.to_string())
}

#[test]
fn an_authority_with_a_short_key_is_believed_for_nobody() {
    assert_eq!(answer(LONG), Ok(()));
    let refused = answer(SHORT).unwrap_err();
    assert!(refused.contains("RSA key of 1024 bits, use 2048 to 8192"), "{refused}");
}
