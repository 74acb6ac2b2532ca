//! The Secret that replicas share. Who writes first wins, the others read again.

use super::material::Material;
use super::{CertificateError, answer};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use divvy_api::Api;
use divvy_api::Failure::{Conflict, NotFound};
use divvy_api::resources::SECRETS;
use http::Method;
use serde_json::{Value, json};
use std::time::SystemTime;

/// More conflicts in a row than this are no race.
const TRIES: usize = 8;

/// Where the Secret is.
#[derive(Clone, Debug)]
pub(super) struct SecretPlace<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl SecretPlace<'_> {
    /// The certificates for these names, made or renewed if it is time.
    pub(super) async fn ensure(
        &self,
        api: &Api,
        names: &[String],
    ) -> Result<Material, CertificateError> {
        let collection = SECRETS.path_in(self.namespace);
        let path = SECRETS.path_of(self.namespace, self.name);
        for _ in 0..TRIES {
            let found = match answer(Method::GET, &path, api.get(&path).await) {
                Err(CertificateError::Api { why: NotFound(_), .. }) => None,
                found => Some(found?),
            };
            let old = found.as_ref().and_then(material);
            let renewed = Material::renewed(old.as_ref(), names, SystemTime::now());
            let Some(new) =
                renewed.map_err(|why| CertificateError::Certificate(why.to_string()))?
            else {
                return old
                    .ok_or_else(|| CertificateError::Certificate("there is none".to_owned()));
            };
            let written = match found {
                None => {
                    let secret = self.filled(json!({}), &new);
                    answer(Method::POST, &collection, api.post(&collection, secret).await)
                }
                // With the version that was read: a replica that was faster is not overwritten.
                Some(found) => {
                    let secret = self.filled(found, &new);
                    answer(Method::PUT, &path, api.put(&path, secret).await)
                }
            };
            match written {
                Err(CertificateError::Api { why: Conflict(_), .. }) => {}
                written => {
                    written?;
                    tracing::info!("wrote new certificates to the secret {path}");
                    return Ok(new);
                }
            }
        }
        Err(CertificateError::Certificate(format!("{path} changes all the time")))
    }

    fn filled(&self, mut secret: Value, material: &Material) -> Vec<u8> {
        let (namespace, name) = (self.namespace, self.name);
        secret["apiVersion"] = json!(SECRETS.api_version);
        secret["kind"] = json!(SECRETS.kind);
        secret["metadata"]["namespace"] = json!(namespace);
        secret["metadata"]["name"] = json!(name);
        let until = material.ca_until.to_string();
        for (key, text) in [
            ("ca.crt", &material.ca),
            ("ca.key", &material.ca_key),
            ("ca.until", &until),
            ("tls.crt", &material.chain),
            ("tls.key", &material.key),
        ] {
            secret["data"][key] = json!(BASE64_STANDARD.encode(text));
        }
        secret.to_string().into_bytes()
    }
}

fn material(secret: &Value) -> Option<Material> {
    let text = |key: &str| {
        let coded = secret.get("data")?.get(key)?.as_str()?;
        String::from_utf8(BASE64_STANDARD.decode(coded).ok()?).ok()
    };
    Some(Material {
        ca: text("ca.crt")?,
        ca_key: text("ca.key")?,
        ca_until: text("ca.until")?.parse().ok()?,
        chain: text("tls.crt")?,
        key: text("tls.key")?,
    })
}
