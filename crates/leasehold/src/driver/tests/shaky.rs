//! The memory store behind a bad line: calls fail as planned, events can be repeated.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::sync::mpsc;

use crate::{
    backend::{
        Attempt, Backend, Capabilities, ClientId, EVENT_BUFFER, Event, Events, Failure, Name,
        Owner, Page, Released, Renewal, Renewed, Request, Sent, Status, memory::Memory,
    },
    clock::Clock,
    error::ErrorKind,
    random::Random,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Acquire,
    Renew,
    Release,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// As without a bad line; to leave a call alone.
    Good,
    /// Refused before anything was sent.
    Unsent,
    /// Refused for good: the user may not.
    Denied,
    /// Executed, and the answer never comes.
    NoAnswer,
    /// Never executed, and no answer comes.
    Swallowed,
    /// Executed at once, answered after this long.
    Late(Duration),
    /// A renewal that is answered so after this long, whatever the store has.
    NotOurs(Duration),
}

/// Clones are the same store on the same line.
#[derive(Clone, Debug)]
pub(super) struct Shaky {
    pub(super) memory: Memory,
    line: Arc<Mutex<Line>>,
}

#[derive(Debug, Default)]
struct Line {
    planned: VecDeque<(Call, Fate)>,
    events: Option<mpsc::Sender<Event>>,
    released: usize,
    /// Releases of names that begin so are refused unsent.
    broken: Option<&'static str>,
    /// What befalls calls nothing is planned for, and events.
    chance: Option<Random>,
}

impl Shaky {
    pub(super) fn new(memory: &Memory) -> Self {
        let memory = memory.clone();
        let line = Arc::default();
        Self { memory, line }
    }

    /// The next call of this kind that nothing is planned for ends so.
    pub(super) fn plan(&self, call: Call, fate: Fate) {
        self.line().planned.push_back((call, fate));
    }

    /// From here on releases of names that begin so cannot be sent.
    pub(super) fn break_off(&self, prefix: &'static str) {
        self.line().broken = Some(prefix);
    }

    pub(super) fn tell(&self, event: Event) {
        self.line().deliver(event);
    }

    /// From here on calls and events meet what chance has for them; none: all is well again.
    pub(super) fn leave_to(&self, chance: Option<Random>) {
        self.line().chance = chance;
    }

    /// Events are lost, late, repeated.
    fn pass_on(&self, event: Event) {
        let Some(dice) = self.line().chance.as_ref().map(Random::bits) else {
            return self.tell(event);
        };
        if dice % 10 > 0 {
            self.tell(event.clone());
        }
        if dice % 3 == 0 {
            let (shaky, late) = (self.clone(), Duration::from_millis(dice / 100 % 700));
            tokio::spawn(async move {
                tokio::time::sleep(late).await;
                shaky.tell(event);
            });
        }
    }

    /// How many releases the store has executed.
    pub(super) fn released(&self) -> usize {
        self.line().released
    }

    async fn pass<T>(
        &self,
        call: Call,
        execute: impl Future<Output = T> + Send,
    ) -> Result<T, Failure> {
        let fate = self.line().next(call);
        self.pass_as(fate, execute).await
    }

    async fn pass_as<T>(
        &self,
        fate: Fate,
        execute: impl Future<Output = T> + Send,
    ) -> Result<T, Failure> {
        match fate {
            Fate::Good => Ok(execute.await),
            Fate::Unsent => Err(Failure::unavailable("unsent")),
            Fate::Denied => Err(Failure::new(ErrorKind::Denied, Sent::No, "denied")),
            Fate::NoAnswer => {
                execute.await;
                std::future::pending().await
            }
            Fate::Swallowed => std::future::pending().await,
            Fate::Late(span) | Fate::NotOurs(span) => {
                let answer = execute.await;
                tokio::time::sleep(span).await;
                Ok(answer)
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no panic")
    }
}

impl Line {
    fn next(&mut self, call: Call) -> Fate {
        let at = self.planned.iter().position(|(of, _)| *of == call);
        at.and_then(|at| self.planned.remove(at))
            .map_or_else(|| self.chance(), |(_, fate)| fate)
    }

    fn chance(&self) -> Fate {
        let Some(chance) = &self.chance else {
            return Fate::Good;
        };
        let dice = chance.bits();
        let span = Duration::from_millis(dice / 100 % 250);
        match dice % 100 {
            0..5 => Fate::Unsent,
            5..10 => Fate::NoAnswer,
            10..15 => Fate::Swallowed,
            15..40 => Fate::Late(span),
            _ => Fate::Good,
        }
    }

    fn deliver(&mut self, event: Event) {
        if let Some(events) = &self.events {
            let _ = events.try_send(event);
        }
    }
}

impl Backend for Shaky {
    fn capabilities(&self) -> Capabilities {
        Backend::capabilities(&self.memory)
    }

    fn attach(&self, client: &ClientId) -> Events {
        let mut from = Backend::attach(&self.memory, client);
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        self.line().events = Some(sender);
        let shaky = self.clone();
        tokio::spawn(async move {
            while let Some(event) = from.recv().await {
                shaky.pass_on(event);
            }
        });
        events
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        self.pass(Call::Acquire, Backend::acquire(&self.memory, request))
            .await?
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let fate = self.line().next(Call::Renew);
        let answers = self.pass_as(fate, Backend::renew(&self.memory, renewals));
        match answers.await {
            Ok(answers) if matches!(fate, Fate::NotOurs(_)) => {
                answers.iter().map(|_| Ok(Renewed::NotOurs)).collect()
            }
            Ok(answers) => answers,
            Err(failure) => renewals.iter().map(|_| Err(failure.clone())).collect(),
        }
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        let broken = self.line().broken;
        if broken.is_some_and(|prefix| name.as_str().starts_with(prefix)) {
            return Err(Failure::unavailable("unsent"));
        }
        let execute = async {
            self.line().released += 1;
            Backend::release(&self.memory, name, owner, min_hold).await
        };
        self.pass(Call::Release, execute).await?
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        Backend::detach(&self.memory, renewal).await
    }

    /// Only as far as the client can tell: the memory store cannot.
    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        let renewals = std::slice::from_ref(renewal);
        let mut answers = Backend::renew(&self.memory, renewals).await;
        answers.pop().expect("one answer for each")
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        Backend::inspect(&self.memory, name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        Backend::list(&self.memory, prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        Backend::force(&self.memory, name, observed).await
    }

    async fn ping(&self) -> Result<(), Failure> {
        Backend::ping(&self.memory).await
    }

    fn clock(&self) -> Option<Clock> {
        Backend::clock(&self.memory)
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}
