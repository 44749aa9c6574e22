//! What the server answers outside of scripts.

use super::{Reply, Turn, host::Process, resp};

impl Process {
    /// Answers a request of the connection `key`: the bytes of the reply, or nothing if the
    /// connection was ended meanwhile.
    pub(super) fn answer(&mut self, key: u64, words: &[Vec<u8>]) -> Option<Vec<u8>> {
        let text: Vec<String> = words
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let given: Vec<&str> = text.iter().map(String::as_str).collect();
        let resp3 = self.connections.get(&key)?.resp3;
        if self.is_loading() && !matches!(given[..], ["HELLO", ..]) {
            self.reach(Turn::Loading);
            let text = "LOADING Redis is loading the dataset in memory";
            return Some(resp::reply(&Reply::Error(text.into()), resp3));
        }
        let reply = match &given[..] {
            ["HELLO", "3", ..] => {
                self.connections.get_mut(&key)?.resp3 = true;
                return Some(resp::greeting());
            }
            ["SUBSCRIBE", channel] => return self.subscribe(key, channel),
            ["ROLE"] => {
                let empty = Reply::Array(Vec::new());
                Reply::Array(vec![bulk("master"), Reply::Int(0), empty])
            }
            ["INFO", "server"] => bulk(&format!(
                "# Server\r\nredis_version:7.2.0\r\nredis_mode:standalone\r\nrun_id:{:040x}\r\n",
                self.run
            )),
            ["CLIENT", "ID"] => Reply::Int(self.connections.get(&key)?.id),
            ["CLIENT", "KILL", "ID", id] => Reply::Int(self.kill(id.parse().unwrap())),
            ["SCRIPT", "LOAD", script] => bulk(&self.load(script)),
            ["EVALSHA", sha, count, rest @ ..] => match self.run(sha, count, rest) {
                Some(reply) => reply,
                None => {
                    self.reach(Turn::NoScript);
                    Reply::Error("NOSCRIPT No matching script. Please use EVAL.".into())
                }
            },
            ["EVAL", script, count, rest @ ..] => {
                let sha = self.load(script);
                self.run(&sha, count, rest).expect("a script just loaded")
            }
            ["PING"] => Reply::Status("PONG"),
            other => Reply::Error(format!("ERR unknown command {other:?}")),
        };
        Some(resp::reply(&reply, resp3))
    }

    fn run(&mut self, sha: &str, count: &str, rest: &[&str]) -> Option<Reply> {
        let function = self.scripts.get(sha)?.clone();
        let (keys, words) = rest.split_at(count.parse().unwrap());
        self.server().store().now_us = self.now_us();
        let reply = self.server().call(&function, keys, words);
        self.deliver();
        Some(reply)
    }

    fn subscribe(&mut self, key: u64, channel: &str) -> Option<Vec<u8>> {
        let connection = self.connections.get_mut(&key)?;
        connection.channels.insert(channel.into());
        let count = i64::try_from(connection.channels.len()).unwrap();
        let done = [bulk("subscribe"), bulk(channel), Reply::Int(count)];
        let done = resp::push(&done, connection.resp3);
        self.note_subscribed();
        Some(done)
    }
}

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}
