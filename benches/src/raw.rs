//! The floor: a plain socket, no library, one thread.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use anyhow::{Result, bail};

/// A connection that speaks just enough of the protocol.
#[derive(Debug)]
pub(crate) struct Raw {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Raw {
    pub(crate) fn connect(address: &str) -> Result<Self> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        Ok(Self {
            reader: BufReader::new(writer.try_clone()?),
            writer,
        })
    }

    /// Sends a command and reads its reply.
    pub(crate) fn call(&mut self, words: &[&str]) -> Result<String> {
        self.send(words)?;
        self.reply()
    }

    pub(crate) fn send(&mut self, words: &[&str]) -> Result<()> {
        let mut message = format!("*{}\r\n", words.len());
        for word in words {
            message.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        Ok(self.writer.write_all(message.as_bytes())?)
    }

    /// The next reply as text; of an array its last element.
    pub(crate) fn reply(&mut self) -> Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" | ":" => Ok(rest.into()),
            "$" if rest == "-1" => Ok(String::new()),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>()? + 2];
                self.reader.read_exact(&mut text)?;
                Ok(String::from_utf8_lossy(&text[..text.len() - 2]).into_owned())
            }
            "*" => {
                let mut last = String::new();
                for _ in 0..rest.parse::<usize>()? {
                    last = self.reply()?;
                }
                Ok(last)
            }
            _ => bail!("the server says {line:?}"),
        }
    }
}
