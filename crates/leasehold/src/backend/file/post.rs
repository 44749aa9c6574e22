//! How news reach the clients: in this process by channel, in others by datagram.

use std::{
    collections::HashMap,
    fs::File,
    io,
    net::Shutdown,
    os::{fd::AsRawFd, unix::net::UnixDatagram},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::sync::mpsc;

use super::{
    super::{ClientId, EVENT_BUFFER, Event, Events, Failure, Owner},
    config::Config,
    failure,
    read::Reader,
    session::socket_path,
    watch::{self, Watch},
    wire::{self, Letter},
};
use crate::clock::Clock;

/// The longest path that fits into a socket's address on every system, its final NUL included.
const LONGEST_ADDRESS: usize = 104;

/// Sends and receives the news of one open store.
#[derive(Debug)]
pub(super) struct Post {
    session: Arc<str>,
    prefix: String,
    directory: PathBuf,
    /// Keeps a short way to the directory open, for sockets with too long a path.
    handle: File,
    /// Bound to this session's path; the listening thread waits on it.
    ear: UnixDatagram,
    /// Bound to nothing, and never blocks.
    mouth: UnixDatagram,
    closed: AtomicBool,
    watch: Watch,
    clock: Clock,
    clients: Mutex<HashMap<ClientId, mpsc::Sender<Event>>>,
}

impl Post {
    /// Begins to receive for `session`. The thread ends with [`Post::close`].
    pub(super) fn open(
        directory: &Path,
        session: &Arc<str>,
        config: &Config,
        reader: Arc<Reader>,
    ) -> Result<Arc<Self>, Failure> {
        let path = socket_path(directory, session);
        let explain = |error| failure::io("listen on", &path, error);
        let handle = File::open(directory).map_err(explain)?;
        let ear = UnixDatagram::bind(address(&handle, directory, session)).map_err(explain)?;
        let mouth = UnixDatagram::unbound().map_err(explain)?;
        mouth.set_nonblocking(true).map_err(explain)?;
        let post = Arc::new(Self {
            session: Arc::clone(session),
            prefix: config.prefix.clone(),
            directory: directory.into(),
            handle,
            ear,
            mouth,
            closed: AtomicBool::new(false),
            watch: Watch::new(reader),
            clock: config.clock.clone(),
            clients: Mutex::default(),
        });
        let listener = Arc::clone(&post);
        thread::Builder::new()
            .name("leasehold-ear".into())
            .spawn(move || listener.listen())
            .map_err(explain)?;
        Ok(post)
    }

    /// Where the events for `client` arrive from now on.
    pub(super) fn attach(&self, client: &ClientId) -> Events {
        let (sender, receiver) = mpsc::channel(EVENT_BUFFER);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, sender| !sender.is_closed());
        clients.insert(client.clone(), sender);
        receiver
    }

    /// Sends what is to be told. Never blocks: what does not get through is found by a re-check.
    pub(super) fn send(&self, letters: Vec<Letter>) {
        for letter in letters {
            match letter.notice.session.as_deref() {
                Some(session) if session != &*self.session => {
                    let to = address(&self.handle, &self.directory, session);
                    let _ = self.mouth.send_to(letter.to_text().as_bytes(), to);
                }
                _ => self.deliver(letter.into_event(&self.prefix)),
            }
        }
    }

    /// Looks after a waiter of this process until it is granted or [`Post::unwatch`]ed.
    pub(super) fn watch(&self, owner: &Owner, key: &str, ticket: u64, patience: Duration) {
        let until = self.clock.now().after(patience);
        if self.watch.add(owner, key, ticket, until) {
            // Wakes the listening thread, which does not look while nobody waits.
            let to = address(&self.handle, &self.directory, &self.session);
            let _ = self.mouth.send_to(b"wake", to);
        }
    }

    pub(super) fn unwatch(&self, owner: &Owner) {
        self.watch.remove(owner);
    }

    /// Tells every client that its leases are over.
    pub(super) fn session_lost(&self) {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in clients.values() {
            let _ = sender.try_send(Event::SessionLost);
        }
    }

    /// Stops receiving.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.ear.shutdown(Shutdown::Both);
    }

    fn listen(&self) {
        let mut buffer = [0; wire::BUFFER];
        let (mut looked, mut rest) = (self.clock.now(), watch::PERIOD);
        while !self.closed.load(Ordering::SeqCst) {
            let idle = self.watch.is_idle();
            let _ = self.ear.set_read_timeout((!idle).then_some(rest));
            let heard = self.ear.recv(&mut buffer);
            let is_late = heard.as_ref().is_err_and(|error| {
                matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                )
            });
            match heard {
                Ok(length) => self.deliver(wire::read(&buffer[..length], &self.prefix)),
                Err(error) if is_late || error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
            let now = self.clock.now();
            if is_late || !idle && now - looked >= rest {
                for owner in self.watch.look(now) {
                    self.deliver(Some(Event::Again { owner }));
                }
                looked = self.clock.now();
                rest = watch::PERIOD.max((looked - now) * 10);
            }
        }
    }

    fn deliver(&self, event: Option<Event>) {
        let Some(event) = event else { return };
        let Some(client) = about(&event).map(Owner::client) else {
            return;
        };
        if let Event::Granted { owner, .. } = &event {
            self.watch.remove(owner);
        }
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = clients.get(&client) {
            let _ = sender.try_send(event);
        }
    }
}

const fn about(event: &Event) -> Option<&Owner> {
    match event {
        Event::Granted { owner, .. } | Event::Again { owner } | Event::Revoked { owner } => {
            Some(owner)
        }
        Event::Reconnected | Event::SessionLost => None,
    }
}

/// Whether anybody listens for `session`.
pub(super) fn reaches(directory: &Path, session: &str) -> bool {
    let connect = || {
        let handle = File::open(directory)?;
        UnixDatagram::unbound()?.connect(address(&handle, directory, session))
    };
    connect().is_ok()
}

/// A path to the session's socket that fits into an address.
fn address(handle: &File, directory: &Path, session: &str) -> PathBuf {
    let path = socket_path(directory, session);
    if path.as_os_str().len() < LONGEST_ADDRESS {
        return path;
    }
    let short = format!("/proc/self/fd/{}", handle.as_raw_fd());
    socket_path(Path::new(&short), session)
}
