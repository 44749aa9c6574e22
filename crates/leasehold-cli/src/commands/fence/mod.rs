//! `leasehold fence KIND`

use leasehold::fence::{
    redis,
    sql::{MYSQL, POSTGRES, SQLITE, Statements},
};

use crate::{
    cli::{Database, Fence, Fenced},
    exit::{Exit, Problem},
    output,
};

/// Prints what a resource needs that is to refuse a late holder.
///
/// # Errors
///
/// Stdout cannot be written to.
pub(crate) fn run(args: &Fence) -> Result<Exit, Problem> {
    let text = match args.resource {
        Fenced::Sql => sql(args.database),
        Fenced::Redis => redis_script(),
        Fenced::Http => include_str!("http.txt").to_owned(),
        Fenced::S3 => include_str!("s3.sh").to_owned(),
    };
    output::data(&text)?;
    Ok(Exit::YES)
}

fn sql(database: Database) -> String {
    let (name, statements) = match database {
        Database::Mysql => ("MySQL, MariaDB", MYSQL),
        Database::Postgres => ("PostgreSQL", POSTGRES),
        Database::Sqlite => (
            "SQLite, in a transaction that began with BEGIN IMMEDIATE",
            SQLITE,
        ),
    };
    let Statements {
        table, claim, seen, ..
    } = statements;
    let verdict = if statements.claim_answers {
        "-- A row is answered: go on. None: ROLLBACK, another holds the lock by now; it is at"
    } else {
        "-- Then look; if it is more than your fencing token: ROLLBACK, another holds the lock"
    };
    format!(
        "-- {name}\n\n\
         -- Once.\n{table};\n\n\
         -- In every transaction of a holder, before it reads: the resource, the fencing token.\n\
         {claim};\n\n\
         {verdict}\n{seen};\n"
    )
}

fn redis_script() -> String {
    format!(
        "{}\n-- redis-cli --eval admit.lua 'fence:{{invoices/42}}' , \\\n\
         --   $LEASEHOLD_FENCING_TOKEN 4 HSET invoices/42 state charged\n",
        redis::SCRIPT
    )
}
