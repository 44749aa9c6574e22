//! Just enough of the Redis protocol to give a test server a command.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Sends one command on a connection of its own; the reply as text, one line per element.
pub(super) fn command(server: SocketAddr, words: &[&str]) -> io::Result<String> {
    let limit = Duration::from_secs(10);
    let mut stream = TcpStream::connect_timeout(&server, limit)?;
    stream.set_read_timeout(Some(limit))?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.write_all(request.as_bytes())?;
    let mut lines = Vec::new();
    read(&mut BufReader::new(stream), &mut lines)?;
    Ok(lines.join("\n"))
}

fn read(from: &mut impl BufRead, lines: &mut Vec<String>) -> io::Result<()> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let Some((kind, rest)) = line.trim_end().split_at_checked(1) else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    match kind {
        "$" if rest == "-1" => lines.push("(nil)".into()),
        "$" => {
            let length: usize = rest.parse().map_err(io::Error::other)?;
            let mut bytes = vec![0; length + 2];
            from.read_exact(&mut bytes)?;
            lines.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
        }
        "*" => {
            for _ in 0..rest.parse::<i64>().map_err(io::Error::other)? {
                read(from, lines)?;
            }
        }
        "-" => return Err(io::Error::other(rest.to_owned())),
        _ => lines.push(rest.into()),
    }
    Ok(())
}
