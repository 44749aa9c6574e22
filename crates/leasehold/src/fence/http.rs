//! HTTP services: a header, and a tower layer that claims before the handler runs.
//!
//! ```ignore
//! let layer = FenceLayer::new(invoices, |request: &Request| Some(request.uri().path().into()));
//! let service = Router::new().route("/invoices/{id}", put(charge)).layer(layer);
//!
//! async fn charge(Extension(mut claim): Extension<Claimed>, body: Bytes) -> Response {
//!     match claim.write(&body).await { // checks again, in the step that writes
//!         Ok(()) => StatusCode::NO_CONTENT.into_response(),
//!         Err(error) => fence::http::response(&error), // 412 when stale
//!     }
//! }
//! ```
//!
//! A check ahead of the handler is not enough, since the handler may be slow: it writes through the
//! claim it finds in the request's extensions, or, where the data is in a database, takes the
//! [`Pass`] from there and claims its own transaction.
//!
//! | answer | when |
//! |---|---|
//! | 428 | the header is missing |
//! | 400 | it has no fencing token, or the resource is none |
//! | 412 | a larger fencing token has been seen, which `Fencing-Token-Seen` tells |
//! | 503 | the resource failed |

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use leasehold_core::FencingToken;
use tower_layer::Layer;
use tower_service::Service;

use super::{Error, Fence, Pass, Result, pass};

/// The header that carries a fencing token.
pub const HEADER: HeaderName = HeaderName::from_static("fencing-token");

/// The header of a refusal, with the largest fencing token seen.
pub const SEEN: HeaderName = HeaderName::from_static("fencing-token-seen");

/// The value of [`HEADER`], for requests.
#[must_use]
pub fn value(token: FencingToken) -> HeaderValue {
    HeaderValue::from(token.get())
}

/// Reads the fencing token of a request.
///
/// # Errors
///
/// `None` when there is none; [`Error::Invalid`] when there are several or what is there is no
/// fencing token.
pub fn read(headers: &HeaderMap) -> Option<Result<FencingToken>> {
    let mut values = headers.get_all(HEADER).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return Some(Err(Error::invalid(format!("more than one {HEADER}"), "")));
    }
    Some(match first.to_str() {
        Ok(text) => pass::parse(text),
        Err(error) => Err(Error::invalid(format!("{HEADER}: {error}"), "")),
    })
}

/// What to answer when a claim, a read or a write has failed.
#[must_use]
pub fn response<B: From<String>>(error: &Error) -> Response<B> {
    let status = match error {
        Error::Stale { .. } => StatusCode::PRECONDITION_FAILED,
        Error::OtherLock { .. } | Error::Invalid { .. } => StatusCode::BAD_REQUEST,
        Error::Store(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    // What a store says about itself is not for everybody.
    let text = match error {
        Error::Store(_) => "the resource failed".to_owned(),
        _ => error.to_string(),
    };
    let mut response = answer(status, &text);
    if let Some(seen) = error.seen() {
        response.headers_mut().insert(SEEN, value(seen));
    }
    response
}

fn answer<B: From<String>>(status: StatusCode, text: &str) -> Response<B> {
    let mut response = Response::new(B::from(format!("{text}\n")));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, plain);
    response
}

/// Claims the resource of each request, and puts the [`Pass`] and the claim into its extensions.
#[derive(Clone, Debug)]
pub struct FenceLayer<F, R> {
    fence: F,
    resource: Arc<R>,
}

impl<F, R> FenceLayer<F, R> {
    /// Fences with `fence` the resource that `resource` finds in a request; where it answers
    /// `None`, the request passes as it is.
    pub fn new(fence: F, resource: R) -> Self {
        Self {
            fence,
            resource: Arc::new(resource),
        }
    }
}

impl<S, F: Clone, R> Layer<S> for FenceLayer<F, R> {
    type Service = Fenced<S, F, R>;

    fn layer(&self, inner: S) -> Self::Service {
        Fenced {
            inner,
            fence: self.fence.clone(),
            resource: Arc::clone(&self.resource),
        }
    }
}

/// A service behind a [`FenceLayer`].
#[derive(Debug)]
pub struct Fenced<S, F, R> {
    inner: S,
    fence: F,
    resource: Arc<R>,
}

impl<S: Clone, F: Clone, R> Clone for Fenced<S, F, R> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            fence: self.fence.clone(),
            resource: Arc::clone(&self.resource),
        }
    }
}

impl<S, F, R, B, A> Service<Request<B>> for Fenced<S, F, R>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fence<Claim: Clone + Sync + 'static> + Clone + Send + Sync + 'static,
    R: Fn(&Request<B>) -> Option<String>,
    B: Send + 'static,
    A: From<String>,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The service that was found ready is the one to call.
        let ready = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, ready);
        let fence = self.fence.clone();
        let resource = (self.resource)(&request);
        Box::pin(async move {
            let Some(resource) = resource else {
                return inner.call(request).await;
            };
            let token = match read(request.headers()) {
                Some(Ok(token)) => token,
                Some(Err(error)) => return Ok(response(&error)),
                None => {
                    let text = format!("{resource:?} needs the header {HEADER}");
                    return Ok(answer(StatusCode::PRECONDITION_REQUIRED, &text));
                }
            };
            match fence.claim(&resource, token).await {
                Ok(claim) => {
                    request.extensions_mut().insert(Pass::from(token));
                    request.extensions_mut().insert(claim);
                    inner.call(request).await
                }
                Err(error) => Ok(response(&error)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let values = values
            .iter()
            .map(|text| (HEADER, HeaderValue::from_static(text)));
        values.collect()
    }

    #[test]
    fn a_header_has_one_fencing_token() {
        assert_eq!(read(&headers(&["34"])).unwrap().unwrap().get(), 34);
        assert!(read(&headers(&[])).is_none());
        for wrong in [&["0"][..], &["x"], &["33", "34"], &["9007199254740993"]] {
            let error = read(&headers(wrong)).unwrap().unwrap_err();
            assert_eq!(response::<String>(&error).status(), StatusCode::BAD_REQUEST);
        }
    }

    #[test]
    fn a_refusal_tells_what_was_seen_and_a_failure_tells_nothing() {
        let [old, new] = [33, 34].map(|value| FencingToken::new(value).unwrap());
        let refusal = response::<String>(&Error::stale("a", old, new));
        assert_eq!(refusal.status(), StatusCode::PRECONDITION_FAILED);
        assert_eq!(refusal.headers()[SEEN], "34");
        let failure = response::<String>(&Error::store("password of db7 is wrong"));
        assert!(!failure.body().contains("db7"), "{}", failure.body());
    }
}
