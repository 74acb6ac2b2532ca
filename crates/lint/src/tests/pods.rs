//! Findings in pods, and in what makes them.

use super::{becomes, found, names, stays};

/// A pod with these lines of metadata and of its only container.
fn pod(metadata: &str, container: &str) -> String {
    format!(
        "# before\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a # its name\n{metadata}spec:\n  \
         schedulerName: divvy-scheduler\n  containers:\n  - name: c\n    image: x\n{container}"
    )
}

fn annotated(annotation: &str) -> String {
    pod(&format!("  annotations:\n    # a share\n    {annotation} # of a card\n"), "")
}

fn limited(limits: &str) -> String {
    pod("", &format!("    resources:\n      limits:\n        {limits}\n"))
}

const HALF: &str = "gpu-fraction: \"0.5\"";

#[test]
fn misspelt_annotations_get_their_names() {
    for key in [
        "gpu-fractions",
        "gpu_fraction",
        "nvidia.com/gpu-fraction",
        "GPU-Fraction",
        "'gpu-fracton'",
        "\"gpufraction\"",
    ] {
        let quote = key
            .chars()
            .next()
            .filter(|c| ['"', '\''].contains(c))
            .map_or(String::new(), String::from);
        let right = format!("{quote}gpu-fraction{quote}: \"0.5\"");
        becomes("MisspeltName", &annotated(&format!("{key}: \"0.5\"")), &annotated(&right));
    }
    let two = "gpu-fraction: \"0.5\"\n    gpu-fraction-num-device: \"2\"";
    becomes("MisspeltName", &annotated(two), &annotated(&two.replace("device:", "devices:")));
}

#[test]
fn of_two_that_mean_the_same_one_is_left_to_people() {
    let text = annotated("gpu-fraction: \"0.5\"\n    gpu_fraction: \"0.25\"");
    stays("MisspeltName", &text);
}

#[test]
fn an_annotation_among_the_labels_is_moved() {
    becomes(
        "MisplacedName",
        &pod("  labels:\n    app: x\n    gpu-fraction: \"0.5\"\n", ""),
        &pod("  labels:\n    app: x\n  annotations:\n    gpu-fraction: \"0.5\"\n", ""),
    );
    becomes(
        "MisplacedName",
        &pod("  labels:\n    gpu_memory: 2000\n", ""),
        &pod("  annotations:\n    gpu-memory: \"2000\"\n", ""),
    );
    becomes(
        "MisplacedName",
        &pod(
            "  annotations:\n    gpu-fraction: \"0.5\"\n    kai.scheduler/queue: ml\n  labels: {app: x}\n",
            "",
        ),
        &pod(
            "  annotations:\n    gpu-fraction: \"0.5\"\n  labels: {app: x, kai.scheduler/queue: \"ml\"}\n",
            "",
        ),
    );
}

#[test]
fn a_comment_goes_along_with_the_line_that_is_moved() {
    becomes(
        "MisplacedName",
        &pod(
            "  labels:\n    # half of a card\n    # is enough\n    gpu-fraction: \"0.5\" # for now\n    # the app\n    app: x\n",
            "",
        ),
        &pod(
            "  labels:\n    # the app\n    app: x\n  annotations:\n    # half of a card\n    # is enough\n    \
             gpu-fraction: \"0.5\" # for now\n",
            "",
        ),
    );
    becomes(
        "FractionalResource",
        &pod(
            "",
            "    # what it needs\n    resources:\n      limits: # at most\n        nvidia.com/gpu: 0.5 # half\n    # its ports\n    ports: []\n",
        ),
        &pod(
            "  annotations:\n    # what it needs\n    # at most\n    gpu-fraction: \"0.5\" # half\n",
            "    # its ports\n    ports: []\n",
        ),
    );
}

#[test]
fn a_comment_stays_where_its_line_goes_or_where_it_cannot_follow() {
    // In braces there are no comments.
    becomes(
        "FractionalResource",
        &limited("nvidia.com/gpu: 0.5 # half")
            .replace("metadata:\n  name: a # its name\n", "metadata: {name: a}\n"),
        &pod("", "    # half\n").replace(
            "metadata:\n  name: a # its name\n",
            "metadata: {name: a, annotations: {gpu-fraction: \"0.5\"}}\n",
        ),
    );
    becomes(
        "ForeignResource",
        &limited(
            "nvidia.com/gpu: 1\n        # which pod first\n        nvidia.com/priority: 0 # high",
        ),
        &limited("nvidia.com/gpu: 1\n        # which pod first\n        # high"),
    );
}

#[test]
fn what_stands_beside_a_change_in_braces_stays_to_the_byte() {
    let flow = |labels: &str, annotations: &str| {
        pod(&format!("  labels: {{{labels}}} # c\n{annotations}"), "")
    };
    for (before, after) in [
        ("a: b,c:  d,  gpu-fraction: \"0.5\"", "a: b,c:  d"),
        ("gpu-fraction: \"0.5\",  a: b,c:  d", "a: b,c:  d"),
        ("a: b, gpu-fraction: \"0.5\",c:  d", "a: b, c:  d"),
    ] {
        let moved = "  annotations:\n    gpu-fraction: \"0.5\"\n";
        becomes("MisplacedName", &flow(before, ""), &flow(after, moved));
    }
}

#[test]
fn a_part_of_a_gpu_becomes_a_share() {
    let half = |metadata: &str| pod(metadata, "");
    for amount in ["0.5", "\"0.5\"", "500m", "5e-1"] {
        becomes(
            "FractionalResource",
            &limited(&format!("nvidia.com/gpu: {amount}")),
            &half(&format!("  annotations:\n    {HALF}\n")),
        );
    }
    becomes(
        "FractionalResource",
        &limited("nvidia.com/gpu: 0.25\n        memory: 1Gi # enough"),
        &pod(
            "  annotations:\n    gpu-fraction: \"0.25\"\n",
            "    resources:\n      limits:\n        memory: 1Gi # enough\n",
        ),
    );
    becomes(
        "FractionalResource",
        &pod(
            "",
            "    resources: {limits: {nvidia.com/gpu: 0.5, cpu: 1}, requests: {nvidia.com/gpu: 0.5}}\n",
        ),
        &pod(&format!("  annotations:\n    {HALF}\n"), "    resources: {limits: {cpu: 1}}\n"),
    );
    stays("FractionalResource", &limited("nvidia.com/gpu: 1.5"));
    stays("FractionalResource", &limited("nvidia.com/mig-1g.10gb: 0.5"));
    stays("FractionalResource", &limited("example.com/fpga: 0.5"));
    stays("FractionalResource", &limited("koordinator.sh/gpu: 0.5"));
}

#[test]
fn a_second_container_keeps_its_share() {
    let both = |first: &str, second: &str, metadata: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n{metadata}spec:\n  schedulerName: \
             divvy-scheduler\n  containers:\n  - name: web\n{first}  - name: model\n{second}"
        )
    };
    let gpu = "    resources:\n      limits:\n        nvidia.com/gpu: 0.5\n";
    becomes(
        "FractionalResource",
        &both("", gpu, ""),
        &both(
            "",
            "",
            "  annotations:\n    gpu-fraction: \"0.5\"\n    gpu-fraction-container-name: \"model\"\n",
        ),
    );
    stays("FractionalResource", &both(gpu, gpu, ""));
}

#[test]
fn the_recipes_share_becomes_one_that_is_read() {
    becomes(
        "SharingAnnotation",
        &pod(
            "  annotations:\n    nvidia.com/gpu-sharing: \"true\"\n",
            "    resources:\n      limits:\n        nvidia.com/gpu: 0.5\n",
        ),
        &pod(&format!("  annotations:\n    {HALF}\n"), ""),
    );
    stays("SharingAnnotation", &annotated("nvidia.com/gpu-sharing: \"true\""));
}

#[test]
fn a_share_beside_whole_gpus_is_for_people() {
    let text = pod(
        &format!("  annotations:\n    {HALF}\n"),
        "    resources: {limits: {nvidia.com/gpu: 1}}\n",
    );
    let finding = stays("ShareBesideWhole", &text);
    assert_eq!(names(&text), ["ShareBesideWhole"]);
    assert!(finding.message.contains("1 whole GPU (nvidia.com/gpu)"), "{}", finding.message);
}

#[test]
fn what_stands_on_the_controller_goes_to_its_pods() {
    let deployment = |metadata: &str, template: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n{metadata}spec:\n  selector: {{matchLabels: {{a: \
             b}}}}\n  template:\n    metadata:\n      labels: {{a: b}}\n{template}    spec:\n      schedulerName: \
             divvy-scheduler\n      containers:\n      - name: c\n"
        )
    };
    let strategy = "    scheduling.run.ai/scheduling-strategy: spread\n";
    becomes(
        "NotOnTemplate",
        &deployment(&format!("  annotations:\n{strategy}    gpu-memory: \"2000\"\n"), ""),
        &deployment(
            &format!("  annotations:\n{strategy}"),
            "      annotations:\n        gpu-memory: \"2000\"\n",
        ),
    );
    becomes(
        "MisspeltName",
        &deployment("  annotations: {gpu_fraction: \"0.5\"}\n", ""),
        &deployment("", "      annotations:\n        gpu-fraction: \"0.5\"\n"),
    );
    assert_eq!(found(&deployment(&format!("  annotations:\n{strategy}"), "")), []);
    assert_eq!(found(&deployment("  labels: {kai.scheduler/queue: ml}\n", "")), []);
}

#[test]
fn what_stands_on_the_way_to_the_pods_goes_to_them() {
    let cron = |job: &str, pod: &str| {
        format!(
            "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: nightly}}\nspec:\n  schedule: 0 3 * * *\n  jobTemplate:\n    \
             metadata:\n      name: j\n{job}    spec:\n      template:\n        metadata:\n          name: p\n{pod}        spec:\n          \
             schedulerName: divvy-scheduler\n          containers: [{{name: c}}]\n"
        )
    };
    let job = cron("      annotations:\n        gpu_fraction: \"0.5\" # half\n", "");
    let names: Vec<_> = found(&job).into_iter().map(|f| (f.name, f.field)).collect();
    assert_eq!(
        names,
        [("MisspeltName", "spec.jobTemplate.metadata.annotations[\"gpu_fraction\"]".to_owned())]
    );
    let pod = "          annotations:\n            gpu-fraction: \"0.5\" # half\n";
    becomes("MisspeltName", &job, &cron("", pod));
    becomes("NotOnTemplate", &job.replace("gpu_", "gpu-"), &cron("", pod));
}

#[test]
fn misspelt_fields_get_their_names() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotation:\n    gpu_fraction: \"0.5\"\n  label: {a: \
                b}\nspec:\n  schedulername: divvy-scheduler\n  container:\n  - name: c\n    resource:\n      limit:\n        \
                nvidia.com/gpus: 1\n";
    let (after, left) = super::mended(text);
    assert_eq!(
        after,
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n    gpu-fraction: \"0.5\"\n  labels: {a: \
         b}\nspec:\n  schedulerName: divvy-scheduler\n  containers:\n  - name: c\n    resources:\n      limits:\n        \
         nvidia.com/gpu: 1\n"
    );
    assert_eq!(left, ["ShareBesideWhole"], "which was not to be seen before");
    let finding = stays("UnknownField", &pod("", "    limits: {nvidia.com/gpu: 1}\n"));
    assert_eq!(finding.field, "spec.containers[0].limits");
    assert_eq!(finding.next, "write it under resources");
    stays("UnknownField", &pod("", "    gpuz: 1\n"));
}

#[test]
fn misspelt_resources_get_their_names() {
    becomes("MisspeltName", &limited("nvidia.com/gpus: 1"), &limited("nvidia.com/gpu: 1"));
    becomes(
        "MisplacedName",
        &limited("nvidia.com/gpu-memory: 2000"),
        &pod("  annotations:\n    gpu-memory: \"2000\"\n", ""),
    );
}

#[test]
fn the_name_of_a_scheduler_is_mended() {
    let wrong = annotated(HALF).replace("divvy-scheduler", "divy-scheduler");
    becomes("MisspeltScheduler", &wrong, &annotated(HALF));
}

#[test]
fn levels_of_isolation_are_mended() {
    let labelled =
        |labels: &str| pod(&format!("  annotations:\n    {HALF}\n  labels:\n{labels}"), "");
    let level = "    koordinator.sh/gpu-share-isolation-level: Isolated\n";
    let provider = "    koordinator.sh/gpu-isolation-provider: HAMi-core\n";
    let quoted = provider.replace("HAMi-core", "\"HAMi-core\"");
    becomes("IsolationLevel", &labelled(level), &labelled(&format!("{level}{quoted}")));
    let right = labelled(&format!("{level}{provider}"));
    assert_eq!(found(&right), []);
    becomes("IsolationLevel", &right.replace("Isolated", "isolated"), &right);
    becomes("IsolationLevel", &right.replace("HAMi-core", "hami-core"), &right);
    stays("IsolationLevel", &right.replace("Isolated", "Guaranteed"));
    assert_eq!(found(&right.replace("HAMi-core", "MPS")), [], "the config file may have it");
}

#[test]
fn a_queue_that_is_not_there_is_named_where_queues_are_given() {
    let pod = pod("  labels:\n    runai/queue: inferense\n", "");
    assert_eq!(found(&pod), []);
    let queue = "---\napiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: inference}\n";
    let finding = stays("UnknownQueue", &format!("{pod}{queue}"));
    assert_eq!(finding.next, "write inference");
    assert_eq!(found(&format!("{}{queue}", pod.replace("inferense", "inference"))), []);
}

#[test]
fn resources_of_hami_and_volcano_get_the_form_of_divvy() {
    for (theirs, ours) in [
        (
            "nvidia.com/gpu: 1\n        nvidia.com/gpumem: 3000 # MiB",
            "koordinator.sh/gpu.shared: 1\n        koordinator.sh/gpu-memory: 3000Mi # MiB",
        ),
        (
            "nvidia.com/gpu: 2\n        nvidia.com/gpumem-percentage: 50\n        nvidia.com/gpucores: 30",
            "koordinator.sh/gpu.shared: 2\n        koordinator.sh/gpu-memory-ratio: 100\n        koordinator.sh/gpu-core: 60",
        ),
        ("nvidia.com/gpumem: \"8000\"", "koordinator.sh/gpu-memory: \"8000Mi\""),
        ("nvidia.com/gpu: 2\n        nvidia.com/gpucores: 30", "nvidia.com/gpu: 2"),
        ("nvidia.com/gpu: 1\n        nvidia.com/gpumem-percentage: 100", "nvidia.com/gpu: 1"),
        (
            "volcano.sh/vgpu-number: 1\n        volcano.sh/vgpu-memory: 3000\n        volcano.sh/vgpu-cores: 50",
            "koordinator.sh/gpu.shared: 1\n        koordinator.sh/gpu-memory: 3000Mi\n        koordinator.sh/gpu-core: 50",
        ),
        ("volcano.sh/vgpu-number: 2", "nvidia.com/gpu: 2"),
    ] {
        becomes("ForeignResource", &limited(theirs), &limited(ours));
    }
    let theirs = limited("nvidia.com/gpu: 1\n        nvidia.com/gpumem: 3000")
        .replace("divvy-sch", "hami-sch");
    let ours = limited("koordinator.sh/gpu.shared: 1\n        koordinator.sh/gpu-memory: 3000Mi");
    becomes("ForeignResource", &theirs, &ours);
    let nobody = |limits: &str| limited(limits).replace("  schedulerName: divvy-scheduler\n", "");
    for (theirs, ours) in [
        ("nvidia.com/gpumem: 3000", "koordinator.sh/gpu-memory: 3000Mi"),
        ("nvidia.com/gpu: 2\n        nvidia.com/gpucores: 30", "nvidia.com/gpu: 2"),
    ] {
        becomes("ForeignResource", &nobody(theirs), &limited(ours));
    }
    let flow = |resources: &str| pod("", &format!("    resources: {{limits: {{{resources}}}}}\n"));
    becomes(
        "ForeignResource",
        &flow("nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/priority: 1"),
        &flow("koordinator.sh/gpu.shared: 1, koordinator.sh/gpu-memory: 3000Mi"),
    );
    let finding = stays("ForeignResource", &limited("aliyun.com/gpu-mem: 8"));
    assert!(finding.next.contains("koordinator.sh/gpu-memory: 8Gi"), "{}", finding.next);
}

#[test]
fn kinds_and_versions_that_there_are_not_get_those_that_are_meant() {
    let right = annotated(HALF);
    for kind in ["Pods", "pod", "PODS"] {
        becomes("UnknownKind", &right.replace("Pod\n", &format!("{kind}\n")), &right);
    }
    becomes("WrongVersion", &right.replace("apiVersion: v1\n", "apiVersion: apps/v1\n"), &right);
    becomes("WrongVersion", &right.replace("apiVersion: v1\n", ""), &right);
    let deployment = |version: &str, selector: &str| {
        format!(
            "apiVersion: {version}\nkind: Deployment\nmetadata:\n  name: d\nspec:\n{selector}  replicas: 1\n  template:\n    \
             metadata:\n      labels:\n        app: d\n    spec:\n      containers:\n      - name: c\n"
        )
    };
    for old in ["extensions/v1beta1", "apps/v1beta2"] {
        becomes(
            "WrongVersion",
            &deployment(old, ""),
            &deployment("apps/v1", "  selector:\n    matchLabels:\n      app: \"d\"\n"),
        );
    }
    let other = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec: {tasks: []}\n";
    assert_eq!(found(other), []);
}

#[test]
fn what_divvy_refuses_is_said_where_it_stands() {
    let finding = stays("RefusedPod", &annotated("gpu-fraction: \"1.5\""));
    assert_eq!((finding.line, finding.column), (8, 19));
    assert_eq!(finding.field, "metadata.annotations[\"gpu-fraction\"]");
    becomes("RefusedPod", &annotated("gpu-fraction: 0.5"), &annotated(HALF));
    let number = found(&annotated("gpu-memory: 2000")).swap_remove(0);
    assert_eq!(number.field, "metadata.annotations[\"gpu-memory\"]");
    assert_eq!(number.next, "write \"2000\"");
    becomes(
        "RefusedPod",
        &pod("  labels:\n    v: y # no boolean\n", ""),
        &pod("  labels:\n    v: \"y\" # no boolean\n", ""),
    );
    stays(
        "WrongType",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: none}\n",
    );
}

#[test]
fn a_refused_pod_is_told_the_annotation_that_is_wrong_and_not_another_that_it_has() {
    let share = "gpu-fraction: \"0.5\"\n    ";
    for (more, key) in [
        ("gpu-fraction-num-devices: \"none\"", "gpu-fraction-num-devices"),
        ("gpu-fraction-num-devices: \"100\"", "gpu-fraction-num-devices"),
        ("gpu-fraction-container-name: main", "gpu-fraction-container-name"),
        ("gpu-memory: \"2000\"", "gpu-memory"),
        ("gpu-memory: 2Gi", "gpu-memory"),
    ] {
        let finding = stays("RefusedPod", &annotated(&format!("{share}{more}")));
        assert_eq!(finding.field, format!("metadata.annotations[\"{key}\"]"), "{finding:?}");
        assert_eq!(finding.line, 9, "{more}");
    }
    for (alone, key) in
        [("gpu-fraction-num-devices: \"2\"", "gpu-fraction-num-devices"), ("mps: \"true\"", "mps")]
    {
        let finding = stays("RefusedPod", &annotated(alone));
        assert_eq!(finding.field, format!("metadata.annotations[\"{key}\"]"), "{finding:?}");
    }
}

#[test]
fn json_is_mended_in_place_too() {
    let pod = |metadata: &str, container: &str| {
        format!(
            "{{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {{\"name\": \"a\"{metadata}}},\n\t\"spec\": \
             {{\"schedulerName\": \"divvy-scheduler\", \"containers\": [{{\"name\": \"c\"{container}}}]}}\n}}\n"
        )
    };
    becomes(
        "FractionalResource",
        &pod("", ", \"resources\": {\"limits\": {\"nvidia.com/gpu\": \"0.5\"}}"),
        &pod(", \"annotations\": {\"gpu-fraction\": \"0.5\"}", ""),
    );
    let two = |text: &str| format!("{text}{text}");
    becomes(
        "MisspeltName",
        &two(&pod(", \"annotations\": {\"gpu_memory\": \"5\"}", "")),
        &two(&pod(", \"annotations\": {\"gpu-memory\": \"5\"}", "")),
    );
}

#[test]
fn lists_windows_line_ends_and_byte_order_marks_are_kept() {
    let text = annotated("gpu_fraction: \"0.5\"").replace('\n', "\r\n");
    becomes(
        "MisspeltName",
        &format!("\u{feff}{text}"),
        &format!("\u{feff}{}", annotated(HALF).replace('\n', "\r\n")),
    );
    let list = |key: &str| {
        format!(
            "apiVersion: v1\nkind: PodList\nitems:\n- metadata:\n    name: a\n    annotations: {{{key}: \"0.5\"}}\n  spec:\n    \
             schedulerName: divvy-scheduler\n    containers: [{{name: c}}]\n"
        )
    };
    becomes("MisspeltName", &list("gpu_fraction"), &list("gpu-fraction"));
}

#[test]
fn what_an_alias_stands_for_is_not_guessed() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: d\n  annotations: &a\n    gpu-fraction: \
                \"0.5\"\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {annotations: *a}\n    spec: \
                {containers: [{name: c}]}\n";
    assert_eq!(found(text), []);
}

#[test]
fn a_share_that_is_left_to_the_default_scheduler_is_found() {
    let with = annotated(HALF);
    let without = with.replace("  schedulerName: divvy-scheduler\n", "");
    becomes("DefaultScheduler", &without, &with);
    let named = with.replace("divvy-scheduler", "default-scheduler");
    becomes("DefaultScheduler", &named, &with);
    for other in ["kai-scheduler", "somebody-elses"] {
        assert_eq!(names(&with.replace("divvy-scheduler", other)), [""; 0], "{other}");
    }
    for other in ["hami-scheduler", "volcano"] {
        let theirs = with.replace("divvy-scheduler", other);
        becomes("DefaultScheduler", &theirs, &with);
        let message = found(&theirs).swap_remove(0).message;
        assert_eq!(
            message,
            format!("the scheduler {other} places the pod and does not read it: it gets no share")
        );
    }
    let with = limited("koordinator.sh/gpu-core: 50\n        koordinator.sh/gpu-memory-ratio: 50");
    becomes("DefaultScheduler", &with.replace("  schedulerName: divvy-scheduler\n", ""), &with);
    let asks_nothing = annotated("app: x").replace("  schedulerName: divvy-scheduler\n", "");
    assert_eq!(names(&asks_nothing), [""; 0]);
}

/// A PyTorchJob with these lines in its template, and of its only container.
fn job(metadata: &str, container: &str) -> String {
    format!(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: t\nspec:\n  pytorchReplicaSpecs:\n    \
         Worker:\n      replicas: 2\n      template:\n{metadata}        spec:\n          schedulerName: \
         divvy-scheduler\n          containers:\n          - name: c\n{container}"
    )
}

#[test]
fn the_pods_of_kinds_of_other_projects_are_looked_at_too() {
    let annotated = |key: &str| {
        job(&format!("        metadata:\n          annotations:\n            {key}: \"0.5\"\n"), "")
    };
    becomes("MisspeltName", &annotated("gpu_fraction"), &annotated("gpu-fraction"));
    let asked = |resources: &str, limits: &str| {
        let lines = format!(
            "            {resources}:\n              {limits}:\n                nvidia.com/gpu: 1\n"
        );
        job("", &lines)
    };
    becomes("UnknownField", &asked("resource", "limit"), &asked("resources", "limits"));
    let field = found(&asked("resource", "limits")).swap_remove(0).field;
    assert_eq!(field, "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resource");
    let wrong = annotated("gpu-fraction").replace("0.5", "1.5");
    let refused = stays("RefusedPod", &wrong);
    assert!(refused.field.starts_with("spec.pytorchReplicaSpecs.Worker.template.metadata"));
    assert!(refused.message.starts_with("divvy refuses the pod: "), "{}", refused.message);
    assert!(refused.next.starts_with("write a decimal such as "), "{}", refused.next);

    let set = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata:\n  name: s\n  annotations:\n    \
        gpu-fraction: \"0.5\"\nspec:\n  replicatedJobs:\n  - name: a\n    template:\n      spec:\n        \
        template:\n          spec:\n            containers:\n            - name: c\n              resources:\n                \
        limits:\n                  nvidia.com/gpu: 0.5\n";
    assert_eq!(names(set), ["NotOnTemplate", "FractionalResource"]);
    let two = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l}\nspec:\n  \
        leaderWorkerTemplate:\n    size: 2\n    workerTemplate:\n      spec:\n        containers:\n        - name: c\n          \
        resources:\n            limits:\n              nvidia.com/gpu: 1.5\n";
    assert_eq!(names(two), ["FractionalResource"], "leader and worker have one template");
    let theirs = set.replace("jobset.x-k8s.io", "example.com");
    assert_eq!(names(&theirs), [""; 0], "another project's");
}

#[test]
fn old_names_of_koordinators_resources_get_the_new_ones() {
    for (old, new) in [
        ("kubernetes.io/gpu-memory-ratio: 50", "koordinator.sh/gpu-memory-ratio: 50"),
        ("kubernetes.io/gpu-memory: 8Gi", "koordinator.sh/gpu-memory: 8Gi"),
    ] {
        becomes("MisspeltName", &limited(old), &limited(new));
    }
}

/// A Job of Volcano with these lines in its spec, and of the limits of its only container.
fn volcano_job(spec: &str, limits: &str) -> String {
    format!(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: t\nspec:\n  minAvailable: 1\n{spec}  tasks:\n  \
         - name: w\n    replicas: 1\n    template:\n      spec:\n        containers:\n        - name: c\n          \
         resources:\n            limits:\n{limits}"
    )
}

#[test]
fn the_pods_of_a_job_of_volcano_are_looked_at_and_go_to_divvy() {
    let theirs =
        "              volcano.sh/vgpu-number: 1\n              volcano.sh/vgpu-memory: 3000\n";
    let ours = "              koordinator.sh/gpu.shared: 1\n              koordinator.sh/gpu-memory: 3000Mi\n";
    let divvys = "  schedulerName: divvy-scheduler # of all\n";
    becomes(
        "ForeignResource",
        &volcano_job("  schedulerName: volcano # of all\n", theirs),
        &volcano_job(divvys, ours),
    );
    let unnamed = volcano_job("", ours);
    let finding = found(&unnamed).swap_remove(0);
    assert_eq!(
        (finding.name, &*finding.next),
        ("DefaultScheduler", "write spec.schedulerName: divvy-scheduler")
    );
    assert!(
        finding.message.starts_with("the scheduler of batch.volcano.sh places the pod"),
        "{finding}"
    );
    becomes(
        "DefaultScheduler",
        &unnamed,
        &unnamed.replace("  minAvailable", "  schedulerName: divvy-scheduler\n  minAvailable"),
    );
    assert_eq!(names(&volcano_job(divvys, ours)), [""; 0]);
    let own = unnamed.replace(
        "        containers",
        "        schedulerName: divvy-scheduler\n        containers",
    );
    assert_eq!(names(&own), [""; 0], "a template that names one itself");
}
