//! One Redis or Valkey server among several that vote.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold_core::{Instant, Mode, Name, Owner, Released, Renewal, Renewed, Status, Ttl};
use redis::{Pipeline, Value};
use tokio::sync::mpsc;

use super::{
    config::Config,
    connection::Connection,
    failure, form, handshake,
    keys::{Keys, Prefix},
    link::Link,
    list,
    push::Router,
    reply::{self, array, number, string},
    script::{Call, EXTEND, FORCE, GIVE_UP, INSPECT, MEET, NOTE, RAISE, REPLANT, VOTE},
    several,
};
use crate::{
    backend::{
        EVENT_BUFFER, Failure, Page, Sent,
        node::{Bid, Claim, Facts, Leave, Met, News, Node, Reply, Session, Slots, Vote},
    },
    clock::Clock,
    error::ErrorKind,
};

/// In what steps fencing tokens are seeded: nodes whose clocks agree to the second give the same,
/// so that one round trip is enough.
const STEP: Duration = Duration::from_secs(1);

/// How many leases one command lengthens: half a millisecond of the server's time.
const BATCH: usize = 256;

/// A Redis or Valkey server that has a vote.
pub struct RedisNode {
    config: Config,
    connection: Connection,
    news: Mutex<Option<mpsc::Receiver<News>>>,
    session: tokio::sync::Mutex<Option<Arc<RedisSession>>>,
}

impl RedisNode {
    /// Begins to connect to the server that `config` describes, and goes on until it succeeds.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn start(config: Config) -> Self {
        let (sender, news) = mpsc::channel(EVENT_BUFFER);
        let router = Arc::new(Router::with_news(config.prefix().clone(), sender));
        Self {
            connection: Connection::start(config.clone(), router),
            config,
            news: Mutex::new(Some(news)),
            session: tokio::sync::Mutex::default(),
        }
    }

    /// The session over the connection there is: the server is asked once for each.
    async fn current(&self) -> Result<Arc<RedisSession>, Failure> {
        let link = self.connection.link().await.map_err(alone)?;
        let mut session = self.session.lock().await;
        if let Some(session) = session.as_ref().filter(|it| Arc::ptr_eq(&it.link, &link)) {
            return Ok(Arc::clone(session));
        }
        let facts = ask_facts(&link).await?;
        let fresh = Arc::new(RedisSession {
            prefix: self.config.prefix().clone(),
            facts,
            since: Clock::system().now(),
            router: self.connection.router(),
            link,
        });
        *session = Some(Arc::clone(&fresh));
        Ok(fresh)
    }
}

impl Node for RedisNode {
    fn address(&self) -> String {
        self.config.to_string()
    }

    fn news(&self) -> mpsc::Receiver<News> {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.take().unwrap_or_else(|| mpsc::channel(1).1)
    }

    fn session(&self) -> Reply<'_, Result<Arc<dyn Session>, Failure>> {
        Box::pin(async move {
            let session: Arc<dyn Session> = self.current().await?;
            Ok(session)
        })
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisNode").field(&self.config).finish()
    }
}

/// One connection to a server that votes.
#[derive(Debug)]
struct RedisSession {
    prefix: Prefix,
    facts: Facts,
    since: Instant,
    router: Arc<Router>,
    link: Arc<Link>,
}

impl RedisSession {
    fn keys(&self, name: &Name) -> Keys {
        Keys::new(&self.prefix, name)
    }

    async fn publish(&self, name: &Name, news: String) -> Result<(), Failure> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.prefix.news(name)).arg(news);
        self.link.ask(&publish).await?;
        Ok(())
    }

    async fn yes(&self, call: &Call) -> Result<bool, Failure> {
        let reply = self.link.run(call).await?;
        match number(&reply) {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(failure::garbage(&format!(
                "{}: {reply:?}",
                call.script.name()
            ))),
        }
    }

    fn extend_call(&self, batch: &[Claim]) -> Call {
        let keys = batch.iter().map(|item| self.keys(&item.renewal.name));
        let keys: Vec<Keys> = keys.collect();
        let witness = keys.first().map(|keys| keys.waiters.as_str());
        let names = keys
            .iter()
            .flat_map(|keys| [&keys.lock, &keys.fence, &keys.held].map(String::as_str));
        let call = Call::new(&EXTEND, names.chain(witness));
        batch.iter().fold(call, |call, Claim { renewal, slots }| {
            call.arg(renewal.owner.as_str())
                .number(renewal.token.get())
                .number(renewal.ttl.as_millis())
                .arg(letter(renewal.mode))
                .arg(slots.as_str())
        })
    }
}

impl Session for RedisSession {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn since(&self) -> Instant {
        self.since
    }

    fn listen<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<(), Failure>> {
        Box::pin(async move {
            let channel = self.prefix.news(name);
            self.router.hear(&channel);
            self.link.subscribe(&channel).await.map(drop)
        })
    }

    fn vote<'a>(&'a self, bids: &'a [Bid]) -> Reply<'a, Result<Vote, Failure>> {
        Box::pin(async move {
            let step = u64::try_from(STEP.as_micros()).unwrap_or(1);
            let keys: Vec<Keys> = bids
                .iter()
                .map(|bid| self.keys(&bid.request.name))
                .collect();
            let call = Call::new(&VOTE, keys.iter().flat_map(Keys::for_acquire)).number(step);
            let call = bids.iter().fold(call, |call, bid| {
                several::with_demand(call, &bid.request).number(bid.start.into())
            });
            reply::vote(&self.link.run(&call).await?, bids.len())
        })
    }

    fn raise<'a>(&'a self, claim: &'a Renewal) -> Reply<'a, Result<bool, Failure>> {
        Box::pin(async move {
            let call = Call::new(&RAISE, self.keys(&claim.name).all())
                .arg(claim.owner.as_str())
                .number(claim.token.get());
            self.yes(&call).await
        })
    }

    fn extend<'a>(&'a self, claims: &'a [Claim]) -> Reply<'a, Vec<Result<Renewed, Failure>>> {
        Box::pin(async move {
            let batches: Vec<&[Claim]> = claims.chunks(BATCH).collect();
            let calls: Vec<Call> = batches.iter().map(|it| self.extend_call(it)).collect();
            let replies = match self.link.run_all(&calls).await {
                Ok(replies) => replies,
                Err(failure) => return claims.iter().map(|_| Err(failure.clone())).collect(),
            };
            let read = batches.iter().zip(&replies).map(|(batch, reply)| {
                let ttls: Vec<Ttl> = batch.iter().map(|it| it.renewal.ttl).collect();
                let answers = match reply {
                    Value::ServerError(error) => Err(failure::from_reply(error)),
                    reply => reply::renewed(reply, &ttls),
                };
                match answers {
                    Ok(answers) => answers.into_iter().map(Ok).collect(),
                    Err(failure) => vec![Err(failure); batch.len()],
                }
            });
            read.collect::<Vec<Vec<_>>>().concat()
        })
    }

    fn replant<'a>(&'a self, claim: &'a Claim) -> Reply<'a, Result<bool, Failure>> {
        Box::pin(async move {
            let Claim { renewal, slots } = claim;
            let mode = renewal.mode;
            let limit = if mode.is_shared() { mode.limit() } else { 0 };
            let call = Call::new(&REPLANT, self.keys(&renewal.name).all())
                .arg(renewal.owner.as_str())
                .arg(letter(mode))
                .number(limit.into())
                .number(mode.weight().into())
                .number(renewal.token.get())
                .number(renewal.ttl.as_millis())
                .arg(slots.as_str());
            self.yes(&call).await
        })
    }

    fn slots<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
    ) -> Reply<'a, Result<Option<Slots>, Failure>> {
        Box::pin(async move {
            let call = Call::new(&INSPECT, self.keys(name).all());
            reply::slots(&self.link.run(&call).await?, owner)
        })
    }

    fn give_up<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
        how: Leave,
    ) -> Reply<'a, Result<Released, Failure>> {
        Box::pin(async move {
            let channel = self.prefix.news(name);
            let ran = how.held_for.map(|span| form::millis_down(span).to_string());
            let call = Call::new(&GIVE_UP, self.keys(name).all())
                .arg(owner.as_str())
                .arg(if how.tell { &channel } else { "" })
                .arg(free(name))
                .number(form::millis(how.min_hold))
                .arg(ran.as_deref().unwrap_or("-1"));
            Ok(reply::released(&self.link.run(&call).await?)?.0)
        })
    }

    fn tell<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<(), Failure>> {
        Box::pin(self.publish(name, free(name)))
    }

    fn annotate<'a>(
        &'a self,
        claim: &'a Claim,
        note: Option<&'a str>,
    ) -> Reply<'a, Result<Renewed, Failure>> {
        Box::pin(async move {
            let Renewal {
                name, owner, ttl, ..
            } = &claim.renewal;
            let call = Call::new(&NOTE, self.keys(name).all())
                .arg(owner.as_str())
                .number(ttl.as_millis())
                .arg(claim.slots.as_str());
            let call = note.into_iter().fold(call, Call::arg);
            let answers = reply::renewed(&self.link.run(&call).await?, &[*ttl])?;
            Ok(answers.first().copied().unwrap_or(Renewed::Missing))
        })
    }

    fn inspect<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<Status, Failure>> {
        Box::pin(async move {
            let call = Call::new(&INSPECT, self.keys(name).all());
            let reply = self.link.run(&call).await?;
            Ok(reply::status(&reply, name.as_str())?.0)
        })
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> Reply<'a, Result<Page, Failure>> {
        Box::pin(async move { list::page(&self.link, &self.prefix, prefix, after).await })
    }

    fn force<'a>(&'a self, name: &'a Name, observed: &'a str) -> Reply<'a, Result<bool, Failure>> {
        Box::pin(async move {
            let call = Call::new(&FORCE, self.keys(name).all())
                .arg(form::bytes(observed))
                .arg("");
            let done = self.yes(&call).await?;
            if done {
                for news in [free(name), format!("revoked {observed}")] {
                    // A hint: those who miss it find out by asking.
                    let _ = self.publish(name, news).await;
                }
            }
            Ok(done)
        })
    }

    fn meet<'a>(
        &'a self,
        grace: Duration,
        list: Option<&'a str>,
    ) -> Reply<'a, Result<Met, Failure>> {
        Box::pin(async move {
            let keys = self.prefix.lists();
            let call = Call::new(&MEET, keys.iter().map(String::as_str));
            let call = call.number(form::millis_down(grace));
            let call = list.into_iter().fold(call, Call::arg);
            let clock = Clock::system();
            let before = clock.wall_micros();
            let (there, seen) = reply::met(&self.link.run(&call).await?)?;
            let here = before.midpoint(clock.wall_micros());
            Ok(Met {
                offset_micros: offset(there, here),
                seen,
            })
        })
    }

    fn ping(&self) -> Reply<'_, Result<(), Failure>> {
        Box::pin(async move {
            self.link.ask(&redis::cmd("PING")).await?;
            Ok(())
        })
    }
}

/// A replica is refused for good: among several nodes none takes another's place.
fn alone(failure: Failure) -> Failure {
    if failure.message() != handshake::REPLICA {
        return failure;
    }
    Failure::new(ErrorKind::Invalid, Sent::No, handshake::REPLICA)
}

/// The news that a name may be had.
fn free(name: &Name) -> String {
    format!("free {name}")
}

const fn letter(mode: Mode) -> &'static str {
    if mode.is_shared() { "s" } else { "x" }
}

/// What decides whether the server may vote.
async fn ask_facts(link: &Link) -> Result<Facts, Failure> {
    // Uptime comes in whole seconds, and the process may be a little younger than it says.
    const DOUBT: Duration = Duration::from_secs(2);
    let mut questions = Pipeline::new();
    questions.cmd("TIME");
    questions.cmd("INFO");
    questions.cmd("CONFIG").arg("GET").arg("appendfsync");
    let clock = Clock::system();
    let before = clock.wall_micros();
    let replies = link.ask_all(&questions).await?;
    let here = before.midpoint(clock.wall_micros());
    let [time, info, fsync] = &replies[..] else {
        return Err(failure::garbage("too few replies"));
    };
    let info = string(info).unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(':')).map(str::trim)
    };
    let count = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
    let always = array(fsync).is_some_and(|words| words.get(1).and_then(string) == Some("always"));
    let uptime = Duration::from_secs(count("uptime_in_seconds").unwrap_or(0));
    Ok(Facts {
        run_id: field("run_id").map(Into::into),
        uptime: uptime.saturating_sub(DOUBT),
        durable: field("aof_enabled") == Some("1") && always,
        replica: field("role") == Some("slave"),
        replicas: count("connected_slaves")
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0),
        cluster: field("redis_mode") == Some("cluster"),
        offset_micros: server_micros(time).map_or(0, |there| offset(there, here)),
    })
}

/// How far `there` is ahead of `here`.
fn offset(there: u64, here: u64) -> i64 {
    i64::try_from(i128::from(there) - i128::from(here)).unwrap_or(0)
}

fn server_micros(time: &Value) -> Option<u64> {
    let words = array(time)?;
    let word = |at: usize| words.get(at).and_then(string)?.parse::<u64>().ok();
    word(0)?.checked_mul(1_000_000)?.checked_add(word(1)?)
}
