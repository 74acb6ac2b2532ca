//! Where a pod may run and would rather run: node selector, node affinity, tolerations.

use crate::keys;
use crate::manifest::{Expression, NodeAffinity, PodManifest, SelectorTerm, TolerationManifest};
use crate::problem::{Problems, short};
use divvy_engine::{Effect, Requirement, Rules, Term, Test, Toleration};

/// Says where something stands, when something is wrong with it.
type Path<'a> = &'a dyn Fn() -> String;

/// The rules of a pod. What is wrong is left out and noted.
pub(crate) fn rules(spec: &PodManifest, problems: &mut Problems) -> Rules {
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    let selector = &spec.node_selector;
    problems.note_some(|| selector.problem("spec.nodeSelector", "node selector values"));
    let mut rules = Rules {
        node_name: given(&spec.node_name),
        selector: selector.iter().map(|(key, value)| (key.into(), value.into())).collect(),
        ..Rules::default()
    };
    if let Some(affinity) = spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref()) {
        enter_affinity(affinity, &mut rules, problems);
    }
    for (index, toleration) in spec.tolerations.iter().enumerate() {
        let path = || format!("spec.tolerations[{index}]");
        rules.tolerations.extend(self::toleration(toleration, &path, problems));
    }
    rules
}

fn enter_affinity(affinity: &NodeAffinity, rules: &mut Rules, problems: &mut Problems) {
    let field = |name: &str| {
        format!("spec.affinity.nodeAffinity.{name}DuringSchedulingIgnoredDuringExecution")
    };
    if let Some(required) = &affinity.required {
        let terms = &required.node_selector_terms;
        let path = || format!("{}.nodeSelectorTerms", field("required"));
        if terms.is_empty() {
            problems.note(|| format!("{}: empty; at least one term is required", path()));
        }
        let terms = terms.iter().enumerate();
        let terms = terms.map(|(i, t)| term(t, &|| format!("{}[{i}]", path()), problems));
        rules.required = Some(terms.collect());
    }
    for (index, preferred) in affinity.preferred.iter().enumerate() {
        let path = || format!("{}[{index}]", field("preferred"));
        let weight = preferred.weight.and_then(|weight| u32::try_from(weight).ok());
        let Some(weight) = weight.filter(|weight| (1..=100).contains(weight)) else {
            problems.note(|| {
                let given = preferred.weight.map_or("missing".to_owned(), |w| w.to_string());
                format!("{}.weight: {given}; allowed are 1 to 100", path())
            });
            continue;
        };
        let term = term(&preferred.preference, &|| format!("{}.preference", path()), problems);
        rules.preferred.push((weight, term));
    }
}

/// A term of node affinity. What is wrong is left out and noted.
pub(crate) fn term(term: &SelectorTerm, path: Path<'_>, problems: &mut Problems) -> Term {
    let expressions = term.match_expressions.iter().enumerate();
    let labels = expressions.filter_map(|(index, expression)| {
        requirement(expression, &|| format!("{}.matchExpressions[{index}]", path()), problems)
    });
    let labels = labels.collect();
    let fields = term.match_fields.iter().enumerate().filter_map(|(index, expression)| {
        field_requirement(expression, &|| format!("{}.matchFields[{index}]", path()), problems)
    });
    Term { labels, fields: fields.collect() }
}

/// One condition on a label.
pub(crate) fn requirement(
    e: &Expression,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<Requirement> {
    if e.key.is_empty() {
        problems.note(|| format!("{}.key: missing; a label is required", path()));
        return None;
    }
    match test(e) {
        Ok(test) => Some(Requirement { key: e.key.clone(), test }),
        Err((field, problem)) => {
            problems.note(|| format!("{}.{field}: {problem}", path()));
            None
        }
    }
}

/// The test, or the field that is wrong and why.
pub(crate) fn test(e: &Expression) -> Result<Test, (&'static str, String)> {
    let values = || e.values.clone();
    let operator = &*e.operator;
    let some = || match e.values.is_empty() {
        true => Err(("values", format!("empty; operator {operator} requires at least one value"))),
        false => Ok(values()),
    };
    let none = |test| match e.values.first() {
        Some(value) => {
            let value = short(value);
            Err(("values", format!("{value:?} is given; operator {operator} allows no values")))
        }
        None => Ok(test),
    };
    let number = || match e.values.as_slice() {
        [value] => value.parse::<i64>().map_err(|_| {
            let value = short(value);
            ("values", format!("{value:?} is no integer, which operator {operator} requires"))
        }),
        all => {
            let count = all.len();
            Err(("values", format!("{count} are given; operator {operator} requires exactly one")))
        }
    };
    Ok(match operator {
        "In" => Test::In(some()?.into()),
        "NotIn" => Test::NotIn(some()?.into()),
        "Exists" => none(Test::Exists)?,
        "DoesNotExist" => none(Test::DoesNotExist)?,
        "Gt" => Test::Gt(number()?),
        "Lt" => Test::Lt(number()?),
        other => {
            let allowed = "allowed are In, NotIn, Exists, DoesNotExist, Gt, Lt";
            return Err(("operator", format!("{:?} is no operator; {allowed}", short(other))));
        }
    })
}

fn field_requirement(
    e: &Expression,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<Requirement> {
    if &*e.key != keys::FIELD_NODE_NAME {
        problems.note(|| {
            let (key, allowed) = (short(&e.key), keys::FIELD_NODE_NAME);
            format!("{}.key: {key:?} is no field for node selection; allowed is {allowed}", path())
        });
        return None;
    }
    let test = match (&*e.operator, e.values.as_slice()) {
        ("In", [_]) => Test::In(e.values.clone().into()),
        ("NotIn", [_]) => Test::NotIn(e.values.clone().into()),
        ("In" | "NotIn", all) => {
            let count = all.len();
            problems.note(|| {
                format!("{}.values: {count} are given; a field requires exactly one", path())
            });
            return None;
        }
        (other, _) => {
            let other = short(other);
            problems.note(|| {
                format!("{}.operator: {other:?}; allowed for a field are In, NotIn", path())
            });
            return None;
        }
    };
    Some(Requirement { key: e.key.clone(), test })
}

fn toleration(
    t: &TolerationManifest,
    path: Path<'_>,
    problems: &mut Problems,
) -> Option<Toleration> {
    let effect = effect_or_every(&t.effect, path, problems)?;
    let key = (!t.key.is_empty()).then(|| t.key.clone());
    let value = match &*t.operator {
        "Exists" if t.value.is_empty() => None,
        "Exists" => {
            let value = short(&t.value);
            problems.note(|| {
                format!("{}.value: {value:?}; must be empty when operator is Exists", path())
            });
            return None;
        }
        "" | "Equal" if key.is_none() => {
            problems.note(|| {
                format!(
                    "{}.operator: must be Exists when key is empty, which tolerates all",
                    path()
                )
            });
            return None;
        }
        "" | "Equal" => Some(t.value.clone()),
        other => {
            let other = short(other);
            problems.note(|| {
                format!("{}.operator: {other:?} is no operator; allowed are Equal, Exists", path())
            });
            return None;
        }
    };
    Some(Toleration { key, value, effect })
}

/// `None` if the effect is wrong, `Some(None)` for every effect.
fn effect_or_every(text: &str, path: Path<'_>, problems: &mut Problems) -> Option<Option<Effect>> {
    if text.is_empty() {
        return Some(None);
    }
    let effect = effect(text);
    if effect.is_none() {
        problems.note(|| format!("{}.effect: {}", path(), no_effect(text)));
    }
    effect.map(Some)
}

/// The effect of a taint or toleration by its name.
pub(crate) fn effect(text: &str) -> Option<Effect> {
    [Effect::NoSchedule, Effect::PreferNoSchedule, Effect::NoExecute]
        .into_iter()
        .find(|effect| effect.as_str() == text)
}

/// Why a text is no effect.
pub(crate) fn no_effect(text: &str) -> String {
    let text = short(text);
    format!("{text:?} is no effect; allowed are NoSchedule, PreferNoSchedule, NoExecute")
}

#[cfg(test)]
mod tests;
