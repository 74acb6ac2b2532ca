//! Objects in which every field that the API knows is set, made from the types of k8s-openapi.

use divvy_api::Resource;
use divvy_words::manifest::PodStatus;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::scheduling;
use k8s_openapi::api::storage::v1 as storage;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, forward_to_deserialize_any};
use serde_json::{Value, json};
use std::iter::once;

/// The object with one element in every list and the entry `*` in every map; where only some words of
/// a text mean something, with those.
pub(super) fn filled(resource: &Resource) -> Value {
    match (resource.api_version, resource.kind) {
        ("v1", "Pod") => {
            let mut pod = of::<core::Pod>(resource);
            (pod["status"]["reason"], pod["status"]["message"]) =
                (PodStatus::REFUSED.into(), PodStatus::ONE_EACH.into());
            pod
        }
        ("v1", "Node") => of::<core::Node>(resource),
        ("v1", "Namespace") => of::<core::Namespace>(resource),
        (_, "PriorityClass") => of::<scheduling::v1::PriorityClass>(resource),
        ("v1", "ResourceQuota") => of::<core::ResourceQuota>(resource),
        ("v1", "PersistentVolumeClaim") => of::<core::PersistentVolumeClaim>(resource),
        ("v1", "PersistentVolume") => of::<core::PersistentVolume>(resource),
        (_, "StorageClass") => of::<storage::StorageClass>(resource),
        (_, "CSINode") => of::<storage::CSINode>(resource),
        (_, "CSIDriver") => of::<storage::CSIDriver>(resource),
        (_, "CSIStorageCapacity") => of::<storage::CSIStorageCapacity>(resource),
        (_, "VolumeAttachment") => of::<storage::VolumeAttachment>(resource),
        ("scheduling.k8s.io/v1beta1", "PodGroup") => of::<scheduling::v1beta1::PodGroup>(resource),
        // Custom resources, of which there are no types.
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup") => custom(
            resource,
            &json!({"minMember": 7, "minResources": {"*": "1"}, "scheduleTimeoutSeconds": 7}),
        ),
        ("scheduling.run.ai/v2alpha2", "PodGroup") => custom(
            resource,
            &json!({"minMember": 7, "minSubGroup": 7, "queue": "queue", "preemptibility": "x",
                "priorityClassName": "x", "topologyConstraint": {"topology": "x"},
                "subGroups": [{"name": "x", "minMember": 7, "parent": "x"}]}),
        ),
        other => panic!("which type is {other:?}?"),
    }
}

fn of<T: DeserializeOwned + Serialize>(resource: &Resource) -> Value {
    serde_json::to_value(T::deserialize(Filler { resource, text: "" }).unwrap()).unwrap()
}

fn custom(resource: &Resource, spec: &Value) -> Value {
    let status = json!({"phase": "x", "conditions": [{"type": "x", "message": "x"}]});
    let metadata = of::<ObjectMeta>(resource);
    json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata,
        "spec": spec, "status": status})
}

/// Sets whatever it is asked for.
#[derive(Clone, Copy)]
struct Filler<'a> {
    resource: &'a Resource,
    /// What a text is set to.
    text: &'a str,
}

impl<'a> Filler<'a> {
    fn field(self, name: &'static str) -> (&'static str, Self) {
        let text = match name {
            "apiVersion" => self.resource.api_version,
            "kind" => self.resource.kind,
            _ => name,
        };
        (name, Self { text, ..self })
    }
}

impl<'de> IntoDeserializer<'de, Error> for Filler<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Filler<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(self.text)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(true)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i32(7)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(7)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(once(self)))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(once(("*", self))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let fields = fields.iter().map(|name| self.field(name));
        visitor.visit_map(MapDeserializer::new(fields))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let text = match name {
            "Quantity" => "1",
            "Time" | "MicroTime" => "2026-01-31T12:00:00Z",
            _ => self.text,
        };
        visitor.visit_newtype_struct(Self { text, ..self })
    }

    forward_to_deserialize_any! {
        i8 i16 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        tuple tuple_struct enum identifier ignored_any
    }
}
