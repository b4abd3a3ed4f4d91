//! A remote store: connected, and opened.

use std::sync::Arc;

use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use sandboxd_model::{MasterKeys, RemoteStore, limits};
use secrecy::ExposeSecret;
use tokio::time::timeout;

use crate::Error;
use crate::connection::BoundedConnector;
use crate::keyring::{Keyring, Recorded};
use crate::owner::Owner;
use crate::store::SealedStore;

/// The only project of an installation.
const PROJECT: &str = "default";

/// A remote store that may not be open yet. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote {
    store: Arc<dyn ObjectStore>,
    project: Path,
    masters: MasterKeys,
}

/// A remote store that is open.
#[derive(Debug, Clone)]
pub struct Opened {
    /// The store. Its names and contents are not encrypted for its user.
    pub store: Arc<dyn ObjectStore>,
    /// Id of the data key. The caller records it, and passes it to the next [`Remote::open`].
    pub key: String,
    owner: Arc<Owner>,
}

impl Remote {
    /// The store that the settings name. Nothing is sent yet.
    pub fn new(settings: &RemoteStore) -> Result<Self, Error> {
        let project = Path::from(settings.location.folder()).join(PROJECT);
        let store = Arc::new(connect(settings).map_err(Error::Settings)?);
        Ok(Self { store, project, masters: settings.master_keys.clone() })
    }

    /// Opens the store for an installation: finds its data key, or makes one for a new store. The data key is protected by the
    /// current master key afterwards. Takes at most [`limits::REMOTE_OPEN`].
    pub async fn open(&self, installation: &str, recorded: &Recorded) -> Result<Opened, Error> {
        let open = async {
            let key =
                Keyring::new(Arc::clone(&self.store), &self.project, &self.masters).open(recorded).await?;
            let owner = Owner::new(Arc::clone(&self.store), &self.project, &key);
            owner.claim(installation).await?;
            let store = SealedStore::new(Arc::clone(&self.store), &self.project, &key);
            Ok(Opened { store: Arc::new(store), key: key.id().to_string(), owner: Arc::new(owner) })
        };
        timeout(limits::REMOTE_OPEN, open).await.map_err(|_| Error::Deadline)?
    }
}

impl Opened {
    /// Fails unless `installation` still owns the store. Call it before something is removed that others may have written.
    pub async fn check_owner(&self, installation: &str) -> Result<(), Error> {
        let check = timeout(limits::REMOTE_OPEN, self.owner.claim(installation));
        check.await.map_err(|_| Error::Deadline)?
    }
}

/// Buckets are in the path and not in the host name, because few self-hosted servers have a name for each bucket. Objects are
/// deleted one by one, because not every server knows the request for many.
fn connect(settings: &RemoteStore) -> object_store::Result<impl ObjectStore> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(settings.location.bucket())
        .with_region(&settings.region)
        .with_access_key_id(&settings.access_key_id)
        .with_secret_access_key(settings.secret_access_key.expose_secret())
        .with_virtual_hosted_style_request(false)
        .with_disable_bulk_delete(true)
        .with_client_options(client_options(settings))
        .with_http_connector(BoundedConnector::default())
        .with_retry(RetryConfig {
            backoff: BackoffConfig::default(),
            max_retries: limits::REMOTE_RETRIES,
            retry_timeout: limits::REMOTE_RETRY,
        });
    if let Some(endpoint) = &settings.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    builder.build()
}

fn client_options(settings: &RemoteStore) -> ClientOptions {
    let is_plain = settings.endpoint.as_deref().is_some_and(|endpoint| endpoint.starts_with("http://"));
    ClientOptions::new()
        .with_allow_http(is_plain)
        .with_connect_timeout(limits::REMOTE_CONNECT)
        .with_timeout(limits::REMOTE_REQUEST)
}
