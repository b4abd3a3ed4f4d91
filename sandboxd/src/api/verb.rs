//! Verbs: `/v1/sandboxes/{id}:touch` is a route of its own.
//!
//! axum's router takes a parameter for whole segments only, so inside it a verb is a segment of its own that
//! begins with the colon: `/v1/sandboxes/{id}/:touch`. Routes and requests are brought into that form by the same
//! function, so what is sent in it is split once more and names no route: there is one way to ask for each.

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::map_request;
use tower::Layer;

/// The router for paths with verbs, from the one for verbs as segments.
pub(super) fn layer(router: Router) -> Router {
    let rewrite = async |mut request: Request| {
        if let Some(uri) = rewritten(request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    };
    Router::new().fallback_service(map_request(rewrite).layer(router))
}

/// A path as the router has it: the verb of its last segment is a segment.
pub(super) fn split(path: &str) -> Option<String> {
    let (before, last) = path.rsplit_once('/')?;
    let (thing, verb) = ["%3a", "%3A", ":"]
        .into_iter()
        .filter_map(|colon| last.split_once(colon))
        .min_by_key(|(thing, _)| thing.len())?;
    Some(format!("{before}/{thing}/:{verb}"))
}

/// A path as it is spoken of, from what the router has.
pub(super) fn join(path: &str) -> String {
    path.replacen("/:", ":", 1)
}

fn rewritten(uri: &Uri) -> Option<Uri> {
    let path = split(uri.path())?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path + query.as_str()).ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_of_the_last_segment_becomes_a_segment() {
        assert_eq!(split("/v1/x/{id}:touch").as_deref(), Some("/v1/x/{id}/:touch"));
        assert_eq!(split("/v1/x/a%3Atouch%3ab").as_deref(), Some("/v1/x/a/:touch%3ab"));
        assert_eq!(split("/v1/x/files:read").as_deref(), Some("/v1/x/files/:read"));
        assert_eq!(split("/v1/a:b/c"), None);
        assert_eq!(split("*"), None);
        assert_eq!(join("/v1/x/{id}/:touch"), "/v1/x/{id}:touch");
        let uri: Uri = "http://h/v1/a:b?c=d:e".parse().unwrap();
        assert_eq!(rewritten(&uri).unwrap(), "http://h/v1/a/:b?c=d:e");
    }

    #[test]
    fn the_inner_form_cannot_be_asked_for() {
        assert_eq!(split("/v1/x/a/:touch").as_deref(), Some("/v1/x/a//:touch"));
    }
}
