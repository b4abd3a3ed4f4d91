//! People on one chat.

mod before;
mod intruder;
mod oidc;
mod operator;
mod sessions;

use chat::account::{Role, User};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::test_app::{TestApp, answer};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A user with a browser.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) user: User,
    /// The cookie of the session, as the browser sends it.
    pub(crate) cookie: String,
}

impl Person {
    /// Adds an account, and signs in.
    pub(crate) async fn new(app: &TestApp, name: &str, role: Role) -> Self {
        let user = app.people.add(&name.parse().unwrap(), role, PASSWORD.into()).await.unwrap();
        let cookie = cookie_of(&sign_in(app, name, PASSWORD).send().await.unwrap());
        Self { user, cookie }
    }

    /// Signs in from another browser.
    pub(crate) async fn again(&self, app: &TestApp) -> Self {
        let response = sign_in(app, self.user.name.as_str(), PASSWORD).send().await.unwrap();
        Self { user: self.user.clone(), cookie: cookie_of(&response) }
    }

    /// Makes it a request of this person's page.
    pub(crate) fn sends(&self, request: RequestBuilder) -> RequestBuilder {
        request.header("cookie", &self.cookie).header("x-chat-request", "1")
    }

    pub(crate) async fn asks(&self, app: &TestApp, method: Method, path: &str) -> (StatusCode, Value) {
        answer(self.sends(app.request(method, path))).await
    }

    pub(crate) async fn gets(&self, app: &TestApp, path: &str) -> (StatusCode, Value) {
        self.asks(app, Method::GET, path).await
    }

    /// Sends a message, and returns the whole stream as text.
    pub(crate) async fn says(&self, app: &TestApp, chat: &str, text: &str) -> String {
        let response = self.sends(app.say(chat, text)).send().await.unwrap();
        assert_eq!(response.status(), 200);
        response.text().await.unwrap()
    }
}

/// A request to sign in.
pub(crate) fn sign_in(app: &TestApp, name: &str, password: &str) -> RequestBuilder {
    let body = json!({ "name": name, "password": password });
    app.request(Method::POST, "/api/session").header("x-chat-request", "1").json(&body)
}

pub(crate) fn cookie_of(response: &Response) -> String {
    assert_eq!(response.status(), 200);
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_people_have_chats_and_sandboxes_of_their_own() {
    let app = TestApp::start().await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::User).await;
    // Of the same id.
    for (person, name) in [(&ann, "ann"), (&bob, "bob")] {
        let text = person.says(&app, "1", &format!("/bash echo {name} >>file; cat file")).await;
        assert!(text.contains(&format!("{name}\\n")) && text.ends_with("[DONE]\n\n"), "{text}");
    }
    for (person, own) in [(&ann, "ann"), (&bob, "bob")] {
        let (_, list) = person.gets(&app, "/api/chats").await;
        assert_eq!(list["chats"].as_array().unwrap().len(), 1);
        let file = person.sends(app.request(Method::GET, "/api/chats/1/files/content?path=file"));
        assert_eq!(file.send().await.unwrap().text().await.unwrap(), format!("{own}\n"));
    }
    let all = app.daemon.client.list(&Default::default()).await.unwrap().sandboxes;
    assert_eq!(all.len(), 2);

    assert_eq!(bob.asks(&app, Method::DELETE, "/api/chats/1").await.0, 204);
    assert_eq!(bob.gets(&app, "/api/chats/1").await.0, 404);
    let text = ann.says(&app, "1", "/bash cat file").await;
    assert!(text.contains("ann\\n"), "{text}");

    let (_, begun) = ann.asks(&app, Method::POST, "/api/temporary").await;
    let ticket = begun["ticket"].as_str().unwrap();
    let files = format!("/api/chats/{}/files", begun["id"].as_str().unwrap());
    let with =
        |person: &Person| person.sends(app.request(Method::GET, &files)).header("x-chat-ticket", ticket);
    assert_eq!(answer(with(&ann)).await.0, 200);
    assert_eq!(answer(with(&bob)).await.0, 404, "her ticket is of no use to him");
}
