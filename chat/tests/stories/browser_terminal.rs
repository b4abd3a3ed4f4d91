//! A terminal in the page, in a real browser.

use crate::browser::{is_skipped, run_script};
use crate::test_app::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn a_user_works_in_a_terminal() {
    if is_skipped() {
        return;
    }
    let app = TestApp::with("localhost", "max_concurrent_sandboxes = 10", Vec::new()).await;
    run_script("terminal", &[&app.base]).await;
}
