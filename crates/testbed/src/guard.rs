//! Ends what this process started when it is gone itself, however it went: killed, crashed, or left
//! with a control plane in a static that nobody drops.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// Reads `+pid` and `-pid`; at the end of its input, which the kernel closes with this process, it
/// kills what is left.
const SCRIPT: &str = r#"
pids=" "
while read -r change; do
  pid=" ${change#?} "
  case "$change" in
    +*) pids="$pids$pid" ;;
    -*) pids="${pids%%"$pid"*} ${pids#*"$pid"}" ;;
  esac
done
kill -9 $pids 2>/dev/null
"#;

/// A process has started; it must not outlive this one.
pub(crate) fn add(pid: u32) {
    tell(&format!("+{pid}"));
}

/// A process is gone, or may stay.
pub(crate) fn remove(pid: u32) {
    tell(&format!("-{pid}"));
}

fn tell(change: &str) {
    static GUARD: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();
    let guard = GUARD.get_or_init(|| {
        let mut command = Command::new("sh");
        // A group of its own, so that Ctrl-C does not reach it.
        command.args(["-c", SCRIPT]).process_group(0);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        child.stdin.take().map(Mutex::new)
    });
    // Without a shell there is no guard, and dropping still kills.
    if let Some(Ok(mut input)) = guard.as_ref().map(Mutex::lock) {
        let _ = writeln!(input, "{change}");
    }
}
