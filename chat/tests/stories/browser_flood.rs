//! The page while a command writes as much as it can: a megabyte a second for a minute.

use crate::browser::{is_left_out, tell};
use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn a_minute_of_flood_leaves_the_page_quick() {
    if is_left_out() {
        return;
    }
    let place = Place::with("localhost", "timeout_ms = 120000", Vec::new()).await;
    tell("flood", &[&place.base]).await;
}
