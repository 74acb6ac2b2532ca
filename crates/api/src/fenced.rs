//! A TCP stream that sends nothing once the fence is closed.

use crate::fence::Fence;
use hyper_util::client::legacy::connect::{Connected, Connection};
use std::io::{Error, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Below TLS, so that nothing waits in a buffer between the look at the clock and the system call.
pub(crate) struct Fenced {
    stream: TcpStream,
    fence: Fence,
}

impl Fenced {
    pub(crate) fn new(stream: TcpStream, fence: Fence) -> Self {
        Self { stream, fence }
    }

    fn look(&self) -> Result<()> {
        if self.fence.is_open() {
            Ok(())
        } else {
            Err(Error::other("not leading: nothing is sent"))
        }
    }
}

impl AsyncRead for Fenced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Fenced {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        self.look()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.look()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A TCP stream keeps nothing back, so flushing and closing send none of our bytes.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connection for Fenced {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
