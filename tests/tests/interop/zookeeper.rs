//! Curator and kazoo.

use std::process::Command;

use leasehold::Client;
use leasehold_testkit::servers::ZooKeeperEnsemble;

use crate::{
    foreign::{Driver, Foreign},
    ground::say,
    queue::{self, Queue},
};

/// Two clients of `library`, by `driver`, in one queue with ours; `options` are our URL's.
pub(crate) async fn check(driver: &Command, library: &'static str, options: &str) {
    let ensemble = ZooKeeperEnsemble::start(1);
    let url = format!("{}{options}", ensemble.url());
    let theirs = [(), ()].map(|()| start(driver, &ensemble, library));
    let queue = Queue {
        ours: [
            Client::connect(&url).await.unwrap(),
            Client::connect(&url).await.unwrap(),
        ],
        theirs,
        path: |name| format!("/locks/{name}"),
        entries: Box::new(move |path| {
            let dump = ensemble.ask(0, "dump").unwrap();
            let path = format!("{path}/");
            dump.lines().filter(|line| line.contains(&path)).count()
        }),
    };
    queue::check(queue).await;
    say(&format!("{library}: passed"));
}

fn start(driver: &Command, to: &ZooKeeperEnsemble, library: &'static str) -> Box<dyn Foreign> {
    let mut command = Command::new(driver.get_program());
    command.args(driver.get_args());
    let set = driver.get_envs();
    command.envs(set.filter_map(|(key, value)| Some((key, value?))));
    command.arg(to.connect_string());
    Box::new(Driver::start(&mut command, library))
}
