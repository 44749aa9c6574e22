/// What a store can do and what it promises, as data.
///
/// Tests, documents and errors read this: a case that a store cannot do must be answered
/// `Unsupported`, and the tables in `docs/` are generated from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The store's name in documents and errors, for example `file`.
    pub name: &'static str,
    /// Readers, not only exclusive holders.
    pub shared: bool,
    /// Permits of a semaphore.
    pub permits: bool,
    /// Waiters are served first come, first served.
    pub fair: bool,
    /// A waiter that the queue forgot takes up its old place by its ticket.
    pub tickets: bool,
    /// A release hands the lock to the next waiter itself and tells it.
    pub hand_off: bool,
    /// A lease can outlive the process that took it.
    pub detach: bool,
    /// A minimum hold outlives the release and the process.
    pub min_hold: bool,
    /// Several locks are taken in one step.
    pub many: bool,
    /// A writer can become a reader without letting go.
    pub downgrade: bool,
    /// A holder can publish a note, which elections need.
    pub notes: bool,
    /// A holder whose process is gone is noticed at once, not after its TTL.
    pub notices_death: bool,
    /// An owner asks once: each further attempt needs a new owner, and nothing is kept of one that
    /// was not granted.
    pub fresh_owners: bool,
    /// Works across machines.
    pub networked: bool,
}

impl Capabilities {
    /// A store called `name` that can do nothing beyond exclusive locks.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            shared: false,
            permits: false,
            fair: false,
            tickets: false,
            hand_off: false,
            detach: false,
            min_hold: false,
            many: false,
            downgrade: false,
            notes: false,
            notices_death: false,
            fresh_owners: false,
            networked: false,
        }
    }
}
