//! `cargo xtask model [--deep]`: all checks, with what they found.

#![allow(clippy::print_stdout)] // talking to people is this program's work

use anyhow::{Result, bail};
use leasehold_model::checks::{Effort, slots, timed, tokens};

fn main() -> Result<()> {
    let effort = match std::env::args().nth(1).as_deref() {
        Some("--deep") => Effort::Deep,
        Some("--quick") => Effort::Quick,
        None => Effort::Full,
        Some(_) => bail!("usage: leasehold-model [--quick | --deep]"),
    };
    let mut failed = 0;
    for check in [
        timed::hold,
        timed::found_broken,
        tokens::hold,
        tokens::found_broken,
        slots::hold,
        slots::found_broken,
    ] {
        for report in check(effort) {
            println!("{report}");
            failed += usize::from(!report.complaints.is_empty());
        }
    }
    if failed > 0 {
        bail!("{failed} checks failed");
    }
    Ok(())
}
