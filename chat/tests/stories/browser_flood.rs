//! The page during heavy command output: a megabyte per second for a minute.

use crate::browser::{is_skipped, run_script};
use crate::test_app::TestApp;

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_heavy_output_keeps_the_page_responsive() {
    if is_skipped() {
        return;
    }
    let app = TestApp::with("localhost", "timeout_ms = 120000", Vec::new()).await;
    run_script("flood", &[&app.base]).await;
}
