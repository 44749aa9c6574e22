//! The rare turns that schedules are to reach.

/// Something that seldom happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::exhaustive_enums)] // tests name them
pub enum Turn {
    /// A script was not known by its hash.
    NoScript,
    /// A grant was published and somebody heard of it.
    HandedOver,
    /// A grant was published and nobody heard of it.
    Unheard,
    /// A push was lost that counted as heard.
    PushLost,
    /// A client ended the connection that it had before.
    CutOff,
    /// And requests were under way on it.
    CutOffInTime,
    /// A connection that its client had given up lived on.
    LivedOn,
    /// A request was carried out whose client had given up the connection.
    Ghost,
    /// A connection ended with a request that was not carried out.
    RequestLost,
    /// A connection ended with a reply that did not come.
    ReplyLost,
    /// A script was refused.
    Refused,
    /// A server was asked while it loaded its data.
    Loading,
}
