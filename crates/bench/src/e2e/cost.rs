//! What processes cost, from /proc.

use anyhow::Context;

/// CPU time so far, user and system, in milliseconds. The kernel counts in hundredths.
pub fn cpu_ms(id: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{id}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name of the program, in brackets, may contain anything.
    let rest = text.rsplit_once(')').context("no name in stat")?.1;
    let field = |at: usize| rest.split_whitespace().nth(at).and_then(|t| t.parse::<f64>().ok());
    let ticks = field(11).zip(field(12)).map(|(user, system)| user + system);
    Ok(ticks.with_context(|| format!("{path} cannot be read"))? * 10.0)
}

/// The most memory it ever had at once, in MB.
pub fn peak_mb(id: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{id}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0 / 1e6)
}

/// The middle one.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value that this part of them does not exceed.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len().saturating_sub(1)) as f64 * part).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
