//! What the scripts answer, as values of this crate.

use std::time::Duration;

use leasehold_core::{
    Attempt, FencingToken, Grant, Held, Holder, HolderKind, Mode, Owner, Queued, Released, Renewed,
    Request, Status, Ttl, Waiting,
};
use redis::Value;

use super::{
    failure,
    form::{self, Form, SharedMember},
    several,
};
use crate::backend::{
    Failure,
    node::{Given, Seen, Slots, Vote},
};

/// What acquire.lua answered, and the server's time in ms where it told.
pub(super) fn attempt(reply: &Value, request: &Request) -> Result<(Attempt, Option<u64>), Failure> {
    if let Value::BulkString(token) = reply {
        let token = text(token).and_then(form::read_token);
        let token = token.ok_or_else(|| odd("acquire", reply))?;
        let grant = Grant::new(token, several::first_ttl(request));
        return Ok((Attempt::Granted(grant), None));
    }
    let parts = array(reply).ok_or_else(|| odd("acquire", reply))?;
    match parts.first().and_then(string) {
        Some("held") => held(parts).ok_or_else(|| odd("acquire", reply)),
        Some("conflict") => {
            let limit = parts.get(1).and_then(number);
            let limit = limit.and_then(|limit| u32::try_from(limit).ok());
            let limit = limit.ok_or_else(|| odd("acquire", reply))?;
            Ok((Attempt::Conflict { limit }, None))
        }
        Some("ended") => Ok((Attempt::Ended, None)),
        _ => Err(odd("acquire", reply)),
    }
}

/// What vote.lua answered to so many bids.
pub(super) fn vote(reply: &Value, count: usize) -> Result<Vote, Failure> {
    let odd = || odd("vote", reply);
    if let Value::BulkString(token) = reply {
        let token = text(token).and_then(form::read_token).ok_or_else(odd)?;
        let slots = Slots::default();
        return Ok(Vote::Granted(vec![Given { token, slots }]));
    }
    let parts = array(reply).ok_or_else(odd)?;
    if parts.first().and_then(string) == Some("held") {
        return match held(parts) {
            Some((Attempt::Held(held), _)) => Ok(Vote::Held(held)),
            _ => Err(odd()),
        };
    }
    let given: Option<Vec<Given>> = parts.iter().map(given).collect();
    let given = given.filter(|given| given.len() == count);
    given.map(Vote::Granted).ok_or_else(odd)
}

fn given(part: &Value) -> Option<Given> {
    let [token, slots] = array(part)? else {
        return None;
    };
    Some(Given {
        token: string(token).and_then(form::read_token)?,
        slots: Slots::new(string(slots)?)?,
    })
}

/// What meet.lua answered: the server's time in µs, and the lists.
pub(super) fn met(reply: &Value) -> Result<(u64, Vec<Seen>), Failure> {
    let read = || {
        let (now, lists) = array(reply)?.split_first()?;
        let ago = |ms: &Value| millis(number(ms)?);
        let list = |seen: &Value| {
            let [list, first, last] = array(seen)? else {
                return None;
            };
            Some(Seen {
                list: string(list)?.into(),
                first: ago(first)?,
                last: ago(last)?,
            })
        };
        let lists: Option<Vec<Seen>> = lists.iter().map(list).collect();
        Some((u64::try_from(number(now)?).ok()?, lists?))
    };
    read().ok_or_else(|| odd("meet", reply))
}

/// The slots of `owner` in what inspect.lua answered, if it is a shared holder.
pub(super) fn slots(reply: &Value, owner: &Owner) -> Result<Option<Slots>, Failure> {
    let members = array(reply).and_then(|parts| parts.get(4)).and_then(pairs);
    let members = members.ok_or_else(|| odd("inspect", reply))?;
    let mut members = members.filter_map(|(member, _)| SharedMember::read(member));
    let mine = members.find(|member| member.owner == *owner && !member.kept);
    Ok(mine.and_then(|member| Slots::new(&member.slots)))
}

fn held(parts: &[Value]) -> Option<(Attempt, Option<u64>)> {
    let [_, ms, place, ticket, now, value, remaining, member, kind] = parts else {
        return None;
    };
    let change_in = millis(number(ms)?)?;
    let now = u64::try_from(number(now)?).ok()?;
    let remaining = millis(number(remaining)?);
    let value = data(value)?;
    let holder = match (string(kind)?, Form::read(value)) {
        ("free", _) => None,
        ("wrong", _) => Some(wrong_type(String::new(), remaining)),
        (_, Form::Shared(limit, token)) => SharedMember::read(data(member)?)
            .map(|member| member.holder(limit, token, remaining.unwrap_or_default())),
        _ => form::holder(value, remaining, now.saturating_mul(1000)),
    };
    let attempt = match u32::try_from(number(place)?) {
        Ok(place) => {
            let ticket = u64::try_from(number(ticket)?).ok()?;
            Attempt::Queued(Queued::new(place, ticket, change_in, holder))
        }
        Err(_) => Attempt::Held(Held::new(change_in, holder)),
    };
    Some((attempt, Some(now)))
}

/// What acquire_all.lua answered to `count` requests.
pub(super) fn tokens(reply: &Value, count: usize) -> Result<Option<Vec<FencingToken>>, Failure> {
    if number(reply) == Some(0) {
        return Ok(None);
    }
    let tokens = array(reply).filter(|tokens| tokens.len() == count);
    let read = |token| string(token).and_then(form::read_token);
    let tokens = tokens.and_then(|tokens| tokens.iter().map(read).collect());
    tokens.map(Some).ok_or_else(|| odd("acquire_all", reply))
}

/// What release.lua answered, and why waiters that fit were left.
pub(super) fn released(reply: &Value) -> Result<(Released, Option<String>), Failure> {
    let (result, reason) = match array(reply) {
        Some([result, reason]) => (number(result), string(reason).map(Into::into)),
        _ => (number(reply), None),
    };
    match result {
        Some(0) => Ok((Released::NotOurs, reason)),
        Some(1) => Ok((Released::Released, reason)),
        Some(2) => Ok((Released::Kept, reason)),
        _ => Err(odd("release", reply)),
    }
}

/// What renew.lua or renew_shared.lua answered, one for each TTL asked for.
pub(super) fn renewed(reply: &Value, ttls: &[Ttl]) -> Result<Vec<Renewed>, Failure> {
    let letters = data(reply).filter(|letters| letters.len() == ttls.len());
    let letters = letters.ok_or_else(|| odd("renew", reply))?;
    let read = |(letter, ttl): (&u8, &Ttl)| match letter {
        b'r' => Ok(Renewed::Renewed(*ttl)),
        b'n' => Ok(Renewed::NotOurs),
        b'm' => Ok(Renewed::Missing),
        _ => Err(odd("renew", reply)),
    };
    letters.iter().zip(ttls).map(read).collect()
}

/// What inspect.lua answered, and whether the lock's key looks like a lock: it has a known form,
/// or is a string that expires.
pub(super) fn status(reply: &Value, name: &str) -> Result<(Status, bool), Failure> {
    read_status(reply, name).ok_or_else(|| odd("inspect", reply))
}

fn read_status(reply: &Value, name: &str) -> Option<(Status, bool)> {
    let [kind, value, remaining, now, members, queue, wants, notes] = array(reply)? else {
        return None;
    };
    let (kind, value) = (string(kind)?, data(value)?);
    let remaining = millis(number(remaining)?);
    let now = u64::try_from(number(now)?).ok()?;
    let form = Form::read(value);
    let known = form != Form::Foreign;
    let mut notes = array(notes)?
        .iter()
        .map(|note| string(note).map(Into::into));
    let holders = match (kind, form) {
        ("none", _) => Vec::new(),
        ("string", Form::Shared(limit, token)) => pairs(members)?
            .zip(notes)
            .filter_map(|((member, expiry), note)| {
                let left = left(expiry, now)?;
                let mut holder = SharedMember::read(member)?.holder(limit, token, left);
                holder.note = note;
                Some(holder)
            })
            .collect(),
        ("string", _) => form::holder(value, remaining, now)
            .into_iter()
            .map(|mut holder| {
                holder.note = notes.next().flatten();
                holder
            })
            .collect(),
        _ => vec![wrong_type(kind.into(), remaining)],
    };
    let waiters = pairs(queue)?
        .zip(array(wants)?)
        .filter_map(|((owner, ticket), want)| waiting(owner, ticket, want, now))
        .collect();
    let status = Status::new(name.into(), holders, waiters);
    Some((status, known || (kind == "string" && remaining.is_some())))
}

fn waiting(owner: &[u8], ticket: u64, want: &Value, now: u64) -> Option<Waiting> {
    let owner = Owner::parse(text(owner)?).ok()?;
    let mut fields = string(want)?.splitn(9, '|');
    let mode = fields.next()?;
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (limit, weight) = (
        u32::try_from(number()?).ok()?,
        u32::try_from(number()?).ok()?,
    );
    let (_ttl, _hold, alive) = (number()?, number()?, number()?);
    let mode = match (mode, limit) {
        ("x", _) => Mode::Exclusive,
        (_, 0) => Mode::Read,
        _ => Mode::Permit { limit, weight },
    };
    Some(Waiting::new(&owner, mode, ticket, left(alive, now)?))
}

/// How long until `at_millis`, unless that is past.
fn left(at_millis: u64, now_micros: u64) -> Option<Duration> {
    let micros = at_millis
        .checked_mul(1000)?
        .checked_sub(now_micros / 1000 * 1000)?;
    Some(Duration::from_micros(micros))
}

const fn wrong_type(kind: String, remaining: Option<Duration>) -> Holder {
    Holder::foreign(HolderKind::WrongType, kind, remaining)
}

/// A list of texts each followed by a number.
fn pairs(list: &Value) -> Option<impl Iterator<Item = (&[u8], u64)>> {
    fn read(pair: &[Value]) -> Option<(&[u8], u64)> {
        let [member, score] = pair else { return None };
        Some((data(member)?, u64::try_from(number(score)?).ok()?))
    }
    Some(array(list)?.chunks(2).filter_map(read))
}

fn odd(script: &str, reply: &Value) -> Failure {
    failure::garbage(&format!("{script}: {reply:?}"))
}

pub(super) fn array(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

pub(super) fn data(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        _ => None,
    }
}

pub(super) fn string(value: &Value) -> Option<&str> {
    text(data(value)?)
}

pub(super) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => string(value)?.parse().ok(),
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Redis counts milliseconds, and says -1 for "never" and -2 for "absent".
fn millis(count: i64) -> Option<Duration> {
    u64::try_from(count).ok().map(Duration::from_millis)
}
