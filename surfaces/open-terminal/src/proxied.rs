//! The address of a request to a server in a sandbox, and addresses in its response.
//!
//! Open WebUI's server follows a redirect itself, with the connection's token and the headers that name the user. So a
//! redirect must lead to the server that sent it: another address could be any host that Open WebUI reaches, or another
//! route of the daemon.

use hop_by_hop::{path_on_server, rewrite_locations};
use http::header::{HeaderName, LOCATION};
use http::{HeaderMap, StatusCode, Uri};
use url::Url;

use crate::failure::Failure;

/// Another name of `location`, of early HTTP. Open WebUI's HTTP client follows it.
const URI: HeaderName = HeaderName::from_static("uri");

/// A request for a server in the sandbox.
#[derive(Debug)]
pub(crate) struct Requested {
    pub(crate) port: u16,
    /// Number of directories below `/proxy/` in the path of the client's request.
    pub(crate) depth: usize,
    /// URI of the request that the server gets.
    pub(crate) uri: Uri,
}

impl Requested {
    /// Reads the URI of a client's request. The path is passed on as it was sent.
    pub(crate) fn of(uri: &Uri) -> Result<Self, Failure> {
        let below_proxy = uri.path().strip_prefix("/proxy/").unwrap_or_default();
        let (port, path) = below_proxy.split_once('/').unwrap_or((below_proxy, ""));
        let problem = "must be a number from 1 to 65535";
        let port = port.parse().ok().filter(|port| *port != 0);
        let port = port.ok_or_else(|| Failure::argument("port", problem))?;
        let depth = below_proxy.matches('/').count();
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let uri = format!("/{path}{query}").parse();
        Ok(Self { port, depth, uri: uri.map_err(|_| Failure::bad_request("the path is invalid"))? })
    }

    /// Rewrites addresses of the server in its response, so that they lead through the proxy. They become relative,
    /// because the proxy's own address is not known. Fails if the response redirects anywhere else.
    pub(crate) fn contain(&self, status: StatusCode, headers: &mut HeaderMap) -> Result<(), Failure> {
        headers.remove(URI);
        let location = headers.get(LOCATION).filter(|_| status.is_redirection());
        if location.is_some_and(|location| self.through_proxy(location.as_bytes()).is_none()) {
            let detail = "the server redirects to another host, which is not possible here";
            return Err(Failure::new(StatusCode::BAD_GATEWAY, detail));
        }
        rewrite_locations(headers, |address| self.through_proxy(address));
        Ok(())
    }

    /// The relative address of an address of the server. The parser of browsers resolves it, so that no `..` is left in
    /// any spelling.
    fn through_proxy(&self, address: &[u8]) -> Option<Vec<u8>> {
        let from = Url::parse(&format!("http://localhost:{}{}", self.port, self.uri)).ok()?;
        let target = from.join(std::str::from_utf8(address).ok()?).ok()?;
        let path = path_on_server(target.as_str().as_bytes(), self.port)?;
        let proxied = format!("{}{}", "../".repeat(self.depth), self.port);
        Some([proxied.as_bytes(), path].concat())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::REFRESH;

    use super::*;

    fn requested(below_proxy: &str) -> Requested {
        Requested::of(&format!("/proxy/{below_proxy}").parse().unwrap()).unwrap()
    }

    fn contained(below_proxy: &str, name: HeaderName, given: &'static str) -> Option<String> {
        let mut headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(given))]);
        requested(below_proxy).contain(StatusCode::FOUND, &mut headers).ok()?;
        Some(headers[name].to_str().unwrap().to_owned())
    }

    /// Where a client gets that follows the rewritten address.
    fn followed(below_proxy: &str, given: &'static str) -> Option<String> {
        let base: Url = format!("http://webui.example/terminals/1/proxy/{below_proxy}").parse().unwrap();
        let location = contained(below_proxy, LOCATION, given)?;
        Some(base.join(&location).unwrap().as_str().strip_prefix("http://webui.example").unwrap().to_owned())
    }

    #[test]
    fn the_path_is_passed_on_as_it_was_sent() {
        for (uri, expected) in [
            ("/proxy/3000", "/"),
            ("/proxy/3000/", "/"),
            ("/proxy/3000/a%2Fb/../c?d=%20&e", "/a%2Fb/../c?d=%20&e"),
            ("/proxy/3000//evil.example/", "//evil.example/"),
        ] {
            let found = Requested::of(&uri.parse().unwrap()).unwrap();
            assert_eq!((found.port, found.uri.to_string().as_str()), (3000, expected), "{uri}");
        }
        for uri in ["/proxy/0/", "/proxy/65536/", "/proxy/x/", "/proxy/-1"] {
            assert!(Requested::of(&uri.parse().unwrap()).is_err(), "{uri}");
        }
    }

    #[test]
    fn a_redirect_stays_at_the_server() {
        for (from, given, wanted) in [
            ("3000/a/b?c=/d", "http://localhost:3000/x?y#z", "3000/x?y#z"),
            ("3000/a/b", "//127.0.0.1:3000", "3000/"),
            ("3000", "/x", "3000/x"),
            ("3000/", "x", "3000/x"),
            ("3000/a/b", "x/../y", "3000/a/y"),
            ("3000/a/b", "?q", "3000/a/b?q"),
            ("3000//a.example/", "/x", "3000/x"),
            ("3000/a:b", "./c:d", "3000/c:d"),
            ("3000/a", "http://localhost:3000//evil.example/", "3000//evil.example/"),
            ("3000/a", "../../../files/read?path=x", "3000/files/read?path=x"),
            ("3000/a", "/%2e%2e/.%2E/files", "3000/files"),
            ("3000/a", "..\\..\\files", "3000/files"),
        ] {
            assert_eq!(followed(from, given), Some(format!("/terminals/1/proxy/{wanted}")), "{from} {given}");
        }
        assert_eq!(contained("3000/a/b", LOCATION, "/x").unwrap(), "../../3000/x");
    }

    #[test]
    fn a_redirect_elsewhere_is_rejected() {
        for given in [
            "http://169.254.169.254/latest",
            "//evil.example/",
            "\\\\evil.example/",
            "/\t/evil.example/",
            "http://localhost:3001/",
            "http://localhost/",
            "http://me@localhost:3000/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "http://[",
        ] {
            assert_eq!(contained("3000/a", LOCATION, given), None, "{given}");
        }
        let mut created = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static("https://a.example/"))]);
        created.insert(URI, HeaderValue::from_static("https://a.example/"));
        requested("3000/").contain(StatusCode::CREATED, &mut created).unwrap();
        assert_eq!(created.keys().collect::<Vec<_>>(), [LOCATION]);
    }

    #[test]
    fn a_page_that_loads_another_one_stays_at_the_server() {
        assert_eq!(contained("3000/a", REFRESH, "5; url=/b").unwrap(), "5; url=../3000/b");
        assert_eq!(
            contained("3000/a", REFRESH, "5; url=https://a.example/").unwrap(),
            "5; url=https://a.example/"
        );
    }
}
