//! Decoders that accept only JSON objects, not arrays.
//!
//! A derived decoder also accepts an array for a struct and assigns its elements to the fields in order of
//! declaration. The API does not allow this, because it would make the order of the fields part of the API.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// A `T` that is decoded only from an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        decoder.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }
}

/// Decodes a field that is an object.
pub(crate) fn required<'de, T, D>(decoder: D) -> Result<T, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Object::deserialize(decoder).map(|Object(value)| value)
}

/// Decodes a field that is an object or absent.
pub(crate) fn optional<'de, T, D>(decoder: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(decoder)?.map(|Object(value)| value))
}

/// Decodes a field that is an array of objects.
pub(crate) fn each<'de, T, D>(decoder: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let objects: Vec<Object<T>> = Deserialize::deserialize(decoder)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::WriteFiles;
    use crate::sandbox::{CreateSandbox, ParkSandbox};

    #[test]
    fn an_array_is_not_accepted_as_an_object() {
        assert!(serde_json::from_str::<Object<ParkSandbox>>(r#"{"force":true}"#).is_ok());
        assert!(serde_json::from_str::<Object<ParkSandbox>>("[true]").is_err());
        for field in [r#""resources":[1]"#, r#""network":["none"]"#] {
            let body = format!(r#"{{"sessionKey":"k",{field}}}"#);
            assert!(serde_json::from_str::<CreateSandbox>(&body).is_err(), "{body}");
        }
        assert!(serde_json::from_str::<WriteFiles>(r#"{"files":[["a","",null]]}"#).is_err());
    }

    #[test]
    fn null_and_missing_fields_are_absent() {
        let absent: CreateSandbox = serde_json::from_str(r#"{"sessionKey":"k"}"#).unwrap();
        let null = r#"{"sessionKey":"k","resources":null,"network":null}"#;
        assert_eq!(serde_json::from_str::<CreateSandbox>(null).unwrap(), absent);
    }
}
