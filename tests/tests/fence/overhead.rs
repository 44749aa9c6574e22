//! What a guarded write costs against the bare one. Measured, not judged:
//! `LEASEHOLD_DEEP=1 cargo test --test fence overhead -- --nocapture`

use std::{sync::Arc, time::Instant};

use leasehold::{
    FencingToken,
    fence::{self, Claim, Fence, sqlite},
};
use leasehold_tests::fence::{Place, redis as fenced_redis};
use tokio_postgres::NoTls;

use crate::ground::{self, Ground, run};

const TOKEN: FencingToken = FencingToken::MAX;

/// The median of each, in turns, so that both see the same machine.
macro_rules! compare {
    ($kind:expr, $bare:expr, $fenced:expr) => {{
        let (mut bare, mut fenced) = (Vec::new(), Vec::new());
        for _ in 0..writes() {
            let begun = Instant::now();
            $bare;
            bare.push(begun.elapsed());
            let begun = Instant::now();
            $fenced;
            fenced.push(begun.elapsed());
        }
        bare.sort();
        fenced.sort();
        let [bare, fenced] = [bare, fenced].map(|times| times[times.len() / 2]);
        let ratio = fenced.as_secs_f64() / bare.as_secs_f64();
        eprintln!(
            "{:<10} bare {bare:>9.1?}  fenced {fenced:>9.1?}  ratio {ratio:.2}",
            $kind
        );
    }};
}

/// Enough to measure in the deep tier, enough to see that it works in the other.
fn writes() -> u32 {
    if std::env::var_os("LEASEHOLD_DEEP").is_some() {
        1000
    } else {
        5
    }
}

#[test]
fn overhead_of_a_guarded_write() {
    run(postgres(&ground::postgres()));
    run(mariadb(&ground::mariadb()));
    run(redis(&ground::redis()));
    sqlite(&ground::sqlite());
    folder();
    run(objects());
}

async fn postgres(ground: &Ground) {
    const WRITE: &str = "UPDATE cells SET content = 'x' WHERE resource = 'a'";
    let connected = tokio_postgres::connect(&ground.place, NoTls).await;
    let (mut client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("INSERT INTO cells VALUES ('a', '')")
        .await
        .unwrap();
    compare!(
        "postgres",
        {
            let tx = client.transaction().await.unwrap();
            tx.execute(WRITE, &[]).await.unwrap();
            tx.commit().await.unwrap();
        },
        {
            let tx = client.transaction().await.unwrap();
            let tx = fence::postgres::claim(tx, "a", TOKEN).await.unwrap();
            tx.execute(WRITE, &[]).await.unwrap();
            tx.commit().await.unwrap();
        }
    );
}

async fn mariadb(ground: &Ground) {
    let pool = sqlx::MySqlPool::connect(&ground.place).await.unwrap();
    let write = || sqlx::query("REPLACE INTO cells VALUES ('a', 'x')");
    compare!(
        "mariadb",
        {
            let mut tx = pool.begin().await.unwrap();
            write().execute(&mut *tx).await.unwrap();
            tx.commit().await.unwrap();
        },
        {
            let tx = pool.begin().await.unwrap();
            let mut tx = fence::sqlx::claim(tx, "a", TOKEN).await.unwrap();
            write().execute(&mut **tx).await.unwrap();
            tx.commit().await.unwrap();
        }
    );
}

async fn redis(ground: &Ground) {
    let client = redis::Client::open(ground.place.as_str()).unwrap();
    let mut bare = client.get_multiplexed_async_connection().await.unwrap();
    let mut claim = fenced_redis(&ground.place)
        .await
        .claim("a", TOKEN)
        .await
        .unwrap();
    compare!(
        "redis",
        redis::cmd("SET")
            .arg("b")
            .arg("x")
            .exec_async(&mut bare)
            .await
            .unwrap(),
        claim.write(b"x").await.unwrap()
    );
}

fn sqlite(ground: &Ground) {
    const WRITE: &str = "REPLACE INTO cells VALUES ('a', 'x')";
    let Place::Sqlite(path) = ground.place() else {
        unreachable!("it is one");
    };
    let mut bare = rusqlite::Connection::open(&path).unwrap();
    let mut db = rusqlite::Connection::open(&path).unwrap();
    compare!(
        "sqlite",
        {
            let tx = bare.transaction().unwrap();
            tx.execute(WRITE, []).unwrap();
            tx.commit().unwrap();
        },
        {
            let tx = sqlite::claim(&mut db, "a", TOKEN).unwrap();
            tx.execute(WRITE, []).unwrap();
            tx.commit().unwrap();
        }
    );
}

fn folder() {
    let home = tempfile::tempdir().unwrap();
    let (path, next) = (home.path().join("a"), home.path().join("next"));
    let fenced = fence::file::claim(home.path().join("b"), TOKEN).unwrap();
    let folder = std::fs::File::open(home.path()).unwrap();
    compare!(
        "file",
        {
            std::fs::write(&next, "x").unwrap();
            std::fs::File::open(&next).unwrap().sync_all().unwrap();
            std::fs::rename(&next, &path).unwrap();
            folder.sync_all().unwrap();
        },
        fenced.write(b"x").unwrap()
    );
}

async fn objects() {
    use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let objects = fence::object_store::Objects::new(Arc::clone(&store));
    let mut claim = objects.claim("a", TOKEN).await.unwrap();
    compare!(
        "objects",
        store.put(&Path::from("b"), "x".into()).await.unwrap(),
        claim.write(b"x").await.unwrap()
    );
}
