//! Two people on one chat, in a real browser.

use chat::account::Role;

use crate::browser;
use crate::test_app::TestApp;
use crate::users::{PASSWORD, Person};

#[tokio::test(flavor = "multi_thread")]
async fn people_share_a_chat_server_and_nothing_else() {
    if browser::is_skipped() {
        return;
    }
    let app = TestApp::start().await;
    Person::new(&app, "ann", Role::Admin).await;
    browser::run_script("people", &[&app.base, PASSWORD]).await;
}
