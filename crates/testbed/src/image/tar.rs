//! Archives in the form of `ustar`, whose bytes depend on nothing but names, kinds and contents.

use std::io::{Error, Read, Result, Write};

/// All is in blocks of so many bytes.
const BLOCK: usize = 512;

/// Writes one archive.
pub(super) struct Tar<W> {
    to: W,
}

impl<W: Write> Tar<W> {
    pub fn new(to: W) -> Self {
        Self { to }
    }

    pub fn folder(&mut self, at: &str, mode: u32) -> Result<()> {
        self.header(&format!("{at}/"), mode, 0, b'5', "")
    }

    pub fn link(&mut self, at: &str, target: &str) -> Result<()> {
        self.header(at, 0o777, 0, b'2', target)
    }

    /// A file with the next `size` bytes.
    pub fn file(&mut self, at: &str, mode: u32, size: u64, content: impl Read) -> Result<()> {
        self.header(at, mode, size, b'0', "")?;
        let copied = std::io::copy(&mut content.take(size), &mut self.to)?;
        if copied != size {
            return Err(Error::other(format!("{at} became shorter while it was read")));
        }
        let rest = usize::try_from(size % BLOCK as u64).unwrap_or_default();
        self.to.write_all(&[0; BLOCK][..(BLOCK - rest) % BLOCK])
    }

    /// Two empty blocks are the end.
    pub fn finish(mut self) -> Result<W> {
        self.to.write_all(&[0; 2 * BLOCK])?;
        self.to.flush()?;
        Ok(self.to)
    }

    fn header(&mut self, at: &str, mode: u32, size: u64, kind: u8, target: &str) -> Result<()> {
        if at.len() > 100 || target.len() > 100 {
            return Err(Error::other(format!("{at}: longer than the 100 bytes of a name")));
        }
        let mut header = [0_u8; BLOCK];
        let mut put = |from: usize, bytes: &[u8]| {
            header[from..from + bytes.len()].copy_from_slice(bytes);
        };
        put(0, at.as_bytes());
        put(100, format!("{mode:07o}").as_bytes());
        // User and group 0, and no time.
        for from in [108, 116] {
            put(from, b"0000000");
        }
        put(124, format!("{size:011o}").as_bytes());
        put(136, b"00000000000");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, target.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.to.write_all(&header)
    }
}
