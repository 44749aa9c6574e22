//! What documents say about the code, written from the code.

use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::{example, read, root};

const PAGE: &str = "docs/choosing-a-backend.md";
const BEGIN: &str = "<!-- capabilities: written by `cargo xtask gen` -->\n";
const END: &str = "<!-- end of capabilities -->\n";

/// Rewrites the generated parts, or with `check` only says whether they are as they should be.
pub(crate) fn run(check: bool) -> Result<()> {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("cannot read {PAGE}"))?;
    let right = replaced(&page, &table(&capabilities()?)?)?;
    if right == page {
        return Ok(());
    }
    if check {
        bail!("{PAGE}: the table of capabilities is stale — run `cargo xtask gen`");
    }
    fs::write(path, right).with_context(|| format!("cannot write {PAGE}"))
}

/// What each backend says of itself: an array of objects, the same fields in each.
fn capabilities() -> Result<Value> {
    let text = read(&mut example("capabilities")?)?;
    serde_json::from_str(&text).context("the example `capabilities` prints JSON")
}

/// One row for each field, one column for each backend.
fn table(backends: &Value) -> Result<String> {
    let backends = backends.as_array().context("an array of backends")?;
    let name = |backend: &Value| backend["name"].as_str().unwrap_or("?").to_owned();
    let names: Vec<String> = backends.iter().map(name).collect();
    let mut lines = vec![format!("| | {} |", names.join(" | "))];
    lines.push(format!("|---|{}", "---|".repeat(names.len())));
    for (field, meaning) in MEANINGS {
        let cell = |backend: &Value| match backend.get(field) {
            Some(Value::Bool(true)) => Ok("yes"),
            Some(Value::Bool(false)) => Ok("no"),
            _ => bail!("{} does not say `{field}`", name(backend)),
        };
        let cells = backends.iter().map(cell).collect::<Result<Vec<_>>>()?;
        lines.push(format!("| {meaning} | {} |", cells.join(" | ")));
    }
    for backend in backends {
        let fields = backend.as_object().context("an object for each backend")?;
        let known =
            |field: &str| field == "name" || MEANINGS.iter().any(|(name, _)| *name == field);
        if let Some(field) = fields.keys().find(|field| !known(field)) {
            bail!("nothing says what the capability `{field}` means: add it to `MEANINGS`");
        }
    }
    Ok(lines.join("\n") + "\n")
}

const MEANINGS: &[(&str, &str)] = &[
    ("networked", "works across machines"),
    ("fair", "waiters are served first come, first served"),
    (
        "tickets",
        "a waiter that the queue forgot gets its place back",
    ),
    ("hand_off", "a release hands the lock to the next waiter"),
    (
        "notices_death",
        "a holder whose process is gone is noticed at once",
    ),
    ("detach", "a lease can outlive the process that took it"),
    ("min_hold", "a minimum hold outlives the release"),
    ("shared", "readers, not only exclusive holders"),
    ("permits", "permits of a semaphore"),
    ("downgrade", "a writer can go on as a reader"),
    ("many", "several names are taken in one step"),
    (
        "fresh_owners",
        "an owner asks once, and is in no queue that others see",
    ),
    ("notes", "elections: a leader can publish something"),
];

fn replaced(page: &str, table: &str) -> Result<String> {
    let missing = || format!("{PAGE} has no part between {BEGIN:?} and {END:?}");
    let (before, rest) = page.split_once(BEGIN).with_context(missing)?;
    let (_, after) = rest.split_once(END).with_context(missing)?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_between_the_marks_is_replaced() {
        let page = format!("a\n{BEGIN}old\n{END}b\n");
        let new = replaced(&page, "new\n").expect("both marks are there");
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n\n{END}b\n"));
        assert!(replaced("a\n", "new\n").is_err());
    }

    #[test]
    fn a_capability_nobody_explains_is_refused() {
        let mut backend = serde_json::json!({ "name": "file" });
        for (field, _) in MEANINGS {
            backend[*field] = Value::Bool(*field == "fair");
        }
        let shown = table(&Value::Array(vec![backend.clone()])).expect("every field is explained");
        assert!(shown.starts_with("| | file |\n|---|---|\n| works across machines | no |\n"));
        backend["flies"] = Value::Bool(true);
        assert!(table(&Value::Array(vec![backend])).is_err());
    }
}
