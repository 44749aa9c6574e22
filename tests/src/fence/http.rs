//! A service that checks, and who calls it.

use axum::{
    Extension, Router,
    body::{Body, Bytes},
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use leasehold::{
    FencingToken,
    fence::{
        self, Claim, Error, Fence, Pass, Result,
        http::FenceLayer,
        memory::{Claimed, Memory},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Serves named cells until the runtime ends: GET reads, PUT writes, HEAD only claims. Answers the
/// address.
///
/// # Panics
///
/// If no port is free.
pub async fn serve() -> String {
    let resource = |request: &Request| Some(request.uri().path()[1..].replace("%2F", "/"));
    let service = Router::new()
        .route("/{name}", get(read).put(write).head(claim))
        .layer(FenceLayer::new(Memory::default(), resource));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket has one");
    tokio::spawn(async { axum::serve(listener, service).await });
    address.to_string()
}

async fn claim() -> StatusCode {
    StatusCode::OK // the layer has claimed
}

async fn read(Extension(mut claim): Extension<Claimed>) -> Response {
    match claim.read().await {
        Ok(content) => content.into_response(),
        Err(error) => fence::http::response::<Body>(&error),
    }
}

async fn write(Extension(mut claim): Extension<Claimed>, body: Bytes) -> Response {
    match claim.write(&body).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => fence::http::response::<Body>(&error),
    }
}

/// The cells of a service at an address, from outside.
#[derive(Clone, Debug)]
pub struct Remote(String);

impl Remote {
    /// Those at `address`, host and port.
    #[must_use]
    pub const fn new(address: String) -> Self {
        Self(address)
    }

    /// Sends a request with any headers; answers status, headers and body.
    ///
    /// # Errors
    ///
    /// The network's.
    pub async fn send(
        &self,
        method: &str,
        resource: &str,
        headers: &str,
        body: &[u8],
    ) -> std::io::Result<(u16, String, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.0).await?;
        let path = resource.replace('/', "%2F");
        let head = format!(
            "{method} /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let (head, body) = answer.split_at(end.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        let head = String::from_utf8_lossy(head).to_lowercase();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or(std::io::ErrorKind::InvalidData)?;
        Ok((status, head, body[4..].to_vec()))
    }

    async fn call(
        &self,
        method: &str,
        resource: &str,
        shown: FencingToken,
        body: &[u8],
    ) -> Result<Vec<u8>> {
        let header = format!("{}: {shown}\r\n", fence::http::HEADER);
        let answer = self.send(method, resource, &header, body).await;
        let (status, head, body) = answer.map_err(Error::store)?;
        match status {
            200..300 => Ok(body),
            412 => {
                let label = format!("{}: ", fence::http::SEEN);
                let seen = head.lines().find_map(|line| line.strip_prefix(&label));
                let seen = seen.and_then(|seen| seen.parse().ok()).expect("it tells");
                let seen = FencingToken::new(seen).expect("a fencing token");
                Err(Error::stale(resource, shown, seen))
            }
            other => Err(Error::store(format!("answer {other}: {head}"))),
        }
    }
}

impl Fence for Remote {
    type Claim = RemoteCell;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<RemoteCell> {
        let token = pass.into().for_resource(resource)?;
        self.call("HEAD", resource, token, b"").await?;
        Ok(RemoteCell {
            service: self.clone(),
            resource: resource.into(),
            token,
        })
    }
}

/// A claimed cell of a service.
#[derive(Debug)]
pub struct RemoteCell {
    service: Remote,
    resource: String,
    token: FencingToken,
}

impl Claim for RemoteCell {
    async fn read(&mut self) -> Result<Vec<u8>> {
        self.service
            .call("GET", &self.resource, self.token, b"")
            .await
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let done = self
            .service
            .call("PUT", &self.resource, self.token, content);
        done.await.map(drop)
    }
}
