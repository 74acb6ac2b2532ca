//! Ports for programs that are told where to listen: chosen now, and listened on later.

use crate::{Unavailable, io};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to whoever does not mind which, so that nobody's connection sits
/// on one by the time that a program listens there.
const FIRST: u16 = 20_000;
/// Test processes run side by side: each has a block of its own, by its id.
const BLOCK: u16 = 50;
const BLOCKS: u16 = 250;

/// How many this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// Ports that nobody listens on, and that no other test is given before they are used.
pub fn free_ports<const N: usize>() -> Result<[u16; N], Unavailable> {
    let block = u16::try_from(std::process::id() % u32::from(BLOCKS)).unwrap_or_default();
    let first = FIRST + block * BLOCK;
    let mut ports = [0; N];
    for port in &mut ports {
        let mut block = (0..BLOCK).map(|_| first + TRIED.fetch_add(1, Ordering::Relaxed) % BLOCK);
        let free = block.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
        *port = free.ok_or(ErrorKind::AddrInUse.into()).map_err(io("no free port"))?;
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_are_free_and_are_not_of_the_kernels_choice() -> Result<(), Unavailable> {
        let [a, b] = free_ports()?;
        let taken = TcpListener::bind(("127.0.0.1", a)).map_err(io("not free"))?;
        let later: [u16; 50] = std::array::from_fn(|_| free_ports().map_or(0, |[port]| port));
        assert!(a != b && !later.contains(&a), "{a} {b} {later:?}");
        assert!(later.iter().all(|port| (20_000..32_768).contains(port)), "{later:?}");
        drop(taken);
        Ok(())
    }
}
