//! Every case of the conformance suite on every backend, and a proof that none is missing.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use leasehold_testkit::conformance::CASES;

mod etcd {
    leasehold_testkit::conformance!(leasehold_tests::topology::Etcd);
}

mod file {
    leasehold_testkit::conformance!(leasehold_tests::topology::File);
}

mod memory {
    leasehold_testkit::conformance!(leasehold_tests::topology::Memory);
}

mod redis {
    leasehold_testkit::conformance!(leasehold_tests::topology::Redis);
}

mod redlock {
    leasehold_testkit::conformance!(leasehold_tests::topology::Redlock);
}

mod zookeeper {
    leasehold_testkit::conformance!(leasehold_tests::topology::ZooKeeper);
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Every case function in the suite's source is in its list.
#[test]
fn every_case_is_registered() {
    let folder = Path::new(ROOT).join("crates/leasehold-testkit/src/conformance");
    let mut written = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let group = path.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let name = line
                .strip_prefix("pub async fn ")
                .and_then(|rest| rest.split_once('<'));
            if let Some((case, rest)) = name
                && rest.starts_with("T: Topology>")
            {
                written.insert((group.clone(), case.to_owned()));
            }
        }
    }
    let listed: BTreeSet<_> = CASES
        .iter()
        .map(|&(group, case)| (group.to_owned(), case.to_owned()))
        .collect();
    let difference: Vec<_> = written.symmetric_difference(&listed).collect();
    assert!(
        difference.is_empty(),
        "written or listed, not both: {difference:?}"
    );
    assert_eq!(listed.len(), CASES.len(), "each once");
}

/// Every case is a test of this program for every backend that the library has.
#[test]
fn every_case_runs_on_every_backend() {
    let program = Command::new(std::env::current_exe().unwrap())
        .arg("--list")
        .output()
        .unwrap();
    let tests = String::from_utf8(program.stdout).unwrap();
    let tests: BTreeSet<&str> = tests
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .collect();
    let backends = backends();
    assert!(backends.contains("memory"), "{backends:?}");
    for backend in backends {
        for (group, case) in CASES {
            let test = format!("{backend}::{group}::{case}");
            assert!(tests.contains(test.as_str()), "{test} is not a test");
        }
    }
}

/// The folders of the library that implement the trait.
fn backends() -> BTreeSet<String> {
    let folder = Path::new(ROOT).join("crates/leasehold/src/backend");
    let folders = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let implements = |folder: &std::path::PathBuf| {
        let files = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path());
        let mut texts = files.filter(|file| file.is_file()).map(fs::read_to_string);
        texts.any(|text| text.unwrap().contains("\nimpl Backend for "))
    };
    let name = |folder: std::path::PathBuf| folder.file_name().unwrap().to_str().unwrap().into();
    folders
        .filter(|folder| folder.is_dir())
        .filter(implements)
        .map(name)
        .collect()
}
