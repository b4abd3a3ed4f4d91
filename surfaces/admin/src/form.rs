//! The bodies of forms.

use axum::body::Body;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::limits::{FORM, MAX_FIELDS, MAX_FORM_BYTES};

/// What a browser sends for a form without files.
const KIND: &str = "application/x-www-form-urlencoded";

/// Why the body of a form cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadForm {
    TooLarge,
    Late,
    Incomplete,
    NotAForm,
}

/// The fields of a form, in the order of the form.
#[derive(Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads a body within the limits.
    pub(crate) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, BadForm> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case(KIND) {
            return Err(BadForm::NotAForm);
        }
        let body = timeout(FORM, Limited::new(body, MAX_FORM_BYTES).collect()).await;
        let body =
            body.map_err(|_| BadForm::Late)?.map_err(|error| match error.is::<LengthLimitError>() {
                true => BadForm::TooLarge,
                false => BadForm::Incomplete,
            })?;
        Self::parse(&body.to_bytes())
    }

    fn parse(body: &[u8]) -> Result<Self, BadForm> {
        let fields: Vec<(String, String)> =
            serde_urlencoded::from_bytes(body).map_err(|_| BadForm::NotAForm)?;
        if fields.len() > MAX_FIELDS {
            return Err(BadForm::TooLarge);
        }
        Ok(Self(fields))
    }

    /// The fields of a URL's query.
    pub(crate) fn of_query(query: Option<&str>) -> Self {
        query.and_then(|query| Self::parse(query.as_bytes()).ok()).unwrap_or_default()
    }

    /// The value of a field. Empty if there is none.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.given(name).unwrap_or_default()
    }

    /// The value of a field without surrounding spaces, if it has one.
    pub(crate) fn filled(&self, name: &str) -> Option<&str> {
        self.given(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// All values of a field, such as those of checkboxes.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn given(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    async fn read(kind: &'static str, body: impl Into<Body>) -> Result<Form, BadForm> {
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
        Form::read(&headers, body.into()).await
    }

    #[tokio::test]
    async fn fields_are_decoded() {
        let form = read("application/x-www-form-urlencoded; charset=UTF-8", "a=%3Cb%3E+c&s=1&s=2&e=+").await;
        let form = form.ok().unwrap();
        assert_eq!((form.get("a"), form.get("none"), form.filled("e")), ("<b> c", "", None));
        assert_eq!(form.all("s").collect::<Vec<_>>(), ["1", "2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_kind_a_size_and_a_time() {
        assert_eq!(read("application/json", "{}").await.err(), Some(BadForm::NotAForm));
        assert_eq!(read("text/plain", "a=1").await.err(), Some(BadForm::NotAForm));
        assert_eq!(read(KIND, "a".repeat(MAX_FORM_BYTES + 1)).await.err(), Some(BadForm::TooLarge));
        assert_eq!(read(KIND, "a=1&".repeat(MAX_FIELDS + 1)).await.err(), Some(BadForm::TooLarge));
        let stalled = Body::from_stream(futures::stream::pending::<Result<bytes::Bytes, std::io::Error>>());
        assert_eq!(read(KIND, stalled).await.err(), Some(BadForm::Late));
    }
}
