//! Why a pod waits, in one line: what its event, its condition and the first line of `explain`
//! say.

use crate::diagnosis::Diagnosis;

/// An event takes 1,024 bytes, and whoever writes one may have a few words to put before it.
const MOST_BYTES: usize = 1_000;
/// What `, and 1000000 more nodes.` takes, with digits to spare.
const TAIL: usize = 40;

impl Diagnosis {
    /// `0/5 nodes are available: 2 largest free share 6.0 GiB < 10.0 GiB asked, 3 no GPU.`, in the
    /// order of the refusals; a reason that is the pod's own stands alone. `nodes` is how many the
    /// cluster has. At most 1,000 bytes.
    pub fn sentence(&self, nodes: usize) -> String {
        let refusing: usize = self.refusals.iter().map(|refusals| refusals.nodes.len()).sum();
        if refusing == 0
            && let Some(own) = self.refusals.first()
        {
            return shortened(&own.reason.to_string(), MOST_BYTES).to_owned();
        }
        let mut line = format!("{}/{nodes} nodes are available", nodes.saturating_sub(refusing));
        let mut untold = refusing;
        for (i, refusals) in self.refusals.iter().enumerate() {
            let mark = if i == 0 { ':' } else { ',' };
            let part = format!("{mark} {} {}", refusals.nodes.len(), refusals.reason);
            let room = MOST_BYTES - TAIL - line.len();
            if i > 0 && part.len() > room {
                break;
            }
            line.push_str(shortened(&part, room));
            untold -= refusals.nodes.len();
        }
        if untold > 0 {
            line.push_str(&format!(", and {untold} more nodes"));
        }
        line.push('.');
        line
    }
}

/// As much of a text as `bytes` hold.
fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::Refusals;
    use crate::reason::Reason;

    fn diagnosis(refusals: impl IntoIterator<Item = (Reason, usize)>) -> Diagnosis {
        let of = |(reason, nodes)| Refusals { reason, nodes: vec!["node".into(); nodes] };
        Diagnosis { refusals: refusals.into_iter().map(of).collect(), nearest: None }
    }

    fn selector(value: &str) -> Reason {
        Reason::Selector { key: "rack".into(), value: value.into() }
    }

    #[test]
    fn every_reason_is_told_with_its_nodes_in_the_order_of_the_groups() {
        let refusals = [(Reason::Cordoned, 1), (selector("r1"), 4), (Reason::Affinity, 2)];
        assert_eq!(
            diagnosis(refusals).sentence(7),
            "0/7 nodes are available: 1 cordoned (spec.unschedulable), 4 no label rack=r1, \
             2 node affinity does not match."
        );
    }

    #[test]
    fn nodes_that_do_not_refuse_are_available() {
        assert_eq!(
            diagnosis([(Reason::Affinity, 2)]).sentence(3),
            "1/3 nodes are available: 2 node affinity does not match."
        );
        assert_eq!(diagnosis([]).sentence(3), "3/3 nodes are available.");
    }

    #[test]
    fn a_reason_of_the_pods_own_stands_alone() {
        assert_eq!(diagnosis([(Reason::NoNodes, 0)]).sentence(0), "the cluster has no nodes");
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let racks = (0..100).map(|i| (selector(&format!("rack-number-{i:02}")), 3));
        let line = diagnosis(racks).sentence(300);
        assert!(line.len() <= MOST_BYTES, "{}", line.len());
        assert!(line.contains("3 no label rack=rack-number-28"), "{line}");
        assert!(line.ends_with(", and 213 more nodes."), "{line}");
    }

    #[test]
    fn one_long_reason_is_cut_between_characters() {
        let long = "ü".repeat(3_000);
        assert!(diagnosis([(selector(&long), 1)]).sentence(1).len() <= MOST_BYTES);
        assert!(diagnosis([(Reason::Invalid(long.into()), 0)]).sentence(1).len() <= MOST_BYTES);
    }
}
