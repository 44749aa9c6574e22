//! Holders and waiters, for people and for programs.

use std::time::Duration;

use leasehold::{Holder, HolderKind, Mode, Owner, Status};
use serde_json::{Map, Value, json};

use super::nodes;
use crate::{duration, output::escape, time};

/// Who `holder` is and how long the entry lasts, in one line.
pub(crate) fn describe(holder: &Holder) -> String {
    let left = match holder.remaining {
        Some(left) => format!("{} left", duration::show(left)),
        None => "no expiry".into(),
    };
    let value = escape(&holder.value);
    match holder.kind {
        HolderKind::WrongType => format!("something that is no lock, {left}"),
        HolderKind::Kept => format!(
            "{}, released and kept for its minimum hold, {left}",
            who(&holder.value)
        ),
        HolderKind::Held => format!("{}, {left}", who(&holder.value)),
        _ => format!("another program ({value:?}), {left}"),
    }
}

/// Who owns `value`, for people.
pub(crate) fn who(value: &str) -> String {
    let Ok(owner) = Owner::parse(value) else {
        return format!("{:?}", escape(value));
    };
    let place = format!("process {} on {}", owner.pid(), escape(&owner.host()));
    match owner.label() {
        label if label.is_empty() => place,
        label => format!("{place} ({})", escape(&label)),
    }
}

/// `status` for people.
pub(crate) fn text(status: &Status) -> String {
    let name = escape(&status.name);
    let mut text = String::new();
    if status.holders.is_empty() {
        text.push_str(&format!("{name}: free\n"));
    }
    for holder in &status.holders {
        let how = how(holder.mode);
        text.push_str(&format!("{name}: {how} by {}", describe(holder)));
        if let Some(held) = holder.held_for {
            text.push_str(&format!(", since {}", duration::show(held)));
        }
        if let Some(number) = holder.token {
            text.push_str(&format!(", fencing token {number}"));
        }
        text.push_str(&format!("\n  owner {}\n", escape(&holder.value)));
        if let Some(note) = holder.note.as_ref().filter(|note| !note.is_empty()) {
            text.push_str(&format!("  says {:?}\n", escape(note)));
        }
    }
    for (place, waiter) in (1..).zip(&status.waiters) {
        let what = match waiter.mode {
            Mode::Exclusive => String::new(),
            mode => format!(" {}", wish(mode)),
        };
        text.push_str(&format!("  {place}. waits{what}: {}\n", who(&waiter.value)));
    }
    nodes::text(status, &mut text);
    text
}

/// How a name is held, for people.
fn how(mode: Mode) -> String {
    match mode {
        Mode::Read => "read".into(),
        Mode::Permit { limit, weight } => format!("{weight} of {limit} permits held"),
        _ => "held".into(),
    }
}

fn wish(mode: Mode) -> String {
    match mode {
        Mode::Read => "to read".into(),
        Mode::Permit { limit, weight } => format!("for {weight} of {limit} permits"),
        _ => "to hold it alone".into(),
    }
}

/// The mode in one word, for a table.
pub(crate) fn mode_word(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "exclusive".into(),
        Mode::Read => "read".into(),
        Mode::Permit { limit, weight } => format!("{weight}/{limit}"),
        _ => "?".into(),
    }
}

/// `status` for programs.
pub(crate) fn object(status: &Status) -> Map<String, Value> {
    let holders: Vec<Value> = status.holders.iter().map(holder).collect();
    let waiters = status.waiters.iter().map(|waiter| {
        let mut object = owner(&waiter.value);
        object.insert("mode".into(), mode(waiter.mode));
        object.insert("ticket".into(), waiter.ticket.into());
        object.insert("alive_for_ms".into(), millis(waiter.alive_for));
        Value::Object(object)
    });
    let mut object = Map::new();
    object.insert("name".into(), json!(status.name));
    object.insert("held".into(), (!status.is_free()).into());
    object.insert("holders".into(), holders.into());
    object.insert("waiters".into(), waiters.collect());
    nodes::object(status, &mut object);
    object
}

/// One holder for programs.
pub(super) fn holder(holder: &Holder) -> Value {
    let kind = match holder.kind {
        HolderKind::Held => "held",
        HolderKind::Kept => "kept",
        HolderKind::WrongType => "wrong-type",
        _ => "foreign",
    };
    let expires = holder.remaining.map(|left| moment(left, 1));
    let acquired = holder.held_for.map(|held| moment(held, -1));
    let mut object = owner(&holder.value);
    object.insert("kind".into(), json!(kind));
    object.insert("mode".into(), mode(holder.mode));
    object.insert(
        "fencing_token".into(),
        json!(holder.token.map(|token| token.get())),
    );
    object.insert("note".into(), json!(holder.note));
    object.insert("remaining_ms".into(), json!(holder.remaining.map(millis)));
    object.insert("expires_at".into(), json!(expires));
    object.insert("held_for_ms".into(), json!(holder.held_for.map(millis)));
    object.insert("acquired_at".into(), json!(acquired));
    Value::Object(object)
}

/// Who an owner is: host, process and label only where it is one of this product.
fn owner(value: &str) -> Map<String, Value> {
    let owner = Owner::parse(value).ok();
    let mut object = Map::new();
    object.insert("owner".into(), json!(value));
    object.insert("host".into(), json!(owner.as_ref().map(Owner::host)));
    object.insert("pid".into(), json!(owner.as_ref().map(Owner::pid)));
    object.insert("label".into(), json!(owner.as_ref().map(Owner::label)));
    object
}

fn mode(mode: Mode) -> Value {
    match mode {
        Mode::Exclusive => json!("exclusive"),
        Mode::Read => json!("read"),
        Mode::Permit { limit, weight } => json!({ "permits": weight, "of": limit }),
        _ => Value::Null,
    }
}

/// A duration in whole milliseconds.
pub(crate) fn millis(span: Duration) -> Value {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX).into()
}

/// The moment `span` from now, forward or back, as RFC 3339 in UTC, to the millisecond.
pub(crate) fn moment(span: Duration, direction: i64) -> Option<String> {
    let millis = i64::try_from(span.as_millis())
        .ok()?
        .checked_mul(direction)?;
    let at = time::wall().as_millisecond().checked_add(millis)?;
    let at = jiff::Timestamp::from_millisecond(at).ok()?;
    Some(format!("{at:.3}"))
}
