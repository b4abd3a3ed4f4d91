//! Operations on links to previews.

use sandbox_api::LinkId;

use crate::{Error, Store};
use sandboxd_model::preview::{LinkEnd, LinkRecord};

impl Store {
    /// All links that are kept, oldest first.
    pub async fn links(&self) -> Result<Vec<LinkRecord>, Error> {
        self.database.links().await
    }

    /// Writes a new link.
    pub async fn add_link(&self, link: &LinkRecord) -> Result<(), Error> {
        self.database.insert_link(link).await
    }

    /// Writes why links ended, and when in milliseconds since the Unix epoch. The first end of a link stays.
    pub async fn end_links(&self, links: &[LinkId], end: LinkEnd, at_ms: i64) -> Result<(), Error> {
        self.database.end_links(links, end, at_ms).await
    }

    /// Deletes links.
    pub async fn forget_links(&self, links: &[LinkId]) -> Result<(), Error> {
        self.database.delete_links(links).await
    }
}
