//! Single keys, beside the locks: for the checking side.

use leasehold_core::{Name, Owner};

use super::{
    config::Config,
    keys::Prefix,
    members::{Members, Reply},
    proto::{
        Compare, KeyValue, Operand, RangeResponse, Relation, RequestOp, Target, TxnRequest,
        TxnResponse,
    },
    store::{created_at, get, put, range_of, single, unchanged},
};
use crate::backend::Failure;

/// The keys of an etcd.
#[derive(Debug)]
pub(crate) struct Keyspace {
    members: Members,
    prefix: Prefix,
}

/// What a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) value: Vec<u8>,
    /// When it was last written.
    pub(crate) modified: i64,
}

/// On what something is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum If {
    /// There is no such key.
    Absent,
    /// It was not written since.
    Unchanged(i64),
    /// It has this value.
    Has(Vec<u8>),
}

/// What is done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then<'a> {
    Read(&'a [u8]),
    Write(&'a [u8], &'a [u8]),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was done; what was read.
    Yes(Option<Kept>),
    /// It was not, for this is what the key has. With `repeated`, it was sent twice, and what is
    /// said here is true of the second time alone.
    No { found: Option<Kept>, repeated: bool },
}

impl Keyspace {
    /// Asks a member for a sign of life.
    pub(crate) async fn connect(config: &Config) -> Result<Self, Failure> {
        let keyspace = Self {
            members: Members::new(config, config.random.bits())?,
            prefix: config.prefix.clone(),
        };
        keyspace.get(&keyspace.mark("")).await?;
        Ok(keyspace)
    }

    /// Where the largest fencing token is kept that a resource has seen.
    pub(crate) fn mark(&self, resource: &str) -> Vec<u8> {
        self.prefix.mark(resource)
    }

    /// The key by which `owner` holds `name` or waits for it.
    pub(crate) fn entry(&self, name: &Name, owner: &Owner) -> Vec<u8> {
        self.prefix.entry(name, owner)
    }

    /// What `key` has, as a majority knows it now.
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Kept>, Failure> {
        let path = "/etcdserverpb.KV/Range";
        let answer: Reply<RangeResponse> = self.members.call(path, &single(key)).await?;
        Ok(answer.value.kvs.into_iter().next().map(kept))
    }

    /// Does `then` if `key` is as `condition` says, in one transaction.
    pub(crate) async fn transact(
        &self,
        key: &[u8],
        condition: If,
        then: Then<'_>,
    ) -> Result<Done, Failure> {
        let txn = TxnRequest {
            compare: vec![compare(key, condition)],
            success: vec![operation(then)],
            failure: vec![get(single(key))],
        };
        let path = "/etcdserverpb.KV/Txn";
        let answer: Reply<TxnResponse> = self.members.call(path, &txn).await?;
        let responses = &answer.value.responses;
        let read = || Ok::<_, Failure>(range_of(responses, 0)?.kvs.first().cloned().map(kept));
        Ok(match (answer.value.succeeded, then) {
            (true, Then::Write(..)) => Done::Yes(None),
            (true, Then::Read(_)) => Done::Yes(read()?),
            (false, _) => Done::No {
                found: read()?,
                repeated: answer.repeated,
            },
        })
    }
}

fn kept(kv: KeyValue) -> Kept {
    Kept {
        value: kv.value,
        modified: kv.modified,
    }
}

fn compare(key: &[u8], condition: If) -> Compare {
    match condition {
        If::Absent => created_at(key, 0),
        If::Unchanged(modified) => unchanged(key, modified),
        If::Has(value) => Compare {
            relation: Relation::Equal.into(),
            target: Target::Value.into(),
            key: key.to_vec(),
            operand: Some(Operand::Value(value)),
            range_end: Vec::new(),
        },
    }
}

fn operation(then: Then<'_>) -> RequestOp {
    match then {
        Then::Read(key) => get(single(key)),
        Then::Write(key, value) => put(key, value.to_vec(), 0),
    }
}
