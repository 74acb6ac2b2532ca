//! The variables that say how much of each card a process may have.

/// Cards that HAMi-core knows in one container.
pub const CARDS: usize = 16;

/// What the variables say of each card: bytes of memory (0 is no limit), and percent of compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub memory: [u64; CARDS],
    pub compute: [u64; CARDS],
}

impl Limits {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: String| variable(&name).as_deref().and_then(amount);
        let of = |name: &str, otherwise: u64| {
            let all = read(name.to_owned()).unwrap_or(otherwise);
            std::array::from_fn(|card| read(format!("{name}_{card}")).unwrap_or(all))
        };
        Self { memory: of("CUDA_DEVICE_MEMORY_LIMIT", 0), compute: of("CUDA_DEVICE_SM_LIMIT", 100) }
    }
}

/// What a file of variables says of one: older versions of HAMi-core set those of `/overrideEnv`
/// themselves.
pub fn overridden(file: &str, name: &str) -> Option<String> {
    let mut entries = file.lines().rev().filter_map(|line| line.split_once('='));
    entries.find(|(of, _)| *of == name).map(|(_, value)| value.to_owned())
}

/// `2000m`, `2g`, `2048`; nothing if it is 0 or no amount at all.
fn amount(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'g' | 'G') => (&text[..at], 1 << 30),
        (at, 'm' | 'M') => (&text[..at], 1 << 20),
        (at, 'k' | 'K') => (&text[..at], 1 << 10),
        _ => (text, 1_u64),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|amount| *amount > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_its_own_limit_or_that_of_all_and_0_is_none() {
        let read = |set: &[(&str, &str)]| {
            let set: std::collections::BTreeMap<_, _> = set.iter().copied().collect();
            Limits::read(|name| set.get(name).map(|value| (*value).to_owned()))
        };
        let none = read(&[]);
        assert_eq!((none.memory, none.compute), ([0; CARDS], [100; CARDS]));
        let all = read(&[("CUDA_DEVICE_MEMORY_LIMIT", "2000m"), ("CUDA_DEVICE_SM_LIMIT", "30")]);
        assert_eq!((all.memory, all.compute), ([2_000 << 20; CARDS], [30; CARDS]));
        let own = read(&[("CUDA_DEVICE_MEMORY_LIMIT", "5"), ("CUDA_DEVICE_MEMORY_LIMIT_1", "1g")]);
        assert_eq!(own.memory[..3], [5, 1 << 30, 5]);
        for nothing in ["", "0", "m", "x", "99999999999g"] {
            assert_eq!(read(&[("CUDA_DEVICE_MEMORY_LIMIT", nothing)]), none, "{nothing:?}");
        }
        let empty = read(&[("CUDA_DEVICE_MEMORY_LIMIT", "5"), ("CUDA_DEVICE_MEMORY_LIMIT_0", "")]);
        assert_eq!(empty.memory[0], 5, "an empty one does not count");
    }

    #[test]
    fn the_last_line_of_a_variable_counts() {
        let file = "A=1\nB\nA=2=3\n";
        assert_eq!(overridden(file, "A").as_deref(), Some("2=3"));
        assert_eq!(overridden(file, "B"), None);
        assert_eq!(overridden("", "A"), None);
    }
}
