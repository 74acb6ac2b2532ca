//! A stream whose other side has to read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that breaks if what is written to it cannot leave in time. What waits to be read by the
/// other side is kept in memory, and reading a byte now and then does not change that: so the time is
/// for all that was written until it is flushed.
#[derive(Debug)]
pub struct WriteDeadline<S> {
    stream: S,
    limit: Duration,
    /// Since something had to wait.
    end: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteDeadline<S> {
    /// Breaks `stream` after `limit`.
    pub fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, end: None }
    }

    /// The same, or an error if it is pending for too long.
    fn timely<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_pending() {
            let limit = self.limit;
            let end = self.end.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
            if end.as_mut().poll(context).is_ready() {
                let why = "the other side does not read what it is sent";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
        }
        poll
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.timely(context, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.timely(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        if poll.is_ready() {
            self.end = None;
        }
        self.timely(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        self.timely(context, poll)
    }
}

#[cfg(test)]
mod tests;
