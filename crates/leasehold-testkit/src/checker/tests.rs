//! Bad histories, each caught by the check that is named; and good ones that pass.

use super::*;
use crate::history::{self, Manner, Message, What};

const STRICT: Expect = Expect {
    exclusion: true,
    calm: true,
    idle: Some(Duration::from_nanos(50)),
    faults_end: 0,
    loss_slack: Duration::ZERO,
};

/// Written as `at process what`, one record per line, all on one name; the acquisition's number is
/// 0 unless the process is followed by one.
fn records(text: &str) -> Vec<Record> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(record)
        .collect()
}

fn record(line: &str) -> Record {
    let words: Vec<&str> = line.split(' ').collect();
    let number = |index: usize| words[index].parse().unwrap();
    let (process, op) = words[1].split_once('/').unwrap_or((words[1], "0"));
    let asked = |manner| What::Asked {
        name: "n".into(),
        manner,
        renewed: true,
    };
    let what = match words[2] {
        "asks" => asked(Manner::Exclusive),
        "reads" => asked(Manner::Read),
        "permit" => asked(Manner::Permit {
            limit: 2,
            weight: 1,
        }),
        "ticket" => What::Queued { ticket: number(3) },
        "has" => What::Granted {
            token: number(3),
            deadline: number(4),
        },
        "until" => What::Held {
            deadline: number(3),
        },
        "gives" => What::Release {
            deadline: number(3),
        },
        "lost" => What::Lost {
            deadline: number(3),
        },
        "refused" => What::Refused,
        "killed" => What::Killed,
        "slept" => What::Slept { by: number(3) },
        "leaps" => What::Leapt { by: number(3) },
        "freed" => What::Freed {
            name: "n".into(),
            until: number(3),
        },
        "adopted" => What::Adopted {
            by: "b".into(),
            deadline: number(3),
        },
        "sends" => What::Sent {
            message: match words[3] {
                "acquire" => Message::Acquire,
                "renew" => Message::Renew,
                _ => Message::Release,
            },
            owner: words[4].into(),
        },
        "downgrades" => What::Downgrading {
            deadline: number(3),
        },
        "downgraded" => What::Downgraded {
            deadline: number(3),
        },
        "left" => What::Left {
            name: "n".into(),
            value: "v".into(),
        },
        other => panic!("{other}"),
    };
    Record {
        at: number(0),
        process: process.into(),
        op: op.parse().unwrap(),
        what,
    }
}

fn failed(text: &str, expect: &Expect) -> Vec<Check> {
    let mut checks: Vec<_> = check(&records(text), expect)
        .iter()
        .map(|v| v.check)
        .collect();
    checks.dedup();
    checks
}

const ORDERLY: &str = "
    0 a asks
    1 a has 5 100
    2 b asks
    3 b ticket 7
    4 c asks
    5 c ticket 8
    60 a until 150
    120 a gives 180
    121 b has 6 200
    150 b gives 200
    151 c has 9 250
    160 c gives 250
    170 d asks
    171 d refused";

#[test]
fn an_orderly_history_passes() {
    assert_eq!(failed(ORDERLY, &STRICT), []);
}

#[test]
fn records_are_lines_of_json() {
    let records = records(ORDERLY);
    let lines = history::to_lines(&records);
    assert_eq!(lines.lines().count(), records.len());
    assert_eq!(history::from_lines(&lines).unwrap(), records);
    assert!(
        lines.starts_with(r#"{"at":0,"process":"a","op":0,"what":"asked""#),
        "{lines}"
    );
    assert!(history::from_lines("not a record").is_err());
}

#[test]
fn overlapping_holds_are_caught() {
    let both = "0 a asks\n1 a has 5 100\n2 b asks\n50 b has 6 150\n60 b gives 150\n70 a gives 100";
    assert_eq!(failed(both, &STRICT), [Check::Overlap]);
    // The former holder's deadline had passed: it lost, nobody overlaps.
    let after = "0 a asks\n1 a has 5 40\n2 b asks\n40 a lost 40\n50 b has 6 150\n60 b gives 150";
    let stormy = Expect {
        calm: false,
        ..STRICT
    };
    assert_eq!(failed(after, &stormy), []);
    // A renewal moved it: they do.
    let moved = "0 a asks\n1 a has 5 40\n2 b asks\n30 a until 90\n50 b has 6 150\n60 b gives 150
                 90 a lost 90";
    assert_eq!(failed(moved, &stormy), [Check::Overlap]);
    // The holder's clock leapt over the deadline: they do not.
    let leapt = "0 a asks\n1 a has 5 90\n2 b asks\n30 a leaps 100\n30 a lost 30\n50 b has 6 150
                 60 b gives 150";
    assert_eq!(failed(leapt, &stormy), []);
    assert_eq!(
        failed(
            both,
            &Expect {
                exclusion: false,
                ..STRICT
            }
        ),
        []
    );
}

#[test]
fn holds_that_the_store_gave_up_are_not_renewed() {
    let stormy = Expect {
        exclusion: false,
        calm: false,
        ..STRICT
    };
    let kept = "0 a asks\n1 a has 5 40\n20 - freed 60\n30 a until 60\n60 a lost 60";
    assert_eq!(failed(kept, &stormy), []);
    let renewed = "0 a asks\n1 a has 5 40\n20 - freed 60\n30 a until 61\n61 a lost 61";
    assert_eq!(failed(renewed, &stormy), [Check::Outlived]);
    let later = "0 a asks\n20 - freed 60\n20 a has 5 70\n30 a until 80\n80 a lost 80";
    assert_eq!(failed(later, &stormy), []);
}

#[test]
fn modes_decide_who_may_overlap() {
    let readers = "0 a reads\n1 a has 5 100\n2 b reads\n3 b has 5 100\n10 a gives 100
                   20 b gives 100";
    assert_eq!(failed(readers, &STRICT), []);
    let writer = "0 a reads\n1 a has 5 100\n2 b asks\n3 b has 6 100\n10 a gives 100
                  20 b gives 100";
    assert_eq!(failed(writer, &STRICT), [Check::Overlap]);
    let third = "0 a permit\n0 b permit\n0 c permit\n1 a has 5 100\n1 b has 5 100\n1 c has 5 100
                 10 a gives 100\n10 b gives 100\n10 c gives 100";
    assert_eq!(failed(third, &STRICT), [Check::Overlap]);
}

#[test]
fn fencing_tokens_that_repeat_or_fall_are_caught() {
    let again = "0 a asks\n1 a has 5 100\n10 a gives 100\n20 b asks\n21 b has 5 100
                 30 b gives 100";
    assert_eq!(failed(again, &STRICT), [Check::RepeatedToken]);
    let fallen = "0 a asks\n1 a has 5 100\n10 a gives 100\n20 b asks\n21 b has 4 100
                  30 b gives 100";
    assert_eq!(failed(fallen, &STRICT), [Check::TokenOrder]);
    assert_eq!(
        failed(
            fallen,
            &Expect {
                exclusion: false,
                ..STRICT
            }
        ),
        [Check::TokenOrder]
    );
}

#[test]
fn overtaking_is_caught() {
    let overtaken = "0 a asks\n1 a has 5 100\n2 b asks\n3 b ticket 7\n4 c asks\n5 c ticket 8
                     10 a gives 100\n11 c has 6 100\n12 c gives 100\n13 b has 7 100
                     14 b gives 100";
    assert_eq!(failed(overtaken, &STRICT), [Check::Overtaken]);
    assert_eq!(
        failed(
            overtaken,
            &Expect {
                calm: false,
                ..STRICT
            }
        ),
        []
    );
}

#[test]
fn waiting_for_a_free_name_is_caught() {
    let slow = "0 a asks\n1 a has 5 100\n2 b asks\n10 a gives 100\n90 b has 6 200\n91 b gives 200";
    assert_eq!(failed(slow, &STRICT), [Check::NotServed]);
    assert_eq!(
        failed(
            slow,
            &Expect {
                faults_end: 60,
                ..STRICT
            }
        ),
        []
    );
    let never = "0 a asks\n1 a has 5 100\n2 b asks\n10 a gives 100";
    assert_eq!(failed(never, &STRICT), [Check::NotServed]);
}

#[test]
fn a_loss_that_is_not_told_is_caught() {
    let untold = "0 a asks\n1 a has 5 40\n60 a gives 40";
    assert_eq!(failed(untold, &STRICT), [Check::UntoldLoss]);
    let never = "0 a asks\n1 a has 5 40\n90 b asks\n91 b refused";
    assert_eq!(failed(never, &STRICT), [Check::UntoldLoss]);
    let asleep = "0 a asks\n1 a has 5 40\n95 - slept 80\n95 a lost 40";
    assert_eq!(
        failed(
            asleep,
            &Expect {
                calm: false,
                ..STRICT
            }
        ),
        []
    );
    let killed = "0 a asks\n1 a has 5 40\n10 a killed\n90 b asks\n91 b refused";
    assert_eq!(failed(killed, &STRICT), []);
}

#[test]
fn a_loss_without_a_reason_is_caught() {
    assert_eq!(
        failed("0 a asks\n1 a has 5 40\n20 a lost 40", &STRICT),
        [Check::NeedlessLoss]
    );
}

#[test]
fn leftovers_are_caught() {
    assert_eq!(
        failed("0 a asks\n1 a has 5 40\n9 a gives 40\n99 - left", &STRICT),
        [Check::Leftover]
    );
}

#[test]
fn what_is_sent_after_the_release_is_caught() {
    let quiet =
        "0 a asks\n0 a sends acquire x\n1 a sends renew x\n2 a sends release x\n3 a sends release x
                 4 a sends acquire y\n5 a refused";
    assert_eq!(failed(quiet, &STRICT), []);
    let renewed =
        "0 a asks\n0 a sends acquire x\n2 a sends release x\n3 a sends renew x\n5 a refused";
    assert_eq!(failed(renewed, &STRICT), [Check::AfterRelease]);
    let queued =
        "0 a asks\n0 a sends acquire x\n2 a sends release x\n3 a sends acquire x\n5 a refused";
    assert_eq!(failed(queued, &STRICT), [Check::AfterRelease]);
}

#[test]
fn a_lock_that_was_handed_over_was_held_all_the_time() {
    let adopted = "0 a asks\n1 a has 5 100\n10 a gives 100\n40 a adopted 140\n50 b asks
                   60 b has 6 200\n70 b gives 200\n80 a gives 140";
    assert_eq!(failed(adopted, &STRICT), [Check::Overlap]);
}

#[test]
fn a_writer_that_became_a_reader_shares() {
    let shared = "0 a asks\n1 a has 5 100\n10 a downgrades 100\n12 a downgraded 200\n13 b reads
                  14 b has 5 200\n20 a gives 200\n30 b gives 200\n40 c asks\n41 c has 6 200
                  42 c gives 200";
    assert_eq!(failed(shared, &STRICT), []);
    let early = "0 a asks\n1 a has 5 100\n2 b reads\n3 b has 5 200\n10 a downgrades 100
                 12 a downgraded 200\n20 a gives 200\n30 b gives 200";
    assert_eq!(failed(early, &STRICT), [Check::Overlap]);
}
