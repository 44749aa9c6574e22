//! One connection: what comes in is carried out in order, what goes out keeps its order, and both
//! may be late, stop, or end at any point.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Reply, Turn,
    host::{Host, Outgoing},
    resp,
    stage::Net,
};

/// How much is read in one go: what a client sends together comes in together.
const CHUNK: usize = 1 << 18;

/// The server's end of a connection.
#[derive(Clone)]
struct Far {
    client: usize,
    host: Host,
    net: Arc<Net>,
    ended: CancellationToken,
    /// The client closed it.
    closed: Arc<AtomicBool>,
    /// Nothing arrives any more, and nobody knows.
    deaf: Arc<AtomicBool>,
    /// Nothing gets out any more, and nobody knows.
    mute: Arc<AtomicBool>,
}

/// Requests that came in together, and what becomes of them.
struct Chunk {
    due: Instant,
    requests: Vec<Vec<Vec<u8>>>,
    /// The connection dies at this request.
    dies: Option<Death>,
    /// Scripts are refused, in these words.
    refused: Option<&'static str>,
}

#[derive(Clone, Copy)]
struct Death {
    at: usize,
    /// The request is carried out, and its reply is lost.
    after: bool,
    /// Nothing tells the client.
    silent: bool,
    /// What it goes on to send is carried out.
    hears_on: bool,
}

/// Serves client number `client` until the connection ends.
pub(super) async fn serve(stream: DuplexStream, client: usize, host: Host, net: Arc<Net>) {
    let (outbox, outgoing) = mpsc::unbounded_channel();
    let (inbox, chunks) = mpsc::unbounded_channel();
    let ended = CancellationToken::new();
    let key = host.process().accept(client, outbox.clone(), ended.clone());
    let far = Far {
        client,
        host,
        net,
        ended,
        closed: Arc::default(),
        deaf: Arc::default(),
        mute: Arc::default(),
    };
    let (input, output) = tokio::io::split(stream);
    let served = async {
        tokio::join!(far.read(key, input, inbox), far.work(key, chunks, outbox));
        far.linger().await;
    };
    tokio::select! {
        biased;
        () = far.ended.cancelled() => {}
        () = far.write(key, output, outgoing) => {}
        () = served => {}
    }
    far.host.process().forget(key);
}

impl Far {
    /// Reads until the client closes, or is dead and the server knows.
    async fn read(
        &self,
        key: u64,
        mut input: ReadHalf<DuplexStream>,
        inbox: mpsc::UnboundedSender<Chunk>,
    ) {
        let (mut pending, mut last) = (Vec::new(), Instant::now());
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = tokio::select! {
                biased;
                () = self.net.lives.noticed(self.client) => return,
                read = input.read(&mut buffer) => read.unwrap_or(0),
            };
            if read == 0 {
                self.closed.store(true, Ordering::Relaxed);
                return;
            }
            if self.net.lives.is_killed(self.client) {
                continue;
            }
            pending.extend(&buffer[..read]);
            let requests = resp::requests(&mut pending);
            last = last.max(self.net.due(self.client));
            let chunk = Chunk {
                due: last,
                dies: self.death(requests.len()),
                refused: self.net.refusal(),
                requests,
            };
            if let Some(connection) = self.host.process().connections.get_mut(&key) {
                connection.under_way += chunk.requests.len();
            }
            let _ = inbox.send(chunk);
        }
    }

    fn death(&self, requests: usize) -> Option<Death> {
        let (dice, faults) = (&self.net.dice, self.net.weather.faults());
        let before = self.net.roll(faults.request_lost) || self.net.is_cut_off(self.client);
        let after = self.net.roll(faults.reply_lost);
        (before || after).then(|| Death {
            at: usize::try_from(dice.below(requests as u64)).unwrap_or(0),
            after: !before,
            silent: dice.chance(500),
            hears_on: dice.chance(300),
        })
    }

    /// Carries out what came in.
    async fn work(
        &self,
        key: u64,
        mut chunks: mpsc::UnboundedReceiver<Chunk>,
        outbox: mpsc::UnboundedSender<Outgoing>,
    ) {
        while let Some(chunk) = chunks.recv().await {
            sleep_until(chunk.due).await;
            self.host.moves(key).await;
            self.host.awake().await;
            if self.closed.load(Ordering::Relaxed) {
                self.reach(Turn::Ghost);
            }
            for (at, words) in chunk.requests.iter().enumerate() {
                if self.deaf.load(Ordering::Relaxed) {
                    break;
                }
                let death = chunk.dies.filter(|death| death.at == at);
                if let Some(death) = death.filter(|death| !death.after) {
                    self.die(death).await;
                    continue;
                }
                let is_script = words[0].starts_with(b"EVAL");
                let reply = match chunk.refused.filter(|_| is_script) {
                    Some(text) => {
                        self.reach(Turn::Refused);
                        Some(resp::reply(&Reply::Error(text.into()), true))
                    }
                    None => self.host.process().answer(key, words),
                };
                let Some(bytes) = reply else { return };
                if let Some(connection) = self.host.process().connections.get_mut(&key) {
                    connection.under_way -= 1;
                }
                if let Some(death) = death {
                    self.die(death).await;
                }
                let _ = outbox.send(Outgoing {
                    at: Instant::now(),
                    bytes,
                    is_push: false,
                });
            }
        }
    }

    async fn die(&self, death: Death) {
        self.mute.store(true, Ordering::Relaxed);
        self.reach(if death.after {
            Turn::ReplyLost
        } else {
            Turn::RequestLost
        });
        if death.silent {
            self.deaf.store(!death.hears_on, Ordering::Relaxed);
        } else {
            self.ended.cancel();
            std::future::pending().await
        }
    }

    fn reach(&self, turn: Turn) {
        self.host.process().reach(turn);
    }

    /// A connection that died in silence is there for the server until somebody ends it.
    async fn linger(&self) {
        let is_dead = self.mute.load(Ordering::Relaxed) || self.net.lives.is_killed(self.client);
        if is_dead && !self.net.is_clear() {
            self.reach(Turn::LivedOn);
            sleep(self.net.dice.millis(20_000)).await;
        }
    }

    /// Sends what is to be sent.
    async fn write(
        &self,
        key: u64,
        mut output: WriteHalf<DuplexStream>,
        mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    ) {
        let (net, faults) = (&self.net, self.net.weather.faults());
        while let Some(next) = outgoing.recv().await {
            let (at, mut late, mut bytes) = (next.at, faults.late, Vec::new());
            // What is sent together travels together.
            let mut sent = Some(next);
            while let Some(next) = sent {
                if next.is_push && net.roll(faults.event_lost) {
                    self.reach(Turn::PushLost);
                } else {
                    bytes.extend(next.bytes);
                }
                if next.is_push {
                    late = faults.event_late;
                }
                sent = outgoing.try_recv().ok();
            }
            if self.mute.load(Ordering::Relaxed) || net.lives.is_killed(self.client) {
                continue;
            }
            sleep_until(at + net.latency() + net.late(late)).await;
            self.host.moves(key).await;
            // Whoever does not read any more is noticed by the one who reads here.
            let _ = output.write_all(&bytes).await;
        }
        std::future::pending().await
    }
}
