//! What is used wrongly says so, and what to do.

use leasehold::{
    FencingToken,
    fence::{Error, Fence, postgres as fence_postgres, sqlx as fence_sqlx},
};
use leasehold_testkit::servers::{MariadbServer, PostgresServer, RedisServer};
use leasehold_tests::fence::{self, http::Remote};
use tokio_postgres::NoTls;

use crate::ground::run;

fn creates_the_table(error: &Error) {
    assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
    assert!(error.to_string().contains("no table"), "{error}");
    assert!(error.hint().unwrap().contains("CREATE TABLE"), "{error:?}");
}

#[test]
fn a_missing_table_in_postgres_is_told_with_the_statement_that_creates_it() {
    let server = PostgresServer::start();
    run(async {
        let connected = tokio_postgres::connect(&server.url(), NoTls).await;
        let (mut client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let tx = client.transaction().await.unwrap();
        let claim = fence_postgres::claim(tx, "a", FencingToken::MAX).await;
        creates_the_table(&claim.unwrap_err());
        fence_postgres::prepare(&client).await.unwrap();
        let tx = client.transaction().await.unwrap();
        fence_postgres::claim(tx, "a", FencingToken::MAX)
            .await
            .unwrap();
    });
}

#[test]
fn a_missing_table_in_mariadb_is_told_with_the_statement_that_creates_it() {
    let server = MariadbServer::start();
    run(async {
        let pool = sqlx::MySqlPool::connect(&server.url()).await.unwrap();
        let tx = pool.begin().await.unwrap();
        let claim = fence_sqlx::claim(tx, "a", FencingToken::MAX).await;
        creates_the_table(&claim.unwrap_err());
        let mut connection = pool.acquire().await.unwrap();
        fence_sqlx::prepare::<sqlx::MySql>(&mut connection)
            .await
            .unwrap();
        let tx = pool.begin().await.unwrap();
        fence_sqlx::claim(tx, "a", FencingToken::MAX).await.unwrap();
    });
}

#[test]
fn a_key_of_redis_that_is_used_otherwise_is_told_and_left_alone() {
    let server = RedisServer::start();
    for (set_up, type_) in [
        (&["LPUSH", "fence:{a}", "x"][..], "list"),
        (&["SET", "fence:{a}", "034"], "string"),
    ] {
        server.cli(&["DEL", "fence:{a}"]);
        server.cli(set_up);
        let error = run(async {
            let redis = fence::redis(&server.url()).await;
            redis.claim("a", FencingToken::MAX).await.unwrap_err()
        });
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
        assert_eq!(server.cli(&["TYPE", "fence:{a}"]), type_);
    }
}

#[test]
fn a_request_without_a_fencing_token_or_with_zero_is_told_what_it_needs() {
    run(async {
        let service = Remote::new(fence::http::serve().await);
        let put = async |headers: &str| service.send("PUT", "a", headers, b"x").await.unwrap();
        let (status, _, body) = put("").await;
        assert_eq!(status, 428);
        assert!(String::from_utf8_lossy(&body).contains("fencing-token"));
        for wrong in ["0", "-1", "x", "9007199254740993"] {
            let (status, _, body) = put(&format!("Fencing-Token: {wrong}\r\n")).await;
            let body = String::from_utf8_lossy(&body);
            assert_eq!(status, 400, "{wrong}: {body}");
            assert!(body.contains("not a fencing token"), "{body}");
        }
        let (status, ..) = put("Fencing-Token: 34\r\n").await;
        assert_eq!(status, 204);
        let (status, head, _) = put("Fencing-Token: 33\r\n").await;
        assert_eq!(status, 412);
        assert!(head.contains("fencing-token-seen: 34"), "{head}");
    });
}
