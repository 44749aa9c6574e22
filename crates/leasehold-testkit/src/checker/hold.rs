//! Acquisitions, put together from their records.

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::history::{Manner, Message, Record, What};

/// One acquisition as its records tell it. Times are of the common clock.
#[derive(Clone, Debug)]
pub(super) struct Op {
    pub(super) process: String,
    /// The process whose clock its deadline is read on.
    pub(super) holder: String,
    pub(super) op: u64,
    pub(super) name: String,
    pub(super) manner: Manner,
    /// A writer that may have become a reader, which is then another of these.
    pub(super) was_downgraded: bool,
    pub(super) renewed: bool,
    pub(super) asked: u64,
    pub(super) ticket: Option<u64>,
    pub(super) grant: Option<Grant>,
    /// When its client first gave up a place in the queue for it.
    pub(super) withdrawn: Option<u64>,
    /// When asking ended: with the grant, or without.
    pub(super) settled: Option<u64>,
}

/// One grant.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) at: u64,
    pub(super) token: u64,
    /// The last one known.
    pub(super) deadline: u64,
    /// When the holder's clock last leapt: the deadline was still ahead until then, whatever a
    /// later reading of that clock makes of it.
    pub(super) leapt: u64,
    /// When it must have ended, because the store gave it up.
    pub(super) ends: Option<u64>,
    /// When the holder stopped claiming: released, told lost, killed.
    pub(super) over: Option<Over>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Released(u64),
    Lost(u64),
    Killed(u64),
}

impl Over {
    pub(super) const fn at(self) -> u64 {
        let (Self::Released(at) | Self::Lost(at) | Self::Killed(at)) = self;
        at
    }
}

impl Grant {
    /// When the hold ended.
    pub(super) fn end(&self) -> u64 {
        self.over
            .map_or(self.deadline, |over| over.at().min(self.deadline))
    }
}

impl Op {
    /// The store gave up at `at` what had been granted before.
    fn freed(&mut self, at: u64, until: u64) {
        if let Some(grant) = self.grant.as_mut().filter(|grant| grant.at < at) {
            grant.ends.get_or_insert(until);
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process,
            op,
            name,
            manner,
            ..
        } = self;
        write!(f, "{process}/{op} on {name:?} ({manner:?})")?;
        if let Some(grant) = &self.grant {
            let [from, to] = [grant.at, grant.end()].map(Duration::from_nanos);
            write!(
                f,
                " holds fencing token {} from {from:?} to {to:?}",
                grant.token
            )?;
        }
        Ok(())
    }
}

/// Every acquisition in the records, in the order in which they were asked for.
pub(super) fn ops(records: &[Record]) -> Vec<Op> {
    let mut ops: Vec<Op> = Vec::new();
    let mut index: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    for record in records {
        let key = (record.process.as_str(), record.op);
        match &record.what {
            What::Asked {
                name,
                manner,
                renewed,
            } => {
                index.insert(key, ops.len());
                ops.push(Op {
                    process: record.process.clone(),
                    holder: record.process.clone(),
                    op: record.op,
                    name: name.clone(),
                    manner: *manner,
                    was_downgraded: false,
                    renewed: *renewed,
                    asked: record.at,
                    ticket: None,
                    grant: None,
                    settled: None,
                    withdrawn: None,
                });
            }
            What::Leapt { by } => {
                for op in ops.iter_mut().filter(|op| op.holder == record.process) {
                    leap(op, record.at, *by);
                }
            }
            What::Left { .. } | What::Slept { .. } => {}
            What::Freed { name, until } => {
                for op in ops.iter_mut().filter(|op| op.name == *name) {
                    op.freed(record.at, *until);
                }
            }
            What::Downgraded { deadline } => {
                let at = find(&index, record);
                let writer = downgrade(&mut ops[at], record.at, *deadline);
                ops.push(writer);
            }
            // A message for several acquisitions at once is of none of them.
            What::Sent { .. } if !index.contains_key(&key) => {}
            what => {
                let at = find(&index, record);
                note(&mut ops[at], record.at, what);
            }
        }
    }
    ops
}

fn find(index: &BTreeMap<(&str, u64), usize>, record: &Record) -> usize {
    let key = (record.process.as_str(), record.op);
    *index
        .get(&key)
        .unwrap_or_else(|| panic!("{record:?} was not asked"))
}

/// Makes a reader of a writer; what it was before is an acquisition of its own.
fn downgrade(op: &mut Op, at: u64, deadline: u64) -> Op {
    let writer = op.clone();
    op.was_downgraded = false;
    op.manner = Manner::Read;
    op.ticket = None;
    if let Some(grant) = &mut op.grant {
        *grant = Grant {
            at,
            deadline,
            over: None,
            ..*grant
        };
    }
    writer
}

fn note(op: &mut Op, at: u64, what: &What) {
    if let What::Adopted { by, .. } = what {
        op.holder.clone_from(by);
    }
    match what {
        What::Queued { ticket } => drop(op.ticket.get_or_insert(*ticket)),
        What::Granted { token, deadline } => {
            op.grant = Some(Grant {
                at,
                token: *token,
                deadline: *deadline,
                leapt: 0,
                ends: None,
                over: None,
            });
            op.settled = Some(at);
        }
        What::Sent {
            message: Message::Release,
            ..
        } if op.grant.is_none() => {
            op.withdrawn.get_or_insert(at);
        }
        What::Refused => op.settled = Some(at),
        What::Killed => drop(op.settled.get_or_insert(at)),
        _ => {}
    }
    let Some(grant) = &mut op.grant else { return };
    match what {
        What::Held { deadline } => grant.deadline = *deadline.max(&grant.leapt),
        What::Adopted { deadline, .. } => {
            grant.deadline = *deadline;
            grant.over = None;
        }
        What::Lost { deadline } if grant.over.is_none() => {
            grant.deadline = *deadline.max(&grant.leapt);
            grant.over = Some(Over::Lost(at));
        }
        What::Killed if grant.over.is_none() => grant.over = Some(Over::Killed(at)),
        What::Downgrading { deadline } if grant.over.is_none() => {
            op.was_downgraded = true;
            grant.deadline = *deadline.max(&grant.leapt);
            grant.over = Some(Over::Released(at));
        }
        What::Release { deadline } if grant.over.is_none() => {
            grant.deadline = *deadline.max(&grant.leapt);
            grant.over = Some(Over::Released(at));
        }
        _ => {}
    }
}

/// The holder's clock leapt: by the common clock its deadline comes sooner.
fn leap(op: &mut Op, at: u64, by: u64) {
    if let Some(grant) = op.grant.as_mut().filter(|grant| grant.over.is_none()) {
        grant.leapt = at;
        grant.deadline = grant.deadline.saturating_sub(by).max(grant.leapt);
    }
}
