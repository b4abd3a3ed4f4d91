//! The page while what is behind it is away: sandboxd, the model's server, the chat server itself.

use std::sync::Arc;

use chat::model::{ModelClient, OpenAi};
use test_daemon::Daemon;

use crate::browser::{is_left_out, tell};
use crate::browser_cable::{Cable, board};
use crate::place::Place;
use crate::scripted_model::{Reply, ScriptedModel, Step};
use crate::turns::text;

/// Of an answer that never ends.
const HALF: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Half an answer\"},\"finish_reason\":null}]}\n\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_away_is_said_and_comes_back() {
    if is_left_out() {
        return;
    }
    let replies = [text("Back again."), Reply::stream(HALF).then(Step::StaySilent), text("All of it.")];
    let model = ScriptedModel::start(replies).await;
    let (first, second) = (Daemon::start().await, Daemon::start().await);
    let to_daemon = Cable::to(&first.base).await.or(&second.base);
    let to_model = Cable::to(model.base.as_str()).await;
    let base = format!("{}/v1", to_model.base()).parse().unwrap();
    let client: Arc<dyn ModelClient> = Arc::new(OpenAi::new(base, None).unwrap());
    let place = Place::by_way_of(&to_daemon.base(), first, vec![client]).await;
    let to_chat = Cable::to(&place.base).await;
    let (page, server) = (to_chat.base(), to_model.base());
    let board = board([("daemon", to_daemon), ("model", to_model), ("chat", to_chat)]).await;
    tell("faults", &[&page, &board, &server]).await;
}
