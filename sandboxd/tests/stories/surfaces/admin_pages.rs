//! What the pages of the admin surface show, and what their forms do.

use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, Network, SandboxState};
use sandbox_client::Client;

use super::admin::{has_project, token};
use crate::support::admin_page::{AdminPage, hidden};
use crate::support::harness::{Daemon, TOKEN, outcome, script};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_shown_once_and_a_form_sent_again_creates_none() {
    let daemon = Daemon::start().await;
    daemon.client.create_project("lab").await.unwrap();
    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    let project = page.open("/admin/projects/lab").await.text();
    let (csrf, form) = (hidden(&project, "csrf"), hidden(&project, "form"));
    let path = "/admin/projects/lab/tokens";
    let fields = [
        ("csrf", csrf.as_str()),
        ("form", &form),
        ("name", "<i>of</i> Ann"),
        ("scope", "use"),
        ("days", "7"),
    ];
    let bad = page
        .submit(
            path,
            &[("name", "typed"), ("subject", "not visible\u{e9}"), ("scope", "read"), ("form", "1")],
        )
        .await;
    let text = bad.text();
    assert_eq!(bad.status, 400, "{text}");
    assert!(text.contains(r#"id="subject-problem""#) && text.contains(r#"value="typed""#), "{text}");
    assert!(daemon.client.tokens("lab", None).await.unwrap().tokens.is_empty());

    let shown = page.send(path, &fields).await.text();
    let token = shown.split("id=\"secret\">").nth(1).unwrap().split('<').next().unwrap().to_owned();
    assert!(token.starts_with("sbt_"), "{shown}");
    Client::new(&daemon.base, &token).unwrap().whoami().await.unwrap();
    let again = page.send(path, &fields).await;
    assert_eq!((again.status, again.header("location")), (303, "/admin/projects/lab?done=already-sent"));
    let tokens = daemon.client.tokens("lab", None).await.unwrap().tokens;
    assert_eq!(tokens.len(), 1);
    assert!(tokens[0].expires_at.is_some());
    let project = page.open("/admin/projects/lab").await.text();
    assert!(project.contains("&lt;i&gt;of&lt;/i&gt; Ann") && !project.contains("sbt_"), "{project}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_shows_what_its_token_permits() {
    let daemon = Daemon::start().await;
    daemon.client.create_project("lab").await.unwrap();
    for (scopes, sections, refused) in [
        (
            &["read"][..],
            &["Sandboxes", "Denials"][..],
            &["/admin/projects", "/admin/projects/lab", "/admin/audit"][..],
        ),
        (&["manage"], &["Projects"], &["/admin/sandboxes", "/admin/denials", "/admin/audit"]),
        (&["use", "manage"], &["Projects", "Sandboxes", "Denials"], &["/admin/audit"]),
    ] {
        let token = daemon.client.create_token("lab", &token(scopes)).await.unwrap().token;
        let page = AdminPage::signed_in(&daemon, &token).await;
        let overview = page.open("/admin").await.text();
        for section in ["Projects", "Sandboxes", "Denials", "Audit record"] {
            let link = format!(">{section}</a></li>");
            assert_eq!(overview.contains(&link), sections.contains(&section), "{scopes:?} {section}");
        }
        for path in refused {
            let answer = page.open(path).await;
            assert!(answer.status == 403 && answer.text().contains("Not permitted"), "{scopes:?} {path}");
        }
        let created = page.submit("/admin/projects", &[("name", "mine")]).await;
        assert_eq!(created.status, 403, "{scopes:?}");
        assert!(!has_project(&daemon, "mine").await);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_sandboxes_is_inert_on_every_page() {
    let daemon = Daemon::start().await;
    let attack = "<img src=x onerror=alert(1)>\u{202e}";
    let network = Network { mode: Some("allowlist".into()), allow: Some(vec!["example.com".into()]) };
    let request =
        CreateSandbox { session_key: attack.into(), network: Some(network), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    // A proxy's client may name any host.
    let denied = format!(
        "echo '{attack}' >/dev/null; printf 'CONNECT <b>evil</b>:443 HTTP/1.1\\r\\n\\r\\n' | \
         timeout 5 nc -w 3 127.0.0.1 ${{HTTPS_PROXY##*:}} >/dev/null; curl -sm 5 http://denied.invalid/; true"
    );
    outcome(daemon.client.run(&sandbox, &script(&denied)).await.unwrap()).await;
    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    for path in ["/admin/sandboxes", &format!("/admin/sandboxes/{sandbox}"), "/admin/audit", "/admin"] {
        let text = page.open(path).await.text();
        assert!(
            !text.contains("<img src=x") && !text.contains("<b>evil") && !text.contains('\u{202e}'),
            "{path}: {text}"
        );
    }
    let text = page.open(&format!("/admin/sandboxes/{sandbox}")).await.text();
    assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;\\u{202e}"), "{text}");
    assert!(text.contains("host not allowed"), "{text}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_parked_woken_and_deleted() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let page = AdminPage::signed_in(&daemon, TOKEN).await;
    let path = format!("/admin/sandboxes/{sandbox}");
    let sleeper = StartCommand { detached: Some(true), ..script("sleep 3600") };
    daemon.client.start(&sandbox, &sleeper).await.unwrap();
    let busy = page.submit(&format!("{path}/park"), &[]).await;
    assert!(busy.status == 409 && busy.text().contains("role=\"alert\""), "{}", busy.text());
    assert_eq!(page.submit(&format!("{path}/park"), &[("force", "true")]).await.status, 303);
    let state = async || daemon.client.get(&sandbox).await.unwrap().state;
    assert_eq!(state().await, SandboxState::Parked);
    assert_eq!(page.open(&path).await.status, 200);
    assert_eq!(state().await, SandboxState::Parked, "looking does not wake it");
    assert_eq!(page.submit(&format!("{path}/wake"), &[]).await.status, 303);
    assert_eq!(state().await, SandboxState::Running);
    assert!(page.open(&format!("{path}/delete")).await.text().contains("cannot be undone"));
    daemon.client.get(&sandbox).await.unwrap();
    let deleted = page.submit(&format!("{path}/delete"), &[]).await;
    assert_eq!(deleted.header("location"), "/admin/sandboxes?done=deleted");
    daemon.client.get(&sandbox).await.unwrap_err();
    assert_eq!(page.submit(&format!("{path}/delete"), &[]).await.status, 404);
    daemon.stop().await;
}
