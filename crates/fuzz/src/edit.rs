//! Objects that are almost as they should be: one that is, with a few changes anywhere in it.

use crate::input::Input;
use serde_json::{Map, Value, json};

/// Texts that mean something somewhere, or almost do.
const TEXTS: [&str; 48] = [
    "",
    "a",
    "0",
    "1",
    "0.5",
    "2000",
    "-1",
    "1e-400",
    "1e400",
    "0x1p-1",
    "0_1",
    "9223372036854775807",
    "18446744073709551616",
    "500m",
    "1Gi",
    "9Ei",
    "1.5",
    "true",
    "yes",
    "null",
    "~",
    "void",
    "all",
    "none",
    "0:1",
    "0:18446744073709551615",
    "GPU-1:5,GPU-2:5",
    "GPU-1::3",
    "ml/p/u-1:5:1800000000",
    "a/b/c:18446744073709551615:9223372036854775807",
    "n1",
    "main",
    "spread",
    "In",
    "NotIn",
    "Exists",
    "Gt",
    "Lt",
    "NoSchedule",
    "Always",
    "Running",
    "Failed",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:60+99:99",
    "nvidia",
    "divvy-scheduler",
    "a~b/c",
    "\u{202e}\u{0}é\n",
];

/// A value that somebody may have put anywhere.
pub fn odd(input: &mut Input<'_>, depth: usize) -> Value {
    match input.below(if depth == 0 { 8 } else { 10 }) {
        0 => Value::Null,
        1 => json!(input.once_in(2)),
        2 => json!(input.number()),
        // One that is the same in every notation.
        3 => json!((input.number() % (1 << 40)) as f64 / 8.0),
        4 => json!(input.text(12)),
        5..8 => json!(input.pick(&TEXTS)),
        8 => (0..input.below(4)).map(|_| odd(input, depth - 1)).collect(),
        _ => {
            let members = (0..input.below(4)).map(|_| (key(input), odd(input, depth - 1)));
            Value::Object(members.collect())
        }
    }
}

fn key(input: &mut Input<'_>) -> String {
    const KEYS: [&str; 16] = [
        "name",
        "value",
        "kind",
        "items",
        "key",
        "operator",
        "values",
        "cpu",
        "memory",
        "nvidia.com/gpu",
        "nvidia.com/mig-1g.5gb",
        "gpu-fraction",
        "gpu-memory",
        "gpu-fraction-num-devices",
        "divvy.dev/cards",
        "example.com/a",
    ];
    if input.once_in(4) { input.text(8) } else { input.pick(&KEYS).to_owned() }
}

/// A value of so many parts is large enough.
const MOST: usize = 20_000;

/// Changes a value in a few places.
pub fn edit(input: &mut Input<'_>, value: &mut Value) {
    for _ in 0..input.below(7) {
        let mut count = 0;
        visit(value, &mut |_| {
            count += 1;
            false
        });
        // Changes of changes must have an end.
        if count > MOST {
            return;
        }
        // More places than a byte has values.
        let place = usize::from(input.byte()) << 8 | usize::from(input.byte());
        let mut left = place % count;
        visit(value, &mut |found| {
            if left == 0 {
                change(input, found);
                return true;
            }
            left -= 1;
            false
        });
    }
}

/// Shows every part of a value, parents before children, until one of them was the right one.
fn visit(value: &mut Value, seen: &mut impl FnMut(&mut Value) -> bool) -> bool {
    if seen(value) {
        return true;
    }
    match value {
        Value::Object(members) => members.values_mut().any(|member| visit(member, seen)),
        Value::Array(items) => items.iter_mut().any(|item| visit(item, seen)),
        _ => false,
    }
}

fn change(input: &mut Input<'_>, value: &mut Value) {
    match (input.below(8), value) {
        (0..3, Value::Object(members)) => {
            members.insert(key(input), odd(input, 2));
        }
        (3, Value::Object(members)) => remove(input, members),
        (0..3, Value::Array(items)) => items.push(odd(input, 2)),
        // The same twice, or many times.
        (3, Value::Array(items)) if !items.is_empty() => {
            let item = items[input.below(items.len())].clone();
            let times = if input.once_in(8) { 200 } else { 1 };
            items.extend(std::iter::repeat_n(item, times));
        }
        (4, Value::Array(items)) if !items.is_empty() => {
            items.remove(input.below(items.len()));
        }
        (0..2, Value::String(text)) => *text = input.pick(&TEXTS).to_owned(),
        (2..5, Value::String(text)) => *text = input.text(24),
        (5, Value::String(text)) if text.len() < 4096 => *text = text.repeat(1 + input.below(64)),
        (_, value) => *value = odd(input, 2),
    }
}

fn remove(input: &mut Input<'_>, members: &mut Map<String, Value>) {
    let at = input.below(members.len());
    if let Some(key) = members.keys().nth(at).cloned() {
        members.remove(&key);
    }
}
