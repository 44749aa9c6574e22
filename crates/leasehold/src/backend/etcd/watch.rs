//! Hears of changes: one stream for all that this handle watches.
//!
//! What is heard is a hint. A waiter reads the queue again before it is told anything, and a holder
//! judges by its renewals.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::{mpsc, watch};
use tonic::Streaming;

use super::{
    attempt::look_again,
    hub::Hub,
    own::{Slot, Stage},
    proto::{
        WatchCall, WatchCancel, WatchCreate, WatchEvent, WatchFilter, WatchRequest, WatchResponse,
    },
};
use crate::backend::Event;

const DELETED: i32 = 1;

/// How long to wait before a stream that broke is opened again.
const PAUSE: Duration = Duration::from_millis(100);

/// What to watch.
#[derive(Debug)]
pub(super) enum Command {
    Watch {
        id: i64,
        key: Vec<u8>,
        /// From which revision on.
        revision: i64,
        /// Also when it is rewritten, not only when it is gone.
        puts: bool,
        slot: Weak<Slot>,
    },
    Unwatch(i64),
}

/// Something watched.
struct Watch {
    key: Vec<u8>,
    revision: i64,
    puts: bool,
    slot: Weak<Slot>,
    /// Refused once, as happens where the login of the stream is over.
    is_refused: bool,
}

impl Watch {
    fn request(&self, id: i64) -> WatchRequest {
        let filters = if self.puts {
            Vec::new()
        } else {
            vec![WatchFilter::NoPut.into()]
        };
        let create = WatchCreate {
            key: self.key.clone(),
            start_revision: self.revision,
            filters,
            watch_id: id,
        };
        WatchRequest {
            call: Some(WatchCall::Create(create)),
        }
    }
}

/// Runs until the handle is gone.
pub(super) async fn run(hub: Weak<Hub>, mut commands: mpsc::UnboundedReceiver<Command>) {
    let mut watcher = Watcher {
        hub,
        watches: HashMap::new(),
    };
    let mut has_run = false;
    loop {
        // A stream has to begin with a message.
        while watcher.watches.is_empty() {
            match commands.recv().await {
                Some(command) => drop(watcher.take_in(command)),
                None => return,
            }
        }
        let Some(hub) = watcher.hub.upgrade() else {
            return;
        };
        let moves = hub.store.members.moves();
        let (requests, outgoing) = mpsc::unbounded_channel();
        for (&id, watch) in &watcher.watches {
            let _ = requests.send(watch.request(id));
        }
        let path = "/etcdserverpb.Watch/Watch";
        let opened = hub.store.members.stream(path, Outgoing(outgoing)).await;
        if opened.is_ok() && has_run {
            hub.tell_all(&Event::Reconnected);
        }
        drop(hub);
        if let Ok((answers, moved)) = opened {
            has_run = true;
            let stream = Stream {
                answers,
                requests,
                moves,
                moved,
            };
            if watcher.follow(stream, &mut commands).await.is_none() {
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

struct Watcher {
    hub: Weak<Hub>,
    watches: HashMap<i64, Watch>,
}

/// A stream that is open.
struct Stream {
    answers: Streaming<WatchResponse>,
    requests: mpsc::UnboundedSender<WatchRequest>,
    moves: watch::Receiver<u64>,
    /// The member it goes to.
    moved: u64,
}

impl Watcher {
    /// Until the stream ends; `None` when the handle is gone.
    async fn follow(
        &mut self,
        mut stream: Stream,
        commands: &mut mpsc::UnboundedReceiver<Command>,
    ) -> Option<()> {
        loop {
            tokio::select! { biased;
                command = commands.recv() => {
                    if let Some(request) = self.take_in(command?) {
                        let _ = stream.requests.send(request);
                    }
                }
                // Another member is in use: this one did not answer.
                moved = stream.moves.wait_for(|&moves| moves != stream.moved) => {
                    return moved.is_ok().then_some(());
                }
                answer = stream.answers.message() => match answer {
                    Ok(Some(answer)) => if self.is_refused(&answer) {
                        self.hub.upgrade()?.store.members.log_out();
                        return Some(());
                    } else {
                        self.hear(answer);
                    },
                    Ok(None) | Err(_) => {
                        self.hub.upgrade()?.store.members.move_on(stream.moved);
                        return Some(());
                    }
                }
            }
        }
    }

    fn take_in(&mut self, command: Command) -> Option<WatchRequest> {
        match command {
            Command::Watch {
                id,
                key,
                revision,
                puts,
                slot,
            } => {
                let watch = Watch {
                    key,
                    revision,
                    puts,
                    slot,
                    is_refused: false,
                };
                let request = watch.request(id);
                self.watches.insert(id, watch);
                Some(request)
            }
            Command::Unwatch(id) => {
                self.watches.remove(&id)?;
                let cancel = WatchCancel { watch_id: id };
                Some(WatchRequest {
                    call: Some(WatchCall::Cancel(cancel)),
                })
            }
        }
    }

    /// Whether a stream with a new login may do better.
    fn is_refused(&mut self, answer: &WatchResponse) -> bool {
        let is_refusal = answer.canceled && answer.compacted == 0;
        let watch = self.watches.get_mut(&answer.watch_id);
        is_refusal && watch.is_some_and(|it| !std::mem::replace(&mut it.is_refused, true))
    }

    fn hear(&mut self, answer: WatchResponse) {
        let id = answer.watch_id;
        let Some(watch) = self.watches.get_mut(&id) else {
            return;
        };
        let Some((slot, hub)) = watch.slot.upgrade().zip(self.hub.upgrade()) else {
            self.watches.remove(&id);
            return;
        };
        if answer.created && !answer.canceled {
            watch.is_refused = false;
        }
        for kv in answer.events.iter().filter_map(|it| it.kv.as_ref()) {
            watch.revision = watch.revision.max(kv.modified + 1);
        }
        let is_own = slot.state().own_watch == Some(id);
        if answer.canceled {
            self.watches.remove(&id);
            let mut state = slot.state();
            state.watches.retain(|&(_, watch)| watch != id);
            if is_own {
                // What happened meanwhile is found out by the next renewal.
                let again = answer.compacted > 0;
                state.own_watch = again.then(|| hub.watch(&slot, &slot.key, 0, false));
            }
        }
        if is_own {
            self.hear_of_own(&hub, &slot, &answer.events);
        } else if !answer.events.is_empty() || answer.compacted > 0 {
            notice(hub, slot);
        }
    }

    /// A holder's own key is gone: somebody else removed it.
    fn hear_of_own(&self, hub: &Arc<Hub>, slot: &Arc<Slot>, events: &[WatchEvent]) {
        let state = slot.state();
        let Some(place) = state.place.as_ref() else {
            return;
        };
        let is_gone = events.iter().any(|event| {
            let after = event
                .kv
                .as_ref()
                .is_some_and(|kv| kv.modified > place.created);
            event.kind == DELETED && after
        });
        if is_gone && matches!(state.stage, Stage::Held(_)) {
            drop(state);
            hub.tell(
                &slot.owner,
                Event::Revoked {
                    owner: slot.owner.clone(),
                },
            );
        }
    }
}

/// Looks again for a waiter, once for all that is heard until then.
pub(super) fn notice(hub: Arc<Hub>, slot: Arc<Slot>) {
    if !std::mem::replace(&mut slot.state().is_looking, true) {
        tokio::spawn(look_again(hub, slot));
    }
}

/// What is sent on a stream, as it comes.
struct Outgoing(mpsc::UnboundedReceiver<WatchRequest>);

impl futures_core::Stream for Outgoing {
    type Item = WatchRequest;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<WatchRequest>> {
        self.0.poll_recv(context)
    }
}
