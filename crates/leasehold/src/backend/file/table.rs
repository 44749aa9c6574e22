//! Rows to entries and back.

use std::{collections::HashMap, sync::Arc, time::Duration};

use leasehold_core::{
    FencingToken, Instant, Mode, Owner, Ttl,
    entry::{Entry, Member, Waiter},
};
use rusqlite::{Connection, Result, Row, params, types::Type};

/// Reads the entry of `name`.
pub(super) fn load(connection: &Connection, name: &str) -> Result<Entry> {
    let mut holders = connection.prepare_cached(
        "SELECT owner, mode, permits, permit_limit, fencing_token, granted_ns, expires_ns,
                hold_until_ns, kept, session, note
         FROM holders WHERE name = ? ORDER BY granted_ns, owner",
    )?;
    let mut waiters = connection.prepare_cached(
        "SELECT owner, mode, permits, permit_limit, ttl_ms, min_hold_ms, ticket, alive_until_ns,
                seq, session
         FROM waiters WHERE name = ? ORDER BY ticket, owner",
    )?;
    Ok(Entry {
        members: holders.query_map([name], member)?.collect::<Result<_>>()?,
        queue: waiters.query_map([name], waiter)?.collect::<Result<_>>()?,
    })
}

/// Writes what is different in `after`.
pub(super) fn store(
    connection: &Connection,
    name: &str,
    before: &Entry,
    after: &Entry,
) -> Result<()> {
    let kept: HashMap<_, _> = after.members.iter().map(|it| (&it.owner, it)).collect();
    for gone in before
        .members
        .iter()
        .filter(|it| !kept.contains_key(&it.owner))
    {
        connection
            .prepare_cached("DELETE FROM holders WHERE name = ? AND owner = ?")?
            .execute([name, gone.owner.as_str()])?;
    }
    let known: HashMap<_, _> = before.members.iter().map(|it| (&it.owner, it)).collect();
    for member in &after.members {
        if known.get(&member.owner) != Some(&member) {
            put_member(connection, name, member)?;
        }
    }
    store_queue(connection, name, &before.queue, &after.queue)
}

/// Walks along both queues at once: they are ordered by ticket, and a long one differs little.
fn store_queue(
    connection: &Connection,
    name: &str,
    before: &[Waiter],
    after: &[Waiter],
) -> Result<()> {
    let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
    loop {
        match (old.peek(), new.peek()) {
            (Some(left), Some(right))
                if (left.ticket, &left.owner) == (right.ticket, &right.owner) =>
            {
                if left != right {
                    put_waiter(connection, name, right)?;
                }
                old.next();
                new.next();
            }
            (Some(left), right) if right.is_none_or(|right| left.ticket <= right.ticket) => {
                connection
                    .prepare_cached(
                        "DELETE FROM waiters WHERE name = ? AND ticket = ? AND owner = ?",
                    )?
                    .execute(params![name, number(left.ticket), left.owner.as_str()])?;
                old.next();
            }
            (_, Some(right)) => {
                put_waiter(connection, name, right)?;
                new.next();
            }
            (_, None) => return Ok(()),
        }
    }
}

/// Up to `limit` names from `from` on, in the order of their bytes; `from` itself only when
/// `inclusive`.
pub(super) fn names(
    connection: &Connection,
    from: &str,
    inclusive: bool,
    limit: usize,
) -> Result<Vec<String>> {
    let mut names = connection.prepare_cached(
        "SELECT name FROM holders WHERE name >= ?1 AND (?2 OR name > ?1)
         UNION SELECT name FROM waiters WHERE name >= ?1 AND (?2 OR name > ?1)
         ORDER BY name LIMIT ?3",
    )?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = names.query_map(params![from, inclusive, limit], |row| row.get(0))?;
    rows.collect()
}

/// The owners that hold `name`, and the sessions that it hangs on: theirs, and that of the first
/// who waits.
pub(super) fn bonds(connection: &Connection, name: &str) -> Result<(Vec<String>, Vec<String>)> {
    let mut bonds = connection.prepare_cached(
        "SELECT owner, session FROM holders WHERE name = ?1
         UNION ALL
         SELECT NULL, session FROM
             (SELECT session FROM waiters WHERE name = ?1 ORDER BY ticket, owner LIMIT 1)",
    )?;
    let mut rows = bonds.query([name])?;
    let (mut owners, mut sessions) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next()? {
        owners.extend(row.get::<_, Option<String>>(0)?);
        sessions.extend(row.get::<_, Option<String>>(1)?);
    }
    Ok((owners, sessions))
}

/// Calls `see` with the name, the session and the end of every row until it answers `false`.
pub(super) fn each_row(
    connection: &Connection,
    mut see: impl FnMut(String, Option<String>, Instant) -> bool,
) -> Result<()> {
    let mut all = connection.prepare(
        "SELECT name, session, expires_ns FROM holders
         UNION ALL SELECT name, session, alive_until_ns FROM waiters",
    )?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        if !see(row.get(0)?, row.get(1)?, instant(row, 2)?) {
            break;
        }
    }
    Ok(())
}

fn put_member(connection: &Connection, name: &str, member: &Member) -> Result<()> {
    let (mode, permits, limit) = words(member.mode);
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO holders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            name,
            member.owner.as_str(),
            mode,
            permits,
            limit,
            number(member.token.get()),
            number(member.granted.as_nanos()),
            number(member.expires.as_nanos()),
            number(member.hold_until.as_nanos()),
            member.kept,
            member.session.as_deref(),
            member.note,
        ])?;
    Ok(())
}

fn put_waiter(connection: &Connection, name: &str, waiter: &Waiter) -> Result<()> {
    let (mode, permits, limit) = words(waiter.mode);
    let whole = |span: Duration| {
        let millis = span.as_nanos().div_ceil(1_000_000);
        i64::try_from(millis).unwrap_or(i64::MAX)
    };
    connection
        .prepare_cached("INSERT OR REPLACE INTO waiters VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?
        .execute(params![
            name,
            number(waiter.ticket),
            waiter.owner.as_str(),
            mode,
            permits,
            limit,
            number(waiter.ttl.as_millis()),
            waiter.min_hold.map(whole),
            number(waiter.alive_until.as_nanos()),
            waiter.seq,
            waiter.session.as_deref(),
        ])?;
    Ok(())
}

fn member(row: &Row<'_>) -> Result<Member> {
    let token = FencingToken::new(unsigned(row, 4)?).map_err(|error| odd(4, error))?;
    let (granted, expires) = (instant(row, 5)?, instant(row, 6)?);
    let mut member = Member::new(owner(row)?, mode(row)?, token, granted, expires);
    member.hold_until = instant(row, 7)?;
    member.kept = row.get(8)?;
    member.session = row.get::<_, Option<Arc<str>>>(9)?;
    member.note = row.get(10)?;
    Ok(member)
}

fn waiter(row: &Row<'_>) -> Result<Waiter> {
    let ttl = Ttl::from_millis(unsigned(row, 4)?).map_err(|error| odd(4, error))?;
    let (ticket, alive_until) = (unsigned(row, 6)?, instant(row, 7)?);
    let mut waiter = Waiter::new(owner(row)?, mode(row)?, ttl, ticket, alive_until);
    let min_hold: Option<i64> = row.get(5)?;
    waiter.min_hold = min_hold
        .map(|it| u64::try_from(it).map_err(|error| odd(5, error)))
        .transpose()?
        .map(Duration::from_millis);
    waiter.seq = row.get(8)?;
    waiter.session = row.get::<_, Option<Arc<str>>>(9)?;
    Ok(waiter)
}

fn owner(row: &Row<'_>) -> Result<Owner> {
    Owner::parse(row.get_ref(0)?.as_str()?).map_err(|error| odd(0, error))
}

fn mode(row: &Row<'_>) -> Result<Mode> {
    match row.get_ref(1)?.as_str()? {
        "read" => Ok(Mode::Read),
        "permits" => Mode::permits(row.get(3)?, row.get(2)?).map_err(|error| odd(2, error)),
        _ => Ok(Mode::Exclusive),
    }
}

const fn words(mode: Mode) -> (&'static str, Option<u32>, Option<u32>) {
    match mode {
        Mode::Read => ("read", None, None),
        Mode::Permit { limit, weight } => ("permits", Some(weight), Some(limit)),
        _ => ("exclusive", None, None),
    }
}

fn instant(row: &Row<'_>, column: usize) -> Result<Instant> {
    unsigned(row, column).map(Instant::from_nanos)
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    u64::try_from(row.get::<_, i64>(column)?).map_err(|error| odd(column, error))
}

/// As SQLite stores numbers. What does not fit is centuries away.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn odd(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
