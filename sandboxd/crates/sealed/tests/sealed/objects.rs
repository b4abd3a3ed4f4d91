//! Objects are read back, and the server sees neither names nor contents.

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectStoreExt};
use sandboxd_sealed::Damage;

use crate::start;

fn content(len: usize) -> Bytes {
    (0..len).map(|at| (at / 3 + at / 65_536) as u8).collect::<Vec<_>>().into()
}

#[tokio::test]
async fn objects_are_stored_listed_read_and_deleted() {
    let Some((_server, store)) = start().await else { return };
    let lengths = [0, 1, 65_536, 65_537, 8 * 1024 * 1024];
    let path = |len: usize| Path::from(format!("packs/00/{len}"));
    for len in lengths {
        store.put(&path(len), content(len).into()).await.unwrap();
    }
    store.put(&Path::from("manifests/snap_1"), "{}".into()).await.unwrap();
    for len in lengths {
        let found = store.get(&path(len)).await.unwrap();
        assert_eq!((found.meta.size, found.meta.location.clone()), (len as u64, path(len)));
        assert_eq!(found.bytes().await.unwrap(), content(len), "{len}");
        assert_eq!(store.head(&path(len)).await.unwrap().size, len as u64);
    }
    let listed: Vec<_> = store.list(Some(&Path::from("packs"))).try_collect().await.unwrap();
    let mut sizes: Vec<_> = listed.iter().map(|meta| (meta.size, meta.location.clone())).collect();
    sizes.sort();
    assert_eq!(sizes, lengths.map(|len| (len as u64, path(len))));
    assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), lengths.len() + 1);

    store.delete(&path(1)).await.unwrap();
    store.delete(&path(1)).await.unwrap();
    assert!(matches!(store.get(&path(1)).await, Err(object_store::Error::NotFound { .. })));
    assert!(matches!(store.head(&path(1)).await, Err(object_store::Error::NotFound { .. })));
    let range = store.get_range(&path(1), 0..1).await;
    assert!(matches!(range, Err(object_store::Error::NotFound { .. })));
}

#[tokio::test]
async fn ranges_are_read_and_end_at_the_objects_end() {
    let Some((_server, store)) = start().await else { return };
    let (path, whole) = (Path::from("packs/00/a"), content(300_000));
    store.put(&path, whole.clone().into()).await.unwrap();
    for (from, to) in
        [(0, 1), (65_535, 65_537), (1, 299_999), (0, 300_000), (299_999, 300_000), (200_000, 900_000)]
    {
        let found = store.get_range(&path, from..to).await.unwrap();
        let end = usize::try_from(to).unwrap().min(whole.len());
        assert_eq!(found, whole.slice(usize::try_from(from).unwrap()..end), "{from}..{to}");
    }
    assert!(store.get_range(&path, 300_000..300_001).await.is_err());
    let last = GetOptions { range: Some(object_store::GetRange::Suffix(5)), ..GetOptions::default() };
    let found = store.get_opts(&path, last).await.unwrap();
    assert_eq!(
        (found.range.clone(), found.bytes().await.unwrap()),
        (299_995..300_000, whole.slice(299_995..))
    );
}

#[tokio::test]
async fn an_object_that_is_replaced_has_the_new_content() {
    let Some((_server, store)) = start().await else { return };
    let path = Path::from("packs/00/a");
    for text in ["the first", "the second and longer"] {
        store.put(&path, text.into()).await.unwrap();
        assert_eq!(store.get_range(&path, 4..9).await.unwrap(), text.as_bytes()[4..9]);
    }
}

#[tokio::test]
async fn the_server_sees_neither_names_nor_contents() {
    let Some((server, store)) = start().await else { return };
    let secret = "an exceedingly secret text that is longer than a nonce";
    store.put(&Path::from("packs/00/secret-name"), secret.into()).await.unwrap();
    store.put(&Path::from("manifests/secret-name"), secret.into()).await.unwrap();
    let keys = server.keys().await;
    assert_eq!(keys.len(), 4, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("folder/default/"), "{key}");
        assert!(!key.contains("packs") && !key.contains("secret") && !key.contains("manifests"), "{key}");
        let bytes = server.get(&key).await;
        assert!(
            !bytes.windows(8).any(|part| secret.as_bytes().windows(8).any(|other| part == other)),
            "{key}"
        );
    }
}

#[tokio::test]
async fn an_object_in_the_place_of_another_is_damage() {
    let Some((server, store)) = start().await else { return };
    let (one, two) = (Path::from("packs/00/one"), Path::from("packs/00/two"));
    store.put(&one, "one".into()).await.unwrap();
    store.put(&two, "two".into()).await.unwrap();
    let keys: Vec<_> = server.keys().await.into_iter().filter(|key| key.contains("/objects/")).collect();
    let bytes = [server.get(&keys[0]).await, server.get(&keys[1]).await];
    server.put(&keys[0], bytes[1].clone()).await;
    server.put(&keys[1], bytes[0].clone()).await;
    for path in [&one, &two] {
        let error = store.get(path).await.unwrap_err();
        assert_eq!(Damage::of(&error), Some(Damage::Changed));
        let error = store.get_range(path, 0..2).await.unwrap_err();
        assert_eq!(Damage::of(&error), Some(Damage::Changed));
    }
}

#[tokio::test]
async fn a_renamed_object_is_read_under_its_new_name_and_a_damaged_one_is_kept() {
    let Some((server, store)) = start().await else { return };
    let (from, to) = (Path::from("packs/00/a"), Path::from("quarantine/a"));
    store.put(&from, "content".into()).await.unwrap();
    store.rename(&from, &to).await.unwrap();
    assert_eq!(store.get(&to).await.unwrap().bytes().await.unwrap(), "content");
    store.rename(&to, &from).await.unwrap();

    let key = server.keys().await.into_iter().find(|key| key.contains("/objects/")).unwrap();
    let mut bytes = server.get(&key).await.to_vec();
    bytes[70] ^= 1;
    server.put(&key, bytes.clone().into()).await;
    store.rename(&from, &to).await.unwrap();
    let error = store.get(&to).await.unwrap_err();
    assert_eq!(Damage::of(&error), Some(Damage::Changed));
    let key = server.keys().await.into_iter().find(|key| key.contains("/objects/")).unwrap();
    assert_eq!(server.get(&key).await, bytes);
}

#[tokio::test]
async fn objects_of_others_are_ignored() {
    let Some((server, store)) = start().await else { return };
    store.put(&Path::from("packs/00/a"), "content".into()).await.unwrap();
    let key = server.keys().await.into_iter().find(|key| key.contains("/objects/")).unwrap();
    let folder = key.rsplit_once('/').unwrap().0;
    for name in ["readme", "0011", &"ab".repeat(40)] {
        server.put(&format!("{folder}/{name}"), "not ours".into()).await;
    }
    let listed: Vec<_> = store.list(Some(&Path::from("packs"))).try_collect().await.unwrap();
    assert_eq!(listed.len(), 1);
}
