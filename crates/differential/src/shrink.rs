//! The smallest case that still shows a difference.

use crate::case::Case;
use serde_json::Value;

/// Leaves out whatever can be left out: objects, then fields and elements, until no single step
/// keeps the difference.
pub fn shrink(case: Case, differs: &mut dyn FnMut(&Case) -> bool) -> Case {
    let mut case = case;
    loop {
        let before = case.clone();
        drop_objects(&mut case, differs);
        for index in 0..=case.objects.len() {
            prune(&mut case, index, differs);
        }
        if case == before {
            return case;
        }
    }
}

fn drop_objects(case: &mut Case, differs: &mut dyn FnMut(&Case) -> bool) {
    let mut index = case.objects.len();
    while index > 0 {
        index -= 1;
        let mut smaller = case.clone();
        smaller.objects.remove(index);
        if differs(&smaller) {
            *case = smaller;
        }
    }
}

/// One object of the case, or the pod behind the last.
fn object(case: &mut Case, index: usize) -> &mut Value {
    case.objects.get_mut(index).unwrap_or(&mut case.pod)
}

fn prune(case: &mut Case, index: usize, differs: &mut dyn FnMut(&Case) -> bool) {
    let mut paths = Vec::new();
    collect(object(case, index), &mut String::new(), &mut paths);
    for path in paths {
        let mut smaller = case.clone();
        if remove(object(&mut smaller, index), &path) && differs(&smaller) {
            *case = smaller;
        }
    }
}

/// The pointers of all fields and elements: what is further out first, and elements from the last,
/// so that a removal leaves the other pointers right.
fn collect(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(fields) => {
            let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
            fields.iter().map(|(key, value)| (escaped(key), value)).collect()
        }
        Value::Array(items) => {
            items.iter().enumerate().rev().map(|(i, value)| (i.to_string(), value)).collect()
        }
        _ => return,
    };
    let length = path.len();
    for (key, child) in children {
        path.push('/');
        path.push_str(&key);
        paths.push(path.clone());
        collect(child, path, paths);
        path.truncate(length);
    }
}

fn remove(value: &mut Value, path: &str) -> bool {
    let Some((parent, key)) = path.rsplit_once('/') else { return false };
    match value.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.remove(&key.replace("~1", "/").replace("~0", "~")).is_some()
        }
        Some(Value::Array(items)) => {
            let index = key.parse().ok().filter(|index| *index < items.len());
            index.map(|index: usize| items.remove(index)).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::shrink;
    use crate::case::Case;
    use serde_json::json;

    #[test]
    fn what_the_difference_does_not_need_is_left_out() {
        let case = Case {
            objects: vec![json!({"a": 1}), json!({"b": [1, {"c/d": 2, "e": 3}], "f": null})],
            pod: json!({"x": {"y": [1, 2]}, "z": 1}),
        };
        let mut differs = |case: &Case| {
            let needed = |o: &serde_json::Value| {
                let items = o["b"].as_array();
                items.is_some_and(|items| items.iter().any(|i| i["c/d"] == 2))
            };
            case.objects.iter().any(needed) && case.pod["x"]["y"].is_array()
        };
        let small = shrink(case, &mut differs);
        assert_eq!(small.objects, [json!({"b": [{"c/d": 2}]})]);
        assert_eq!(small.pod, json!({"x": {"y": []}}));
    }
}
