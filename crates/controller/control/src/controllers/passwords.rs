//! Wrong passwords in the messages between controllers, which count them together.

use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use weft_auth::lockouts::CountedPassword;
use weft_channel::ChannelHandle;
use weft_model::Id;
use weft_wire::ctrl::CountedPasswords;
use weft_wire::ctrl::counted_passwords::TriedPassword;
use weft_wire::{Message, ProtoBody as _, WireError};

use super::dial::GATHERING;
use crate::plane::Plane;

/// Most passwords in a message.
const MOST_IN_PART: usize = 256;

fn tell(counted: CountedPassword) -> TriedPassword {
    let (authenticator, from, last) = match counted {
        CountedPassword::Wrong { authenticator, from } => (authenticator, from, false),
        CountedPassword::Last { authenticator } => (authenticator, None, true),
    };
    let from = from.map(|it| it.to_string()).unwrap_or_default();
    TriedPassword { authenticator: authenticator.to_string(), from, last }
}

fn told(tried: &TriedPassword) -> Option<CountedPassword> {
    let authenticator = Id::parse(&tried.authenticator).ok()?;
    Some(match tried.last {
        true => CountedPassword::Last { authenticator },
        false => CountedPassword::Wrong { authenticator, from: tried.from.parse().ok() },
    })
}

impl Plane {
    /// Tells a controller which passwords are counted here, until the channel closes; the reason for that. Only what is
    /// counted while there is a channel is told.
    pub(super) async fn tell_passwords(&self, channel: &ChannelHandle) -> String {
        let mut counted = self.auth.lockouts().counted();
        loop {
            let first = match counted.recv().await {
                Ok(first) => first,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return "the controller stops".to_owned(),
            };
            tokio::time::sleep(GATHERING).await;
            let mut passwords = vec![tell(first)];
            while passwords.len() < MOST_IN_PART {
                match counted.try_recv() {
                    Ok(next) => passwords.push(tell(next)),
                    Err(TryRecvError::Lagged(_)) => {}
                    Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                }
            }
            let message = CountedPasswords { passwords }.to_message();
            if let Err(problem) = channel.send(message).await {
                return problem.to_string();
            }
        }
    }

    /// Takes over which passwords another controller has counted.
    pub(super) fn take_passwords(&self, message: &Message) -> Result<(), WireError> {
        let message = CountedPasswords::from_message(message)?;
        let counted = message.passwords.iter().filter_map(told);
        counted.for_each(|counted| self.auth.lockouts().take_over(counted));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_come_as_they_were_counted() {
        let authenticator = Id::new("a");
        let from = Some(std::net::IpAddr::from([192, 0, 2, 7]));
        for counted in [
            CountedPassword::Wrong { authenticator: authenticator.clone(), from },
            CountedPassword::Wrong { authenticator: authenticator.clone(), from: None },
            CountedPassword::Last { authenticator },
        ] {
            assert_eq!(told(&tell(counted.clone())), Some(counted));
        }
        assert_eq!(told(&TriedPassword::default()), None);
    }
}
