//! A TCP proxy in front of a Redis server that loses pushes, and nothing else.
//!
//! TCP loses nothing out of the middle of a connection, but a server drops pushes of its own: for a
//! client that reads too slowly, or over a connection that is just being replaced.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};

use crate::sim::dice::Dice;

/// Loses pushes at random for as long as it exists.
#[derive(Debug)]
pub struct LossyPushes {
    address: SocketAddr,
    lost: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

impl LossyPushes {
    /// Starts one in front of `server`, on a free local port. It loses so many of a thousand.
    pub async fn start(server: SocketAddr, dice: Dice, per_mille: u32) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let filter = Filter {
                    dice: dice.split(),
                    per_mille,
                    lost: Arc::clone(&count),
                };
                tokio::spawn(serve(client, server, filter));
            }
        });
        Self {
            address,
            lost,
            accepting,
        }
    }

    /// Where clients connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many pushes were lost so far.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for LossyPushes {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(client: TcpStream, server: SocketAddr, filter: Filter) {
    let Ok(upstream) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), upstream.set_nodelay(true));
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = upstream.into_split();
    tokio::select! {
        biased;
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        _ = filter.run(from_server, to_client) => {}
    }
}

struct Filter {
    dice: Dice,
    per_mille: u32,
    lost: Arc<AtomicU64>,
}

impl Filter {
    /// Passes on one reply or push after the other, or not.
    async fn run(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut read = Vec::new();
        while from.read_buf(&mut read).await? > 0 {
            let (mut at, mut passed) = (0, Vec::new());
            while let Some(end) = end_of(&read, at) {
                if is_message(&read[at..end]) && self.dice.chance(self.per_mille) {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                } else {
                    passed.extend_from_slice(&read[at..end]);
                }
                at = end;
            }
            read.drain(..at);
            to.write_all(&passed).await?;
        }
        Ok(())
    }
}

/// A published message, as RESP3 and RESP2 have it.
fn is_message(frame: &[u8]) -> bool {
    let rest = frame.strip_prefix(b">3").or(frame.strip_prefix(b"*3"));
    rest.is_some_and(|rest| rest.starts_with(b"\r\n$7\r\nmessage\r\n"))
}

/// Where the value that begins at `at` ends, if all of it is there.
fn end_of(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    let length = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let line = std::str::from_utf8(&rest[..length]).unwrap_or_default();
    let after = at + length + 2;
    let (kind, text) = line.split_at_checked(1)?;
    let count = || text.parse::<i64>().map_or(0, |count| count.max(0)) as usize;
    match kind {
        "$" | "=" | "!" if text.starts_with('-') => Some(after),
        "$" | "=" | "!" => Some(after + count() + 2).filter(|end| *end <= bytes.len()),
        "*" | ">" | "~" => (0..count()).try_fold(after, |at, _| end_of(bytes, at)),
        "%" => (0..2 * count()).try_fold(after, |at, _| end_of(bytes, at)),
        _ => Some(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_apart() {
        let values: [&[u8]; 7] = [
            b"+OK\r\n",
            b"$-1\r\n",
            b"*2\r\n:1\r\n$3\r\n\r\n1\r\n",
            b"%1\r\n+a\r\n*0\r\n",
            b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
            b">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
        ];
        let all = values.concat();
        let (mut at, mut messages) = (0, 0);
        for value in values {
            let end = end_of(&all, at).unwrap();
            assert_eq!(&all[at..end], value);
            assert_eq!(end_of(&all[..end - 1], at), None);
            messages += u32::from(is_message(value));
            at = end;
        }
        assert_eq!((at, messages), (all.len(), 2));
        assert_eq!(end_of(&all, at), None);
    }
}
