#![allow(clippy::unwrap_used)]
use super::*;
use crate::limit::Provided;
use std::os::unix::fs::PermissionsExt;

/// The files of a node that has two cards, and of what is put on it.
struct Machine {
    folder: PathBuf,
    host: Host,
    source: ToInstall,
}

const CONFIG: &str = "etc/nvidia-container-runtime/config.toml";

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("divvy-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let host = Host {
            root: folder.join("host"),
            folder: "/var/lib/divvy/providers".into(),
            runtime: None,
        };
        let source =
            ToInstall { library: Some(folder.join("library")), checker: folder.join("checker") };
        let machine = Self { folder, host, source };
        machine.write("checker", b"a program");
        machine.write("library/libvgpu.so", library("the first"));
        machine
            .write("host/etc/cdi/nvidia.yaml", cards("nvidia.com/gpu", &["0", "GPU-1", "GPU-2"]));
        machine
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, path: &Path) -> String {
        std::fs::read_to_string(self.host.at(path)).unwrap()
    }

    fn configure(&self, text: &str) {
        self.write(&format!("host/{CONFIG}"), text);
    }

    fn install(&self) -> Result<Installed, ProviderError> {
        install(&Provider::hami_core(), &self.source, &self.host)
    }

    fn refused(&self) -> String {
        let said = self.install().unwrap_err().to_string();
        said.replace(&self.folder.display().to_string(), "")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// As much of a shared library as is looked at.
fn library(content: &str) -> Vec<u8> {
    let machine: u16 = if std::env::consts::ARCH == "aarch64" { 183 } else { 62 };
    let mut bytes = b"\x7fELF\x02\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend(3_u16.to_le_bytes());
    bytes.extend(machine.to_le_bytes());
    bytes.extend(content.as_bytes());
    bytes
}

fn cards(kind: &str, names: &[&str]) -> String {
    let device = |name: &&str| format!("- name: \"{name}\"\n  containerEdits: {{}}\n");
    let devices: String = names.iter().map(device).collect();
    format!("cdiVersion: 0.5.0\nkind: {kind}\ndevices:\n{devices}")
}

#[test]
fn a_container_that_is_granted_the_provider_gets_library_checker_and_safe_variables() {
    let machine = Machine::new("install");
    let installed = machine.install().unwrap();
    assert_eq!(installed.kind, "nvidia.com/gpu");
    assert_eq!(installed.specification, Path::new("/etc/cdi/divvy.dev-provider-HAMi-core.json"));
    let text = machine.read(&installed.specification);
    let specification: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(specification["kind"], "divvy.dev/provider");
    let device = &specification["devices"][0];
    assert_eq!(device["name"], "HAMi-core");
    let edits = &device["containerEdits"];
    let version = installed.version.to_str().unwrap();
    assert!(version.starts_with("/var/lib/divvy/providers/HAMi-core/"), "{version}");
    let mounts = [
        (version.to_owned(), "/usr/local/vgpu"),
        (format!("{version}/ld.so.preload"), "/etc/ld.so.preload"),
        (format!("{version}/empty"), "/overrideEnv"),
    ];
    assert_eq!(edits["mounts"].as_array().unwrap().len(), mounts.len());
    for (mount, (from, to)) in edits["mounts"].as_array().unwrap().iter().zip(mounts) {
        assert_eq!(
            (mount["hostPath"].as_str(), &mount["containerPath"]),
            (Some(&*from), &to.into())
        );
        assert_eq!(mount["options"][0], "ro");
    }
    let variables = edits["env"].as_array().unwrap();
    for variable in [
        "CUDA_DISABLE_CONTROL=false",
        "CUDA_REDIRECT=",
        "CUDA_DEVICE_MEMORY_SHARED_CACHE=/tmp/cudevshr.cache",
        "CUDA_DEVICE_MEMORY_LIMIT_0=",
        "CUDA_DEVICE_MEMORY_LIMIT_15=",
        "CUDA_DEVICE_SM_LIMIT_0=",
    ] {
        assert!(variables.contains(&variable.into()), "{variable}");
    }
    assert!(!text.contains("CUDA_DEVICE_MEMORY_LIMIT="), "the pod's own, which the binding fills");
    let at = |name: &str| installed.version.join(name);
    assert_eq!(machine.read(&at("empty")), "");
    assert_eq!(machine.read(&at("ld.so.preload")), "/usr/local/vgpu/libvgpu.so\n");
    assert_eq!(machine.read(&at("divvy-isolation-check")), "a program");
    let checker = std::fs::metadata(machine.host.at(&at("divvy-isolation-check"))).unwrap();
    assert_eq!(checker.permissions().mode() & 0o777, 0o755);
    let known: Provided = serde_json::from_str(&machine.read(&at("limit.json"))).unwrap();
    assert_eq!(known.library, Path::new("/usr/local/vgpu/libvgpu.so"));
}

#[test]
fn the_device_of_a_provider_is_called_as_its_entry_of_the_config_says() {
    let machine = Machine::new("device");
    let provider = Provider {
        name: "mps".to_owned(),
        device: "example.com/isolation=shares".to_owned(),
        library: Some("/opt/mps".to_owned()),
        ..Provider::hami_core()
    };
    let installed = install(&provider, &machine.source, &machine.host).unwrap();
    assert!(installed.specification.ends_with("divvy.dev-provider-mps.json"));
    let text = machine.read(&installed.specification);
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["kind"], "example.com/isolation");
    let device = &written["devices"][0];
    assert_eq!(device["name"], "shares");
    assert_eq!(device["containerEdits"]["mounts"][0]["containerPath"], "/opt/mps");
}

#[test]
fn a_provider_without_a_library_is_its_variables_and_the_files_that_it_hides() {
    let mut machine = Machine::new("bare");
    let provider = Provider { library: None, ..Provider::hami_core() };
    let said = install(&provider, &machine.source, &machine.host).unwrap_err().to_string();
    assert_eq!(
        said,
        "provider HAMi-core has no library in the config file: leave --library-dir out"
    );
    machine.source.library = None;
    let said = machine.refused();
    assert_eq!(said, "provider HAMi-core has a library: say with --library-dir where it is");
    let installed = install(&provider, &machine.source, &machine.host).unwrap();
    let text = machine.read(&installed.specification);
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    let edits = &written["devices"][0]["containerEdits"];
    assert_eq!(edits["mounts"].as_array().unwrap().len(), 1);
    assert_eq!(edits["mounts"][0]["containerPath"], "/overrideEnv");
    assert!(edits["env"].as_array().unwrap().contains(&"CUDA_DISABLE_CONTROL=false".into()));
}

#[test]
fn a_new_version_comes_beside_the_old_one_which_containers_may_have_mounted() {
    let machine = Machine::new("versions");
    let first = machine.install().unwrap();
    assert_eq!(machine.install().unwrap(), first, "what is there stays as it is");
    machine.write("library/libvgpu.so", library("the second"));
    let second = machine.install().unwrap();
    assert_ne!(second.version, first.version);
    let old = std::fs::read(machine.host.at(&first.version.join("libvgpu.so"))).unwrap();
    assert_eq!(old, library("the first"));
    assert!(machine.read(&second.specification).contains(second.version.to_str().unwrap()));
    let left = std::fs::read_dir(machine.host.at(Path::new("/etc/cdi"))).unwrap().count();
    assert_eq!(left, 2, "nothing half written is left for the runtime to read");
    // Somebody changed what containers have mounted.
    let library = second.version.join("libvgpu.so");
    std::fs::write(machine.host.at(&library), "another").unwrap();
    assert!(machine.refused().contains("libvgpu.so: has been changed"));
    remove(&Provider::hami_core(), &machine.host).unwrap();
    assert!(!machine.host.at(&second.specification).exists());
    assert!(machine.host.at(&second.version).exists());
    remove(&Provider::hami_core(), &machine.host).unwrap();
}

#[test]
fn the_kind_is_that_of_the_specifications_that_have_the_cards_by_uuid() {
    let machine = Machine::new("kind");
    let plugin = "k8s.device-plugin.nvidia.com/gpu";
    machine.write("host/var/run/cdi/plugin.json", r#"{"cdiVersion": "0.5.0", "kind": "k8s.device-plugin.nvidia.com/gpu", "devices": [{"name": "GPU-1"}, {"name": "GPU-2"}]}"#);
    assert_eq!(machine.install().unwrap().kind, "nvidia.com/gpu", "both have both cards");
    machine.write("host/etc/cdi/nvidia.yaml", cards("nvidia.com/gpu", &["GPU-1"]));
    assert_eq!(machine.install().unwrap().kind, plugin, "which has more of them");
    machine.write("host/etc/cdi/nvidia.yaml", cards("nvidia.com/gpu", &["0", "1", "all"]));
    assert_eq!(machine.install().unwrap().kind, plugin);
    machine.write("host/etc/cdi/nvidia.yaml", "no: [specification");
    assert_eq!(machine.install().unwrap().kind, plugin);
    machine.write("host/var/run/cdi/plugin.json", "{}");
    machine.write("host/etc/cdi/nvidia.yaml", cards("management.nvidia.com/gpu", &["GPU-1"]));
    let said = machine.refused();
    assert!(said.starts_with("no CDI specification in /etc/cdi, /var/run/cdi has cards"), "{said}");
}

#[test]
fn there_is_no_provider_where_the_runtime_would_not_grant_it() {
    let machine = Machine::new("runtime");
    let mode = |mode: &str| format!("[nvidia-container-runtime]\nmode = \"{mode}\"\n");
    for good in ["auto", "cdi", "jit-cdi"] {
        machine.configure(&mode(good));
        machine.install().unwrap();
    }
    machine
        .configure("# as it is installed\ndisable-require = false\n[nvidia-ctk]\npath = \"x\"\n");
    machine.install().unwrap();
    for (text, why) in [
        (mode("legacy"), "the runtime's mode is \"legacy\", in which it knows no CDI devices"),
        (
            "nvidia-container-runtime.mode = \"legacy\"".to_owned(),
            "the runtime's mode is \"legacy\"",
        ),
        (mode("csv"), "the runtime's mode is \"csv\""),
        (
            "accept-nvidia-visible-devices-envvar-when-unprivileged = false".to_owned(),
            "the runtime ignores NVIDIA_VISIBLE_DEVICES",
        ),
        ("swarm-resource = \"DOCKER_RESOURCE_GPU\"".to_owned(), "swarm-resource is"),
        ("mode = ".to_owned(), "cannot be read"),
        (
            "[nvidia-container-runtime.modes.cdi]\nspec-dirs = [\"/opt/cdi\"]".to_owned(),
            "no CDI specification in /opt/cdi has cards",
        ),
    ] {
        machine.configure(&text);
        let said = machine.refused();
        assert!(said.contains(why), "{said}");
    }
    // A link to where only the node finds it is not the same as none.
    let config = machine.folder.join("host").join(CONFIG);
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink("/nowhere/config.toml", &config).unwrap();
    assert!(machine.refused().contains(CONFIG), "{}", machine.refused());
    std::fs::remove_file(&config).unwrap();
    // Where the GPU operator put it, beside one that would do.
    machine.configure(&mode("cdi"));
    let operator = "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml";
    machine.write(&format!("host/{operator}"), mode("legacy"));
    assert!(machine.refused().starts_with(&format!("/host/{operator}: the runtime's mode")));
}

#[test]
fn what_containers_mount_is_for_everybody_to_read() {
    // Of this whole process: nothing else here is for others.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let machine = Machine::new("modes");
    let version = machine.host.at(&machine.install().unwrap().version);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&version), 0o755);
    for name in ["libvgpu.so", "ld.so.preload", "limit.json"] {
        assert_eq!(mode(&version.join(name)), 0o644, "{name}");
    }
    machine.install().unwrap();
    let nobodys = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(version.join("ld.so.preload"), nobodys).unwrap();
    assert!(machine.refused().contains("ld.so.preload: has been changed"));
}

#[test]
fn a_library_that_the_loader_would_leave_out_is_refused() {
    let machine = Machine::new("library");
    let mut other = library("for another machine");
    other[18] = 40;
    for (bytes, why) in [
        (b"#!/bin/sh".to_vec(), "/library/libvgpu.so: is no shared library of 64 bits".to_owned()),
        (other, format!("/library/libvgpu.so: is not for {}", std::env::consts::ARCH)),
    ] {
        machine.write("library/libvgpu.so", bytes);
        assert_eq!(machine.refused(), why);
    }
    machine.write("library/libvgpu.so", library(""));
    machine.write("library/other.so", library(""));
    assert!(machine.refused().starts_with("/library: has 2 files *.so"));
}

#[test]
fn links_of_a_node_mean_the_node_and_lead_nowhere_else() {
    let machine = Machine::new("links");
    let link = |to: &str, at: &str| {
        let at = machine.folder.join("host").join(at);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, at).unwrap();
    };
    let at = |path: &str| {
        let found = machine.host.at(Path::new(path));
        found.strip_prefix(machine.folder.join("host")).unwrap().display().to_string()
    };
    machine.write("host/run/cdi/a.json", "{}");
    link("/run", "var/run");
    assert_eq!(at("/var/run/cdi/a.json"), "run/cdi/a.json");
    // However far up, there is nothing above the root of the node.
    link("../../../../../../../../etc", "var/etc");
    assert_eq!(at("/var/etc/cdi/nvidia.yaml"), "etc/cdi/nvidia.yaml");
    // Links without an end, or to what is not there, stay as they are.
    link("loop", "var/loop");
    link("/opt/gone", "etc/gone");
    for path in ["/var/loop", "/etc/gone", "/var/none"] {
        assert_eq!(at(path), path.trim_start_matches('/'));
    }
    // With all of it behind such a link, nothing is missing.
    std::fs::rename(machine.folder.join("host/etc/cdi"), machine.folder.join("host/run/cards"))
        .unwrap();
    link("/run/cards", "etc/cdi");
    assert_eq!(machine.install().unwrap().kind, "nvidia.com/gpu");
}
