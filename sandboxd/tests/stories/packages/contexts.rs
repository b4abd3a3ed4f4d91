//! Packages of contexts, in sandboxes that were created without them.

use sandbox_api::context::{Language, OpenContext};
use sandbox_api::{ErrorCode, SandboxId};

use super::{created, home, server, with_packages};
use crate::support::harness::Daemon;
use crate::support::runs::Interpreter;

fn asking(language: Language, packages: &[&str]) -> OpenContext {
    let packages = packages.iter().map(|one| (*one).to_owned()).collect();
    OpenContext { packages: Some(packages), ..OpenContext::new(language) }
}

async fn open(daemon: &Daemon, sandbox: &SandboxId, packages: &[&str]) -> Interpreter {
    let request = asking(Language::Python, packages);
    let id = daemon.client.open_context(sandbox, &request).await.unwrap().context_id;
    Interpreter { client: daemon.client.clone(), sandbox: sandbox.clone(), id }
}

#[tokio::test]
async fn contexts_of_a_sandbox_have_packages_of_their_own() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let code = "import shapes\nshapes.main()";
    // At the same time: the copies wait for each other.
    let (old, new) =
        tokio::join!(open(&daemon, &sandbox, &["shapes<2"]), open(&daemon, &sandbox, &["shapes"]));
    assert_eq!(old.run(code).await.stdout, "shapes 1.1 lines\n");
    assert_eq!(new.run(code).await.stdout, "shapes 2.0 lines\n");
    let none = Interpreter::open(&daemon, &sandbox, Language::Python).await;
    assert_eq!(none.run(code).await.errors[0].name, "ModuleNotFoundError");
    assert_eq!(daemon.output(&sandbox, "ls -A").await, "", "the workspace has none of the files");

    let requests = server.requests().len();
    let third = open(&daemon, &sandbox, &["shapes"]).await;
    assert_eq!(third.run(code).await.stdout, "shapes 2.0 lines\n");
    let other = created(&daemon, &with_packages("chat:2", &["shapes"])).await;
    assert_eq!(open(&daemon, &other, &["shapes"]).await.run(code).await.stdout, "shapes 2.0 lines\n");
    assert_eq!(server.requests().len(), requests, "the set is known");
}

#[tokio::test]
async fn a_path_of_the_sandbox_is_kept() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let mut request = with_packages("chat:1", &[]);
    request.env = Some([("PYTHONPATH".to_owned(), "/vercel/sandbox/workspace/mine".to_owned())].into());
    let sandbox = created(&daemon, &request).await;
    daemon.output(&sandbox, "mkdir mine; echo 'X = 1' > mine/own.py").await;
    let context = open(&daemon, &sandbox, &["shapes"]).await;
    assert_eq!(context.run("import own, shapes\nown.X").await.text(), "1");
}

#[tokio::test]
async fn only_python_has_packages() {
    let Some(server) = server().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    let sandbox = daemon.sandbox("chat:1").await;
    let refused =
        daemon.client.open_context(&sandbox, &asking(Language::Bash, &["shapes"])).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest));
    assert_eq!(refused.body().unwrap().details["field"], "packages");
    assert!(server.requests().is_empty());
}
