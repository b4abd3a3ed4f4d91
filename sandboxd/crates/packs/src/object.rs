//! Objects other than packs, such as the manifests of snapshots.

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutPayload};

use crate::path::{PACKS, QUARANTINE};
use crate::{Error, Packs};

/// An object in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its path, such as `snapshots/snap_1`.
    pub path: String,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// A caller's path, which must not be among those of the packs.
fn checked(path: &str) -> Result<Path, Error> {
    let invalid = || Error::InvalidPath { path: path.to_owned() };
    let parsed = Path::parse(path).map_err(|_| invalid())?;
    let first = parsed.parts().next().ok_or_else(invalid)?;
    let is_ours = first.as_ref() == PACKS || first.as_ref() == QUARANTINE;
    // A number after this sign is how a directory names an unfinished write.
    if is_ours || parsed.as_ref() != path || path.contains('#') { Err(invalid()) } else { Ok(parsed) }
}

impl Packs {
    /// Stores an object, and replaces one with the same path. It is durable when this returns. The path must be relative
    /// and not begin with `packs` or `quarantine`.
    pub async fn put_object(&self, path: &str, bytes: Bytes) -> Result<(), Error> {
        let location = checked(path)?;
        let put = self.store().put(&location, PutPayload::from_bytes(bytes)).await;
        put.map(drop).map_err(Error::of_store(path))
    }

    /// Returns the content of an object. Fails with [`Error::NoObject`] if there is none, and with
    /// [`Error::ObjectTooLarge`] if it has more than `max_bytes`.
    pub async fn get_object(&self, path: &str, max_bytes: u64) -> Result<Bytes, Error> {
        let fail = |error| match error {
            object_store::Error::NotFound { .. } => Error::NoObject { path: path.to_owned() },
            source => Error::of_store(path)(source),
        };
        let found = self.store().get(&checked(path)?).await.map_err(fail)?;
        let size_bytes = found.meta.size;
        if size_bytes > max_bytes {
            return Err(Error::ObjectTooLarge { path: path.to_owned(), size_bytes, max_bytes });
        }
        found.bytes().await.map_err(Error::of_store(path))
    }

    /// The objects below a prefix such as `snapshots`, in no particular order.
    pub fn list_objects(&self, prefix: &str) -> Result<BoxStream<'static, Result<ObjectInfo, Error>>, Error> {
        let location = checked(prefix)?;
        let prefix = prefix.to_owned();
        let objects = self.store().list(Some(&location)).map(move |found| match found {
            Ok(meta) => Ok(ObjectInfo { path: meta.location.to_string(), size_bytes: meta.size }),
            Err(error) => Err(Error::of_store(&prefix)(error)),
        });
        Ok(objects.boxed())
    }

    /// Deletes an object. Succeeds if it does not exist. The deletion is durable when this returns.
    pub async fn delete_object(&self, path: &str) -> Result<(), Error> {
        let location = checked(path)?;
        self.delete(&location).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_packs_and_invalid_paths_are_rejected() {
        assert!(checked("snapshots/snap_1").is_ok());
        for path in
            ["", "/", "/a", "a/", "a//b", "../a", "a/../b", "packs", "packs/00/x", "quarantine/x", "a#1"]
        {
            assert!(matches!(checked(path), Err(Error::InvalidPath { .. })), "{path:?}");
        }
    }
}
