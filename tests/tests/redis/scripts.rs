//! Each script by itself: what is there before, the call, the reply, what is there after.
//!
//! In all texts `A`, `B`, `C` stand for owners, `LOCK`, `FENCE`, `QUEUE`, `WAITERS`, `HELD`,
//! `NOTES` for the keys of one lock, `OTHER` for the first key of another, and `~` for the digits
//! that the fencing token begins with: the fence is set far ahead of the clock, so tokens are
//! known. Times are checked for their range only.
use leasehold::backend::redis::{Keys, Prefix, scripts};
use leasehold_testkit::servers::RedisServer;

use crate::peer::name;

mod changes;

const A: &str = "00000000000000000000000001;000000000000a;host/1;;";
const B: &str = "00000000000000000000000002;000000000000b;host/2;;";
const C: &str = "00000000000000000000000003;000000000000c;host/3;;";

/// Before, the call, the reply, and questions with their answers after.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

/// What acquire.lua takes behind owner and mode: limit, weight, ttl, hold, wait, channel, patience,
/// ticket, seq.
const CASES: &[Case] = &[
    (
        "a free lock is taken, and nothing else is written",
        &[],
        "acquire A x 0 1 60000 0 0 - 0 0 0",
        "~1",
        &[
            ("GET LOCK", "A~1"),
            ("GET FENCE", "~1"),
            ("DBSIZE", "2"),
            ("PTTL LOCK", "50000..60000"),
        ],
    ),
    (
        "a lock of one's own is answered again, and lengthened",
        &["SET LOCK A~0 PX 5000"],
        "acquire A x 0 1 60000 0 0 - 0 0 0",
        "~0",
        &[
            ("GET LOCK", "A~0"),
            ("GET FENCE", "~0"),
            ("PTTL LOCK", "50000..60000"),
        ],
    ),
    (
        "a lock of one's own is never shortened",
        &["SET LOCK A~0 PX 90000"],
        "acquire A x 0 1 60000 0 0 - 0 0 0",
        "~0",
        &[("PTTL LOCK", "80000..90000")],
    ),
    (
        "a held lock is not, and a try leaves no trace",
        &["SET LOCK A~0 PX 60000"],
        "acquire B x 0 1 60000 0 0 - 0 0 0",
        "held 50000..60000 -1 0 * A~0 50000..60000  exclusive",
        &[("GET LOCK", "A~0"), ("DBSIZE", "2")],
    ),
    (
        "a waiter is queued under the next ticket, with its number and channel",
        &[
            "SET LOCK A~0 PX 60000",
            "ZADD QUEUE 8100000000000000 C",
            "HSET WAITERS C x|0|1|60000|0|9000000000000|4|9000000000000|-",
        ],
        "acquire B x 0 1 60000 0 1 chan 30000 0 7",
        "held 50000..60000 1 8100000000000001 * A~0 50000..60000  exclusive",
        &[
            ("ZSCORE QUEUE B", "8100000000000001"),
            ("PTTL QUEUE", "20000..30001"),
            ("EXISTS LOCK", "1"),
        ],
    ),
    (
        "a waiter takes up its old place",
        &[
            "SET LOCK A~0 PX 60000",
            "ZADD QUEUE 8100000000000000 C",
            "HSET WAITERS C x|0|1|60000|0|9000000000000|4|9000000000000|-",
        ],
        "acquire B x 0 1 60000 0 1 chan 30000 99 8",
        "held 50000..60000 0 99 * A~0 50000..60000  exclusive",
        &[("ZSCORE QUEUE B", "99")],
    ),
    (
        "nobody barges past a live waiter that cannot be told",
        &[
            "ZADD QUEUE 5 C",
            "HSET WAITERS C x|0|1|60000|0|9000000000000|4|9000000000000|",
        ],
        "acquire B x 0 1 60000 0 0 - 0 0 0",
        "held 1..100 -1 0 *  -2  free",
        &[("EXISTS LOCK", "0"), ("ZCARD QUEUE", "1")],
    ),
    (
        "a waiter that nobody has heard from for its patience is passed over",
        &["ZADD QUEUE 5 C", "HSET WAITERS C x|0|1|60000|0|1|4|1|chan"],
        "acquire B x 0 1 60000 0 0 - 0 0 0",
        "~1",
        &[("GET LOCK", "B~1"), ("EXISTS QUEUE WAITERS", "0")],
    ),
    (
        "the first waiter that comes for a free lock gets it by the reply",
        &[
            "ZADD QUEUE 5 B 6 C",
            "HSET WAITERS B x|0|1|60000|0|9000000000000|4|9000000000000|chan",
            "HSET WAITERS C x|0|1|60000|0|9000000000000|4|9000000000000|chan",
        ],
        "acquire B x 0 1 60000 0 1 chan 30000 5 5",
        "~1",
        &[
            ("GET LOCK", "B~1"),
            ("ZRANGE QUEUE 0 -1", "C"),
            ("HKEYS WAITERS", "C"),
        ],
    ),
    (
        "the first of readers opens a phase, and forgets an old one",
        &["ZADD HELD 9000000000000 C1"],
        "acquire A s 0 1 60000 0 0 - 0 0 0",
        "~1",
        &[
            ("GET LOCK", "~shared:0;~1"),
            ("ZRANGE HELD 0 -1", "A1"),
            ("PTTL HELD", "50000..60000"),
        ],
    ),
    (
        "another reader joins under the same fencing token",
        &[
            "SET LOCK ~shared:0;~0 PX 5000",
            "ZADD HELD 9000000000000 A1",
        ],
        "acquire B s 0 1 60000 0 0 - 0 0 0",
        "~0",
        &[("GET FENCE", "~0"), ("ZCARD HELD", "2")],
    ),
    (
        "permits are counted by their weight",
        &[
            "SET LOCK ~shared:3;~0 PX 60000",
            "ZADD HELD 9000000000000 A2",
        ],
        "acquire B s 3 2 60000 0 0 - 0 0 0",
        "held 1.. -1 0 * ~shared:3;~0 1.. A2 shared",
        &[("ZCARD HELD", "1")],
    ),
    (
        "one with room enough gets its permit",
        &[
            "SET LOCK ~shared:3;~0 PX 60000",
            "ZADD HELD 9000000000000 A2",
        ],
        "acquire B s 3 1 60000 0 0 - 0 0 0",
        "~0",
        &[("ZRANGE HELD 0 -1 REV", "A2 B1")],
    ),
    (
        "a try under another limit conflicts",
        &[
            "SET LOCK ~shared:3;~0 PX 60000",
            "ZADD HELD 9000000000000 A2",
        ],
        "acquire B s 4 1 60000 0 0 - 0 0 0",
        "conflict 3",
        &[("ZCARD HELD", "1")],
    ),
    (
        "permits whose time is over are free",
        &["SET LOCK ~shared:1;~0 PX 60000", "ZADD HELD 5 A1"],
        "acquire B s 1 1 60000 0 0 - 0 0 0",
        "~1",
        &[("GET LOCK", "~shared:1;~1"), ("ZRANGE HELD 0 -1", "B1")],
    ),
    (
        "a foreign holder is asked about often",
        &["SET LOCK uuid PX 60000"],
        "acquire A x 0 1 60000 0 0 - 0 0 0",
        "held 1..100 -1 0 * uuid 50000..60000  foreign",
        &[("GET LOCK", "uuid")],
    ),
    (
        "a key of another type is left alone",
        &["HSET LOCK a b"],
        "acquire A x 0 1 60000 0 0 - 0 0 0",
        "held 1..100 -1 0 *  -1  wrong",
        &[("HGETALL LOCK", "a b")],
    ),
    (
        "one whose minimum hold runs does not get it back",
        &["SET LOCK ~kept;A~0 PX 60000"],
        "acquire A x 0 1 60000 0 0 - 0 0 0",
        "ended",
        &[("GET LOCK", "~kept;A~0")],
    ),
    (
        "a release deletes",
        &["SET LOCK A~0 PX 60000"],
        "release A 0",
        "1",
        &[("EXISTS LOCK", "0")],
    ),
    (
        "a release compares",
        &["SET LOCK B~0 PX 60000"],
        "release A 0",
        "0",
        &[("GET LOCK", "B~0"), ("PTTL LOCK", "50000..60000")],
    ),
    (
        "a minimum hold is kept, at most all of it",
        &["SET LOCK A~0 PX 60000"],
        "release A 3000",
        "2",
        &[("GET LOCK", "~kept;A~0"), ("PTTL LOCK", "2000..3000")],
    ),
    (
        "a second release of it changes nothing",
        &["SET LOCK ~kept;A~0 PX 60000"],
        "release A 3000",
        "0",
        &[("GET LOCK", "~kept;A~0"), ("PTTL LOCK", "50000..60000")],
    ),
    (
        "a waiter without a receiver is dropped, and the lock is free",
        &[
            "SET LOCK A~0 PX 60000",
            "ZADD QUEUE 5 B",
            "HSET WAITERS B x|0|1|60000|0|9000000000000|4|9000000000000|chan",
        ],
        "release A 0",
        "1",
        &[("EXISTS LOCK QUEUE WAITERS", "0")],
    ),
    (
        "the longest reader that leaves takes the rest of the time along",
        &[
            "SET LOCK ~shared:0;~0 PX 90000",
            "ZADD HELD 7000000000000 A1 9000000000000 B1",
        ],
        "release B 0",
        "1",
        &[
            ("ZRANGE HELD 0 -1", "A1"),
            // 7e12 is the end of A1, 9e12 was that of B1: Redis 6.2 only tells what is left.
            ("PTTL LOCK", "1..6000000000000"),
            ("PTTL HELD", "1..6000000000000"),
        ],
    ),
    (
        "the last reader that leaves frees the lock",
        &[
            "SET LOCK ~shared:0;~0 PX 90000",
            "ZADD HELD 7000000000000 A1",
        ],
        "release A 0",
        "1",
        &[("EXISTS LOCK HELD", "0")],
    ),
    (
        "permits under a minimum hold count on",
        &[
            "SET LOCK ~shared:3;~0 PX 90000",
            "ZADD HELD 7000000000000 A2",
        ],
        "release A 60000",
        "2",
        &[
            ("ZRANGE HELD 0 -1", "~kept;A2"),
            ("PTTL LOCK", "50000..60000"),
        ],
    ),
    (
        "a renewal lengthens, and compares owner and fencing token",
        &["SET LOCK A~0 PX 5000"],
        "renew A~0 60000",
        "r",
        &[("PTTL LOCK", "50000..60000")],
    ),
    (
        "another fencing token is another lease",
        &["SET LOCK A~1 PX 5000"],
        "renew A~0 60000",
        "n",
        &[("PTTL LOCK", "1..5000")],
    ),
    (
        "a renewal creates nothing",
        &[],
        "renew A~0 60000",
        "m",
        &[("EXISTS LOCK", "0")],
    ),
    (
        "a minimum hold is not renewed",
        &["SET LOCK ~kept;A~0 PX 5000"],
        "renew A~0 60000",
        "n",
        &[("PTTL LOCK", "1..5000")],
    ),
    (
        "a reader renews itself, and the lock with it",
        &[
            "SET LOCK ~shared:0;~0 PX 5000",
            "ZADD HELD 4000000000000 A1 4000000000000 B1",
        ],
        "renew_shared ~shared:0;~0 A 1 7000000000000",
        "r",
        &[
            ("ZSCORE HELD B1", "4000000000000"),
            ("PTTL LOCK", "6900000000000.."),
        ],
    ),
    (
        "a reader of another phase is not renewed",
        &[
            "SET LOCK ~shared:0;~1 PX 5000",
            "ZADD HELD 4000000000000 A1",
        ],
        "renew_shared ~shared:0;~0 A 1 60000",
        "n",
        &[("PTTL LOCK", "1..5000")],
    ),
    (
        "force ends what was seen",
        &["SET LOCK A~0 PX 60000"],
        "force A -",
        "1",
        &[("EXISTS LOCK", "0")],
    ),
    (
        "force leaves what was not",
        &["SET LOCK B~0 PX 60000"],
        "force A -",
        "0",
        &[("GET LOCK", "B~0")],
    ),
    (
        "force names a value that is not ours as a whole",
        &["SET LOCK uuid"],
        "force uuid ",
        "1",
        &[("EXISTS LOCK", "0")],
    ),
    (
        "force ends nothing else",
        &["HSET LOCK a b"],
        "force  ",
        "0",
        &[("HGETALL LOCK", "a b")],
    ),
    (
        "inspection tells everything, and writes nothing",
        &[
            "SET LOCK ~shared:0;~0 PX 60000",
            "ZADD HELD 5 A1",
            "ZADD QUEUE 5 B",
            "HSET WAITERS B text",
        ],
        "inspect",
        "string ~shared:0;~0 50000..60000 * A1 5 B 5 text (nil)",
        &[("ZCARD HELD", "1"), ("EXISTS LOCK", "1")],
    ),
];

#[test]
fn every_script_does_what_its_header_says() {
    let server = RedisServer::start();
    let keys = Keys::new(&Prefix::default(), &name("n"));
    for (title, before, call, reply, after) in CASES.iter().chain(changes::CASES) {
        server.cli(&["FLUSHALL"]);
        run(&server, &keys, "SET FENCE ~0");
        for command in *before {
            run(&server, &keys, command);
        }
        let answer = call_script(&server, &keys, call);
        assert!(
            matches(&answer, &filled(&keys, reply)),
            "{title}: answers {answer:?}"
        );
        for (question, expected) in *after {
            let answer = run(&server, &keys, question);
            let fits = matches(&answer, &filled(&keys, expected));
            assert!(
                fits,
                "{title}: {question} answers {answer:?}, not {expected:?}"
            );
        }
    }
}

/// The keys of another lock, in another slot.
fn other() -> Keys {
    Keys::new(&Prefix::default(), &name("other"))
}

fn filled(keys: &Keys, text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let word = match word {
            "LOCK" => return keys.lock.clone(),
            "FENCE" => return keys.fence.clone(),
            "QUEUE" => return keys.queue.clone(),
            "WAITERS" => return keys.waiters.clone(),
            "HELD" => return keys.held.clone(),
            "NOTES" => return keys.notes.clone(),
            "OTHER" => return other().lock,
            "-" => return String::new(),
            word => word,
        };
        let (form, rest) = ["~shared", "~kept;"]
            .iter()
            .find_map(|form| Some((*form, word.strip_prefix(form)?)))
            .unwrap_or(("", word));
        let owner = [("A", A), ("B", B), ("C", C)]
            .into_iter()
            .find_map(|(letter, owner)| {
                let rest = rest.strip_prefix(letter)?;
                let tail = rest.is_empty() || rest.starts_with('~') || rest.len() == 1;
                tail.then(|| format!("{owner}{rest}"))
            });
        let rest = owner.unwrap_or_else(|| rest.to_owned());
        format!("{form}{}", rest.replace('~', "800000000000000"))
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The reply on one line.
fn run(server: &RedisServer, keys: &Keys, command: &str) -> String {
    let command = filled(keys, command);
    let words: Vec<&str> = command.split(' ').collect();
    server.cli(&words).replace('\n', " ")
}

fn call_script(server: &RedisServer, keys: &Keys, call: &str) -> String {
    let mut words = call.split(' ');
    let script = words.next().unwrap();
    let text = scripts()
        .into_iter()
        .find(|it| it.name() == script)
        .unwrap()
        .text();
    let second = other();
    let given: Vec<&str> = match script {
        "renew" => vec![&keys.lock, &keys.waiters],
        "renew_shared" => vec![&keys.lock, &keys.held, &keys.waiters],
        "acquire_all" => [&keys.all()[..5], &second.all()[..5]].concat(),
        _ => keys.all().to_vec(),
    };
    let count = given.len().to_string();
    let words: Vec<String> = words.map(|word| filled(keys, word)).collect();
    let mut command = vec!["EVAL", text, &count];
    command.extend(given);
    command.extend(words.iter().map(String::as_str));
    server.cli(&command).replace('\n', " ")
}

/// Word by word; `*` is any word, `1..5` a number from 1 to 5, `1..` one from 1.
fn matches(answer: &str, pattern: &str) -> bool {
    let (answer, pattern): (Vec<_>, Vec<_>) =
        (answer.split(' ').collect(), pattern.split(' ').collect());
    let fits = |(word, pattern): (&&str, &&str)| match pattern.split_once("..") {
        _ if *pattern == "*" => true,
        Some((low, high)) => {
            let low: i64 = low.parse().unwrap();
            let high = if high.is_empty() {
                i64::MAX
            } else {
                high.parse().unwrap()
            };
            word.parse()
                .is_ok_and(|number: i64| (low..=high).contains(&number))
        }
        None => word == pattern,
    };
    answer.len() == pattern.len() && answer.iter().zip(&pattern).all(fits)
}
