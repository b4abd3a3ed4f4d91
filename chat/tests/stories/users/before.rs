//! An app that had no accounts.

use chat::account::Role;
use chat::account::limits::SESSION_CHECK;
use reqwest::Method;
use tokio::time::timeout;

use super::Person;
use crate::test_app::{Chunks, TestApp, answer};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_admin_gets_the_existing_chats_with_their_sandboxes() {
    let app = TestApp::start().await;
    app.send("old", "/bash echo before >file").await;
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let bob = Person::new(&app, "bob", Role::Admin).await;
    assert_eq!(app.get("/api/chats").await.0, 401, "from now on, everyone signs in");
    assert_eq!(ann.gets(&app, "/api/chats").await.1["chats"][0]["id"], "old");
    assert_eq!(bob.gets(&app, "/api/chats").await.1["chats"].as_array().unwrap().len(), 0);
    assert!(bob.says(&app, "old", "/bash echo mine; ls").await.contains(r#""mine\n""#), "his is another one");
    let text = ann.says(&app, "old", "/bash cat file").await;
    assert!(text.contains("before\\n"), "{text}");

    assert_eq!(ann.asks(&app, Method::DELETE, "/api/chats/old").await.0, 204);
    let left = app.daemon.client.list(&Default::default()).await.unwrap().sandboxes;
    assert_eq!(left.len(), 1, "his sandbox stays");
    let text = ann.says(&app, "old", "/bash echo new; ls").await;
    assert!(text.contains(r#""new\n""#), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_account_the_token_admits_no_user() {
    let app = TestApp::with("lan", "", Vec::new()).await;
    let with_token =
        |path: &str| app.request(Method::GET, path).header("x-remcochat-admin-token", test_daemon::TOKEN);
    assert_eq!(answer(with_token("/api/chats")).await.0, 200);
    let ann = Person::new(&app, "ann", Role::Admin).await;
    let (status, error) = answer(with_token("/api/chats")).await;
    assert_eq!((status.as_u16(), error["code"].as_str()), (401, Some("signed_out")));
    let (_, info) = answer(with_token("/api/app")).await;
    assert_eq!(
        (&info["mayUse"], &info["accounts"], &info["user"]),
        (&false.into(), &true.into(), &().into())
    );
    // The session replaces the token for the tools too.
    let text = ann.says(&app, "1", "/bash echo in").await;
    assert!(text.contains("in\\n"), "{text}");
    let (_, info) = ann.gets(&app, "/api/app").await;
    assert_eq!((&info["mayUse"], &info["user"]["name"]), (&true.into(), &"ann".into()));
    assert_eq!(info["tools"]["enabled"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_account_ends_the_turn_of_a_visitor() {
    let app = TestApp::start().await;
    let running = app.say("1", "/bash echo begun; sleep 100").send().await.unwrap();
    let mut reported = Chunks::new(running);
    while reported.next().await.unwrap()["output"]["stdout"] != "begun\n" {}
    Person::new(&app, "ann", Role::Admin).await;
    // Long before the command would end.
    let ends = async { while reported.next().await.is_some() {} };
    timeout(SESSION_CHECK * 5, ends).await.expect("the turn has not ended");
    assert!(!reported.is_done, "the stream was cut");
}
