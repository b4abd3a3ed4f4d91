//! Verbs: routes such as `/v1/sandboxes/{id}:touch`.
//!
//! In axum, a parameter is always a whole segment. Internally, a verb is therefore a segment of its own that begins
//! with the colon: `/v1/sandboxes/{id}/:touch`. One function rewrites both routes and requests. A request that
//! already uses the internal form is split again and matches no route, so each operation has exactly one path.

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use axum::middleware::map_request;
use tower::Layer;

/// Wraps a router that has verbs as segments, so that it accepts paths with verbs.
pub(super) fn layer(router: Router) -> Router {
    let rewrite = async |mut request: Request| {
        if let Some(uri) = rewritten(request.uri()) {
            *request.uri_mut() = uri;
        }
        request
    };
    Router::new().fallback_service(map_request(rewrite).layer(router))
}

/// Converts a path to the router's form, with the verb as a segment.
pub(super) fn split(path: &str) -> Option<String> {
    let (before, last) = path.rsplit_once('/')?;
    let (thing, verb) = ["%3a", "%3A", ":"]
        .into_iter()
        .filter_map(|colon| last.split_once(colon))
        .min_by_key(|(thing, _)| thing.len())?;
    Some(format!("{before}/{thing}/:{verb}"))
}

/// Converts a path from the router's form.
pub(super) fn join(path: &str) -> String {
    path.replacen("/:", ":", 1)
}

/// Only routes of the API have verbs. In paths of surfaces, a colon may belong to the name of a file, and in those of values
/// to a key.
fn rewritten(uri: &Uri) -> Option<Uri> {
    let has_verb = uri.path().starts_with("/v1/") && !names_value(uri.path());
    let path = has_verb.then(|| split(uri.path())).flatten()?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(path + query.as_str()).ok()?);
    Uri::from_parts(parts).ok()
}

/// `/v1/sandboxes/{id}/kv/{key}`
fn names_value(path: &str) -> bool {
    let mut segments = path.split('/').skip(2);
    segments.next() == Some("sandboxes") && segments.nth(1) == Some("kv") && segments.next().is_some()
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
        assert_eq!(rewritten(&"/open-terminal/files/serve/a:b".parse().unwrap()), None);
        assert_eq!(rewritten(&"/v1/sandboxes/sbx_1/kv/a:b".parse().unwrap()), None);
        assert!(rewritten(&"/v1/sandboxes/kv/a:b".parse().unwrap()).is_some());
    }

    #[test]
    fn the_internal_form_matches_no_route() {
        assert_eq!(split("/v1/x/a/:touch").as_deref(), Some("/v1/x/a//:touch"));
    }
}
