//! A caller that leaves in the middle of a revocation: it is completed.

use sandbox_api::audit::ListAudit;
use sandbox_api::project::CreateToken;
use sandbox_client::Client;

use crate::support::fault_injection::{connect, execute};
use crate::support::harness::{Daemon, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_is_completed_although_its_caller_leaves() {
    let daemon = Daemon::start().await;
    let created = daemon.client.create_token("default", &CreateToken::default()).await.unwrap();
    let user = Client::new(&daemon.base, &created.token).unwrap();
    user.whoami().await.unwrap();
    // While another program writes to the database, the revocation waits after it has ended the token.
    let mut lock = connect(&daemon.home.path().join("state")).await;
    execute(&mut lock, "BEGIN IMMEDIATE").await;
    let (client, id) = (daemon.client.clone(), created.properties.token_id.clone());
    let revoking = tokio::spawn(async move { client.revoke_token("default", &id).await });
    until("the token has ended", || async { user.whoami().await.is_err() }).await;
    revoking.abort();
    until("the daemon notices that the caller left", || async {
        let query = ListAudit { act: Some("token.revoke".into()), ..ListAudit::default() };
        let lines = daemon.client.audit(&query).await.unwrap().lines;
        lines.iter().any(|line| line.outcome.as_deref() == Some("abandoned"))
    })
    .await;
    execute(&mut lock, "COMMIT").await;
    drop(lock);
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let user = Client::new(&daemon.base, &created.token).unwrap();
    user.whoami().await.expect_err("the token is valid again");
    daemon.stop().await;
}
