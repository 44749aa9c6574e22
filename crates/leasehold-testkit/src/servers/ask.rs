//! One question and its answer, each on a connection of its own.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Sends `question` and reads until the other side closes.
pub(super) fn ask(address: SocketAddr, question: &[u8]) -> io::Result<String> {
    let limit = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(question)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The body of the answer to an HTTP request.
pub(super) fn post(address: SocketAddr, path: &str, body: &str) -> io::Result<String> {
    let length = body.len();
    let question = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let answer = ask(address, question.as_bytes())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    if !head.contains(" 200 ") {
        return Err(io::Error::other(answer));
    }
    Ok(body.to_owned())
}
