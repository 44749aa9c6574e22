//! A TCP proxy between a client and a server that misbehaves on demand.
//!
//! One rule is in force at a time, for all connections and both directions; [`Proxy::recover`] goes
//! back to passing everything on. TCP never loses bytes out of the middle of a connection, so a
//! connection that had bytes swallowed is cut on recovery.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

/// A proxy in front of one server. Its tasks end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

/// What is being done to traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Everything passes.
    Pass,
    /// Everything passes, this much later in each direction.
    Delay(Duration),
    /// Nothing passes and nothing is lost: it arrives after recovery.
    BlackHole,
    /// Requests pass, replies are thrown away.
    SwallowReplies,
    /// Connections are closed as soon as they are accepted.
    Refuse,
}

#[derive(Clone, Copy, Debug)]
struct State {
    rule: Rule,
    /// Raised to end all connections that exist.
    cuts: u64,
    /// Raised to end the server's side of all connections that exist.
    server_cuts: u64,
    /// Raised to end the client's side of all connections that exist.
    client_cuts: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Requests,
    Replies,
}

impl Proxy {
    /// Starts a proxy in front of `server`, on a free local port.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0))
            .await
            .expect("a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let state = State {
            rule: Rule::Pass,
            cuts: 0,
            server_cuts: 0,
            client_cuts: 0,
        };
        let (state, watched) = watch::channel(state);
        let accepting = tokio::spawn(accept(listener, server, watched));
        Self {
            address,
            state,
            accepting,
        }
    }

    /// Where clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port clients connect to, on 127.0.0.1.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes the connections that exist, in both directions; new ones are served.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }

    /// Cuts, and closes new connections at once, until [`Proxy::recover`].
    pub fn refuse(&self) {
        self.state.send_modify(|state| {
            state.rule = Rule::Refuse;
            state.cuts += 1;
        });
    }

    /// Lets everything arrive `late`, in each direction.
    pub fn delay(&self, late: Duration) {
        self.set(Rule::Delay(late));
    }

    /// Accepts, and stays silent both ways. What was sent arrives after [`Proxy::recover`].
    pub fn black_hole(&self) {
        self.set(Rule::BlackHole);
    }

    /// Forwards requests and throws replies and pushes away.
    pub fn swallow_replies(&self) {
        self.set(Rule::SwallowReplies);
    }

    /// The server is gone without a word: its side of the existing connections is closed, the
    /// client's stays open and silent. New connections are served.
    pub fn lose_server(&self) {
        self.state.send_modify(|state| state.server_cuts += 1);
    }

    /// The client is gone without a word: its side of the existing connections is closed, the
    /// server's stays open and silent, as a half-open connection's does. New ones are served.
    pub fn lose_client(&self) {
        self.state.send_modify(|state| state.client_cuts += 1);
    }

    /// Passes everything on again. Connections that had bytes thrown away are cut.
    pub fn recover(&self) {
        self.set(Rule::Pass);
    }

    fn set(&self, rule: Rule) {
        self.state.send_modify(|state| state.rule = rule);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, state: watch::Receiver<State>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            // Out of descriptors, most likely: others will be closed.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        tokio::spawn(serve(client, server, state.clone()));
    }
}

/// One connection, from its accept to its end.
async fn serve(client: TcpStream, server: SocketAddr, state: watch::Receiver<State>) {
    if state.borrow().rule == Rule::Refuse {
        return;
    }
    let Ok(upstream) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let begun = *state.borrow();
    let mut watched = state.clone();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = upstream.into_split();
    let over = watched.wait_for(|now| now.cuts != begun.cuts);
    let mut half_watched = state.clone();
    let half = half_watched.wait_for(|now| {
        now.server_cuts != begun.server_cuts || now.client_cuts != begun.client_cuts
    });
    let mut requests = Pipe::new(Direction::Requests, from_client, to_server, state.clone());
    let mut replies = Pipe::new(Direction::Replies, from_server, to_client, state.clone());
    let lost = tokio::select! {
        biased;
        _ = over => return,
        lost = half => lost.map(|now| now.server_cuts != begun.server_cuts),
        _ = requests.run() => return,
        _ = replies.run() => return,
    };
    let Ok(server_lost) = lost else { return };
    // The halves of the side that is lost go; those of the other stay, unread, until the next cut.
    let client_side = (requests.from, replies.to);
    let server_side = (replies.from, requests.to);
    let mut state = state;
    if server_lost {
        drop(server_side);
        until_cut(&mut state, begun.cuts).await;
        drop(client_side);
    } else {
        drop(client_side);
        until_cut(&mut state, begun.cuts).await;
        drop(server_side);
    }
}

async fn until_cut(state: &mut watch::Receiver<State>, cuts: u64) {
    let _ = state.wait_for(|now| now.cuts != cuts).await;
}

/// One direction of one connection.
struct Pipe {
    direction: Direction,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    state: watch::Receiver<State>,
    /// Bytes that were read, with when they are to be written.
    held: VecDeque<(Instant, Vec<u8>)>,
    swallowed: bool,
}

impl Pipe {
    const fn new(
        direction: Direction,
        from: OwnedReadHalf,
        to: OwnedWriteHalf,
        state: watch::Receiver<State>,
    ) -> Self {
        Self {
            direction,
            from,
            to,
            state,
            held: VecDeque::new(),
            swallowed: false,
        }
    }

    /// Passes bytes on until either end closes, or bytes are missing.
    async fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let rule = self.state.borrow_and_update().rule;
            let swallows = rule == Rule::SwallowReplies && self.direction == Direction::Replies;
            if self.swallowed && !swallows {
                return Ok(());
            }
            let due = self.held.front().map(|(due, _)| *due);
            let silent = rule == Rule::BlackHole;
            tokio::select! {
                biased;
                changed = self.state.changed() => changed.map_err(io::Error::other)?,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() && !silent => {
                    let Some((_, bytes)) = self.held.pop_front() else { continue };
                    self.to.write_all(&bytes).await?;
                }
                read = self.from.read(&mut buffer), if !silent => {
                    let read = read?;
                    if read == 0 {
                        return Ok(());
                    }
                    if swallows {
                        self.swallowed = true;
                        continue;
                    }
                    let late = if let Rule::Delay(late) = rule { late } else { Duration::ZERO };
                    self.held.push_back((Instant::now() + late, buffer[..read].to_vec()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::timeout;

    const SOON: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(5);

    /// A server that answers every byte with itself, and a proxy in front of it.
    async fn echo() -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        Proxy::start(address).await
    }

    async fn ask(stream: &mut TcpStream, limit: Duration) -> Option<io::Result<u8>> {
        stream.write_all(b"x").await.ok()?;
        timeout(limit, stream.read_u8()).await.ok()
    }

    async fn connect(proxy: &Proxy) -> TcpStream {
        TcpStream::connect(proxy.address()).await.unwrap()
    }

    #[tokio::test]
    async fn passes_then_cuts_then_serves_new_connections() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        assert_eq!(ask(&mut stream, LONG).await.unwrap().unwrap(), b'x');
        proxy.cut();
        assert!(timeout(LONG, stream.read_u8()).await.unwrap().is_err());
        let mut stream = connect(&proxy).await;
        assert_eq!(ask(&mut stream, LONG).await.unwrap().unwrap(), b'x');
    }

    #[tokio::test]
    async fn a_black_hole_is_silent_and_loses_nothing() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        assert!(ask(&mut stream, LONG).await.is_some());
        proxy.black_hole();
        assert!(ask(&mut stream, SOON).await.is_none());
        proxy.recover();
        assert_eq!(
            timeout(LONG, stream.read_u8()).await.unwrap().unwrap(),
            b'x'
        );
    }

    #[tokio::test]
    async fn swallowed_replies_end_the_connection_on_recovery() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        assert!(ask(&mut stream, LONG).await.is_some());
        proxy.swallow_replies();
        assert!(ask(&mut stream, SOON).await.is_none());
        proxy.recover();
        assert!(timeout(LONG, stream.read_u8()).await.unwrap().is_err());
    }

    #[tokio::test]
    async fn delays_each_way() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        assert!(ask(&mut stream, LONG).await.is_some());
        proxy.delay(SOON);
        let begun = Instant::now();
        assert!(ask(&mut stream, LONG).await.is_some());
        assert!(begun.elapsed() >= 2 * SOON);
    }

    #[tokio::test]
    async fn a_lost_server_leaves_the_client_waiting() {
        let proxy = echo().await;
        let mut stream = connect(&proxy).await;
        assert!(ask(&mut stream, LONG).await.is_some());
        proxy.lose_server();
        assert!(ask(&mut stream, SOON).await.is_none());
        assert!(ask(&mut connect(&proxy).await, LONG).await.is_some());
        proxy.cut();
        assert!(timeout(LONG, stream.read_u8()).await.unwrap().is_err());
    }

    #[tokio::test]
    async fn refuses_until_recovery() {
        let proxy = echo().await;
        proxy.refuse();
        let mut stream = connect(&proxy).await;
        assert!(timeout(LONG, stream.read_u8()).await.unwrap().is_err());
        proxy.recover();
        assert!(ask(&mut connect(&proxy).await, LONG).await.is_some());
    }
}
