//! Arguments of a request: its query, or its JSON body.

use std::str::FromStr;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use surface_caller::{BodyShare, Shared};

use crate::failure::Failure;

/// Maximum number of parameters in a query.
const MAX_PARAMS: usize = 256;

/// Parameters of a query. Some models write `null` or nothing for an optional one, which means the same as its absence.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    fn of(query: &str) -> Result<Self, Failure> {
        let params: Vec<(String, String)> = serde_urlencoded::from_str(query)
            .map_err(|_| Failure::bad_request("the query is not percent-encoded text"))?;
        if params.len() > MAX_PARAMS {
            return Err(Failure::bad_request(format_args!(
                "the query has more than {MAX_PARAMS} parameters"
            )));
        }
        Ok(Self(params))
    }

    /// A parameter that must be given. It may be empty.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Failure> {
        let value = self.0.iter().find(|(given, _)| given == name);
        value.map(|(_, value)| value.as_str()).ok_or_else(|| Failure::argument(name, "is required"))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a parameter.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_name = self.0.iter().filter(move |(given, _)| given == name);
        of_name.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty() && *value != "null")
    }

    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, Failure> {
        match self.text(name).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(default),
            Some("true" | "1" | "yes" | "on") => Ok(true),
            Some("false" | "0" | "no" | "off") => Ok(false),
            Some(_) => Err(Failure::argument(name, "must be true or false")),
        }
    }

    /// A number in a range.
    pub(crate) fn number<T: FromStr + PartialOrd + std::fmt::Display>(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<Option<T>, Failure> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let problem = format!("must be a number from {} to {}", range.start(), range.end());
                Err(Failure::argument(name, problem))
            }
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = Failure;

    async fn from_request_parts(head: &mut Parts, _: &S) -> Result<Self, Failure> {
        Self::of(head.uri.query().unwrap_or_default())
    }
}

/// A JSON body, and its share of the memory for bodies. A handler keeps the share as long as it keeps a large argument.
pub(crate) struct Json<T>(pub(crate) T, pub(crate) BodyShare);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T>
where
    Shared: FromRef<S>,
{
    type Rejection = Failure;

    async fn from_request(request: Request<Body>, state: &S) -> Result<Self, Failure> {
        let (head, body) = request.into_parts();
        let read = Shared::from_ref(state).bodies.read(&head.headers, body).await;
        let (body, share) = read.map_err(|error| Failure::new(error.status(), error))?;
        // The message may repeat what the caller sent, so only short ones are returned.
        serde_json::from_slice(&body).map(|value| Self(value, share)).map_err(|error| {
            let message: String = error.to_string().chars().take(200).collect();
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, format_args!("the body is invalid: {message}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_checked() {
        let params =
            Params::of("path=a%20b&include=*.rs&include=*.py&wait=&tail=null&n=7&flag=True").unwrap();
        assert_eq!(params.required("path").unwrap(), "a b");
        assert_eq!(params.all("include").collect::<Vec<_>>(), ["*.rs", "*.py"]);
        assert_eq!((params.text("wait"), params.text("tail")), (None, None));
        assert_eq!(params.number("n", 1..=9).unwrap(), Some(7));
        assert!(params.number("n", 1..=6).is_err() && params.number::<u64>("path", 1..=6).is_err());
        assert!(params.flag("flag", false).unwrap() && params.flag("n", true).is_err());
        assert!(params.required("missing").unwrap_err().detail().contains("`missing` is required"));
        assert!(Params::of(&"a=1&".repeat(MAX_PARAMS + 1)).is_err());
    }

    #[test]
    fn text_in_place_of_a_number_is_rejected() {
        for wait in ["NaN", "inf", "-1", "301", "x"] {
            let params = Params::of(&format!("wait={wait}")).unwrap();
            assert!(params.number("wait", 0.0..=300.0).is_err(), "{wait}");
        }
    }
}
