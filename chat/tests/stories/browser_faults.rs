//! The page while sandboxd, the model server or the chat server is unavailable.

use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use test_daemon::Daemon;

use crate::browser::{is_skipped, run_script};
use crate::browser_cable::{Cable, board};
use crate::scripted_model::{Reply, ScriptedModel, Step};
use crate::test_app::TestApp;
use crate::turns::text;

/// The first half of an endless response.
const HALF: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Half an answer\"},\"finish_reason\":null}]}\n\n";

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_service_is_reported_and_recovers() {
    if is_skipped() {
        return;
    }
    let replies = [text("Back again."), Reply::stream(HALF).then(Step::StaySilent), text("All of it.")];
    let model = ScriptedModel::start(replies).await;
    let (first, second) = (Daemon::start().await, Daemon::start().await);
    let to_daemon = Cable::to(&first.base).await.or(&second.base);
    let to_model = Cable::to(model.base.as_str()).await;
    let base = format!("{}/v1", to_model.base()).parse().unwrap();
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(base, None).unwrap());
    let app = TestApp::by_way_of(&to_daemon.base(), first, vec![client]).await;
    let to_chat = Cable::to(&app.base).await;
    let (page, server) = (to_chat.base(), to_model.base());
    let board = board([("daemon", to_daemon), ("model", to_model), ("chat", to_chat)]).await;
    run_script("faults", &[&page, &board, &server]).await;
}
