//! The members of the store, one of which is in use; calls to it, and logins.

use std::{
    ops::ControlFlow,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::uri::PathAndQuery;
use prost::Message;
use tokio::{
    sync::watch,
    time::{error::Elapsed, timeout},
};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    metadata::{Ascii, MetadataValue},
    transport::{Channel, Endpoint},
};
use tonic_prost::ProstCodec;

use super::{
    config::Config,
    failure::{self, Remedy},
    proto::{LoginRequest, LoginResponse},
};
use crate::backend::{Failure, Sent};

/// A crowd of waiters on one name is read at once.
const LARGEST_ANSWER: usize = 64 << 20;

/// An answer, and whether an earlier try of the same call may have been executed too.
#[derive(Debug)]
pub(super) struct Reply<T> {
    pub(super) value: T,
    pub(super) repeated: bool,
}

/// Why a call has no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The lease named in it does not exist; nothing was executed.
    LeaseGone,
    /// The revision named in it can no longer be read.
    Compacted,
    /// All else.
    Failed(Failure),
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Failed(failure) => failure,
            Trouble::LeaseGone => Self::unavailable("the session's lease is over"),
            Trouble::Compacted => Self::unavailable("the store forgot the revision asked for"),
        }
    }
}

/// The members, one of which is in use.
#[derive(Debug)]
pub(super) struct Members {
    endpoints: Vec<Endpoint>,
    in_use: Mutex<InUse>,
    moved: watch::Sender<u64>,
    login: Option<LoginRequest>,
    ticket: Mutex<Option<MetadataValue<Ascii>>>,
    limit: Duration,
}

#[derive(Debug)]
struct InUse {
    at: usize,
    moves: u64,
    channel: Channel,
}

impl Members {
    /// Connects to nobody yet. `first` chooses whom to try first.
    pub(super) fn new(config: &Config, first: u64) -> Result<Self, Failure> {
        let endpoints = config.endpoints()?;
        let count = u64::try_from(endpoints.len()).unwrap_or(1).max(1);
        let at = usize::try_from(first % count).unwrap_or(0);
        let channel = endpoints[at].connect_lazy();
        Ok(Self {
            in_use: Mutex::new(InUse {
                at,
                moves: 0,
                channel,
            }),
            endpoints,
            moved: watch::Sender::new(0),
            login: config.login(),
            ticket: Mutex::new(None),
            limit: config.call_timeout,
        })
    }

    /// Told whenever another member is taken into use.
    pub(super) fn moves(&self) -> watch::Receiver<u64> {
        self.moved.subscribe()
    }

    /// One request and its answer; tried at several members within the time limit. To be used for
    /// what may be executed twice only.
    pub(super) async fn call<Q, A>(
        &self,
        path: &'static str,
        request: &Q,
    ) -> Result<Reply<A>, Trouble>
    where
        Q: Message + Clone + Default + 'static,
        A: Message + Default + 'static,
    {
        let all = async {
            let mut tries = self.tries();
            loop {
                let asked = self.request(request.clone());
                let outcome = self.call_once(path, asked.await, tries.limit).await;
                if let ControlFlow::Break(answer) = tries.take_in(outcome) {
                    return answer;
                }
            }
        };
        timed(timeout(self.limit, all).await)
    }

    /// Sends one message on a stream of its own and reads one answer; else as [`call`](Self::call).
    pub(super) async fn exchange<Q, A>(
        &self,
        path: &'static str,
        request: &Q,
    ) -> Result<Reply<A>, Trouble>
    where
        Q: Message + Clone + Default + Unpin + 'static,
        A: Message + Default + 'static,
    {
        let all = async {
            let mut tries = self.tries();
            loop {
                let asked = self.request(One(Some(request.clone())));
                let outcome = self.exchange_once(path, asked.await, tries.limit).await;
                if let ControlFlow::Break(answer) = tries.take_in(outcome) {
                    return answer;
                }
            }
        };
        timed(timeout(self.limit, all).await)
    }

    async fn call_once<Q, A>(
        &self,
        path: &'static str,
        asked: Result<Request<Q>, Failure>,
        limit: Duration,
    ) -> Outcome<A>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let mut asked = asked?;
        asked.set_timeout(limit);
        let (mut grpc, moves) = self.grpc();
        let call = async {
            grpc.ready().await.map_err(unready)?;
            let path = PathAndQuery::from_static(path);
            let codec = ProstCodec::<Q, A>::default();
            Ok(grpc.unary(asked, path, codec).await?.into_inner())
        };
        self.outcome(timeout(limit, call).await.ok(), moves)
    }

    async fn exchange_once<Q, A>(
        &self,
        path: &'static str,
        asked: Result<Request<One<Q>>, Failure>,
        limit: Duration,
    ) -> Outcome<A>
    where
        Q: Message + Default + Unpin + 'static,
        A: Message + Default + 'static,
    {
        let asked = asked?;
        let (mut grpc, moves) = self.grpc();
        let call = async {
            grpc.ready().await.map_err(unready)?;
            let path = PathAndQuery::from_static(path);
            let codec = ProstCodec::<Q, A>::default();
            let mut answers = grpc.streaming(asked, path, codec).await?.into_inner();
            let answer = answers.message().await?;
            answer.ok_or_else(|| Status::unavailable("the stream ended"))
        };
        self.outcome(timeout(limit, call).await.ok(), moves)
    }

    /// What came of a call, `None` when no answer came in time; learns from it about the member.
    fn outcome<A>(&self, answer: Option<Result<A, Status>>, moves: u64) -> Outcome<A> {
        match answer {
            Some(Err(status)) => {
                self.judge(&status, moves);
                Ok(Err(status))
            }
            Some(answer) => Ok(answer),
            None => {
                self.move_on(moves);
                Err(failure::no_answer())
            }
        }
    }

    fn tries(&self) -> Tries {
        let members = u32::try_from(self.endpoints.len()).unwrap_or(1);
        Tries {
            left: members.max(2),
            // A single member has the whole limit, for there is nobody else to ask.
            limit: self.limit / members.clamp(1, 3),
            repeated: false,
        }
    }

    /// Opens a stream. Its first message must be in `requests` already, or the call never returns.
    pub(super) async fn stream<S, Q, A>(
        &self,
        path: &'static str,
        requests: S,
    ) -> Result<(Streaming<A>, u64), Failure>
    where
        S: futures_core::Stream<Item = Q> + Send + 'static,
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let (mut grpc, moves) = self.grpc();
        let asked = self.request(requests).await?;
        let call = async {
            grpc.ready().await.map_err(unready)?;
            let path = PathAndQuery::from_static(path);
            grpc.streaming(asked, path, ProstCodec::<Q, A>::default())
                .await
        };
        match timeout(self.limit, call).await {
            Ok(Ok(answers)) => Ok((answers.into_inner(), moves)),
            Ok(Err(status)) => {
                self.judge(&status, moves);
                Err(failure::from_status(&status).0)
            }
            Err(_) => {
                self.move_on(moves);
                Err(failure::no_answer())
            }
        }
    }

    /// Logs in anew before the next call.
    pub(super) fn log_out(&self) {
        *lock(&self.ticket) = None;
    }

    /// Takes the next member into use, unless that has happened since `moves`.
    pub(super) fn move_on(&self, moves: u64) {
        let mut in_use = lock(&self.in_use);
        if in_use.moves == moves {
            in_use.at = (in_use.at + 1) % self.endpoints.len();
            in_use.moves += 1;
            in_use.channel = self.endpoints[in_use.at].connect_lazy();
            self.moved.send_replace(in_use.moves);
        }
    }

    /// What a failed call says about the member and the login.
    fn judge(&self, status: &Status, moves: u64) {
        match failure::from_status(status).1 {
            Remedy::AnotherMember => self.move_on(moves),
            Remedy::LogIn => self.log_out(),
            Remedy::None => {}
        }
    }

    fn grpc(&self) -> (Grpc<Channel>, u64) {
        let in_use = lock(&self.in_use);
        let grpc = Grpc::new(in_use.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        (grpc, in_use.moves)
    }

    /// `body` with what every call carries: a member without a leader must say so rather than wait.
    async fn request<T>(&self, body: T) -> Result<Request<T>, Failure> {
        let mut request = Request::new(body);
        let headers = request.metadata_mut();
        headers.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(login) = &self.login {
            let held = lock(&self.ticket).clone();
            let ticket = match held {
                Some(ticket) => ticket,
                None => self.log_in(login).await?,
            };
            headers.insert("token", ticket);
        }
        Ok(request)
    }

    async fn log_in(&self, login: &LoginRequest) -> Result<MetadataValue<Ascii>, Failure> {
        let (mut grpc, moves) = self.grpc();
        let call = async {
            grpc.ready().await.map_err(unready)?;
            let path = PathAndQuery::from_static("/etcdserverpb.Auth/Authenticate");
            let codec = ProstCodec::<LoginRequest, LoginResponse>::default();
            grpc.unary(Request::new(login.clone()), path, codec).await
        };
        let answer = match timeout(self.limit, call).await {
            Ok(Ok(answer)) => answer.into_inner().ticket,
            // The store has no users: all may do everything.
            Ok(Err(status)) if status.message().contains("authentication is not enabled") => {
                String::new()
            }
            Ok(Err(status)) => {
                self.judge(&status, moves);
                let failure = failure::from_status(&status).0;
                let (kind, message) = (failure.kind(), failure.message().to_owned());
                // Whatever became of it, the request proper was not sent.
                return Err(Failure::new(kind, Sent::No, message));
            }
            Err(_) => {
                self.move_on(moves);
                return Err(Failure::unavailable("the server does not answer the login"));
            }
        };
        let mut ticket: MetadataValue<Ascii> = answer
            .parse()
            .map_err(|_| failure::garbage("the login's answer"))?;
        ticket.set_sensitive(true);
        *lock(&self.ticket) = Some(ticket.clone());
        Ok(ticket)
    }
}

/// What came of one try.
type Outcome<A> = Result<Result<A, Status>, Failure>;

/// The tries of one call.
struct Tries {
    left: u32,
    limit: Duration,
    repeated: bool,
}

impl Tries {
    fn take_in<A>(&mut self, outcome: Outcome<A>) -> ControlFlow<Result<Reply<A>, Trouble>> {
        let repeated = self.repeated;
        let (failure, again) = match outcome {
            Ok(Ok(value)) => return ControlFlow::Break(Ok(Reply { value, repeated })),
            Ok(Err(status)) if failure::is_lease_gone(&status) => {
                // An earlier try may have been executed before the lease ended.
                let trouble = if repeated {
                    failure::no_answer().into()
                } else {
                    Trouble::LeaseGone
                };
                return ControlFlow::Break(Err(trouble));
            }
            Ok(Err(status)) if failure::is_compacted(&status) => {
                return ControlFlow::Break(Err(Trouble::Compacted));
            }
            Ok(Err(status)) => {
                let (failure, remedy) = failure::from_status(&status);
                (failure, remedy != Remedy::None)
            }
            Err(failure) => {
                let again = failure.is_passing();
                (failure, again)
            }
        };
        self.repeated |= failure.sent() == Sent::Maybe;
        self.left -= 1;
        if again && self.left > 0 {
            return ControlFlow::Continue(());
        }
        // An earlier try may have been executed although the last one was not.
        let failure = if self.repeated && failure.sent() == Sent::No {
            Failure::new(failure.kind(), Sent::Maybe, failure.message())
        } else {
            failure
        };
        ControlFlow::Break(Err(failure.into()))
    }
}

fn timed<A>(answer: Result<Result<Reply<A>, Trouble>, Elapsed>) -> Result<Reply<A>, Trouble> {
    answer.unwrap_or_else(|_| Err(failure::no_answer().into()))
}

fn unready(error: tonic::transport::Error) -> Status {
    Status::from_error(Box::new(error))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream of one message.
struct One<T>(Option<T>);

impl<T: Unpin> futures_core::Stream for One<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        std::task::Poll::Ready(self.0.take())
    }
}
