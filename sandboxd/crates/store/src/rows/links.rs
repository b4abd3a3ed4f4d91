//! Rows of the table `links`.

use sandboxd_model::preview::{self, LinkEnd, LinkRecord};

use super::{BadColumn, number, optional_number, row};

row! {
    /// A link to a preview.
    LinkRow {
        id: String,
        sandbox: String,
        port: i64,
        style: String,
        door: Option<i64>,
        created_at_ms: i64,
        expires_at_ms: Option<i64>,
        ended: Option<String>,
        ended_at_ms: Option<i64>,
        token: Option<String>,
    }
}

impl From<&LinkRecord> for LinkRow {
    fn from(link: &LinkRecord) -> Self {
        Self {
            id: link.id.to_string(),
            sandbox: link.sandbox.to_string(),
            port: link.port.into(),
            style: preview::style_name(link.style).to_owned(),
            door: link.own_port.map(Into::into),
            created_at_ms: link.created_at_ms,
            expires_at_ms: link.expires_at_ms,
            ended: link.ended.map(|(end, _)| end.as_str().to_owned()),
            ended_at_ms: link.ended.map(|(_, at_ms)| at_ms),
            token: link.token.as_ref().map(ToString::to_string),
        }
    }
}

impl LinkRow {
    pub(crate) fn record(self) -> Result<LinkRecord, BadColumn> {
        let ended = match self.ended {
            None => None,
            Some(text) => {
                let end = LinkEnd::parse(&text).ok_or(BadColumn("ended"))?;
                Some((end, self.ended_at_ms.ok_or(BadColumn("ended_at_ms"))?))
            }
        };
        Ok(LinkRecord {
            id: self.id.parse().map_err(|_| BadColumn("id"))?,
            sandbox: self.sandbox.parse().map_err(|_| BadColumn("sandbox"))?,
            port: number("port", self.port)?,
            style: preview::style(&self.style).ok_or(BadColumn("style"))?,
            own_port: optional_number("door", self.door)?,
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_ms,
            ended,
            token: self.token.map(|id| id.parse().map_err(|_| BadColumn("token"))).transpose()?,
        })
    }
}
