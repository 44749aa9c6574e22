//! The server's side of the protocol: reading requests and writing replies.

use super::Reply;

/// Takes the requests out of `input` that are complete.
pub(super) fn requests(input: &mut Vec<u8>) -> Vec<Vec<Vec<u8>>> {
    let (mut requests, mut taken) = (Vec::new(), 0);
    while let Some((words, length)) = request(&input[taken..]) {
        requests.push(words);
        taken += length;
    }
    input.drain(..taken);
    requests
}

/// The words of the first request, and how many bytes it takes.
fn request(input: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (count, mut at) = number(input, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, begin) = number(&input[at..], b'$')?;
        let begin = at + begin;
        words.push(input.get(begin..begin + length)?.to_vec());
        at = begin + length + 2;
    }
    (at <= input.len()).then_some((words, at))
}

/// The number in a line that begins with `sign`, and how many bytes the line takes.
fn number(input: &[u8], sign: u8) -> Option<(usize, usize)> {
    let end = input.windows(2).position(|pair| pair == b"\r\n")?;
    assert_eq!(input[0], sign, "not a request");
    let text = std::str::from_utf8(&input[1..end]).unwrap();
    Some((text.parse().unwrap(), end + 2))
}

/// A reply as it is sent.
pub(super) fn reply(reply: &Reply, resp3: bool) -> Vec<u8> {
    let mut out = Vec::new();
    write(reply, resp3, &mut out);
    out
}

/// What is sent without having been asked for, and the answer to a subscription.
pub(super) fn push(items: &[Reply], resp3: bool) -> Vec<u8> {
    let sign = if resp3 { '>' } else { '*' };
    let mut out = format!("{sign}{}\r\n", items.len()).into_bytes();
    for item in items {
        write(item, resp3, &mut out);
    }
    out
}

/// The answer to HELLO.
pub(super) fn greeting() -> Vec<u8> {
    b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n".to_vec()
}

fn write(reply: &Reply, resp3: bool, out: &mut Vec<u8>) {
    match reply {
        Reply::Nil if resp3 => out.extend(b"_\r\n"),
        Reply::Nil => out.extend(b"$-1\r\n"),
        Reply::Int(number) => out.extend(format!(":{number}\r\n").into_bytes()),
        Reply::Bulk(text) => {
            out.extend(format!("${}\r\n", text.len()).into_bytes());
            out.extend(text);
            out.extend(b"\r\n");
        }
        Reply::Status(text) => out.extend(format!("+{text}\r\n").into_bytes()),
        Reply::Error(text) => out.extend(format!("-{text}\r\n").into_bytes()),
        Reply::Array(items) => {
            out.extend(format!("*{}\r\n", items.len()).into_bytes());
            for item in items {
                write(item, resp3, out);
            }
        }
    }
}
