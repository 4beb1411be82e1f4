//! Requests of one end for hops of a traced route, until they are answered.
//!
//! An SDK finds the request of an answer by the number in the answer. Hosts write the answers, and an
//! answer with a wrong number would pass for that to another request. Only answers with the number
//! of a waiting request are passed on to the SDK.

use std::collections::VecDeque;

/// Most requests of one end that wait; of more, the oldest are forgotten.
const MOST: usize = 16;

/// The messages by which an SDK asks, and is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Messages about a connection of the SDK.
    Connection,
    /// Control messages of the circuit.
    Circuit,
}

/// The numbers of the requests that wait, each with its form.
#[derive(Debug, Default)]
pub(super) struct Asked(VecDeque<(u32, Form)>);

impl Asked {
    /// Notes a request.
    pub(super) fn note(&mut self, request: u32, form: Form) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back((request, form));
    }

    /// Takes the first answer to a request that waits: the form of the request. `None` for any other
    /// answer.
    pub(super) fn answered(&mut self, request: u32) -> Option<Form> {
        let at = self.0.iter().position(|(known, _)| *known == request)?;
        self.0.remove(at).map(|(_, form)| form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_and_few_wait() {
        let mut asked = Asked::default();
        assert_eq!(asked.answered(0), None);
        for request in 0..100 {
            asked.note(request, if request == 99 { Form::Circuit } else { Form::Connection });
        }
        assert_eq!(asked.0.len(), MOST);
        assert_eq!(asked.answered(3), None, "forgotten");
        assert_eq!(asked.answered(90), Some(Form::Connection));
        assert_eq!(asked.answered(99), Some(Form::Circuit));
        assert_eq!(asked.answered(99), None, "only once");
    }
}
