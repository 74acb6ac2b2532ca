#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

const MOST: usize = 8;
/// Against a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Says each byte back; after a `!` the peer is known.
async fn echo(mut stream: TcpStream, seat: Arc<Seat>) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).await.is_ok() {
        if byte == *b"!" {
            seat.answered();
        }
        if stream.write_all(&byte).await.is_err() {
            return;
        }
    }
}

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = Connections::new(listener, MOST);
    tokio::spawn(async move { connections.answer(echo).await });
    address
}

async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    tokio::time::timeout(PATIENCE, socket.connect(to)).await.unwrap().unwrap()
}

/// Whether a byte comes back; not if the connection was closed.
async fn says(stream: &mut TcpStream, byte: u8) -> bool {
    let exchange = async {
        stream.write_all(&[byte]).await?;
        stream.read_u8().await
    };
    tokio::time::timeout(PATIENCE, exchange).await.unwrap().is_ok_and(|found| found == byte)
}

/// Waits until the other side has closed it.
async fn is_closed(stream: &mut TcpStream) {
    let _ = tokio::time::timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap_err();
}

#[tokio::test]
async fn everybody_gets_in_and_keeps_its_seat_while_one_peer_opens_many() {
    let address = start().await;
    let mut one = connect([127, 0, 0, 2], address).await;
    assert!(says(&mut one, b'a').await);
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(connect([127, 0, 0, 9], address).await);
    }
    let mut other = connect([127, 0, 0, 3], address).await;
    assert!(says(&mut other, b'b').await);
    assert!(says(&mut one, b'c').await);
    // The newest of the many are still there, the others not.
    let (old, new) = idle.split_at_mut(100 - (MOST - 2));
    for stream in old {
        is_closed(stream).await;
    }
    for stream in new {
        assert!(says(stream, b'd').await);
    }
}

#[tokio::test]
async fn a_peer_that_is_known_keeps_its_connections_while_many_peers_come() {
    let address = start().await;
    let mut known = Vec::new();
    for _ in 0..MOST / 2 {
        known.push(connect([127, 0, 0, 2], address).await);
    }
    for stream in &mut known {
        assert!(says(stream, b'!').await);
    }
    let mut strangers = Vec::new();
    for number in 10..250 {
        strangers.push(connect([127, 0, 0, number], address).await);
    }
    assert!(says(strangers.last_mut().unwrap(), b'a').await);
    for stream in &mut known {
        assert!(says(stream, b'b').await);
    }
}

#[tokio::test]
async fn an_end_waits_for_those_that_are_here() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = Connections::new(listener, MOST);
    let mut stream = tokio::select! {
        never = connections.answer(echo) => match never {},
        stream = async {
            let mut stream = connect([127, 0, 0, 2], address).await;
            assert!(says(&mut stream, b'a').await);
            stream
        } => stream,
    };
    let end = tokio::spawn(connections.end());
    assert!(says(&mut stream, b'b').await);
    assert!(!end.is_finished());
    drop(stream);
    tokio::time::timeout(PATIENCE, end).await.unwrap().unwrap();
}
