//! The commands that the scripts give.

use std::collections::{BTreeMap, HashMap};

use super::{Data, Reply, Store};

const WRITES: [&str; 9] = [
    "SET",
    "DEL",
    "PEXPIRE",
    "PEXPIREAT",
    "ZADD",
    "ZREM",
    "ZREMRANGEBYSCORE",
    "HSET",
    "HDEL",
];
/// Those that may need memory.
const GROWING: [&str; 3] = ["SET", "ZADD", "HSET"];

impl Store {
    /// Carries out one command of a script.
    pub(super) fn run(&mut self, words: &[Vec<u8>]) -> Reply {
        let verb = String::from_utf8_lossy(&words[0]).into_owned();
        if WRITES.contains(&verb.as_str()) {
            if self.replica && !self.dirty {
                return error("READONLY You can't write against a read only replica.");
            }
            if self.full && !self.dirty && GROWING.contains(&verb.as_str()) {
                return error("OOM command not allowed when used memory > 'maxmemory'.");
            }
            self.dirty = true;
        }
        let given: Vec<&[u8]> = words[1..].iter().map(Vec::as_slice).collect();
        self.carry_out(&verb, &given).unwrap_or_else(|reply| reply)
    }

    fn carry_out(&mut self, verb: &str, words: &[&[u8]]) -> Result<Reply, Reply> {
        let key = words.first().copied().unwrap_or_default();
        Ok(match (verb, words) {
            ("TIME", _) => {
                let (seconds, micros) = (self.now_us / 1_000_000, self.now_us % 1_000_000);
                Reply::Array(vec![bulk(seconds), bulk(micros)])
            }
            ("EXISTS", keys) => {
                let there = keys.iter().filter(|key| self.get(key).is_some());
                int(there.count())
            }
            ("GET", _) => match self.get(key) {
                Some((Data::Text(text), _)) => Reply::Bulk(text.clone()),
                Some(_) => return Err(wrong_type()),
                None => Reply::Nil,
            },
            ("SET", [_, value, options @ ..]) => self.set(key, value, options)?,
            ("DEL", keys) => {
                let gone = keys.iter().filter(|key| self.remove(key));
                int(gone.count())
            }
            ("PTTL", _) => match self.get(key) {
                None => Reply::Int(-2),
                Some((_, None)) => Reply::Int(-1),
                Some((_, Some(end))) => int(end - self.now_ms()),
            },
            ("PEXPIRE", [_, span]) => self.expire(key, self.now_ms() + unsigned(span)?),
            ("PEXPIREAT", [_, end]) => self.expire(key, unsigned(end)?),
            ("PUBLISH", [channel, message]) => {
                let count = i64::from(self.subscribed.contains(*channel));
                self.published
                    .push((channel.to_vec(), message.to_vec(), count));
                Reply::Int(count)
            }
            ("HGET" | "HSET" | "HDEL", _) => self.on_hash(verb, key, &words[1..])?,
            _ => self.on_sorted(verb, key, &words[1..])?,
        })
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[&[u8]]) -> Result<Reply, Reply> {
        let now = self.now_ms();
        let (mut end, mut old) = (None, Reply::Status("OK"));
        match options {
            [] => {}
            [b"GET"] => {
                old = match self.get(key) {
                    Some((Data::Text(text), _)) => Reply::Bulk(text.clone()),
                    Some(_) => return Err(wrong_type()),
                    None => Reply::Nil,
                }
            }
            [b"PX", span] => end = Some(now + unsigned(span)?),
            [b"PXAT", at] => end = Some(unsigned(at)?),
            other => return Err(error(&format!("ERR syntax error {other:?}"))),
        }
        self.put(key, Data::Text(value.to_vec()), end);
        Ok(old)
    }

    fn expire(&mut self, key: &[u8], end: u64) -> Reply {
        let now = self.now_ms();
        let there = self.get(key).is_some();
        if there && end <= now {
            self.remove(key);
        } else if there {
            self.keys.get_mut(key).unwrap().1 = Some(end);
        }
        Reply::Int(there.into())
    }

    fn on_hash(&mut self, verb: &str, key: &[u8], words: &[&[u8]]) -> Result<Reply, Reply> {
        let (mut fields, end) = match self.get(key).cloned() {
            None => (BTreeMap::new(), None),
            Some((Data::Hash(fields), end)) => (fields, end),
            Some(_) => return Err(wrong_type()),
        };
        let field = words[0];
        let reply = match verb {
            "HGET" => return Ok(fields.get(field).cloned().map_or(Reply::Nil, Reply::Bulk)),
            "HSET" => Reply::Int(
                fields
                    .insert(field.to_vec(), words[1].to_vec())
                    .is_none()
                    .into(),
            ),
            _ => Reply::Int(fields.remove(field).is_some().into()),
        };
        if fields.is_empty() {
            self.remove(key);
        } else {
            self.put(key, Data::Hash(fields), end);
        }
        Ok(reply)
    }

    fn on_sorted(&mut self, verb: &str, key: &[u8], words: &[&[u8]]) -> Result<Reply, Reply> {
        let (mut members, end) = match self.get(key).cloned() {
            None => (HashMap::new(), None),
            Some((Data::Sorted(members), end)) => (members, end),
            Some(_) => return Err(wrong_type()),
        };
        let sorted = self.sorted(key);
        let reply = match (verb, words) {
            ("ZCARD", _) => return Ok(int(members.len())),
            ("ZSCORE", [member]) => {
                return Ok(members.get(*member).map_or(Reply::Nil, bulk));
            }
            ("ZRANK", [member]) => {
                let rank = sorted.iter().position(|(it, _)| it == member);
                return Ok(rank.map_or(Reply::Nil, int));
            }
            ("ZCOUNT", [low, high]) => {
                let (low, high) = (signed(low)?, signed(high)?);
                let within = sorted
                    .iter()
                    .filter(|(_, score)| (low..=high).contains(score));
                return Ok(int(within.count()));
            }
            ("ZRANGE", [from, to, rest @ ..]) => return range(sorted, from, to, rest),
            ("ZREVRANGE", [from, to, rest @ ..]) => {
                return range(sorted.into_iter().rev().collect(), from, to, rest);
            }
            ("ZADD", [score, member]) => Reply::Int(
                members
                    .insert(member.to_vec(), signed(score)?)
                    .is_none()
                    .into(),
            ),
            ("ZREM", [member]) => Reply::Int(members.remove(*member).is_some().into()),
            ("ZREMRANGEBYSCORE", [b"-inf", below]) => {
                let below = below
                    .strip_prefix(b"(")
                    .ok_or_else(|| error("ERR not a bound"))?;
                let (below, before) = (signed(below)?, members.len());
                members.retain(|_, score| *score >= below);
                int(before - members.len())
            }
            other => return Err(error(&format!("ERR unknown command {other:?}"))),
        };
        if members.is_empty() {
            self.remove(key);
        } else {
            self.put(key, Data::Sorted(members), end);
        }
        Ok(reply)
    }
}

fn range(
    list: Vec<(Vec<u8>, i64)>,
    from: &[u8],
    to: &[u8],
    rest: &[&[u8]],
) -> Result<Reply, Reply> {
    let (from, to) = (usize::try_from(signed(from)?).unwrap(), signed(to)?);
    let count = usize::try_from(to + 1).unwrap_or(0).saturating_sub(from);
    let count = if to < 0 { usize::MAX } else { count };
    let with_scores = rest == [b"WITHSCORES"];
    let chosen = list.into_iter().skip(from).take(count);
    let items = chosen.flat_map(|(member, score)| {
        let score = with_scores.then(|| bulk(score));
        [Some(Reply::Bulk(member)), score].into_iter().flatten()
    });
    Ok(Reply::Array(items.collect()))
}

fn bulk(number: impl ToString) -> Reply {
    Reply::Bulk(number.to_string().into_bytes())
}

fn int(number: impl TryInto<i64, Error: std::fmt::Debug>) -> Reply {
    Reply::Int(number.try_into().unwrap())
}

fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

fn wrong_type() -> Reply {
    error("WRONGTYPE Operation against a key holding the wrong kind of value")
}

/// A whole number, as Redis wants it: `1.5` and `1e14` are errors.
fn signed(word: &[u8]) -> Result<i64, Reply> {
    let text = std::str::from_utf8(word).unwrap();
    text.parse()
        .map_err(|_| error(&format!("ERR value is not an integer: {text}")))
}

fn unsigned(word: &[u8]) -> Result<u64, Reply> {
    let number = u64::try_from(signed(word)?)
        .ok()
        .filter(|&number| number > 0);
    number.ok_or_else(|| error("ERR invalid expire time"))
}
