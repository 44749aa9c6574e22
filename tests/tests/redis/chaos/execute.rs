//! What the server does with a call, and what the client makes of the answer.

use super::{Ask, Broken, Call, Phase, Reply, Verdict, World, text};

impl World {
    /// Carries a call out, in one step; its caller may learn the answer.
    pub(super) fn execute(&mut self, call: Call) -> Verdict {
        let op = self.ops[call.op].clone();
        let before = self.picture(op.name);
        let (script, keys, words) = self.request(&call);
        let reply = self.server.eval(&script, &keys, &words);
        let published = std::mem::take(&mut self.server.store().published);
        let answer = text(&reply);
        let (who, how) = (&op.owner.as_str()[..4], call.ask);
        self.note(format!(
            "{} {who} {how:?} {}/{} ttl {}: {answer}",
            op.name, op.limit, op.weight, op.ttl
        ));
        self.judge(&call, &before, &reply, &published)?;
        self.deliver(published);
        self.pass(self.choose(&[0, 0, 40, 200]));
        if !call.wanted || !self.clients[op.client].alive {
            return Ok(());
        }
        if self.setup.faults && self.dice(25) == 0 {
            self.break_off(op.client);
            return Ok(());
        }
        self.answer(&call, &reply)
    }

    fn request(&self, call: &Call) -> (String, Vec<String>, Vec<String>) {
        let op = &self.ops[call.op];
        let keys = &self.keys[op.name];
        let all = || keys.all().map(String::from).to_vec();
        let owner = op.owner.to_string();
        let client = &self.clients[op.client];
        let channel = if client.mute {
            String::new()
        } else {
            client.channel.clone()
        };
        match call.ask {
            Ask::Acquire { seq, wait } => {
                let mode = if op.shared { "s" } else { "x" };
                let numbers = [op.limit, op.weight, op.ttl, op.hold, wait.into()];
                let mut words = vec![owner, mode.into()];
                words.extend(numbers.map(|number| number.to_string()));
                words.push(channel);
                let numbers = [op.patience, op.ticket, seq as u64];
                words.extend(numbers.map(|number| number.to_string()));
                (self.texts.acquire.clone(), all(), words)
            }
            Ask::Release { hold } => (
                self.texts.release.clone(),
                all(),
                vec![owner, hold.to_string()],
            ),
            Ask::Renew if op.shared => {
                let keys = [&keys.lock, &keys.held, &keys.waiters]
                    .map(Clone::clone)
                    .to_vec();
                let phase = format!("~shared:{};{}", op.limit, op.token);
                let words = vec![phase, owner, op.weight.to_string(), op.ttl.to_string()];
                (self.texts.renew_shared.clone(), keys, words)
            }
            Ask::Renew => {
                let keys = vec![keys.lock.clone(), keys.waiters.clone()];
                let words = vec![format!("{owner}{}", op.token), op.ttl.to_string()];
                (self.texts.renew.clone(), keys, words)
            }
        }
    }

    fn deliver(&mut self, published: Vec<(Vec<u8>, Vec<u8>, i64)>) {
        for (channel, message, count) in published {
            let channel = String::from_utf8(channel).unwrap();
            let client = self
                .clients
                .iter_mut()
                .find(|client| client.channel == channel);
            if let Some(client) = client.filter(|client| client.alive && count > 0) {
                client.pushes.push_back(String::from_utf8(message).unwrap());
            }
        }
    }

    fn answer(&mut self, call: &Call, reply: &Reply) -> Verdict {
        let op = call.op;
        match (call.ask, reply) {
            (_, Reply::Error(_)) => self.refused(call),
            (Ask::Acquire { .. }, Reply::Bulk(_)) => {
                self.granted(op, text(reply).parse().unwrap(), call.sent, false);
            }
            (Ask::Acquire { .. }, Reply::Array(parts)) => self.not_granted(op, parts)?,
            (Ask::Renew, Reply::Bulk(letter)) => self.renewed(op, letter == b"r", call.sent),
            (Ask::Release { .. }, Reply::Int(_)) => {}
            (Ask::Release { .. }, Reply::Array(parts)) => {
                if text(&parts[1]) == "spent" {
                    self.send(op, Ask::Release { hold: 0 });
                }
            }
            other => return self.complain("answers have the documented form", other),
        }
        Ok(())
    }

    /// The server could not: it is asked again.
    fn refused(&mut self, call: &Call) {
        let now = self.now();
        let op = &mut self.ops[call.op];
        match call.ask {
            Ask::Release { hold } => self.send(call.op, Ask::Release { hold }),
            _ if op.phase == Phase::Waiting => op.timer = Some(now + 50_000),
            _ if matches!(op.phase, Phase::Trying | Phase::Confirming) => self.end(call.op, 0),
            _ => {}
        }
    }

    /// The lock was granted under `token` to a call sent at `sent`.
    fn granted(&mut self, op: usize, token: u64, sent: u64, pushed: bool) {
        let now = self.now();
        match self.ops[op].phase {
            Phase::Done => {}
            Phase::Held | Phase::Confirming => {
                if token > self.ops[op].token {
                    self.end(op, 0);
                }
            }
            Phase::Waiting | Phase::Trying => {
                let late = pushed && now - sent > self.ops[op].ttl * 500;
                self.ops[op].token = token;
                self.ops[op].deadline = self.ops[op].bound(sent);
                self.ops[op].timer = None;
                if late {
                    self.ops[op].phase = Phase::Confirming;
                    self.send(op, Ask::Renew);
                } else if self.ops[op].deadline > now + 1000 {
                    self.ops[op].phase = Phase::Held;
                } else {
                    self.end(op, 0);
                }
            }
        }
    }

    fn not_granted(&mut self, op: usize, parts: &[Reply]) -> Verdict {
        let now = self.now();
        if matches!(self.ops[op].phase, Phase::Held | Phase::Confirming) {
            if self.ops[op].is_valid(now) {
                return self.complain("a valid guard is not told that it waits", &self.ops[op]);
            }
            self.end(op, 0);
            return Ok(());
        }
        if !self.ops[op].is_waiting() {
            return Ok(());
        }
        if text(&parts[0]) != "held" || self.ops[op].phase == Phase::Trying {
            self.end(op, 0);
            return Ok(());
        }
        let number = |at: usize| text(&parts[at]).parse::<i64>().unwrap();
        let (ms, place) = (u64::try_from(number(1)).unwrap(), number(2));
        let op = &mut self.ops[op];
        op.ticket = u64::try_from(number(3)).unwrap();
        let heartbeat = op.patience / 3;
        // The first few ask when the lock can come free, a little apart.
        let wait = match u64::try_from(place) {
            Ok(rank @ 0..4) => (ms + rank).min(heartbeat),
            Ok(_) => heartbeat,
            Err(_) => ms.clamp(1, heartbeat),
        };
        op.timer = Some(now + wait * 1000);
        if self.setup.broken == Some(Broken::NeverAsksAgain) {
            op.timer = None;
        }
        Ok(())
    }

    fn renewed(&mut self, index: usize, ours: bool, sent: u64) {
        let now = self.now();
        let op = &mut self.ops[index];
        let bound = op.bound(sent);
        match op.phase {
            Phase::Confirming if ours && bound > now + 1000 => {
                op.deadline = bound;
                op.phase = Phase::Held;
            }
            Phase::Held if ours && now < op.deadline => op.deadline = op.deadline.max(bound),
            Phase::Held | Phase::Confirming => self.end(index, 0),
            _ => {}
        }
    }

    /// Reads what was pushed to a client; some of it is lost on the way.
    pub(super) fn read_pushes(&mut self, client: usize) {
        while let Some(message) = self.clients[client].pushes.pop_front() {
            if !self.setup.faults || self.dice(20) != 0 {
                self.hear(client, &message);
            }
        }
    }

    fn hear(&mut self, client: usize, message: &str) {
        let words: Vec<&str> = message.split(' ').collect();
        let owner = if words[0] == "granted" {
            words[3]
        } else {
            words[1]
        };
        let Some(index) = self.ops.iter().rposition(|op| op.owner.as_str() == owner) else {
            return;
        };
        assert_eq!(self.ops[index].client, client);
        let now = self.now();
        match words[0] {
            "granted" if self.ops[index].phase == Phase::Done => {
                self.send(index, Ask::Release { hold: 0 });
            }
            "granted" => {
                let (token, seq): (u64, usize) =
                    (words[1].parse().unwrap(), words[2].parse().unwrap());
                let sent = match self.setup.broken {
                    Some(Broken::CountsFromReceipt) => now,
                    Some(Broken::CountsFromLastSent) => *self.ops[index].sent.last().unwrap(),
                    // A number that was never sent is as good as the receipt.
                    _ => self.ops[index].sent.get(seq).copied().unwrap_or(now),
                };
                self.granted(index, token, sent, true);
            }
            "again" if self.ops[index].phase == Phase::Waiting => self.ops[index].timer = Some(now),
            "revoked" if self.ops[index].phase == Phase::Held => self.end(index, 0),
            _ => {}
        }
    }

    /// Someone looks who holds a lock, and ends that.
    pub(super) fn operator(&mut self) -> Verdict {
        let name = self.dice(super::NAMES);
        let before = self.picture(name);
        let members = before.members.first().map(|(member, _)| member.clone());
        let Some(value) = members.or(before.value.clone()) else {
            return Ok(());
        };
        let end = value.rfind(';').map_or(value.len(), |at| at + 1);
        let owner = value[..end].trim_start_matches("~kept;");
        // A foreign or kept value is named as a whole, or by the wrong name, which does nothing.
        let observed = match self.dice(3) {
            0 => value.clone(),
            1 => owner.to_owned(),
            _ => "nobody".to_owned(),
        };
        let keys = self.keys[name].all().map(String::from);
        let client = self.clients.iter().find(|client| {
            owner
                .split(';')
                .nth(1)
                .is_some_and(|id| client.channel.ends_with(id))
        });
        let channel = client
            .map(|client| client.channel.clone())
            .unwrap_or_default();
        let reply = self.server.eval(
            &self.texts.force.clone(),
            &keys,
            &[observed.clone(), channel],
        );
        let published = std::mem::take(&mut self.server.store().published);
        self.note(format!(
            "{name} force {observed} of {value}: {}",
            text(&reply)
        ));
        match reply {
            Reply::Int(1) if observed == "nobody" => {
                return self.complain("force ends only what was seen", value);
            }
            Reply::Int(1) => {
                self.kept[name] = 0;
                self.strangers[name] = None;
                for op in &mut self.ops {
                    op.revoked |= op.name == name && observed.contains(op.owner.as_str());
                }
            }
            Reply::Int(0) | Reply::Error(_) => {}
            other => return self.complain("answers have the documented form", other),
        }
        self.seen.note_granted(&published);
        self.deliver(published);
        Ok(())
    }
}
