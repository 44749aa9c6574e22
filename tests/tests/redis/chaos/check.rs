//! What must hold after every call and after every step.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Ask, Call, NAMES, Op, Phase, Reply, Verdict, World, text};
use leasehold_tests::simulated::Data;

/// What the checks remember of the past.
#[derive(Default)]
pub(super) struct Seen {
    /// Under which fencing token and when, in ms, an owner was last granted.
    granted: HashMap<String, (u64, u64)>,
    /// Owners whose release was carried out and no attempt since.
    released: HashSet<String>,
    tokens: [u64; NAMES],
    queues: [Vec<String>; NAMES],
    holders: [Vec<String>; NAMES],
}

impl Seen {
    /// Takes down the grants that were published and received.
    pub(super) fn note_granted(&mut self, published: &[(Vec<u8>, Vec<u8>, i64)]) {
        for (owner, token) in grants(published, true) {
            self.granted.insert(owner, (token, 0));
        }
    }
}

/// What the server has of one name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) value: Option<String>,
    /// In ms.
    end: Option<u64>,
    /// Readers and permit holders whose time is not over; none unless the lock is shared.
    pub(super) members: Vec<(String, u64)>,
    queue: Vec<String>,
    waiters: BTreeMap<String, Vec<String>>,
}

impl Picture {
    fn token(&self) -> Option<u64> {
        let value = self.value.as_ref()?;
        let ours = value.starts_with('~') || value.matches(';').count() == 4;
        ours.then(|| value.rsplit(';').next()?.parse().ok())
            .flatten()
    }

    /// The owners that hold it, released ones aside.
    fn holders(&self) -> Vec<String> {
        let value = self.value.as_deref().unwrap_or_default();
        if value.starts_with("~shared") {
            let members = self
                .members
                .iter()
                .filter(|(it, _)| !it.starts_with("~kept"));
            return members.map(|(member, _)| owner_of(member)).collect();
        }
        let held = self.token().is_some() && !value.starts_with('~');
        held.then(|| owner_of(value)).into_iter().collect()
    }

    /// Until when `op` holds, and under which fencing token.
    fn life(&self, op: &Op) -> Option<(u64, u64)> {
        let token = self.token()?;
        let end = if op.shared {
            let member = |it: &&(String, u64)| it.0.split('@').next() == Some(&op.member());
            self.members.iter().find(member)?.1
        } else {
            let value = self.value.as_ref()?;
            value.strip_prefix(op.owner.as_str())?;
            self.end?
        };
        Some((end, token))
    }

    /// Whether the first waiter could have it.
    fn fits(&self, record: &[String]) -> bool {
        let Some(value) = &self.value else {
            return true;
        };
        let Some(limit) = value.strip_prefix("~shared:") else {
            return false;
        };
        let limit: u64 = limit.split(';').next().unwrap().parse().unwrap();
        let number = |at: usize| -> u64 { record[at].parse().unwrap() };
        let room = limit == 0 || self.weight() + number(2) <= limit;
        record[0] == "s" && number(1) == limit && room
    }

    fn weight(&self) -> u64 {
        let weight = |member: &str| -> u64 {
            let tail = &member[member.rfind(';').unwrap() + 1..];
            tail.split('@').next().unwrap().parse().unwrap()
        };
        self.members.iter().map(|(member, _)| weight(member)).sum()
    }
}

fn owner_of(text: &str) -> String {
    text[..=text.rfind(';').unwrap()].to_owned()
}

/// The grants among what was published, that somebody received or that nobody did.
fn grants(published: &[(Vec<u8>, Vec<u8>, i64)], heard: bool) -> Vec<(String, u64)> {
    let chosen = published.iter().filter(|(.., count)| (*count > 0) == heard);
    let messages = chosen.map(|(_, message, _)| String::from_utf8_lossy(message).into_owned());
    messages
        .filter_map(|message| {
            let words: Vec<&str> = message.split(' ').collect();
            (words[0] == "granted").then(|| (words[3].to_owned(), words[1].parse().unwrap()))
        })
        .collect()
}

impl World {
    pub(super) fn picture(&self, name: usize) -> Picture {
        let keys = &self.keys[name];
        let store = self.server.store();
        let now = store.now_ms();
        let value = store.text(keys.lock.as_bytes());
        let value = value.map(|text| String::from_utf8_lossy(text).into_owned());
        let shared = value
            .as_ref()
            .is_some_and(|value| value.starts_with("~shared"));
        let string = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let members = store
            .sorted(keys.held.as_bytes())
            .into_iter()
            .filter_map(|(member, end)| {
                let end = u64::try_from(end).unwrap();
                (shared && end >= now).then(|| (string(member), end))
            });
        let queue = store.sorted(keys.queue.as_bytes()).into_iter();
        let records = store
            .hash(keys.waiters.as_bytes())
            .into_iter()
            .map(|(owner, record)| {
                let record = string(record).split('|').map(String::from).collect();
                (string(owner), record)
            });
        Picture {
            end: store.get(keys.lock.as_bytes()).and_then(|(_, end)| *end),
            members: members.collect(),
            queue: queue.map(|(owner, _)| string(owner)).collect(),
            waiters: records.collect(),
            value,
        }
    }

    /// Whether a call did what it should.
    pub(super) fn judge(
        &mut self,
        call: &Call,
        before: &Picture,
        reply: &Reply,
        published: &[(Vec<u8>, Vec<u8>, i64)],
    ) -> Verdict {
        let op = self.ops[call.op].clone();
        let after = self.picture(op.name);
        let now = self.now() / 1000;
        let owner = op.owner.to_string();
        let (full, replica) = self.server.refuses();
        let around = (&call, &before, &after, &reply, &op);
        let failed = matches!(reply, Reply::Error(_));
        if replica && !failed {
            return self.complain("a replica decides nothing", around);
        }
        if failed && !(replica || full && matches!(call.ask, Ask::Acquire { .. })) {
            return self.complain("a server that can serve does", around);
        }
        if failed {
            return Ok(());
        }
        self.judge_grants(published, &after, &around)?;
        let shortened = before.value == after.value && after.end < before.end;
        if shortened && !matches!(call.ask, Ask::Release { .. }) {
            return self.complain("only a release shortens a lease", around);
        }
        match call.ask {
            Ask::Acquire { wait, .. } => {
                self.seen.released.remove(&owner);
                if let Reply::Bulk(_) = reply {
                    let token: u64 = text(reply).parse().unwrap();
                    if after
                        .life(&op)
                        .is_none_or(|life| life < (now + op.ttl, token))
                    {
                        return self.complain("a grant is for a full TTL from its call", around);
                    }
                    if before.life(&op).is_none() {
                        self.seen.granted.insert(owner, (token, now));
                    }
                } else if !wait && !before.queue.contains(&owner) && after.queue.contains(&owner) {
                    return self.complain("a try does not queue", around);
                }
                self.judge_place(&op, reply, &after)?;
            }
            Ask::Renew => {
                let ours = before.life(&op).is_some_and(|life| life.1 == op.token);
                let renewed = text(reply) == "r";
                let lasts = after.life(&op).is_some_and(|life| life.0 >= now + op.ttl);
                if renewed != ours || renewed && !lasts {
                    return self.complain("a renewal lengthens this lease and no other", around);
                }
            }
            Ask::Release { hold } => {
                let held = before.holders().contains(&owner);
                let result = match reply {
                    Reply::Array(parts) => text(&parts[0]),
                    reply => text(reply),
                };
                if (result != "0") != held {
                    return self.complain("a release says whether it was held", around);
                }
                if after.holders().contains(&owner) || after.queue.contains(&owner) {
                    return self.complain("after a release nothing is left of the owner", around);
                }
                let granted = self.seen.granted.get(&owner).map_or(0, |granted| granted.1);
                if held && granted + hold > now + 1 {
                    self.kept[op.name] = self.kept[op.name].max(granted + hold);
                }
                self.seen.released.insert(owner);
            }
        }
        Ok(())
    }

    /// Whether a waiter that was in the queue before is in its old place. Another may have the same
    /// ticket, where a queue was lost: then it is the next one. It is alive for its patience.
    fn judge_place(&self, op: &Op, reply: &Reply, after: &Picture) -> Verdict {
        let Reply::Array(parts) = reply else {
            return Ok(());
        };
        let ticket = parts.get(3).and_then(|it| text(it).parse::<u64>().ok());
        if op.ticket > 0 && ticket.is_some_and(|ticket| ticket > op.ticket + 100) {
            return self.complain("an old ticket keeps its place", (op, reply, after));
        }
        let record = after.waiters.get(op.owner.as_str());
        let alive = record.map(|record| record[5].parse::<u64>().unwrap());
        if text(&parts[0]) == "held"
            && op.phase == Phase::Waiting
            && alive.is_some_and(|alive| alive < self.now() / 1000 + op.patience)
        {
            return self.complain("who asks is alive for its patience", (op, reply, after));
        }
        Ok(())
    }

    /// Whether the grants that were published are written if, and only if, they were heard.
    fn judge_grants(
        &mut self,
        published: &[(Vec<u8>, Vec<u8>, i64)],
        after: &Picture,
        around: &impl std::fmt::Debug,
    ) -> Verdict {
        let now = self.now() / 1000;
        for (waiter, token) in grants(published, true) {
            let Some(granted) = self.ops.iter().rfind(|it| it.owner.as_str() == waiter) else {
                continue;
            };
            if after
                .life(granted)
                .is_none_or(|life| life < (now + granted.ttl, token))
            {
                return self.complain("a grant that was heard is written", around);
            }
            self.seen.granted.insert(waiter, (token, now));
        }
        for (waiter, _) in grants(published, false) {
            if after.holders().contains(&waiter) {
                return self.complain("a grant that nobody heard is not written", around);
            }
        }
        Ok(())
    }

    /// Whether the server and the clients agree.
    pub(super) fn check(&mut self) -> Verdict {
        for name in 0..NAMES {
            let picture = self.picture(name);
            self.check_guards(name, &picture)?;
            self.check_forms(name, &picture)?;
            self.check_order(name, &picture)?;
            self.check_idle(name, &picture)?;
        }
        Ok(())
    }

    fn check_guards(&self, name: usize, picture: &Picture) -> Verdict {
        let now = self.now();
        let recent = &self.ops[self.ops.len().saturating_sub(300)..];
        let alive = |op: &&Op| self.clients[op.client].alive;
        let valid: Vec<&Op> = recent
            .iter()
            .filter(|op| op.name == name && op.is_valid(now))
            .filter(alive)
            .collect();
        let alone = valid.iter().filter(|op| !op.shared).count();
        let mixed = valid.iter().any(|op| op.limit != valid[0].limit);
        let weight: u64 = valid.iter().map(|op| op.weight).sum();
        let crowded = valid
            .first()
            .is_some_and(|op| op.limit > 0 && weight > op.limit);
        if alone > 1 || alone == 1 && valid.len() > 1 || mixed || crowded {
            return self.complain("guards exclude each other", (valid, picture));
        }
        for op in valid {
            let Some((end, token)) = picture.life(op) else {
                return self.complain("what a guard believes in is there", (op, picture));
            };
            if token != op.token {
                return self.complain("a guard has the fencing token in force", (op, picture));
            }
            if op.deadline > (end + 1) * 1000 {
                return self.complain("no guard outlives its lease", (op, picture));
            }
        }
        Ok(())
    }

    fn check_forms(&mut self, name: usize, picture: &Picture) -> Verdict {
        let now = self.now() / 1000;
        if let Some(token) = picture.token() {
            if token < self.seen.tokens[name] || token > 1 << 53 {
                return self.complain("fencing tokens rise", (self.seen.tokens[name], picture));
            }
            self.seen.tokens[name] = token;
            if picture.end.is_none() {
                return self.complain("every lease ends", picture);
            }
        }
        if let Some(limit) = picture
            .value
            .as_ref()
            .and_then(|it| it.strip_prefix("~shared:"))
        {
            let limit: u64 = limit.split(';').next().unwrap().parse().unwrap();
            if limit > 0 && picture.weight() > limit {
                return self.complain("no more permits than there are", picture);
            }
            if picture.end != picture.members.iter().map(|(_, end)| *end).max() {
                return self.complain("a shared lock lives as long as its holders", picture);
            }
            let token = picture.token();
            for owner in picture.holders() {
                if self.seen.granted.get(&owner).map(|granted| granted.0) != token {
                    return self.complain("holders are of the phase in force", (owner, picture));
                }
            }
        }
        for owner in picture.holders().iter().chain(&picture.queue) {
            if self.seen.released.contains(owner) {
                return self.complain("who released does not come back", (owner, picture));
            }
        }
        if !picture
            .queue
            .iter()
            .all(|owner| picture.waiters.contains_key(owner))
            || picture.queue.len() != picture.waiters.len()
        {
            return self.complain("the queue and its records agree", picture);
        }
        if now < self.kept[name] && picture.value.is_none() && self.strangers[name].is_none() {
            return self.complain("a minimum hold is kept", (self.kept[name], picture));
        }
        let store = self.server.store();
        let keys = &self.keys[name];
        for key in [&keys.queue, &keys.waiters, &keys.held] {
            if store
                .get(key.as_bytes())
                .is_some_and(|(_, end)| end.is_none())
            {
                drop(store);
                return self.complain("companions end", (name, picture));
            }
        }
        if let Some((data, end)) = &self.strangers[name]
            && end.is_none_or(|end| now <= end)
            && store.get(keys.lock.as_bytes()) != Some(&(data.clone(), *end))
        {
            drop(store);
            return self.complain("what strangers put there is left alone", (data, picture));
        }
        Ok(())
    }

    /// Whether an owner is one of a client that lives, that still waits and is heard of.
    fn lives(&self, owner: &str, picture: &Picture) -> bool {
        let Some(record) = picture.waiters.get(owner) else {
            return false;
        };
        let op = self.ops.iter().rfind(|op| op.owner.as_str() == owner);
        let here = op.is_some_and(|op| op.phase == Phase::Waiting && self.clients[op.client].alive);
        here && record[5].parse::<u64>().unwrap() >= self.now() / 1000
    }

    fn check_order(&mut self, name: usize, picture: &Picture) -> Verdict {
        let holders = picture.holders();
        let queue = std::mem::replace(&mut self.seen.queues[name], picture.queue.clone());
        let before = std::mem::replace(&mut self.seen.holders[name], holders.clone());
        let ticket = |owner: &String| {
            let op = self.ops.iter().rfind(|op| op.owner.as_str() == owner);
            op.map_or(0, |op| op.ticket)
        };
        for owner in holders.iter().filter(|owner| !before.contains(owner)) {
            let place = queue.iter().position(|it| it == owner);
            let ahead = &queue[..place.unwrap_or(queue.len())];
            let overtaken = ahead.iter().find(|it| {
                picture.queue.contains(it)
                    && self.lives(it, picture)
                    && (place.is_some() || ticket(owner) == 0 || ticket(it) < ticket(owner))
                    && (place.is_some() || picture.queue.first() == Some(it))
            });
            if let Some(overtaken) = overtaken {
                return self.complain("first come, first served", (overtaken, owner, picture));
            }
        }
        Ok(())
    }

    /// A lock that is to be had for the first waiter must not stay so.
    fn check_idle(&self, name: usize, picture: &Picture) -> Verdict {
        let now = self.now();
        let Some(first) = picture.queue.first() else {
            return Ok(());
        };
        let fits = picture.fits(&picture.waiters[first]) && self.strangers_gone(name);
        let waiting: Vec<&Op> = picture
            .queue
            .iter()
            .filter(|owner| self.lives(owner, picture))
            .filter_map(|owner| self.ops.iter().rfind(|op| op.owner.as_str() == owner))
            .collect();
        if !fits || waiting.is_empty() {
            return Ok(());
        }
        // Who withdraws serves the others with that.
        let asked = self
            .clients
            .iter()
            .filter(|client| client.alive)
            .any(|client| {
                let mut calls = client.line.iter();
                calls.any(|call| picture.queue.contains(&self.ops[call.op].owner.to_string()))
            });
        let due = waiting.iter().filter_map(|op| {
            let pushes = &self.clients[op.client].pushes;
            let told = pushes.iter().any(|push| push.contains(op.owner.as_str()));
            if told || asked { Some(now) } else { op.timer }
        });
        let limit = now + self.setup.idle * 1000;
        if due.min().is_none_or(|due| due > limit) {
            let timers: Vec<_> = waiting
                .iter()
                .map(|op| op.timer.map(|it| it - now))
                .collect();
            return self.complain("a free lock is taken soon", (timers, picture));
        }
        Ok(())
    }

    fn strangers_gone(&self, name: usize) -> bool {
        let store = self.server.store();
        let there = store.get(self.keys[name].lock.as_bytes());
        there.is_none_or(|(data, _)| matches!(data, Data::Text(_)))
    }
}
