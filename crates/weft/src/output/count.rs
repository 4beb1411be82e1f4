//! Counts with their nouns, in the singular or the plural.

use std::fmt::Display;

/// A count with its noun in the singular or in the plural.
pub(crate) fn counted<N: Display + PartialEq + From<u8>>(
    count: N,
    one: &str,
    many: &str,
) -> String {
    let noun = if count == N::from(1) { one } else { many };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(counted(0_i64, "router", "routers"), "0 routers");
        assert_eq!(counted(1_u8, "router", "routers"), "1 router");
        assert_eq!(counted(2_usize, "router", "routers"), "2 routers");
    }
}
