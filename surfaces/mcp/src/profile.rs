//! The profile that a host chooses with the URL.

use http::request::Parts;
use toolbox::Profile;

/// Name of the parameter in the query.
const PARAMETER: &str = "profile=";

/// Returns the profile of a request: `/mcp?profile=boxsh`.
pub(crate) fn chosen(head: &Parts) -> Result<Profile, String> {
    let parameters = head.uri.query().unwrap_or_default().split('&');
    let mut names = parameters.filter_map(|parameter| parameter.strip_prefix(PARAMETER));
    match (names.next(), names.next()) {
        (None, _) => Ok(Profile::default()),
        (Some(name), None) => Profile::of_name(name).ok_or_else(|| {
            let known = Profile::ALL.map(Profile::name).join(", ");
            format!("there is no profile `{}`: the profiles are {known}", name.escape_debug())
        }),
        _ => Err("the URL names two profiles".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uri: &str) -> Result<Profile, String> {
        chosen(&http::Request::get(uri).body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_query_names_the_profile() {
        assert_eq!(of("/mcp"), Ok(Profile::Default));
        assert_eq!(of("/mcp?x=1"), Ok(Profile::Default));
        assert_eq!(of("/mcp?x=1&profile=boxsh"), Ok(Profile::Boxsh));
        assert_eq!(of("/mcp?profile=sql-fs"), Ok(Profile::SqlFs));
        for wrong in ["/mcp?profile=", "/mcp?profile=Boxsh", "/mcp?profile=chat&profile=chat"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
