//! `leasehold list [PREFIX]`

use leasehold::Status;
use serde_json::{Map, Value};

use super::show;
use crate::{
    cli::{Global, List},
    duration,
    exit::{Exit, Problem},
    output::{self, Talk, escape},
    store::Store,
};

/// Lists what is held or waited for.
///
/// # Errors
///
/// It cannot be found out.
pub(crate) async fn run(args: &List, global: &Global, talk: &Talk) -> Result<Exit, Problem> {
    let client = Store::find(global, talk)?.connect().await?;
    let mut locks = client.list(&args.prefix_of_names).await?;
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    if global.json {
        let locks: Vec<Value> = locks.iter().map(show::object).map(Value::Object).collect();
        output::json(Map::from_iter([("locks".into(), locks.into())]))?;
    } else {
        output::data(&table(&locks))?;
    }
    Ok(Exit::YES)
}

/// A line for each holder: name, how it is held, what is left, how many wait, who.
fn table(locks: &[Status]) -> String {
    let mut rows = vec![["NAME", "MODE", "LEFT", "WAITING", "HOLDER"].map(String::from)];
    for lock in locks {
        let waiting = lock.waiters.len().to_string();
        if lock.holders.is_empty() {
            let none = || "-".to_owned();
            let name = escape(&lock.name);
            rows.push([name, none(), none(), waiting.clone(), none()]);
        }
        for holder in &lock.holders {
            let left = holder
                .remaining
                .map_or_else(|| "for ever".into(), duration::show);
            rows.push([
                escape(&lock.name),
                show::mode_word(holder.mode),
                left,
                waiting.clone(),
                show::who(&holder.value),
            ]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths = [0, 1, 2, 3].map(|column| width(column).unwrap_or(0));
    let line = |[name, mode, left, waiting, holder]: &[String; 5]| {
        let [a, b, c, d] = widths;
        format!("{name:a$}  {mode:b$}  {left:c$}  {waiting:d$}  {holder}\n")
    };
    rows.iter().map(line).collect()
}
