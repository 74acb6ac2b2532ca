#![allow(clippy::unwrap_used)]

use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

/// A stream with little room, and its other side.
fn stream(limit: Duration) -> (WriteDeadline<DuplexStream>, DuplexStream) {
    let (stream, other) = duplex(1000);
    (WriteDeadline::new(stream, limit), other)
}

async fn send(stream: &mut WriteDeadline<DuplexStream>, bytes: usize) -> io::Result<()> {
    stream.write_all(&vec![b'x'; bytes]).await?;
    stream.flush().await
}

#[tokio::test]
async fn a_stream_breaks_if_nobody_reads() {
    let (mut stream, _other) = stream(Duration::from_millis(50));
    let why = send(&mut stream, 1001).await.unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn a_stream_breaks_also_if_the_other_side_reads_a_byte_now_and_then() {
    let (mut stream, mut other) = stream(Duration::from_millis(50));
    tokio::spawn(async move {
        while other.read_u8().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let why = send(&mut stream, 2000).await.unwrap_err();
    assert_eq!(why.kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn each_answer_that_is_read_has_the_whole_time() {
    let (mut stream, mut other) = stream(Duration::from_secs(3600));
    for _ in 0..3 {
        let begun = tokio::time::timeout(Duration::from_millis(1), stream.write_all(&[0; 5000]));
        assert!(begun.await.is_err());
        assert!(stream.end.is_some(), "the time runs");
        let mut answer = [0; 5000];
        let (sent, read) = tokio::join!(send(&mut stream, 4000), other.read_exact(&mut answer));
        sent.unwrap();
        read.unwrap();
        assert!(stream.end.is_none(), "nothing waits any more");
    }
}
