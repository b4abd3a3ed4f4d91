//! A server that is unavailable, fails or returns wrong data.

use futures::TryStreamExt;
use http::{Method, StatusCode};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use sandboxd_sealed::{Damage, Error, Recorded};
use test_s3::{Fault, Proxy, S3, key};

use crate::{INSTALLATION, open, open_with};

const STATUSES: [StatusCode; 3] =
    [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE, StatusCode::FORBIDDEN];

#[tokio::test]
async fn a_store_that_fails_is_not_taken_for_an_empty_one() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    open(&proxy.endpoint).await;
    let before = server.keys().await;
    for status in STATUSES {
        proxy.fail_all(Fault::Status(status));
        let error = open_with(&proxy.endpoint, &key(1), &Recorded::default()).await.unwrap_err();
        let is_denied = status == StatusCode::FORBIDDEN;
        assert_eq!(matches!(&error, Error::Denied { .. }), is_denied, "{error:?}");
        assert_eq!(matches!(&error, Error::Unavailable { .. }), !is_denied, "{error:?}");
        proxy.mend();
    }
    assert_eq!(server.keys().await, before);
    open(&proxy.endpoint).await;
}

#[tokio::test]
async fn an_unavailable_or_hanging_store_is_an_error_in_time() {
    let Some(server) = S3::start().await else { return };
    let nothing = open_with("http://127.0.0.1:1", &key(1), &Recorded::default()).await.unwrap_err();
    assert!(matches!(nothing, Error::Unavailable { .. }), "{nothing:?}");
    let proxy = Proxy::start(&server.endpoint).await;
    proxy.fail_all(Fault::Hang);
    let hangs = open_with(&proxy.endpoint, &key(1), &Recorded::default()).await.unwrap_err();
    assert!(matches!(hangs, Error::Deadline), "{hangs:?}");
    proxy.mend();
    open(&proxy.endpoint).await;
}

#[tokio::test]
async fn a_write_that_the_server_forgets_is_an_error() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let store = open(&proxy.endpoint).await.store;
    proxy.fail(Method::PUT, Fault::Forget);
    let path = Path::from("packs/00/a");
    let error = store.put(&path, "content".into()).await.unwrap_err();
    assert!(matches!(error, object_store::Error::NotFound { .. }), "{error:?}");
    // Neither is a new key that is lost.
    let other = Proxy::start(&server.endpoint).await;
    for key in server.keys().await {
        server.delete(&key).await;
    }
    other.fail(Method::PUT, Fault::Forget);
    open_with(&other.endpoint, &key(1), &Recorded::default()).await.unwrap_err();
}

#[tokio::test]
async fn a_wrong_body_is_damage_and_a_cut_one_is_a_failure() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let store = open(&proxy.endpoint).await.store;
    let path = Path::from("packs/00/a");
    store.put(&path, vec![7; 200_000].into()).await.unwrap();
    for fault in [Fault::ChangedBody, Fault::ShortBody, Fault::CutBody] {
        proxy.fail(Method::GET, fault);
        let whole = match store.get(&path).await {
            Ok(found) => found.bytes().await.unwrap_err(),
            Err(error) => error,
        };
        let range = store.get_range(&path, 100_000..100_100).await.unwrap_err();
        for error in [whole, range] {
            assert_eq!(Damage::of(&error).is_some(), fault != Fault::CutBody, "{fault:?}: {error:?}");
        }
        proxy.mend();
        assert_eq!(store.get_range(&path, 100_000..100_100).await.unwrap(), [7; 100][..]);
    }
}

/// The server sends more than was requested, or announces it. Neither takes memory.
#[tokio::test]
async fn a_body_that_is_too_long_is_not_read_to_its_end() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let opened = open(&proxy.endpoint).await;
    let path = Path::from("packs/00/a");
    opened.store.put(&path, vec![7; 200_000].into()).await.unwrap();
    let statuses = [StatusCode::OK, StatusCode::FORBIDDEN];
    for fault in statuses.map(|status| [Fault::EndlessBody(status), Fault::HugeBody(status)]).concat() {
        proxy.fail(Method::GET, fault);
        let whole = async { opened.store.get(&path).await?.bytes().await };
        whole.await.unwrap_err();
        opened.store.get_range(&path, 100_000..100_100).await.unwrap_err();
        opened.store.list(None).try_collect::<Vec<_>>().await.unwrap_err();
        opened.check_owner(INSTALLATION).await.unwrap_err();
        open_with(&proxy.endpoint, &key(1), &Recorded::default()).await.unwrap_err();
        proxy.mend();
        // The keys are listed, and then one is read.
        proxy.fail_after(1, Method::GET, fault);
        open_with(&proxy.endpoint, &key(1), &Recorded::default()).await.unwrap_err();
        proxy.mend();
        assert_eq!(opened.store.get_range(&path, 100_000..100_100).await.unwrap(), [7; 100][..]);
    }
}
