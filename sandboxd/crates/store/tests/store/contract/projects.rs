//! Projects and their tokens.

use sandbox_api::TokenId;
use sandboxd_model::{Owner, ProjectRecord, RevokedSubject, Scopes, TokenDigest, TokenRecord};

use super::{TestDatabase, new_store};

pub(crate) async fn a_project_is_added_once<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let project = |name: &str, created_at_ms| ProjectRecord { name: name.parse().unwrap(), created_at_ms };
    for added in [project("b", 1), project("a", 2), project("b", 3)] {
        store.add_project(&added).await.unwrap();
    }
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.projects().await.unwrap(), [project("a", 2), project("b", 1)]);
}

pub(crate) async fn a_token_is_added_touched_and_removed<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    store.add_token(&token(1)).await.expect_err("its project is missing");
    store.add_project(&ProjectRecord { name: "lab".parse().unwrap(), created_at_ms: 1 }).await.unwrap();
    let (mut one, mut two) = (token(1), token(2));
    two.owner.subject = Some("ann@example.com".parse().unwrap());
    (two.name, two.expires_at_ms) = (Some("of Ann".into()), Some(i64::MAX));
    two.scopes = Scopes::parse(["read", "manage"]).unwrap();
    store.add_token(&two).await.unwrap();
    store.add_token(&one).await.unwrap();
    store.add_token(&one).await.unwrap_err();
    store.touch_tokens(&[(token_id(1), 7), (token_id(9), 8)]).await.unwrap();
    one.last_used_ms = Some(7);
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.tokens().await.unwrap(), [one.clone(), two]);
    store.remove_token(&token_id(2)).await.unwrap();
    store.remove_token(&token_id(2)).await.unwrap();
    assert_eq!(store.tokens().await.unwrap(), [one]);
}

pub(crate) async fn a_revoked_subject_is_replaced<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let revoked = |subject: &str, until_ms| RevokedSubject {
        project: "lab".parse().unwrap(),
        subject: subject.parse().unwrap(),
        until_ms,
    };
    store.revoke_subject(&revoked("ann", 1)).await.expect_err("its project is missing");
    store.add_project(&ProjectRecord { name: "lab".parse().unwrap(), created_at_ms: 1 }).await.unwrap();
    for added in [revoked("ann", 1), revoked("bob", 2), revoked("ann", 3)] {
        store.revoke_subject(&added).await.unwrap();
    }
    store.close().await;
    let store = database.open().await;
    let mut found = store.revoked_subjects().await.unwrap();
    found.sort_by_key(|revoked| revoked.until_ms);
    assert_eq!(found, [revoked("bob", 2), revoked("ann", 3)]);
}

fn token_id(number: u32) -> TokenId {
    format!("tok_{number:016}").parse().unwrap()
}

fn token(number: u32) -> TokenRecord {
    TokenRecord {
        id: token_id(number),
        owner: Owner { project: "lab".parse().unwrap(), subject: None },
        name: None,
        scopes: Scopes::USE,
        digest: TokenDigest::from_bytes(&[number as u8; 32]).unwrap(),
        created_at_ms: 1_700_000_000_000,
        expires_at_ms: None,
        last_used_ms: None,
    }
}
