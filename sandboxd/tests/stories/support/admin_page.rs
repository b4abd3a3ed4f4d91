//! A browser without a window: the requests that a browser sends for the admin page.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::redirect::Policy;
use reqwest::{Method, RequestBuilder};

use crate::support::harness::{Daemon, SOON};
use crate::support::http::Answer;

/// Name of the cookie over plain HTTP.
pub(crate) const COOKIE: &str = "sandboxd_admin";

/// A client of the admin page, with a session or without.
#[derive(Clone)]
pub(crate) struct AdminPage {
    http: reqwest::Client,
    base: String,
    /// Value of the session's cookie.
    pub(crate) session: Option<String>,
}

impl AdminPage {
    /// A browser without a session.
    pub(crate) fn of(daemon: &Daemon) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(SOON).redirect(Policy::none());
        Self { http: http.build().unwrap(), base: daemon.base.clone(), session: None }
    }

    /// A browser that has signed in.
    pub(crate) async fn signed_in(daemon: &Daemon, token: &str) -> Self {
        let page = Self::of(daemon);
        let answer = page.sign_in(token).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/admin"), "{}", answer.text());
        Self { session: answer.cookie(), ..page }
    }

    /// The same browser with another cookie.
    pub(crate) fn with_session(&self, session: Option<&str>) -> Self {
        Self { session: session.map(str::to_owned), ..self.clone() }
    }

    /// Sends the form to sign in.
    pub(crate) async fn sign_in(&self, token: &str) -> Answer {
        self.send("/admin/sign-in", &[("token", token)]).await
    }

    /// A request with the session's cookie.
    pub(crate) fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.session {
            Some(session) => request.header("cookie", format!("{COOKIE}={session}")),
            None => request,
        }
    }

    /// Opens a page.
    pub(crate) async fn open(&self, path: &str) -> Answer {
        Answer::to(self.request("GET", path)).await
    }

    /// The number that the session's forms contain.
    pub(crate) async fn csrf(&self) -> String {
        hidden(&self.open("/admin").await.text(), "csrf")
    }

    /// A request with a form, from a page of the daemon.
    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        self.request("POST", path)
            .header("origin", &self.base)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encoded(fields))
    }

    /// Sends a form as it is.
    pub(crate) async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        Answer::to(self.form(path, fields)).await
    }

    /// Sends a form of the session.
    pub(crate) async fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let csrf = self.csrf().await;
        self.send(path, &[&[("csrf", csrf.as_str())], fields].concat()).await
    }
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The session that the response begins.
    fn cookie(&self) -> Option<String> {
        let (_, rest) = self.header("set-cookie").split_once('=')?;
        rest.split(';').next().map(str::to_owned)
    }

    /// Whether the response sends the browser to the form to sign in.
    pub(crate) fn is_signed_out(&self) -> bool {
        self.status == 303 && self.header("location") == "/admin/sign-in" && self.body.is_empty()
    }
}

/// The value of a hidden field.
pub(crate) fn hidden(page: &str, name: &str) -> String {
    let field = format!("type=\"hidden\" name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&field).unwrap_or_else(|| panic!("no field {name}: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

fn encoded(fields: &[(&str, &str)]) -> String {
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}
