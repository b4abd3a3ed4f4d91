//! A database without accounts, of an earlier version, under this one.

use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqlitePool};

use super::{NewUser, Store, UserChange, migrations};
use crate::account::{Owner, Role, UserId};

/// Creates a database with the first tables only, with one chat of two messages.
async fn create_first(dir: &Path) {
    let file = SqliteConnectOptions::new().filename(dir.join("chat.db")).create_if_missing(true);
    let pool = SqlitePool::connect_with(file).await.unwrap();
    let first = migrations().iter().take(1).cloned().collect();
    Migrator::with_migrations(first).run(&pool).await.unwrap();
    for insert in [
        "INSERT INTO chats VALUES ('1', 'Old', 'openai/m', 1000, 2000)",
        r#"INSERT INTO messages VALUES ('1', 1, 'm1', 'user', '[{"type":"text","text":"hello"}]')"#,
        r#"INSERT INTO messages VALUES ('1', 2, 'm2', 'assistant', '[{"type":"text","text":"hi"}]')"#,
    ] {
        sqlx::query(insert).execute(&pool).await.unwrap();
    }
    pool.close().await;
}

async fn add(store: &Store, name: &str, role: Role) -> Result<UserId, super::Error> {
    let name = &name.parse().unwrap();
    let user = store.add_user(NewUser { name, role, password: None, identity: None }).await?;
    Ok(user.id)
}

#[tokio::test]
async fn existing_chats_are_everyones_and_then_the_first_admins() {
    let dir = tempfile::tempdir().unwrap();
    create_first(dir.path()).await;
    let store = Store::open(dir.path()).await.unwrap();
    let everyones = store.chats_of(Owner::Everyone);
    let chat = everyones.chat("1").await.unwrap().unwrap();
    assert_eq!((chat.title.as_str(), chat.model.as_deref()), ("Old", Some("openai/m")));
    assert_eq!((chat.created_at.as_millisecond(), chat.updated_at.as_millisecond()), (1000, 2000));
    assert_eq!(everyones.messages("1").await.unwrap().len(), 2);

    assert!(matches!(add(&store, "bob", Role::User).await, Err(super::Error::NoAdmin)));
    assert!(!store.has_users().await.unwrap(), "nothing is left of it");
    let ann = add(&store, "ann", Role::Admin).await.unwrap();
    let bob = add(&store, "bob", Role::Admin).await.unwrap();
    let anns = store.chats_of(Owner::User(ann.clone()));
    assert_eq!(anns.chat("1").await.unwrap().unwrap(), chat);
    assert_eq!(anns.messages("1").await.unwrap().len(), 2);
    assert_eq!(anns.subject("1").await.unwrap(), Some(None), "its sandbox has no subject");
    assert!(store.has_sandbox("1", None).await.unwrap() && !store.has_sandbox("2", None).await.unwrap());
    for others in [everyones, store.chats_of(Owner::User(bob.clone()))] {
        assert_eq!(others.chat("1").await.unwrap(), None);
        assert!(others.messages("1").await.unwrap().is_empty());
    }

    let disable = UserChange { role: None, is_disabled: Some(true) };
    store.change_user(&bob, disable).await.unwrap().unwrap();
    let user = UserChange { role: Some(Role::User), is_disabled: None };
    for last in [disable, user] {
        assert!(matches!(store.change_user(&ann, last).await, Err(super::Error::NoAdmin)));
    }
    assert!(matches!(add(&store, "ANN", Role::User).await, Err(super::Error::NameTaken)));
}

/// The operator's command may be newer than the server that runs.
#[tokio::test]
async fn a_command_beside_a_server_changes_no_tables() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Store::open_beside(dir.path()).await.unwrap_err();
    assert!(matches!(refused, super::Error::Database(_)), "{refused}");
    assert!(!dir.path().join("chat.db").exists(), "it was created");
    create_first(dir.path()).await;
    let refused = Store::open_beside(dir.path()).await.unwrap_err();
    assert!(matches!(refused, super::Error::OtherVersion), "{refused}");
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(dir.path().join("chat.db")));
    assert_eq!(super::backup::version(&pool.await.unwrap()).await.unwrap(), Some(1));
    drop(Store::open(dir.path()).await.unwrap());
    let beside = Store::open_beside(dir.path()).await.unwrap();
    add(&beside, "ann", Role::Admin).await.unwrap();
}

#[tokio::test]
async fn a_database_is_copied_before_its_tables_change() {
    let dir = tempfile::tempdir().unwrap();
    create_first(dir.path()).await;
    std::fs::write(dir.path().join("chat.schema-1.new"), "left by an earlier try").unwrap();
    drop(Store::open(dir.path()).await.unwrap());
    let copy = dir.path().join("chat.schema-1.db");
    let mut conn = SqliteConnectOptions::new().filename(&copy).connect().await.unwrap();
    let messages = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM messages WHERE chat = '1'");
    assert_eq!(messages.fetch_one(&mut conn).await.unwrap(), 2);
    let mode = std::os::unix::fs::PermissionsExt::mode(&copy.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_file(&copy).unwrap();
    drop(Store::open(dir.path()).await.unwrap());
    assert!(!copy.exists(), "the tables did not change again");
}
