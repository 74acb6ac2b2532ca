//! The file that all processes of a container share: HAMi-core's `shared_region_t`, version 1.2.

use crate::limits::{CARDS, Limits};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: i32 = 19_920_718;
const VERSION: (i32, i32) = (1, 2);
const MEMORY: u64 = 1_600;
const COMPUTE: u64 = 1_728;
/// Where the processes are, how long one is and how many there may be.
const PROCESSES: (u64, u64, i32) = (1_856, 1_960, 1_024);
const COUNT: u64 = 2_008_896;
const SIZE: u64 = 2_008_953;

/// Enters this process, and says what holds for it: what the first process that came here said,
/// whatever this one says.
pub fn enter(path: &Path, limits: &Limits, process: i32) -> io::Result<Limits> {
    let open = File::options().create(true).truncate(false).read(true).write(true).open(path);
    let file = open?;
    file.lock()?;
    if number(&file, 0).unwrap_or_default() != MAGIC {
        file.set_len(SIZE)?;
        file.write_all_at(&VERSION.0.to_le_bytes(), 4)?;
        file.write_all_at(&VERSION.1.to_le_bytes(), 8)?;
        put(&file, MEMORY, &limits.memory)?;
        put(&file, COMPUTE, &limits.compute)?;
        file.write_all_at(&MAGIC.to_le_bytes(), 0)?;
    }
    let count = number(&file, COUNT)?;
    let (first, length, most) = PROCESSES;
    if (0..most).contains(&count) {
        let slot = first + length * u64::from(count.unsigned_abs());
        file.write_all_at(&process.to_le_bytes(), slot)?;
        file.write_all_at(&(count + 1).to_le_bytes(), COUNT)?;
    }
    Ok(Limits { memory: get(&file, MEMORY)?, compute: get(&file, COMPUTE)? })
}

fn number(file: &File, at: u64) -> io::Result<i32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at)?;
    Ok(i32::from_le_bytes(bytes))
}

fn put(file: &File, at: u64, values: &[u64; CARDS]) -> io::Result<()> {
    file.write_all_at(&values.map(u64::to_le_bytes).concat(), at)
}

fn get(file: &File, at: u64) -> io::Result<[u64; CARDS]> {
    let mut values = [0; CARDS];
    for (value, at) in values.iter_mut().zip((at..).step_by(8)) {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, at)?;
        *value = u64::from_le_bytes(bytes);
    }
    Ok(values)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_decides_for_all_and_the_file_is_laid_out_as_hami_cores() {
        let path = std::env::temp_dir().join(format!("divvy-region-{}", std::process::id()));
        let (first, second) =
            (Limits { memory: [7; CARDS], compute: [30; CARDS] }, Limits::read(|_| None));
        assert_eq!(enter(&path, &first, 41).unwrap(), first);
        assert_eq!(enter(&path, &second, 42).unwrap(), first, "with a clean environment too");
        let file = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.len(), 2_008_953);
        let i32_at = |at: usize| i32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        assert_eq!([0, 4, 8].map(i32_at), [19_920_718, 1, 2]);
        assert_eq!([1_600, 1_720, 1_728, 1_848].map(u64_at), [7, 7, 30, 30]);
        assert_eq!([1_856, 3_816, 2_008_896].map(i32_at), [41, 42, 2]);
    }
}
