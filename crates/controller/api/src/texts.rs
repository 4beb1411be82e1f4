//! Compressed forms of the texts of metrics.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;

use crate::compress::Compressor;
use crate::encodings::Encoding;

/// A text and its compressed form, if that is smaller.
type CachedText = Option<(Bytes, Option<Bytes>)>;

/// The compressed forms of the last texts, without and with times.
#[derive(Debug, Default)]
pub(crate) struct Texts([Arc<Mutex<CachedText>>; 2]);

impl Texts {
    /// The compressed form of a text; requests at the same time wait for one compression.
    pub(crate) async fn of(
        &self,
        with_times: bool,
        text: &Bytes,
        compressor: &Compressor,
    ) -> Option<Bytes> {
        let mut last = Arc::clone(&self.0[usize::from(with_times)]).lock_owned().await;
        let is_it = |known: &Bytes| known.as_ptr() == text.as_ptr() && known.len() == text.len();
        if let Some((_, made)) = last.as_ref().filter(|(known, _)| is_it(known)) {
            return made.clone();
        }
        // A task of its own has the lock and keeps the form, although the client may give its request up.
        let (text, compressor) = (text.clone(), compressor.clone());
        let made = tokio::spawn(async move {
            let made = compressor.once(&text, Encoding::Gzip).await;
            *last = Some((text, made.clone()));
            made
        });
        made.await.ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_text_is_compressed_once_for_all_who_ask() {
        let (texts, compressor) = (Texts::default(), Compressor::new());
        let text = Bytes::from("metric 1\n".repeat(1000));
        let first = texts.of(false, &text, &compressor).await.unwrap();
        let again = texts.of(false, &text.clone(), &compressor).await.unwrap();
        assert_eq!(first.as_ptr(), again.as_ptr());
        assert!(first.len() < text.len());
        // The next text is another, and so is the one with times.
        let next = Bytes::from("metric 2\n".repeat(1000));
        assert_ne!(texts.of(false, &next, &compressor).await.unwrap(), first);
        assert_ne!(texts.of(true, &text, &compressor).await.unwrap().as_ptr(), first.as_ptr());
    }

    #[tokio::test]
    async fn a_form_is_kept_although_its_request_was_given_up() {
        let (texts, compressor) = (Texts::default(), Compressor::new());
        let text = Bytes::from("metric 1\n".repeat(100_000));
        tokio::select! {
            biased;
            _ = texts.of(false, &text, &compressor) => panic!("made at once"),
            () = std::future::ready(()) => {}
        }
        let kept = texts.0[0].lock().await.clone().map(|(_, made)| made.unwrap()).unwrap();
        let again = texts.of(false, &text, &compressor).await.unwrap();
        assert_eq!(again.as_ptr(), kept.as_ptr());
    }
}
