//! Rehearsals: from the manifests of a cluster and of a workload to tables and pictures.

use crate::edit::edit;
use crate::input::Input;
use crate::objects;
use divvy_sim::{self as sim, Rehearsal, Setup};
use divvy_views::TextOptions;
use serde_json::{Value, json};

/// A rehearsal takes a hundred thousand pods; here so many are enough.
const MOST_PODS: usize = 200;

/// A cluster and a workload, both with changes.
pub fn rehearsals(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let cluster = list(&mut input, 6);
    let workload = list(&mut input, 3);
    let setup = Setup {
        cluster: Some(sim::Input { name: "cluster".to_owned(), text: cluster }),
        workload: vec![sim::Input { name: "workload".to_owned(), text: workload }],
        ..Setup::default()
    };
    let Ok(mut rehearsal) = Rehearsal::load(&setup, &()) else { return };
    if rehearsal.pods.len() > MOST_PODS {
        return;
    }
    rehearsal.run(&());
    let scheduler = &rehearsal.scheduler;
    assert_eq!(scheduler.ledger().audit(), Ok(()));
    let options = TextOptions { wide: true, width: 80, ..TextOptions::default() };
    let simulation = divvy_views::simulation(scheduler, &rehearsal.pods);
    let mut said = vec![
        divvy_views::simulation_text(&simulation, options),
        divvy_views::top_nodes_text(&divvy_views::top_nodes(scheduler), options),
        divvy_views::top_cards_text(&divvy_views::top_cards(scheduler), options),
        divvy_views::top_pods_text(&divvy_views::top_pods(scheduler), options),
        divvy_views::card_map_svg(&simulation),
    ];
    for key in rehearsal.pods.iter().take(5) {
        let explanation = divvy_views::explain(scheduler, key, false);
        said.extend(explanation.map(|why| divvy_views::explanation_text(&why, options)));
    }
    // A terminal acts on control characters, whoever wrote them into a name.
    let is_bad = |c: char| c.is_control() && c != '\n';
    assert!(said.iter().all(|text| !text.contains(is_bad)), "{said:?}");
}

fn list(input: &mut Input<'_>, most: usize) -> String {
    let kinds: Vec<&Value> = objects::ALL.iter().collect();
    let mut items = Vec::new();
    for at in 0..=input.below(most) {
        let mut object = input.pick(&kinds).clone();
        if let Some(name) = object.pointer_mut("/metadata/name").filter(|_| !input.once_in(4)) {
            *name = json!(format!("{}{at}", name.as_str().unwrap_or_default()));
        }
        edit(input, &mut object);
        items.push(object);
    }
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}
