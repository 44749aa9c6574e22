//! Random operations of several owners in all modes, with what must hold after each of them.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::*;

/// How the owner of this number asks, as a rule.
fn usual_mode(number: u128) -> Mode {
    match number % 7 {
        0 | 1 => Mode::Exclusive,
        2 | 3 => Mode::Read,
        4 => permits(3, 1),
        5 => permits(3, 2),
        _ => permits(2, 1),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Try {
        number: u128,
        session: bool,
    },
    Wait {
        number: u128,
        session: bool,
        old_place: bool,
    },
    AskAs {
        number: u128,
        other: u128,
    },
    Renew {
        number: u128,
        old: bool,
        ttl: u64,
    },
    Detach {
        number: u128,
    },
    Release {
        number: u128,
        min_hold: Option<u64>,
    },
    Force {
        number: u128,
    },
    Pass {
        millis: u64,
    },
    Deafen {
        number: u128,
        deaf: bool,
    },
    End {
        number: u128,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let number = 0..8_u128;
    let millis = prop_oneof![0..50_u64, 50..400_u64, Just(1_000), Just(3_000)];
    prop_oneof![
        4 => (number.clone(), any::<bool>())
            .prop_map(|(number, session)| Op::Try { number, session }),
        8 => (number.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(number, session, old_place)| Op::Wait { number, session, old_place }),
        1 => (number.clone(), number.clone())
            .prop_map(|(number, other)| Op::AskAs { number, other }),
        3 => (number.clone(), any::<bool>(), 100..2_000_u64)
            .prop_map(|(number, old, ttl)| Op::Renew { number, old, ttl }),
        1 => number.clone().prop_map(|number| Op::Detach { number }),
        4 => (number.clone(), proptest::option::of(1..600_u64))
            .prop_map(|(number, min_hold)| Op::Release { number, min_hold }),
        1 => number.clone().prop_map(|number| Op::Force { number }),
        5 => millis.prop_map(|millis| Op::Pass { millis }),
        1 => (number.clone(), any::<bool>())
            .prop_map(|(number, deaf)| Op::Deafen { number, deaf }),
        1 => number.prop_map(|number| Op::End { number }),
    ]
}

/// A world that remembers enough to judge the next step.
struct Run {
    world: World,
    /// The largest fencing token seen.
    last: u64,
    tokens: BTreeMap<u128, FencingToken>,
    tickets: BTreeMap<u128, u64>,
    /// The ticket that the caller of this step took up again.
    claim: Option<u64>,
    /// When the first will ask again, if it was told so as the first.
    wakes: BTreeMap<Owner, Instant>,
}

impl Run {
    fn new() -> Self {
        let mut world = World::new();
        world.ttl = Ttl::from_millis(300).unwrap();
        world.patience = ms(700);
        Self {
            world,
            last: 0,
            tokens: BTreeMap::new(),
            tickets: BTreeMap::new(),
            claim: None,
            wakes: BTreeMap::new(),
        }
    }

    fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let before = self.world.entry.clone();
        self.world.notices.clear();
        self.claim = None;
        match *op {
            Op::Pass { millis } => {
                self.world.pass(millis);
                return Ok(());
            }
            Op::Deafen { number, deaf } => {
                if deaf {
                    self.world.crowd.deaf.insert(owner(number));
                } else {
                    self.world.crowd.deaf.remove(&owner(number));
                }
                return Ok(());
            }
            Op::End { number } => {
                self.world.crowd.gone.insert(format!("{number}"));
                return Ok(());
            }
            Op::Try { number, session } => self.ask(number, usual_mode(number), session, None)?,
            Op::AskAs { number, other } => self.ask(number, usual_mode(other), false, None)?,
            Op::Wait {
                number,
                session,
                old_place,
            } => {
                let old = self.tickets.get(&number).copied().filter(|_| old_place);
                self.claim = old;
                let wait = Wait::new(3, old, self.world.patience);
                self.ask(number, usual_mode(number), session, Some(wait))?;
            }
            Op::Renew { number, old, ttl } => self.renew(number, old, ttl)?,
            Op::Detach { number } => {
                let token = self.token(number, false);
                let renewal = self.world.renewal(number, token, 500);
                self.world.turn(|entry, turn| entry.detach(&renewal, turn));
            }
            Op::Release { number, min_hold } => self.release(number, min_hold)?,
            Op::Force { number } => {
                let was = before
                    .members
                    .iter()
                    .any(|it| it.owner == owner(number) && self.life(it) != Life::Over);
                prop_assert_eq!(self.world.force(number), was);
                prop_assert!(!self.world.holders().contains(&owner(number)) || !was);
            }
        }
        let caller = match *op {
            Op::Try { number, .. } | Op::Wait { number, .. } | Op::AskAs { number, .. } => {
                Some(owner(number))
            }
            _ => None,
        };
        let left = match *op {
            Op::Release { number, .. } => Some(owner(number)),
            _ => caller.clone(),
        };
        self.check_holders()?;
        self.check_grants(&before)?;
        self.check_queue(&before, left.as_ref())?;
        self.check_leases(&before)?;
        self.check_first()
    }

    fn life(&mut self, member: &Member) -> Life {
        member.life(self.world.now, &mut self.world.crowd)
    }

    fn token(&self, number: u128, old: bool) -> FencingToken {
        let held = self
            .world
            .entry
            .members
            .iter()
            .find(|it| it.owner == owner(number));
        let remembered = self.tokens.get(&number).copied();
        let token = held.map(|it| it.token).filter(|_| !old).or(remembered);
        token.unwrap_or_else(|| FencingToken::new(1).unwrap())
    }

    fn ask(
        &mut self,
        number: u128,
        mode: Mode,
        session: bool,
        wait: Option<Wait>,
    ) -> Result<(), TestCaseError> {
        let mut request = self.world.request(number, mode);
        request.wait = wait;
        let name = format!("{number}");
        let session = (session && !self.world.crowd.gone.contains(&name)).then_some(name);
        let record = |entry: &Entry| {
            entry
                .queue
                .iter()
                .find(|it| it.owner == owner(number))
                .cloned()
        };
        let before = record(&self.world.entry);
        let answer = self.world.ask(&request, session.as_deref());
        let after = record(&self.world.entry);
        let change_in = match &answer {
            Attempt::Granted(grant) => {
                let member = self
                    .world
                    .entry
                    .members
                    .iter()
                    .find(|it| it.owner == request.owner);
                let member = member.expect("who is granted holds");
                prop_assert_eq!(member.token, grant.token);
                prop_assert!(member.expires >= self.world.now.after(grant.ttl.get()));
                prop_assert!(after.is_none(), "who holds does not wait");
                self.tokens.insert(number, grant.token);
                None
            }
            Attempt::Queued(queued) => {
                let place = self.world.entry.place_of(&request.owner);
                prop_assert_eq!(place, usize::try_from(queued.place).ok());
                prop_assert!(wait.is_some() && before.is_none_or(|it| it.ticket == queued.ticket));
                self.tickets.insert(number, queued.ticket);
                if queued.place == 0 {
                    let wake = self.world.now.after(queued.change_in);
                    self.wakes.insert(request.owner.clone(), wake);
                }
                Some(queued.change_in)
            }
            Attempt::Held(held) => {
                prop_assert!(wait.is_none());
                prop_assert!(after.is_none() || after == before, "a try changes no place");
                Some(held.change_in)
            }
            Attempt::Conflict { .. } | Attempt::Ended => None,
        };
        if let Some(change_in) = change_in {
            self.check_nothing_before(&request, change_in)?;
        }
        Ok(())
    }

    /// What was said about when something can change was not too late: to ask just before it is
    /// in vain.
    fn check_nothing_before(
        &mut self,
        request: &Request,
        change_in: Duration,
    ) -> Result<(), TestCaseError> {
        prop_assert!(!change_in.is_zero());
        let (entry, now) = (self.world.entry.clone(), self.world.now);
        let (counter, notices) = (self.world.counter, self.world.notices.clone());
        self.world.now = now.after(change_in - Duration::from_nanos(1));
        let answer = self.world.ask(request, None);
        prop_assert!(
            !matches!(answer, Attempt::Granted(_)),
            "too late: {:?}",
            change_in
        );
        self.world.entry = entry;
        self.world.now = now;
        self.world.counter = counter;
        self.world.notices = notices;
        Ok(())
    }

    fn renew(&mut self, number: u128, old: bool, ttl: u64) -> Result<(), TestCaseError> {
        let token = self.token(number, old);
        let before = self.world.entry.members.clone();
        let mut held = before
            .iter()
            .filter(|it| it.owner == owner(number) && it.token == token);
        let ours = held.any(|it| self.life(it) == Life::On && !it.kept);
        let answer = self.world.renew(number, token, ttl);
        prop_assert_eq!(ours, matches!(answer, Renewed::Renewed(_)));
        if ours {
            let member = self
                .world
                .entry
                .members
                .iter()
                .find(|it| it.owner == owner(number));
            prop_assert!(member.unwrap().expires >= self.world.now.after(ms(ttl)));
        }
        Ok(())
    }

    fn release(&mut self, number: u128, min_hold: Option<u64>) -> Result<(), TestCaseError> {
        let answer = match min_hold {
            None => self.world.release(number),
            Some(hold) => self.world.release_after(number, hold),
        };
        let gone = owner(number);
        prop_assert!(!self.world.waiters().contains(&gone));
        let left = self.world.entry.members.iter().find(|it| it.owner == gone);
        prop_assert!(left.is_none_or(|it| it.kept), "{:?}", left);
        if answer == Released::Kept {
            let longest = self.world.now.after(ms(min_hold.unwrap()));
            prop_assert!(left.unwrap().expires <= longest);
        }
        Ok(())
    }

    /// Those that hold are compatible and under one fencing token.
    fn check_holders(&self) -> Result<(), TestCaseError> {
        let members = &self.world.entry.members;
        let Some(first) = members.first() else {
            return Ok(());
        };
        let names: BTreeSet<_> = members.iter().map(|it| &it.owner).collect();
        prop_assert_eq!(names.len(), members.len(), "one owner holds once");
        prop_assert!(self.world.waiters().iter().all(|it| !names.contains(it)));
        prop_assert!(members.iter().all(|it| it.token == first.token));
        if members.len() > 1 {
            prop_assert!(members.iter().all(|it| it.mode.joins(first.mode)));
            let taken: u32 = members.iter().map(|it| it.mode.weight()).sum();
            prop_assert!(first.mode.limit() == 0 || taken <= first.mode.limit());
        }
        Ok(())
    }

    /// Who is new came first, under a new fencing token or that of a phase that lives on.
    fn check_grants(&mut self, before: &Entry) -> Result<(), TestCaseError> {
        let after = &self.world.entry;
        let held = |it: &&Member| before.members.iter().any(|old| old.is_same_grant(it));
        let lives_on = after.members.iter().any(|it| held(&it));
        let new: Vec<_> = after
            .members
            .iter()
            .filter(|it| !held(it))
            .cloned()
            .collect();
        for member in new {
            let token = member.token.get();
            prop_assert!(token > self.last || lives_on && token == self.last);
            prop_assert_eq!(member.granted, self.world.now);
            let old = before.queue.iter().find(|it| it.owner == member.owner);
            let ticket = old.map_or(self.claim.unwrap_or(u64::MAX), |it| it.ticket);
            let mut overtaken = self
                .world
                .entry
                .queue
                .iter()
                .filter(|it| it.ticket < ticket);
            prop_assert!(overtaken.next().is_none(), "no live waiter is overtaken");
        }
        let tokens = self.world.entry.members.iter().map(|it| it.token.get());
        self.last = tokens.max().unwrap_or(0).max(self.last);
        Ok(())
    }

    /// Nobody who is alive loses the place, unless it asked to or holds now.
    fn check_queue(&mut self, before: &Entry, left: Option<&Owner>) -> Result<(), TestCaseError> {
        let tickets = self.world.entry.queue.iter().map(|it| it.ticket);
        prop_assert!(tickets.is_sorted_by(|a, b| a < b));
        for waiter in &before.queue {
            let is_dead = waiter.is_dead(self.world.now, &mut self.world.crowd);
            if is_dead || Some(&waiter.owner) == left {
                continue;
            }
            let waits = self.world.entry.queue.contains(waiter);
            let told = self
                .world
                .granted()
                .contains(&(waiter.owner.clone(), waiter.seq));
            prop_assert!(waits != told, "{:?}", waiter);
            prop_assert_eq!(told, self.world.holders().contains(&waiter.owner));
        }
        Ok(())
    }

    /// No lease was cut short but by its own holder's end.
    fn check_leases(&mut self, before: &Entry) -> Result<(), TestCaseError> {
        for member in &self.world.entry.members {
            let old = before.members.iter().find(|old| old.is_same_grant(member));
            if let Some(old) = old {
                prop_assert!(member.expires >= old.expires || member.kept);
            }
            prop_assert!(member.expires > self.world.now);
        }
        Ok(())
    }

    /// The first is alive, could not be served, and will ask in time.
    fn check_first(&mut self) -> Result<(), TestCaseError> {
        for owner in self.world.again() {
            self.wakes.insert(owner, self.world.now);
        }
        let first = self.world.entry.queue.first().cloned();
        // One that was overtaken by an old ticket meanwhile is left to its heartbeat.
        self.wakes
            .retain(|owner, _| first.as_ref().is_some_and(|it| it.owner == *owner));
        let Some(first) = first else {
            return Ok(());
        };
        let World {
            now, crowd, entry, ..
        } = &mut self.world;
        prop_assert!(!first.is_dead(*now, crowd));
        prop_assert!(!entry.fits(first.mode) || !crowd.can_hear(&first));
        if let Some(&wake) = self.wakes.get(&first.owner)
            && crowd.can_hear(&first)
        {
            prop_assert!(wake <= entry.next_change(), "nobody wakes {:?}", first);
        }
        Ok(())
    }
}

impl Member {
    fn is_same_grant(&self, other: &Self) -> bool {
        self.owner == other.owner && self.token == other.token && self.granted == other.granted
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn whatever_the_owners_do_the_rules_hold(ops in vec(op(), 1..80)) {
        let mut run = Run::new();
        for op in &ops {
            run.step(op)?;
        }
    }

    #[test]
    fn no_value_is_too_extreme(
        now: u64, wall: u64, counter: u64, ticket: Option<u64>, hold: Option<Duration>,
        patience: Duration, modes in vec(0..8_u128, 1..6), leap: u64,
    ) {
        let mut world = World::new();
        world.now = Instant::from_nanos(now);
        world.counter = Counter::new(counter);
        for (number, &mode) in (0..).zip(&modes) {
            let mut request = world.request(number, usual_mode(mode));
            request.min_hold = hold;
            request.wait = Some(Wait::new(u32::MAX, ticket, patience));
            let mut turn = Turn {
                now: world.now,
                wall_micros: wall,
                counter: &mut world.counter,
                crowd: &mut world.crowd,
                notices: Vec::new(),
            };
            world.entry.acquire(&request, None, &mut turn);
        }
        world.status();
        world.now = Instant::from_nanos(leap);
        for number in 0..7 {
            world.turn(|entry, turn| entry.release(&owner(number), hold, turn));
            world.status();
        }
        prop_assert!(world.entry.queue.is_empty());
    }
}
