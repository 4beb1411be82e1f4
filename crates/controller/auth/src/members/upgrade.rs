//! The format of what is stored. A program writes what all programs of the network can read: rows of a newer format only
//! after the network was upgraded to it, which somebody says explicitly. Each controller tells the newest format that it reads
//! in its entry; a program that does not read the format of the network refuses to start.

use weft_contract::ErrorCode;
use weft_kernel::{Caller, Failure, Result};
use weft_model::ChangeSet;
use weft_model::entity::ControllerMember;

use crate::handle::Auth;

/// The format that programs read which do not say so.
const FIRST: u32 = 1;

impl Auth {
    /// Upgrades the network to the newest format that the program of this controller reads, if every other controller
    /// reads it, too. The format before, and that after.
    ///
    /// # Errors
    /// 400 with the names of the controllers that do not read the format; 503 if nothing can be written now.
    pub async fn upgrade(&self, caller: &Caller) -> Result<[u32; 2]> {
        let kernel = self.kernel();
        let [former, reads] = kernel.settings().store.formats();
        if former >= reads {
            return Ok([former; 2]);
        }
        let (caller, now) = (caller.clone(), kernel.now());
        let done = kernel.submit(move |tip| {
            caller.begin()?;
            let members = tip.list::<ControllerMember>().filter(|it| it.is_present());
            let older = members.filter(|it| it.reads.max(FIRST) < reads);
            let older: Vec<String> = older
                .map(|it| format!("{} (reads up to {})", it.base.id, it.reads.max(FIRST)))
                .collect();
            if !older.is_empty() {
                let reason = format!(
                    "format {reads} is not read by all controllers: start a newer weft at {}, or remove it",
                    older.join(", ")
                );
                return Err(Failure::because(ErrorCode::CouldNotValidate, reason));
            }
            let decision = weft_kernel::decision::Decision::new(tip, &caller, now);
            Ok(ChangeSet { format: reads, ..decision.signed(Vec::new()) })
        });
        done.await?;
        tracing::warn!(
            former,
            format = reads,
            "the network was upgraded to another format: older programs of weft cannot be controllers of it any more"
        );
        Ok([former, reads])
    }
}
