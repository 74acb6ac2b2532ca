//! GPU models by the name people use.

/// `NVIDIA-A100-SXM4-80GB` as `A100-80GB`. A name of another build is returned as it is.
pub fn short_model(label: &str) -> String {
    let Some(rest) = ["NVIDIA-", "Tesla-", "GeForce-"]
        .into_iter()
        .fold(None, |rest, brand| rest.unwrap_or(label).strip_prefix(brand).or(rest))
    else {
        return label.to_owned();
    };
    // Board and memory type say nothing that the model and its size do not.
    let is_board = |part: &str| {
        ["SXM", "PCIE", "HBM", "NVL", "OEM"]
            .iter()
            .any(|board| part.to_ascii_uppercase().starts_with(board))
    };
    let parts: Vec<&str> = rest.split('-').filter(|part| !is_board(part)).collect();
    let short = parts.join("-");
    if short.is_empty() { label.to_owned() } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_shortened_to_what_tells_them_apart() {
        for (label, short) in [
            ("NVIDIA-A100-SXM4-80GB", "A100-80GB"),
            ("NVIDIA-A100-PCIE-40GB", "A100-40GB"),
            ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
            ("NVIDIA-H200", "H200"),
            ("NVIDIA-L40S", "L40S"),
            ("Tesla-T4", "T4"),
            ("Tesla-V100-SXM2-16GB", "V100-16GB"),
            ("NVIDIA-GeForce-RTX-4090", "RTX-4090"),
            ("NVIDIA-A100-SXM4-80GB-SHARED", "A100-80GB-SHARED"),
            ("AMD_Instinct_MI300X", "AMD_Instinct_MI300X"),
            ("NVIDIA-", "NVIDIA-"),
            ("", ""),
        ] {
            assert_eq!(short_model(label), short, "{label}");
        }
    }
}
