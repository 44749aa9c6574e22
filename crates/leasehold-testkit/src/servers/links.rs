//! The ways between the members of a store, which a test can close one by one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    sync::watch,
    time::sleep,
};

/// Passes on what members send each other, but for what is closed: that arrives after it is opened
/// again, as on a network that was down for a while.
#[derive(Debug)]
pub(super) struct Links {
    // Of its own: the members talk while a test's runtime is busy, or over.
    runtime: Option<Runtime>,
    state: watch::Sender<State>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// From whom nothing comes through to whom.
    closed: BTreeSet<(usize, usize)>,
    /// The members' processes.
    processes: BTreeMap<usize, i32>,
}

impl State {
    /// Whether bytes come through `way`. Where one end is not known they do while nothing is closed
    /// at the other.
    fn is_open(&self, (from, to): (Option<usize>, Option<usize>)) -> bool {
        let same = |known: Option<usize>, end: usize| known.is_none_or(|known| known == end);
        let mut closed = self.closed.iter();
        !closed.any(|way| same(from, way.0) && same(to, way.1))
    }
}

impl Links {
    pub(super) fn new() -> Self {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        Self {
            runtime: Some(runtime.expect("a thread can be started")),
            state: watch::Sender::default(),
        }
    }

    /// Where members reach what member `to` has at `target`.
    pub(super) fn open(&self, to: usize, target: SocketAddr) -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket can be");
        let runtime = self.runtime.as_ref().expect("until it is dropped");
        let state = self.state.subscribe();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listening socket");
            while let Ok((stream, peer)) = listener.accept().await {
                let processes = state.borrow().processes.clone();
                // None for one that has said what it had to say and is gone, as ZooKeeper's do.
                let ends = (owner(peer, &processes), Some(to));
                tokio::spawn(serve(stream, target, ends, state.clone()));
            }
        });
        address
    }

    /// Which process a member is.
    pub(super) fn set_process(&self, member: usize, pid: i32) {
        self.state.send_modify(|state| {
            state.processes.insert(member, pid);
        });
    }

    /// Lets nothing through from one member to another; what comes back does.
    pub(super) fn close(&self, from: usize, to: usize) {
        self.state.send_modify(|state| {
            state.closed.insert((from, to));
        });
    }

    /// Lets everything through again.
    pub(super) fn open_all(&self) {
        self.state.send_modify(|state| state.closed.clear());
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // Waiting for it is not allowed in a test's runtime, and not needed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    target: SocketAddr,
    (from, to): (Option<usize>, Option<usize>),
    state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut upstream = connect(target).await?;
    stream.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let (mut from_client, mut to_client) = stream.split();
    let (mut from_server, mut to_server) = upstream.split();
    let requests = pass(&mut from_client, &mut to_server, (from, to), state.clone());
    let replies = pass(&mut from_server, &mut to_client, (to, from), state);
    tokio::select! {
        biased;
        ended = requests => ended,
        ended = replies => ended,
    }
}

/// Where nobody listens yet, whoever connects would be refused and would try again; it is accepted
/// already, so this tries in its place.
async fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    for _ in 0..150 {
        if let Ok(stream) = TcpStream::connect(target).await {
            return Ok(stream);
        }
        sleep(Duration::from_millis(20)).await;
    }
    TcpStream::connect(target).await
}

/// Passes bytes on while the way is open.
async fn pass(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    way: (Option<usize>, Option<usize>),
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let open = state.wait_for(|state| state.is_open(way)).await;
        drop(open.map_err(io::Error::other)?);
        to.write_all(&buffer[..read]).await?;
    }
}

/// Whose socket is at this end of a local connection: the system knows.
fn owner(end: SocketAddr, processes: &BTreeMap<usize, i32>) -> Option<usize> {
    let IpAddr::V4(address) = end.ip() else {
        return None;
    };
    let address = u32::from_ne_bytes(address.octets());
    let local = format!("{address:08X}:{:04X}", end.port());
    // Java connects to such an address on a socket of the newer kind.
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let sockets: String = tables.into_iter().flatten().collect();
    let inode = sockets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.nth(1)?.ends_with(&local).then(|| words.nth(7))?
    })?;
    let link = format!("socket:[{inode}]");
    let has = |pid: i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
        targets.any(|target| target.as_os_str() == link.as_str())
    };
    let mut members = processes.iter();
    members
        .find(|(_, pid)| has(**pid))
        .map(|(member, _)| *member)
}
