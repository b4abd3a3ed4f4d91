//! Links to previews.

use sandbox_api::port::LinkStyle;
use sandboxd_model::preview::{LinkEnd, LinkRecord};

use super::records::sandbox_id;
use super::{TestDatabase, new_store};

pub(crate) async fn a_link_is_added_ended_once_and_deleted<D: TestDatabase>() {
    let (database, store) = new_store::<D>().await;
    let (mut one, mut two) = (link(1, LinkStyle::Port), link(2, LinkStyle::Host));
    (one.own_port, two.expires_at_ms) = (Some(49_200), Some(i64::MAX));
    store.add_link(&two).await.unwrap();
    store.add_link(&one).await.unwrap();
    store.add_link(&one).await.unwrap_err();
    assert_eq!(store.links().await.unwrap(), [one.clone(), two.clone()]);

    store.end_links(&[one.id.clone()], LinkEnd::Expired, 7).await.unwrap();
    store.end_links(&[one.id.clone(), two.id.clone()], LinkEnd::Revoked, 8).await.unwrap();
    (one.ended, two.ended) = (Some((LinkEnd::Expired, 7)), Some((LinkEnd::Revoked, 8)));
    store.close().await;
    let store = database.open().await;
    assert_eq!(store.links().await.unwrap(), [one.clone(), two.clone()]);

    store.forget_links(&[one.id]).await.unwrap();
    assert_eq!(store.links().await.unwrap(), [two]);
}

fn link(number: u16, style: LinkStyle) -> LinkRecord {
    LinkRecord {
        id: format!("lnk_{number:016}").parse().unwrap(),
        sandbox: sandbox_id(1),
        port: 3000 + number,
        style,
        own_port: None,
        created_at_ms: number.into(),
        expires_at_ms: None,
        ended: None,
        token: (number == 1).then(|| "tok_0000000000000001".parse().unwrap()),
    }
}
