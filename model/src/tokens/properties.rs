//! What must hold of fencing tokens.

use stateright::Property;

use super::{ATTEMPTS, Node, Phase, State, Tokens};

/// No two holders have the same token.
pub const UNIQUE: &str = "tokens are unique";
/// Who began after another had the lock has a greater token.
pub const REAL_TIME: &str = "tokens follow real time";
/// Where two holders share a node, their tokens are in the order in which it was given to them.
pub const POSSESSION: &str = "tokens follow possession";
/// No two hold at once, as long as nothing vanishes.
pub const EXCLUSION: &str = "one holder, if no lock vanishes";
/// The model does something.
pub const TWO_SUCCEED: &str = "two attempts succeed";
/// The second round is needed.
pub const RAISES: &str = "a majority disagrees";

pub(super) fn all() -> Vec<Property<Tokens>> {
    vec![
        Property::always(UNIQUE, |_, state: &State| {
            pairs().all(|(a, b)| unique(state, a, b))
        }),
        Property::always(REAL_TIME, |_, state: &State| {
            pairs().all(|(a, b)| in_real_time(state, a, b))
        }),
        Property::always(POSSESSION, |_, state: &State| {
            pairs().all(|(a, b)| state.nodes.iter().all(|node| in_order(state, node, a, b)))
        }),
        Property::always(EXCLUSION, |model: &Tokens, state: &State| {
            model.vanishings != Some(0) || model.amnesias > 0 || holders(state) <= 1
        }),
        Property::sometimes(TWO_SUCCEED, |_, state: &State| {
            state.successes().count_ones() >= 2
        }),
        Property::sometimes(RAISES, |_, state: &State| {
            let raising = |phase: &Phase| matches!(phase, Phase::Running(_, Some(_)));
            state.phases.iter().any(raising)
        }),
    ]
}

fn pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..ATTEMPTS).flat_map(|a| (0..ATTEMPTS).filter(move |&b| b != a).map(move |b| (a, b)))
}

fn holders(state: &State) -> usize {
    let holding = |phase: &&Phase| matches!(phase, Phase::Holding(_));
    state.phases.iter().filter(holding).count()
}

fn unique(state: &State, a: usize, b: usize) -> bool {
    let (a, b) = (state.phases[a].token(), state.phases[b].token());
    a.is_none() || a != b
}

fn in_real_time(state: &State, a: usize, b: usize) -> bool {
    let (x, y) = (state.phases[a].token(), state.phases[b].token());
    state.before[b] >> a & 1 == 0 || y.is_none() || x < y
}

fn in_order(state: &State, node: &Node, a: usize, b: usize) -> bool {
    let accepted = node.accepted >> a & node.accepted >> b & 1 == 1;
    let tokens = state.phases[a].token().zip(state.phases[b].token());
    let places = node.place(a).zip(node.place(b));
    match (tokens, places) {
        (Some((x, y)), Some((p, q))) if accepted => (p < q) == (x < y),
        _ => true,
    }
}
