//! One group is built, by one process at a time.

use super::groups::Group;
use crate::process::Process;
use crate::{Unavailable, io};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Builds a group into its folder, unless it is there. If another process is at it, waits for that.
pub(super) fn build(
    group: &Group,
    module: &Path,
    folder: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), Unavailable> {
    let wrong = || io(format!("cannot write to {}", folder.display()));
    std::fs::create_dir_all(folder).map_err(wrong())?;
    let done = folder.join("built");
    if done.exists() {
        return Ok(());
    }
    // The kernel opens it when this process ends, however it ends.
    let lock = File::create(folder.join("lock")).map_err(wrong())?;
    if lock.try_lock().is_err() {
        say(&format!("waiting for another process that builds {}", group.name));
        lock.lock().map_err(wrong())?;
    }
    if done.exists() {
        return Ok(());
    }
    // A folder to build into, so that a build that is cut off leaves no program half written; nor
    // does it leave its folder, for nobody but us is at it now.
    for left in std::fs::read_dir(folder).map_err(wrong())?.flatten() {
        if left.path().is_dir() {
            std::fs::remove_dir_all(left.path()).map_err(wrong())?;
        }
    }
    let fresh = folder.join(format!("{}.{}", group.name, std::process::id()));
    std::fs::create_dir_all(&fresh).map_err(wrong())?;
    compile(group, module, folder, &fresh, say)?;
    for file in std::fs::read_dir(&fresh).map_err(wrong())? {
        let file = file.map_err(wrong())?;
        std::fs::rename(file.path(), folder.join(file.file_name())).map_err(wrong())?;
    }
    std::fs::remove_dir_all(&fresh).map_err(wrong())?;
    std::fs::write(&done, "").map_err(wrong())
}

fn compile(
    group: &Group,
    module: &Path,
    folder: &Path,
    fresh: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<(), Unavailable> {
    let Group { name, packages, flags, cgo, minutes, .. } = group;
    say(&format!("building {name}: about {minutes} min the first time"));
    let start = Instant::now();
    // It gives way to tests that run meanwhile, but not to other builds: what is tested last waits
    // for it.
    let mut go = Command::new("nice");
    go.args(["-n", "5", "go", "build", "-mod=readonly", "-o"])
        .arg(fresh.join(""))
        // What debuggers read is thrown away by the linker; not to make it saves an eighth of the
        // time, and the programs are the same.
        .arg("-gcflags=all=-dwarf=false")
        .args(*flags)
        .args(*packages)
        .current_dir(module)
        .env("CGO_ENABLED", if *cgo { "1" } else { "0" });
    let mut go = Process::start(go, name, folder)?;
    let mut told = start;
    while go.exited().is_none() {
        if told.elapsed() > Duration::from_secs(30) {
            told = Instant::now();
            say(&format!("building {name}: {} s so far", start.elapsed().as_secs()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let log = go.log().display().to_string();
    if !go.wait()? {
        return Err(Unavailable::Build { what: (*name).to_owned(), log });
    }
    say(&format!("built {name} in {} s", start.elapsed().as_secs()));
    Ok(())
}
