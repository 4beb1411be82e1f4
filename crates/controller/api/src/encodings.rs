//! The encodings that a client accepts (`Accept-Encoding`).

use hyper::header::{ACCEPT_ENCODING, HeaderMap};

use crate::accept::items;

/// The encoding of an answer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Encoding {
    /// Brotli, only for files that an operator has compressed.
    Brotli,
    Gzip,
    /// Deflate in the zlib format, as HTTP defines the name.
    Deflate,
}

impl Encoding {
    /// All encodings, the preferred one first.
    const ALL: [Self; 3] = [Self::Brotli, Self::Gzip, Self::Deflate];

    /// The name in `Content-Encoding`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }
}

/// The encodings that a client accepts, with their weights.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Encodings {
    /// Weights in the order of [`Encoding::ALL`]; 0 means not accepted.
    weights: [f32; 3],
    /// The weight of unencoded bytes, if the client named them.
    plain: f32,
}

impl Encodings {
    /// The encodings in a request. A request that names none accepts none.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut named = [None; 3];
        let (mut others, mut plain) = (0.0, 0.0);
        for (name, weight) in items(headers, ACCEPT_ENCODING) {
            let Some(weight) = weight else { continue };
            match name.as_str() {
                "br" => named[0] = Some(weight),
                "gzip" | "x-gzip" => named[1] = Some(weight),
                "deflate" => named[2] = Some(weight),
                "*" => others = weight,
                "identity" => plain = weight,
                _ => {}
            }
        }
        Self { weights: named.map(|weight| weight.unwrap_or(others)), plain }
    }

    /// The one of these encodings that the client prefers; none if the client accepts none of them,
    /// or prefers unencoded bytes.
    pub(crate) fn best(&self, among: &[Encoding]) -> Option<Encoding> {
        let offered = Encoding::ALL.into_iter().zip(self.weights);
        let taken = offered.filter(|(encoding, weight)| {
            among.contains(encoding) && *weight > 0.0 && *weight >= self.plain
        });
        // The first one of equal weight wins.
        let best = taken.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map(|(encoding, _)| encoding)
    }

    /// Whether the client accepts an encoding.
    pub(crate) fn takes(&self, encoding: Encoding) -> bool {
        self.best(&[encoding]).is_some()
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn with(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut own = HeaderMap::new();
        for value in values {
            own.append(name, HeaderValue::from_static(value));
        }
        own
    }

    #[test]
    fn the_heaviest_encoding_is_chosen() {
        use Encoding::{Brotli, Deflate, Gzip};
        let best = |values: &[&'static str], among: &[Encoding]| {
            Encodings::of(&with("accept-encoding", values)).best(among)
        };
        let made = [Gzip, Deflate];
        assert_eq!(best(&[], &made), None);
        assert_eq!(best(&[""], &made), None);
        assert_eq!(best(&["gzip, deflate, br, zstd"], &made), Some(Gzip));
        assert_eq!(best(&["gzip, deflate, br"], &Encoding::ALL), Some(Brotli));
        assert_eq!(best(&["deflate, gzip;q=0.9"], &made), Some(Deflate));
        assert_eq!(best(&["deflate;q=0.2", "gzip;q=0.3"], &made), Some(Gzip));
        assert_eq!(best(&["GZIP;Q=1.0"], &made), Some(Gzip));
        assert_eq!(best(&["x-gzip"], &made), Some(Gzip));
        assert_eq!(best(&["gzip;q=0"], &made), None);
        assert_eq!(best(&["gzip;q=0, *;q=0.1"], &made), Some(Deflate));
        assert_eq!(best(&["*;q=0"], &made), None);
        assert_eq!(best(&["gzip;q=2, deflate;q=x, br;q=-1"], &Encoding::ALL), None);
        assert_eq!(best(&["identity, gzip;q=0.5"], &made), None);
        assert_eq!(best(&["identity;q=0.5, gzip"], &made), Some(Gzip));
        assert_eq!(best(&["zstd, br"], &made), None);
    }
}
