//! The sandboxes' rows.

use std::time::Duration;

use sandbox_api::SandboxId;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::row::{BadColumn, Columns, saturated};
use super::{Error, Store};
use sandboxd_model::{NetworkMode, NetworkPolicy, SandboxRecord, SandboxSpec, Stage, Transport, UidSlot};

const INSERT: &str = "INSERT INTO sandboxes (id, session_key, uid, transport, runtime, image, idle_ttl_ms, \
     resources, network, allow, ports, env, metadata, disk, stage, created_at_ms, last_active_ms, \
     parked_at_age_ms, disk_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// As [`INSERT`], and takes the place of the row with its id. (`INSERT OR REPLACE` would delete that row, and
/// its history with it.)
const PUT: &str = "INSERT INTO sandboxes (id, session_key, uid, transport, runtime, image, idle_ttl_ms, \
     resources, network, allow, ports, env, metadata, disk, stage, created_at_ms, last_active_ms, \
     parked_at_age_ms, disk_bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
     ON CONFLICT (id) DO UPDATE SET session_key = excluded.session_key, uid = excluded.uid, \
     transport = excluded.transport, runtime = excluded.runtime, image = excluded.image, \
     idle_ttl_ms = excluded.idle_ttl_ms, resources = excluded.resources, network = excluded.network, \
     allow = excluded.allow, ports = excluded.ports, env = excluded.env, metadata = excluded.metadata, disk = excluded.disk, \
     stage = excluded.stage, created_at_ms = excluded.created_at_ms, \
     last_active_ms = excluded.last_active_ms, parked_at_age_ms = excluded.parked_at_age_ms, \
     disk_bytes = excluded.disk_bytes";

impl Store {
    /// All sandboxes. A row that cannot be read is an error that names it.
    pub async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        let select = sqlx::query("SELECT * FROM sandboxes ORDER BY created_at_ms, id");
        let rows = self.db.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    /// Writes the intent to make a sandbox. [`Error::Taken`] where its id, session key or slot is another's.
    ///
    /// After any other error the row may be there all the same, if the disk answered too late: remove it.
    pub async fn begin(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.db.write(record, |conn, record| Box::pin(insert(INSERT, record, conn))).await
    }

    /// Writes what is being done with a sandbox. [`Error::Absent`] where the store does not have it.
    pub async fn set_stage(&self, id: &SandboxId, stage: Stage) -> Result<(), Error> {
        let input = (id, stage);
        let update = self.db.write_at_last(&input, |conn, (id, stage)| {
            let update = sqlx::query("UPDATE sandboxes SET stage = ? WHERE id = ?");
            Box::pin(update.bind(stage.as_str()).bind(id.as_str()).execute(conn))
        });
        match update.await?.rows_affected() {
            0 => Err(Error::Absent { id: id.to_string() }),
            _ => Ok(()),
        }
    }

    /// As [`Self::set_stage`], but leaves a sandbox alone that is being deleted or is gone: false then.
    pub async fn set_stage_unless_deleting(&self, id: &SandboxId, stage: Stage) -> Result<bool, Error> {
        let input = (id, stage);
        let update = self.db.write_at_last(&input, |conn, (id, stage)| {
            let update = sqlx::query("UPDATE sandboxes SET stage = ? WHERE id = ? AND stage <> ?");
            let deleting = Stage::Deleting.as_str();
            Box::pin(update.bind(stage.as_str()).bind(id.as_str()).bind(deleting).execute(conn))
        });
        Ok(update.await?.rows_affected() > 0)
    }

    /// Writes what has become of a sandbox: its whole row, also where there was none.
    pub async fn put(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.db.write_at_last(record, |conn, record| Box::pin(insert(PUT, record, conn))).await
    }

    /// Removes a sandbox and its history; nothing happens where it is not there.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        let delete = self.db.write_at_last(id, |conn, id| {
            Box::pin(sqlx::query("DELETE FROM sandboxes WHERE id = ?").bind(id.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }

    /// Takes in what the engine's labels tell, all of it or nothing; the store is then no longer new.
    pub async fn rehydrate(&self, records: &[SandboxRecord]) -> Result<(), Error> {
        let write = self.db.write(records, |conn, records| Box::pin(take_in(conn, records)));
        write.await?;
        self.set_loaded();
        Ok(())
    }

    /// Writes when sandboxes were last used, in milliseconds since the Unix epoch.
    pub async fn touch(&self, seen: &[(SandboxId, i64)]) -> Result<(), Error> {
        self.db.write(seen, |conn, seen| Box::pin(touch(conn, seen))).await
    }
}

async fn take_in(conn: &mut SqliteConnection, records: &[SandboxRecord]) -> Result<(), sqlx::Error> {
    for record in records {
        insert(PUT, record, conn).await?;
    }
    sqlx::query("UPDATE daemon SET is_loaded = 1").execute(conn).await.map(drop)
}

async fn touch(conn: &mut SqliteConnection, seen: &[(SandboxId, i64)]) -> Result<(), sqlx::Error> {
    for (id, at_ms) in seen {
        let update = sqlx::query("UPDATE sandboxes SET last_active_ms = ? WHERE id = ?");
        update.bind(at_ms).bind(id.as_str()).execute(&mut *conn).await?;
    }
    Ok(())
}

async fn insert(
    statement: &'static str,
    record: &SandboxRecord,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let spec = &record.spec;
    let json = |error| sqlx::Error::Encode(Box::new(error));
    let insert = sqlx::query(statement)
        .bind(record.id.as_str())
        .bind(spec.session_key.as_str())
        .bind(record.slot.uid())
        .bind(record.transport.as_str())
        .bind(spec.runtime.as_str())
        .bind(spec.image.as_deref())
        .bind(saturated(spec.idle_ttl.as_millis()))
        .bind(spec.resources.to_string())
        .bind(spec.network.mode.as_str())
        .bind(serde_json::to_string(&spec.network.allow_texts()).map_err(json)?)
        .bind(serde_json::to_string(&spec.ports).map_err(json)?)
        .bind(serde_json::to_string(&spec.env).map_err(json)?)
        .bind(serde_json::to_string(&spec.metadata).map_err(json)?)
        .bind(record.disk.as_ref().map(ToString::to_string))
        .bind(record.stage.as_str())
        .bind(record.created_at_ms)
        .bind(record.last_active_ms)
        .bind(record.parked_at_age_ms.map(saturated))
        .bind(record.disk_bytes.map(saturated));
    insert.execute(conn).await.map(drop)
}

fn read(row: &SqliteRow) -> Result<SandboxRecord, Error> {
    let columns = Columns(row);
    record(&columns).map_err(|bad| columns.name_it("sandboxes", bad))
}

fn network(columns: &Columns<'_>) -> Result<NetworkPolicy, BadColumn> {
    let mode = columns.with("network", |text| NetworkMode::parse(text, "network").ok())?;
    let allow: Vec<String> = columns.json("allow")?;
    NetworkPolicy::from_texts(mode, &allow).ok_or(BadColumn("allow"))
}

fn record(columns: &Columns<'_>) -> Result<SandboxRecord, BadColumn> {
    let spec = SandboxSpec {
        session_key: columns.with("session_key", |text| text.parse().ok())?,
        runtime: columns.with("runtime", |text| text.parse().ok())?,
        image: columns.get("image")?,
        idle_ttl: Duration::from_millis(columns.count("idle_ttl_ms")?),
        resources: columns.with("resources", |text| text.parse().ok())?,
        network: network(columns)?,
        ports: columns.json("ports")?,
        env: columns.json("env")?,
        metadata: columns.json("metadata")?,
    };
    let disk: Option<String> = columns.get("disk")?;
    Ok(SandboxRecord {
        id: columns.with("id", |text| text.parse().ok())?,
        slot: UidSlot::of_uid(columns.get("uid")?).ok_or(BadColumn("uid"))?,
        transport: columns.with("transport", Transport::parse)?,
        spec,
        disk: disk.map(|text| text.parse().map_err(|_| BadColumn("disk"))).transpose()?,
        stage: columns.with("stage", Stage::parse)?,
        created_at_ms: columns.get("created_at_ms")?,
        last_active_ms: columns.get("last_active_ms")?,
        parked_at_age_ms: columns.optional_count("parked_at_age_ms")?,
        disk_bytes: columns.optional_count("disk_bytes")?,
    })
}
