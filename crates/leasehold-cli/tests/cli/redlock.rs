//! The command on several nodes that vote: what each says, and what it adds up to.

use leasehold_testkit::servers::RedisServer;

use super::kit::{Said, Store, wait_until};

struct Nodes(Vec<RedisServer>);

impl Nodes {
    fn start() -> Self {
        Self((0..3).map(|_| RedisServer::start()).collect())
    }

    fn store(&self, options: &str) -> Store {
        let addresses: Vec<String> = self.0.iter().map(|it| it.address().to_string()).collect();
        Store::at(&format!("redlock://{}{options}", addresses.join(",")))
    }

    /// A store whose nodes are known to have forgotten nothing, and a lock `j` that is held there.
    fn held(&self) -> Store {
        self.held_with("")
    }

    fn held_with(&self, options: &str) -> Store {
        let store = self.store(&format!("?assume_fresh=1{options}"));
        // The command ends when a majority has it, and the slowest node may never be asked.
        wait_until("every node has it", || {
            for server in &self.0 {
                server.cli(&["DEL", "lock:j"]);
            }
            let said = store.ask(["acquire", "j", "--ttl", "60s", "--label", "me"]);
            assert_eq!(said.code(), 0, "{said:?}");
            let has = |server: &RedisServer| server.cli(&["EXISTS", "lock:j"]) == "1";
            self.0.iter().all(has)
        });
        store
    }
}

/// The line about the node at `at`, without its address.
fn line(said: &Said, nodes: &Nodes, at: usize) -> String {
    let begins = format!("  node redis://{}/0: ", nodes.0[at].address());
    let mut lines = said.stdout.lines();
    let line = lines.find_map(|line| line.strip_prefix(&begins));
    line.unwrap_or_else(|| panic!("{begins} in {said:?}"))
        .into()
}

/// What `status` says once its last line begins and ends like this: a slow node may be missing from
/// the first answer.
fn shown(store: &Store, begin: &str, end: &str) -> Said {
    let mut said = store.ask(["status", "j"]);
    wait_until(end, || {
        let line = said.stdout.lines().last().unwrap_or_default();
        let is_it = line.starts_with(begin) && line.ends_with(end);
        if !is_it {
            said = store.ask(["status", "j"]);
        }
        is_it
    });
    said
}

#[test]
fn status_shows_every_node_s_view_and_their_sum() {
    let mut nodes = Nodes::start();
    let store = nodes.held();
    let needed = ", 2 are needed: it holds";
    let held = shown(&store, "  3 of 3 nodes name process ", needed);
    assert_eq!(held.code(), 0, "{held:?}");
    for at in 0..3 {
        let line = line(&held, &nodes, at);
        assert!(line.starts_with("held by process "), "{held:?}");
        assert!(
            line.contains(" (me), ") && line.contains(" left, "),
            "{line}"
        );
        assert!(line.contains(", fencing token "), "{line}");
    }

    // One is away, one has lost the key: the third's word may be the majority's.
    nodes.0[1].kill();
    nodes.0[2].cli(&["DEL", "lock:j"]);
    let may = "and 1 cannot say: it may hold";
    let unclear = shown(&store, "  1 of 3 nodes name process ", may);
    assert_eq!(unclear.code(), 0, "{unclear:?}");
    assert!(line(&unclear, &nodes, 1).contains("refused"), "{unclear:?}");
    assert_eq!(line(&unclear, &nodes, 2), "free");

    nodes.0[0].cli(&["DEL", "lock:j"]);
    let free = shown(&store, "  nobody is named by 2 of 3 nodes", ": it is free");
    assert_eq!(free.code(), 1, "{free:?}");
}

#[test]
fn status_tells_programs_what_each_node_says() {
    let mut nodes = Nodes::start();
    let store = nodes.held();
    nodes.0[2].kill();
    let object = store.status("j");
    assert_eq!(
        (&object["sum"], &object["nodes_needed"]),
        (&"held".into(), &2.into())
    );
    let voter = &object["nodes"][0];
    assert_eq!(
        (&voter["answers"], &voter["votes"]),
        (&true.into(), &true.into())
    );
    let holder = &voter["holders"][0];
    assert_eq!(holder["owner"], object["holders"][0]["owner"]);
    assert!(
        holder["remaining_ms"].is_u64() && holder["fencing_token"].is_u64(),
        "{holder}"
    );
    let absent = &object["nodes"][2];
    assert_eq!(
        (&absent["answers"], &absent["votes"]),
        (&false.into(), &false.into())
    );
    assert!(
        absent["holders"].is_null() && absent["cause"].is_string(),
        "{absent}"
    );
}

/// The servers have just been started, and nobody says that they have never run before.
#[test]
fn status_shows_which_nodes_have_no_vote_yet_and_for_how_long() {
    let nodes = Nodes::start();
    nodes.held_with("&max_ttl=10m");
    let store = nodes.store("?max_ttl=10m");
    let said = store.ask(["status", "j"]);
    assert_eq!(said.code(), 0, "{said:?}");
    let line = line(&said, &nodes, 0);
    assert!(line.contains("; no vote for another "), "{line}");
    let object = store.status("j");
    let left = object["nodes"][0]["no_vote_for_ms"].as_u64().unwrap();
    assert!(left > 0 && left < 700_000, "{left}");
    assert_eq!(object["sum"], "held");
}
