use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn model(name: &str) -> &'static Model {
    name.parse().unwrap()
}

fn geometry(name: &str) -> Geometry {
    Geometry::of(model(name))
}

fn of(text: &str) -> Vec<(Profile, u32)> {
    let one = |part: &str| {
        let (count, name) = part.split_once('x')?;
        Some((Profile::from_config(name)?, count.parse().ok()?))
    };
    text.split(' ').map(|part| one(part).unwrap()).collect()
}

type Placed = BTreeSet<(u8, Profile)>;

/// All sets of slices that do not overlap, by looking at each one slice more.
fn placed_sets(geometry: &Geometry, names: &[&str]) -> BTreeSet<Placed> {
    let cuts: Vec<&Cut> =
        names.iter().map(|n| geometry.find(Profile::from_config(n).unwrap()).unwrap()).collect();
    let mut sets = BTreeSet::from([Placed::new()]);
    let mut fresh = vec![Placed::new()];
    while let Some(set) = fresh.pop() {
        for cut in &cuts {
            for start in cut.starts {
                let clear = set.iter().all(|(other, profile)| {
                    let size = geometry.find(*profile).unwrap().size;
                    start + cut.size <= *other || other + size <= *start
                });
                let mut more = set.clone();
                if clear && more.insert((*start, cut.profile())) && sets.insert(more.clone()) {
                    fresh.push(more);
                }
            }
        }
    }
    sets
}

/// How many sets there are, how many of them take no slice more, and how many kinds of the latter.
fn counts(geometry: &Geometry, names: &[&str]) -> (usize, usize, usize) {
    let sets = placed_sets(geometry, names);
    let all: Vec<&Placed> = sets.iter().collect();
    let largest: Vec<&&Placed> =
        all.iter().filter(|set| !all.iter().any(|o| *o != **set && o.is_superset(set))).collect();
    let kinds = largest.iter().map(|set| {
        let mut kinds: Vec<Profile> = set.iter().map(|(_, profile)| *profile).collect();
        kinds.sort_unstable();
        kinds
    });
    (sets.len(), largest.len(), kinds.collect::<BTreeSet<_>>().len())
}

const PLAIN: [&str; 5] = ["1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];
const DOUBLE: [&str; 6] = ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"];

#[test]
fn cards_have_as_many_layouts_as_the_hardware() {
    assert_eq!(counts(&geometry("A100-80GB"), &PLAIN), (298, 19, 14));
    assert_eq!(counts(&geometry("A100-80GB"), &DOUBLE), (723, 78, 38));
    assert_eq!(counts(&geometry("A30"), &["1g.6gb", "2g.12gb", "4g.24gb"]), (26, 5, 4));
    let pro = geometry("RTX-PRO-6000");
    assert_eq!(counts(&pro, &["1g.24gb", "2g.48gb", "4g.96gb"]), (26, 5, 4));
}

/// So many are in NVIDIA's list of its profiles.
#[test]
fn an_rtx_pro_6000_has_as_many_slices_of_each_profile_as_nvidia_says() {
    let pro = geometry("RTX-PRO-6000");
    for (name, most) in [
        ("1g.24gb", 4),
        ("1g.24gb+gfx", 4),
        ("1g.24gb-me", 4),
        ("1g.24gb+me.all", 1),
        ("2g.48gb", 2),
        ("2g.48gb+gfx", 2),
        ("2g.48gb-me", 2),
        ("2g.48gb+me.all", 1),
        ("4g.96gb", 1),
        ("4g.96gb+gfx", 1),
    ] {
        let profile = Profile::from_config(name).unwrap();
        let holds = |count| pro.holds(&[(profile, count)]);
        assert!(holds(most) && !holds(most + 1), "{name}");
    }
}

#[test]
fn every_model_of_eight_memory_slices_has_the_same_layouts() {
    for model in MODELS.iter().filter(|model| model.memory_slices() == 8) {
        let geometry = Geometry::of(model);
        let usual = geometry.cuts().iter().map(|cut| cut.profile().in_config());
        let usual: Vec<String> = usual.filter(|name| !name.contains('+')).collect();
        let usual: Vec<&str> = usual.iter().map(String::as_str).collect();
        assert_eq!(counts(&geometry, &usual), (723, 78, 38), "{}", model.name);
    }
}

#[test]
fn the_largest_combinations_are_the_known_fourteen() {
    let profiles = PLAIN.map(|name| Profile::from_config(name).unwrap());
    let mut fillings = geometry("A100-80GB").fillings(&profiles);
    fillings.sort_unstable_by(|a, b| b.cmp(a));
    let known = [
        [7, 0, 0, 0, 0],
        [5, 1, 0, 0, 0],
        [4, 0, 1, 0, 0],
        [3, 2, 0, 0, 0],
        [3, 0, 0, 1, 0],
        [2, 1, 1, 0, 0],
        [1, 3, 0, 0, 0],
        [1, 1, 0, 1, 0],
        [0, 2, 1, 0, 0],
        [0, 0, 2, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 0, 1],
    ];
    // Two of the fourteen are largest only where they were put: 3 x 1g + 3g and 1g + 2g + 3g are
    // part of 4 x 1g + 3g and 2 x 1g + 2g + 3g.
    assert_eq!(fillings, known);
}

#[test]
fn memory_that_does_not_overlap_never_asks_too_much_compute() {
    for model in &MODELS {
        let geometry = Geometry::of(model);
        let all: Vec<Profile> = geometry.cuts().iter().map(Cut::profile).collect();
        for filling in geometry.fillings(&all) {
            let each = filling.iter().zip(geometry.cuts());
            let compute: u32 = each.map(|(n, cut)| n * u32::from(cut.compute)).sum();
            assert!(compute <= u32::from(model.compute_slices()), "{}: {filling:?}", model.name);
        }
    }
}

#[test]
fn slices_lie_where_they_keep_most_open() {
    let a100 = geometry("A100-80GB");
    let starts = |text: &str| {
        let placed = a100.place(&of(text)).unwrap();
        placed.iter().map(|slice| slice.start).collect::<Vec<_>>()
    };
    assert_eq!(starts("1x1g.10gb"), [6]);
    assert_eq!(starts("2x1g.10gb"), [4, 5], "a 1g.20gb has only 6 to make use of the last slice");
    assert_eq!(starts("3x1g.10gb"), [4, 5, 6]);
    assert_eq!(starts("4x1g.10gb"), [0, 1, 2, 3], "the upper half stays whole");
    assert_eq!(starts("1x2g.20gb"), [4]);
    assert_eq!(starts("2x2g.20gb"), [0, 2], "the upper half stays whole");
    assert_eq!(starts("1x3g.40gb"), [4]);
    assert_eq!(starts("1x3g.40gb 1x4g.40gb"), [0, 4]);
}

#[test]
fn what_is_left_is_said_in_slices_in_memory_and_in_what_still_fits() {
    let a100 = geometry("A100-80GB");
    let left = |text: &str| {
        let left = a100.left(&a100.place(&of(text)).unwrap());
        let fits: Vec<_> = left.fits.iter().map(|profile| profile.in_config()).collect();
        (left.memory_slices, left.compute_slices, left.memory.gib(), fits.join(" "))
    };
    let none = String::new;
    assert_eq!(left("7x1g.10gb"), (1, 0, "9.8".into(), none()));
    assert_eq!(left("2x1g.10gb 1x2g.20gb 1x3g.40gb"), (0, 0, "0.0".into(), none()));
    let more = "1g.10gb 1g.10gb+me 1g.20gb".to_owned();
    assert_eq!(left("4x1g.10gb 1x2g.20gb"), (2, 1, "19.6".into(), more));
}

#[test]
fn what_does_not_fit_is_said_with_the_numbers() {
    for (model, wanted, told) in [
        (
            "A100-80GB",
            "2x3g.40gb 1x1g.10gb",
            "no room for 1g.10gb beside 2 x 3g.40gb: 9 of 8 memory slices are asked",
        ),
        (
            "A100-80GB",
            "6x1g.10gb 1x2g.20gb",
            "room for only 5 of 6 x 1g.10gb beside 1 x 2g.20gb: wherever they lie, no place where \
             it may begin is free",
        ),
        ("A100-80GB", "4x2g.20gb", "4 x 2g.20gb: a card has at most 3"),
        (
            "A100-80GB",
            "1x1g.5gb",
            "1g.5gb is no profile of A100-80GB; allowed are 1g.10gb, \
             1g.10gb+me, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb",
        ),
        ("A100-80GB", "2x1g.10gb+me", "2 x 1g.10gb+me: a card has at most 1"),
        (
            "A30",
            "1x1g.6gb+me 1x2g.12gb+me",
            "1 x 1g.6gb+me, 1 x 2g.12gb+me: together they ask for \
             more media engines than a card has",
        ),
        (
            "RTX-PRO-6000",
            "1x1g.24gb+me.all 1x1g.24gb",
            "1 x 1g.24gb+me.all, 1 x 1g.24gb: together \
             they ask for more media engines than a card has",
        ),
    ] {
        let misfit = geometry(model).place(&of(wanted)).unwrap_err();
        assert_eq!(misfit.to_string(), told, "{model}: {wanted}");
    }
    let beside = geometry("RTX-PRO-6000").place(&of("1x1g.24gb+me.all 3x1g.24gb-me"));
    assert_eq!(beside.unwrap().len(), 4);
}

#[test]
fn drivers_may_call_a_profile_otherwise() {
    let placed = geometry("A100-80GB").place(&of("1x7g.79gb")).unwrap();
    assert_eq!(placed[0].profile.in_config(), "7g.79gb");
    assert!(geometry("GB200").holds(&of("1x3g.95gb 1x3g.93gb")));
}

#[test]
fn models_are_known_by_the_names_that_people_and_tools_write() {
    for (name, text) in [
        ("A100-80GB", "A100-80GB"),
        ("A100-80GB", "a100 80gb"),
        ("A100-80GB", "A100-80"),
        ("A100-80GB", "NVIDIA-A100-SXM4-80GB"),
        ("A100-80GB", "NVIDIA-A100-80GB-PCIe"),
        ("A100-80GB", "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"),
        ("A100-80GB", "0x20B210DE"),
        ("A100-40GB", "A100-SXM4-40GB"),
        ("A100-40GB", "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),
        ("A30", "NVIDIA-A30"),
        ("H100-80GB", "NVIDIA-H100-80GB-HBM3"),
        ("H100-80GB", "NVIDIA H100 PCIe"),
        ("H100-94GB", "NVIDIA-H100-NVL"),
        ("H200", "NVIDIA-H200-NVL"),
        ("GH200-96GB", "NVIDIA-GH200-480GB"),
        ("GH200-144GB", "NVIDIA-GH200-144G-HBM3e"),
        ("H20", "NVIDIA-H20"),
        ("H20-141GB", "NVIDIA-H20-3e"),
        ("B200", "NVIDIA-B200"),
        ("GB200", "NVIDIA-GB200"),
        ("B300", "NVIDIA-B300-SXM6-AC"),
        ("RTX-PRO-6000", "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition"),
    ] {
        assert_eq!(text.parse::<&Model>().map(|model| model.name), Ok(name), "{text}");
    }
    let error = |text: &str| text.parse::<&Model>().unwrap_err().to_string();
    assert_eq!(error("A100"), "\"A100\" may be A100-40GB or A100-80GB: say which");
    assert!(error("NVIDIA-L40S").starts_with("\"NVIDIA-L40S\" is no model that MIG divides; "));
    for unknown in ["", "0x", "0x20B2", "0x20B210DF", "T4", "RTX-6000", "-MIG-"] {
        assert!(unknown.parse::<&Model>().is_err(), "{unknown}");
    }
}

fn entry(filter: &[&str], profiles: &str) -> MigConfig {
    let filter = filter.iter().map(|id| (*id).to_owned()).collect();
    let entry =
        MigEntry { filter, devices: CardIndexes::All, enabled: true, profiles: of(profiles) };
    MigConfig { name: profiles.to_owned(), entries: vec![entry] }
}

fn judged(partitions: &[MigConfig], model: Option<&'static Model>) -> Vec<(bool, String)> {
    let verdicts = check(partitions, model);
    let models = |verdict: &ConfigVerdict<'_>| {
        let names = verdict.judged.iter().map(|judged| judged.model.map_or("-", |m| m.name));
        names.collect::<Vec<_>>().join(" ")
    };
    verdicts.iter().map(|verdict| (verdict.legal, models(verdict))).collect()
}

#[test]
fn a_config_is_judged_on_the_models_that_it_can_be_for() {
    let file = [entry(&[], "7x1g.10gb"), entry(&[], "2x1g.10gb 1x2g.20gb 1x3g.40gb")];
    let both = (true, "A100-80GB H100-80GB".to_owned());
    assert_eq!(judged(&file, None), [both.clone(), both], "not on A100-40GB, which has no 2g.20gb");
    let mixed = [entry(&[], "7x1g.10gb"), entry(&[], "7x1g.5gb")];
    let one_takes_it = (true, "A100-40GB A100-80GB H100-80GB".to_owned());
    assert_eq!(judged(&mixed, None), [one_takes_it, (true, "A100-40GB".to_owned())]);
    let named = [entry(&["0x20B010DE", "0x20B210DE"], "7x1g.10gb")];
    assert_eq!(judged(&named, None), [(false, "A100-40GB A100-80GB".to_owned())]);
    let known = judged(&named, Some(model("A100-80GB")));
    assert_eq!(known, [(true, "A100-80GB".to_owned())]);
    assert_eq!(judged(&[entry(&["0x123410DE"], "1x1g.10gb")], None), [(false, "-".to_owned())]);
    assert_eq!(judged(&[entry(&[], "1x1g.11gb")], None), [(false, "-".to_owned())]);
}

#[test]
fn compute_instances_share_a_slice_while_it_has_room() {
    let file = [
        entry(&[], "6x1c.3g.40gb"),
        entry(&[], "7x1c.3g.40gb"),
        entry(&[], "1x3g.40gb 1x1c.3g.40gb 1x2c.3g.40gb"),
    ];
    let legal: Vec<bool> =
        check(&file, Some(model("A100-80GB"))).iter().map(|verdict| verdict.legal).collect();
    assert_eq!(legal, [true, false, true]);
}

proptest! {
    /// Beside all placed sets, found by adding one slice after another.
    #[test]
    fn a_combination_fits_if_and_only_if_some_placed_set_has_it(
        wanted in proptest::collection::vec(0u32..4, 6),
    ) {
        let geometry = geometry("A100-80GB");
        let profiles = DOUBLE.map(|name| Profile::from_config(name).unwrap());
        let wanted: Vec<_> = profiles.into_iter().zip(wanted).filter(|(_, n)| *n > 0).collect();
        let has = |set: &Placed| wanted.iter().all(|(profile, n)| {
            set.iter().filter(|(_, other)| other == profile).count() == *n as usize
        });
        let possible = placed_sets(&geometry, &DOUBLE).iter().any(has);
        prop_assert_eq!(geometry.holds(&wanted), possible);
        let placed = geometry.place(&wanted);
        prop_assert_eq!(placed.is_ok(), possible);
        if let Ok(slices) = placed {
            let set: Placed = slices.iter().map(|slice| (slice.start, slice.profile)).collect();
            prop_assert!(placed_sets(&geometry, &DOUBLE).contains(&set));
        }
    }

    #[test]
    fn names_in_configs_are_read_as_they_are_printed(name in "[1-7][cg][.+0-9a-z-]{0,12}") {
        if let Some(profile) = Profile::from_config(&name) {
            prop_assert_eq!(profile.in_config(), name);
        }
    }

    #[test]
    fn no_name_of_a_model_panics(text in ".{0,40}") {
        let _ = text.parse::<&Model>();
    }
}
