//! A key to sign service account tokens with, made without a cryptography library.

/// A P-256 private key in PEM from 32 random bytes. The public half may be left out of the
/// encoding (RFC 5915); Go works it out.
pub(crate) fn signing_key(seed: &[u8]) -> String {
    let mut scalar = [1; 32];
    for (byte, random) in scalar.iter_mut().zip(seed) {
        *byte = *random;
    }
    // Below the order of the curve, which begins with ff ff ff ff 00, and not 0.
    scalar[0] &= 0x7f;
    scalar[31] |= 1;
    let mut der = vec![0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    der.extend(scalar);
    der.extend([0xa0, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07]);
    format!("-----BEGIN EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----\n", base64(&der))
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0u32, |word, b| word << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            let six = (word >> (18 - 6 * i)) & 63;
            text.push(if i <= chunk.len() { char::from(ALPHABET[six as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        let table =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, coded) in table {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
