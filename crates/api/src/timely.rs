//! A request body that is sent in time, or not at all.

use http::Request;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Bytes;
use kube::client::Body;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tower::BoxError;

/// Until when the body of a request may be sent; an extension of the request.
///
/// The server's own deadline counts from when it has the request, and a request may have to wait for
/// a connection: what was sent late would be done late. Without its body the server does nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendBy(pub(crate) Instant);

/// The body, asked for when there is a connection to send it on.
pub(crate) struct Timely {
    body: Body,
    by: Option<SendBy>,
}

impl Timely {
    pub(crate) fn request(request: Request<Body>) -> Request<Self> {
        let by = request.extensions().get().copied();
        request.map(|body| Self { body, by })
    }
}

impl HttpBody for Timely {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.by.is_some_and(|SendBy(by)| Instant::now() > by) {
            return Poll::Ready(Some(Err(
                "there was no connection in time: it was not sent".into()
            )));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        Poll::Ready(frame.map(|frame| frame.map_err(BoxError::from)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use std::time::Duration;

    #[tokio::test]
    async fn what_has_waited_too_long_for_a_connection_is_not_sent() {
        let now = Instant::now();
        let request = |by: Option<Instant>| {
            let mut request = Request::new(Body::from(b"{}".to_vec()));
            by.map(|by| request.extensions_mut().insert(SendBy(by)));
            Timely::request(request).into_body()
        };
        for (by, is_sent) in
            [(None, true), (Some(now + Duration::from_secs(3600)), true), (Some(now), false)]
        {
            let mut body = request(by);
            assert_eq!(body.size_hint().exact(), Some(2), "the length is told before");
            while by == Some(now) && Instant::now() <= now {}
            assert_eq!(body.frame().await.is_some_and(|frame| frame.is_ok()), is_sent, "{by:?}");
        }
    }
}
