//! Connections: so many at once, and none that takes nothing of what is sent to it for long. Without this whoever does not read holds what
//! was to be sent, and the place that it took, for as long as it likes.

use std::{
    future::{Future, Ready, ready},
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready as wait_for},
    time::Duration,
};

use axum_server::accept::Accept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep},
};

/// What the system holds of what is sent on a connection and not yet taken; it doubles it for its own needs.
const SEND_BUFFER_BYTES: usize = 128 << 10;

/// Accepts connections within bounds.
#[derive(Debug, Clone)]
pub(super) struct Bounded {
    places: Arc<Semaphore>,
    stalled_max: Duration,
}

impl Bounded {
    pub(super) fn new(connections_max: usize, stalled_max: Duration) -> Bounded {
        Bounded { places: Arc::new(Semaphore::new(connections_max)), stalled_max }
    }
}

impl<S> Accept<TcpStream, S> for Bounded {
    type Stream = Watched<TcpStream>;
    type Service = S;
    type Future = Ready<io::Result<(Self::Stream, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let place = match self.places.clone().try_acquire_owned() {
            Ok(place) => place,
            Err(_) => return ready(Err(io::Error::other("too many connections are open"))),
        };
        // Beyond what the process holds for a connection the system would hold megabytes for one that does not read.
        let bounded = socket2::SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
        ready(
            bounded
                .and_then(|()| stream.set_nodelay(true))
                .map(|()| (Watched::new(stream, self.stalled_max, place), service)),
        )
    }
}

/// A connection whose writes fail once nothing was taken of them for a while.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    stalled_max: Duration,
    /// When the write that is under way has waited too long.
    deadline: Pin<Box<Sleep>>,
    is_writing: bool,
    _place: OwnedSemaphorePermit,
}

impl<S> Watched<S> {
    fn new(stream: S, stalled_max: Duration, place: OwnedSemaphorePermit) -> Watched<S> {
        Watched { stream, stalled_max, deadline: Box::pin(sleep(stalled_max)), is_writing: false, _place: place }
    }

    /// What a write came to, unless it has waited too long.
    fn watch<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_writing = false;
            return written;
        }
        if !self.is_writing {
            self.is_writing = true;
            self.deadline.as_mut().reset(Instant::now() + self.stalled_max);
        }
        wait_for!(self.deadline.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer takes nothing of what is sent to it")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    fn watched(stream: tokio::io::DuplexStream) -> Watched<tokio::io::DuplexStream> {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        Watched::new(stream, Duration::from_millis(50), place)
    }

    /// Protects memory from those who do not read, and those who read slowly from being taken for them.
    #[tokio::test]
    async fn a_write_fails_once_nothing_is_taken_of_it() {
        let (ours, _theirs) = duplex(16);
        let error = watched(ours).write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let (ours, mut theirs) = duplex(16);
        let mut ours = watched(ours);
        let writing = tokio::spawn(async move { ours.write_all(&[0; 64]).await });
        let mut taken = [0; 64];
        theirs.read_exact(&mut taken).await.unwrap();
        writing.await.unwrap().unwrap();
    }
}
