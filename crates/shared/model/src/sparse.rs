//! Fields that are nearly always empty: an empty one takes a pointer and no allocation.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A type with a shared empty value.
pub trait Empty: Default + PartialEq + 'static {
    /// The empty value.
    const EMPTY: &'static Self;
}

impl Empty for String {
    const EMPTY: &'static Self = &String::new();
}

impl<T: PartialEq + 'static> Empty for Vec<T> {
    const EMPTY: &'static Self = &Vec::new();
}

impl<K: Ord + 'static, V: PartialEq + 'static> Empty for BTreeMap<K, V> {
    const EMPTY: &'static Self = &BTreeMap::new();
}

/// A text, list or map that is nearly always empty. It dereferences to its value.
#[derive(Clone)]
pub struct Sparse<T>(Option<Box<T>>);

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Empty> Deref for Sparse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty> DerefMut for Sparse<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Empty> From<T> for Sparse<T> {
    fn from(value: T) -> Self {
        Self((value != *T::EMPTY).then(|| Box::new(value)))
    }
}

impl<A, T: Empty + FromIterator<A>> FromIterator<A> for Sparse<T> {
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Self {
        items.into_iter().collect::<T>().into()
    }
}

impl<'a, T: Empty> IntoIterator for &'a Sparse<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: Empty> PartialEq for Sparse<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Empty + fmt::Debug> fmt::Debug for Sparse<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_takes_no_room() {
        assert_eq!(size_of::<Sparse<BTreeMap<String, String>>>(), size_of::<usize>());
        let mut sparse = Sparse::from(String::new());
        assert!(sparse.0.is_none() && sparse.is_empty());
        sparse.push('a');
        assert_eq!(*sparse, "a");
        sparse.clear();
        assert_eq!(sparse, Sparse::default());
        let map: Sparse<BTreeMap<u8, u8>> = [(1, 2)].into_iter().collect();
        assert_eq!((&map).into_iter().collect::<Vec<_>>(), [(&1, &2)]);
        assert_eq!(format!("{map:?}"), "{1: 2}");
    }
}
