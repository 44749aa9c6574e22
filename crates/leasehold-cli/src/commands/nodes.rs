//! What several servers that vote say of a lock, and whether it adds up to a holder.

use leasehold::{NodeView, Status};
use serde_json::{Map, Value, json};

use super::show;
use crate::output::escape;

/// What the nodes' words come to.
enum Sum {
    /// A majority names the holder.
    Held,
    /// It takes nodes whose word is missing to make a majority.
    Unclear,
    /// Nobody can have a majority.
    Free,
}

impl Sum {
    const fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Unclear => "unclear",
            Self::Free => "free",
        }
    }
}

const fn majority(status: &Status) -> usize {
    status.nodes.len() / 2 + 1
}

fn named(status: &Status, owner: &str) -> usize {
    status.nodes.iter().filter(|node| node.names(owner)).count()
}

fn sum(status: &Status) -> Sum {
    let owners = status.holders.iter().map(|holder| holder.value.as_str());
    match owners.map(|owner| named(status, owner)).max() {
        None => Sum::Free,
        Some(count) if count >= majority(status) => Sum::Held,
        Some(_) => Sum::Unclear,
    }
}

/// For people: a line for each node, and one for their sum. Nothing where one server decides.
pub(super) fn text(status: &Status, text: &mut String) {
    if status.nodes.is_empty() {
        return;
    }
    for node in &status.nodes {
        let address = escape(&node.address);
        text.push_str(&format!("  node {address}: {}\n", describe(node)));
    }
    let (all, needed) = (status.nodes.len(), majority(status));
    let mut line = |words: String| text.push_str(&format!("  {words}\n"));
    for holder in &status.holders {
        let (who, count) = (show::who(&holder.value), named(status, &holder.value));
        let missing = status.nodes.iter();
        let missing = missing.filter(|node| node.may_have(&holder.value)).count();
        line(if count >= needed {
            format!("{count} of {all} nodes name {who}, {needed} are needed: it holds")
        } else {
            format!(
                "{count} of {all} nodes name {who}, {needed} are needed, and {missing} cannot say: \
                 it may hold"
            )
        });
    }
    if status.holders.is_empty() {
        line(format!(
            "nobody is named by {needed} of {all} nodes: it is free"
        ));
    }
}

/// The word of one node, in one line.
fn describe(node: &NodeView) -> String {
    let mut parts = Vec::new();
    if let Some(holders) = &node.holders {
        if holders.is_empty() {
            parts.push("free".into());
        }
        for holder in holders {
            let mut part = format!("held by {}", show::describe(holder));
            if let Some(number) = holder.token {
                part.push_str(&format!(", fencing token {number}"));
            }
            parts.push(part);
        }
    }
    if let Some(reason) = &node.no_vote {
        parts.push(escape(reason));
    }
    parts.join("; ")
}

/// For programs: `nodes`, `nodes_needed` and `sum`. Nothing where one server decides.
pub(super) fn object(status: &Status, object: &mut Map<String, Value>) {
    if status.nodes.is_empty() {
        return;
    }
    let nodes: Vec<Value> = status.nodes.iter().map(node).collect();
    object.insert("nodes".into(), nodes.into());
    object.insert("nodes_needed".into(), majority(status).into());
    object.insert("sum".into(), sum(status).word().into());
}

fn node(node: &NodeView) -> Value {
    let holders = node.holders.as_ref();
    let holders = holders.map(|all| all.iter().map(show::holder).collect::<Vec<_>>());
    json!({
        "node": node.address,
        "answers": node.holders.is_some(),
        "holders": holders,
        "votes": node.no_vote.is_none(),
        "cause": node.no_vote,
        "no_vote_for_ms": node.no_vote_for.map(show::millis),
    })
}
