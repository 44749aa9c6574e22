//! The ways between the members of a store, which a test can close one by one.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::{Builder, Runtime},
    sync::watch,
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
    /// What the members call themselves in the heads of their requests, where they do.
    names: Vec<String>,
}

impl State {
    fn is_open(&self, from: &Source, to: &Source) -> bool {
        let member = |source: &Source| match source {
            Source::Member(member) => Some(*member),
            Source::Named(name) => self.names.iter().position(|other| other == name),
        };
        member(from)
            .zip(member(to))
            .is_none_or(|way| !self.closed.contains(&way))
    }
}

/// Who is at one end of a connection.
#[derive(Clone, Debug)]
enum Source {
    Member(usize),
    Named(String),
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

    /// Where member `from` reaches what member `to` has at `target`; with no `from`, where all do,
    /// and each says in its request's head who it is.
    pub(super) fn open(&self, from: Option<usize>, to: usize, target: SocketAddr) -> SocketAddr {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket can be");
        let runtime = self.runtime.as_ref().expect("until it is dropped");
        let state = self.state.subscribe();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listening socket");
            while let Ok((stream, _)) = listener.accept().await {
                let ends = (from.map(Source::Member), Source::Member(to));
                tokio::spawn(serve(stream, target, ends, state.clone()));
            }
        });
        address
    }

    /// What each member calls itself.
    pub(super) fn set_names(&self, names: Vec<String>) {
        self.state.send_modify(|state| state.names = names);
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
    (from, to): (Option<Source>, Source),
    state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut upstream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    upstream.set_nodelay(true)?;
    let mut head = Vec::new();
    let from = match from {
        Some(from) => from,
        None => Source::Named(sender(&mut stream, &mut head).await?),
    };
    let (mut from_client, mut to_client) = stream.split();
    let (mut from_server, mut to_server) = upstream.split();
    let requests = pass(
        head,
        &mut from_client,
        &mut to_server,
        (&from, &to),
        state.clone(),
    );
    let replies = pass(
        Vec::new(),
        &mut from_server,
        &mut to_client,
        (&to, &from),
        state,
    );
    tokio::select! {
        biased;
        ended = requests => ended,
        ended = replies => ended,
    }
}

/// Passes bytes on, `first` first, while the way is open.
async fn pass(
    first: Vec<u8>,
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    way: (&Source, &Source),
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = first;
    loop {
        let open = state.wait_for(|state| state.is_open(way.0, way.1)).await;
        drop(open.map_err(io::Error::other)?);
        to.write_all(&bytes).await?;
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        bytes.clear();
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// Who sends the request whose head is read from `stream`, into `head`: etcd's members say so.
async fn sender(stream: &mut TcpStream, head: &mut Vec<u8>) -> io::Result<String> {
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(head);
        if let Some((lines, _)) = text.split_once("\r\n\r\n") {
            let mut names = lines
                .lines()
                .filter_map(|line| line.strip_prefix("X-Server-From: "));
            return Ok(names.next().unwrap_or_default().to_owned());
        }
    }
}
