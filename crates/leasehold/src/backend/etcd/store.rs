//! The store as the operations see it: typed calls and the parts of transactions.

use leasehold_core::Name;

use super::{
    failure::garbage,
    keys::{Prefix, Span},
    line::Line,
    members::{Members, Reply, Trouble},
    proto::{
        Compare, DeleteRequest, Done, GrantRequest, GrantResponse, Header, KeepAliveRequest,
        KeepAliveResponse, KeyValue, Op, Operand, PutRequest, RangeRequest, RangeResponse,
        Relation, RequestOp, ResponseOp, SortOrder, SortTarget, StatusRequest, StatusResponse,
        Target, TimeToLiveRequest, TimeToLiveResponse, TxnRequest, TxnResponse,
    },
};
use crate::backend::Failure;

/// The store behind its members.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) members: Members,
    pub(super) prefix: Prefix,
}

impl Store {
    pub(super) async fn txn(&self, txn: &TxnRequest) -> Result<Reply<TxnResponse>, Trouble> {
        self.members.call("/etcdserverpb.KV/Txn", txn).await
    }

    pub(super) async fn range(&self, range: &RangeRequest) -> Result<RangeResponse, Trouble> {
        let reply = self.members.call("/etcdserverpb.KV/Range", range).await?;
        Ok(reply.value)
    }

    /// The queue of `name` as a majority has it now.
    pub(super) async fn line(&self, name: &Name) -> Result<Line, Failure> {
        let answer = self.range(&whole(self.prefix.queue(name.as_str()))).await?;
        let revision = revision(answer.header.as_ref())?;
        Ok(self.read_line(name, revision, answer.kvs))
    }

    pub(super) fn read_line(&self, name: &Name, revision: i64, kvs: Vec<KeyValue>) -> Line {
        Line::read(&self.prefix, name.as_str(), revision, kvs)
    }

    /// A new lease of at least `seconds`: its id and what it has.
    pub(super) async fn grant(&self, seconds: i64) -> Result<(i64, i64), Failure> {
        let request = GrantRequest { ttl: seconds };
        let path = "/etcdserverpb.Lease/LeaseGrant";
        let answer: Reply<GrantResponse> = self.members.call(path, &request).await?;
        let GrantResponse { id, ttl } = answer.value;
        if id == 0 || ttl < seconds {
            return Err(garbage("a lease shorter than what was asked for"));
        }
        Ok((id, ttl))
    }

    /// Sets a lease anew; what it has then, not above zero when it is over.
    pub(super) async fn keep_alive(&self, id: i64) -> Result<i64, Failure> {
        let path = "/etcdserverpb.Lease/LeaseKeepAlive";
        let request = KeepAliveRequest { id };
        let answer: Result<Reply<KeepAliveResponse>, _> =
            self.members.exchange(path, &request).await;
        match answer {
            Ok(answer) => Ok(answer.value.ttl),
            Err(Trouble::LeaseGone) => Ok(0),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// What a lease has left, in seconds; not above zero when it is over.
    pub(super) async fn time_to_live(&self, id: i64) -> Result<TimeToLiveResponse, Failure> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        let request = TimeToLiveRequest { id };
        let answer: Reply<TimeToLiveResponse> = self.members.call(path, &request).await?;
        Ok(answer.value)
    }

    /// The version of the member in use.
    pub(super) async fn version(&self) -> Result<String, Failure> {
        let path = "/etcdserverpb.Maintenance/Status";
        let answer: Reply<StatusResponse> = self.members.call(path, &StatusRequest {}).await?;
        Ok(answer.value.version)
    }
}

/// All keys of a span, in the order in which they were created.
pub(super) fn whole(span: Span) -> RangeRequest {
    RangeRequest {
        key: span.from,
        range_end: span.to,
        sort_order: SortOrder::Ascending.into(),
        sort_target: SortTarget::Created.into(),
        ..RangeRequest::default()
    }
}

/// The oldest keys of a span.
pub(super) fn first(span: Span, limit: i64) -> RangeRequest {
    RangeRequest {
        limit,
        ..whole(span)
    }
}

/// One key.
pub(super) fn single(key: &[u8]) -> RangeRequest {
    RangeRequest {
        key: key.to_vec(),
        ..RangeRequest::default()
    }
}

pub(super) const fn get(range: RangeRequest) -> RequestOp {
    RequestOp {
        op: Some(Op::Range(range)),
    }
}

pub(super) fn put(key: &[u8], value: Vec<u8>, lease: i64) -> RequestOp {
    let request = PutRequest {
        key: key.to_vec(),
        value,
        lease,
    };
    RequestOp {
        op: Some(Op::Put(request)),
    }
}

pub(super) fn delete(key: &[u8]) -> RequestOp {
    let request = DeleteRequest { key: key.to_vec() };
    RequestOp {
        op: Some(Op::Delete(request)),
    }
}

pub(super) const fn nested(txn: TxnRequest) -> RequestOp {
    RequestOp {
        op: Some(Op::Txn(txn)),
    }
}

/// That the key was created at this revision; 0: that there is none.
pub(super) fn created_at(key: &[u8], revision: i64) -> Compare {
    Compare {
        relation: Relation::Equal.into(),
        target: Target::Created.into(),
        key: key.to_vec(),
        operand: Some(Operand::Created(revision)),
        range_end: Vec::new(),
    }
}

/// That the key was last written at this revision, and so is the same in all respects.
pub(super) fn unchanged(key: &[u8], revision: i64) -> Compare {
    Compare {
        relation: Relation::Equal.into(),
        target: Target::Modified.into(),
        key: key.to_vec(),
        operand: Some(Operand::Modified(revision)),
        range_end: Vec::new(),
    }
}

/// That no key of the span was created after this revision; 0: that there is none at all.
pub(super) fn nothing_after(span: &Span, revision: i64) -> Compare {
    Compare {
        relation: Relation::Less.into(),
        target: Target::Created.into(),
        key: span.from.clone(),
        operand: Some(Operand::Created(revision + 1)),
        range_end: span.to.clone(),
    }
}

pub(super) fn revision(header: Option<&Header>) -> Result<i64, Failure> {
    header
        .map(|header| header.revision)
        .filter(|&revision| revision > 0)
        .ok_or_else(|| garbage("an answer without a revision"))
}

/// The answer of the operation at `at` that reads.
pub(super) fn range_of(responses: &[ResponseOp], at: usize) -> Result<&RangeResponse, Failure> {
    match responses.get(at).and_then(|it| it.done.as_ref()) {
        Some(Done::Range(range)) => Ok(range),
        _ => Err(garbage("a transaction without what was to be read")),
    }
}

/// The answer of the operation at `at` that is a transaction.
pub(super) fn txn_of(responses: &[ResponseOp], at: usize) -> Result<&TxnResponse, Failure> {
    match responses.get(at).and_then(|it| it.done.as_ref()) {
        Some(Done::Txn(txn)) => Ok(txn),
        _ => Err(garbage("a transaction without its inner one")),
    }
}
