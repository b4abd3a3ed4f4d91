//! The index of the chunks, in a file of its own, so that writing thousands of rows never delays the store.
//!
//! It is a cache: the packs of the chunks say the same, and it is rebuilt from them. Rows are written and read with
//! statements for many rows at once.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Row, Sqlite, SqliteConnection};

use super::connections::{Connections, Tuning, Work};
use super::schema;
use crate::chunks::{ChunkHash, ChunkLocation, ChunkPack, ChunkPackUse, Generation};
use crate::rows::saturated;
use crate::{Error, ErrorKind};

/// Name of the database in the state dir, for chunks in a directory.
pub const CHUNK_FILE: &str = "chunks.sqlite";

/// Pages of 4 KiB that the log holds before they move into the database. Hashes are in random order, so each pack changes
/// many pages of their index, and the next pack changes the same ones.
const LOG_PAGES: &str = "4000";

/// Memory of each connection for pages, in KiB. With SQLite's 2 MiB, the pages that a pack changes would be written to the
/// log several times.
const CACHE_KIB: &str = "16384";

/// Time limit of a call. The index of millions of chunks may be on a slow disk, and no request but a snapshot waits for it.
const CALL: Duration = Duration::from_secs(60);

/// Maximum number of rows of one statement. SQLite allows 32766 values.
const ROWS: usize = 500;

/// What an operator can do about an index that this program cannot use.
const REBUILD: &str = "stop sandboxd and move the file, and those with -wal and -shm at the end of its name, away together: the index is then rebuilt from the packs";

type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Begins the statement that inserts chunks. A chunk that is there keeps its location.
const INSERT: &str = "INSERT INTO chunks (hash, pack, offset, stored_len, raw_len, mark) VALUES ";
const INSERT_ROW: &str = "(?, ?, ?, ?, ?, ?)";
const INSERT_END: &str = " ON CONFLICT (hash) DO UPDATE SET mark = excluded.mark WHERE mark < excluded.mark";

const LOCATE: &str = "SELECT hash, name, offset, stored_len, raw_len FROM chunks JOIN packs ON number = pack \
     WHERE hash IN (";
const COUNT_MARKED: &str = "SELECT count(*) FROM chunks WHERE mark >= ? AND hash IN (";
const FIND: &str = "SELECT hash FROM chunks WHERE hash IN (";
const MARK: &str = "UPDATE chunks SET mark = ? WHERE mark < ? AND hash IN (";
const FIND_PACKS: &str = "SELECT name FROM packs WHERE name IN (";

const PACKS: &str = "SELECT name, size_bytes, \
     (SELECT count(*) FROM chunks WHERE pack = number AND mark >= $1) AS live_chunks, \
     (SELECT coalesce(sum(stored_len), 0) FROM chunks WHERE pack = number AND mark >= $1) AS live_bytes \
     FROM packs WHERE name > $2 ORDER BY name LIMIT $3";

const CHUNKS_OF: &str = "SELECT hash, name, offset, stored_len, raw_len FROM packs JOIN chunks ON pack = number \
     WHERE name = $1 AND mark >= $2 ORDER BY offset";

const MOVE: &str = "UPDATE chunks SET pack = $1, offset = $2, stored_len = $3 WHERE hash = $4 AND pack = $5";

/// The index of the chunks, open. Lists that are passed to it may have any length; answers are in their order.
#[derive(Debug)]
pub struct ChunkIndex {
    connections: Connections,
}

impl ChunkIndex {
    /// Opens or creates the file in `state_dir`, which must exist and be private. Each remote store has a file of its own, which
    /// `store` names: a chunk that one store has may be missing in another.
    pub async fn open(state_dir: &Path, store: Option<&str>) -> Result<Self, Error> {
        let name = store.map_or(CHUNK_FILE.to_owned(), |store| format!("chunks-{store}.sqlite"));
        let tuning = Tuning { log_pages: LOG_PAGES, cache_kib: CACHE_KIB, call: CALL };
        let opened = Connections::open(state_dir.join(name), tuning, &schema::CHUNKS).await;
        Ok(Self { connections: opened.map_err(with_advice)? })
    }

    /// Where chunks are stored. `None` if the index does not have the chunk.
    pub async fn locate(&self, chunks: &[ChunkHash]) -> Result<Vec<Option<ChunkLocation>>, Error> {
        let chunks = chunks.to_vec();
        let read = self.read(|conn| {
            Box::pin(async move {
                let mut found = HashMap::with_capacity(chunks.len());
                for part in chunks.chunks(ROWS) {
                    let select = bind_hashes(list_query(LOCATE, part.len()), part);
                    let rows = select.fetch_all(&mut *conn).await?;
                    for row in &rows {
                        let (hash, location) = location(row)?;
                        found.insert(hash, location);
                    }
                }
                Ok(chunks.iter().map(|chunk| found.get(chunk).copied()).collect())
            })
        });
        read.await
    }

    /// Marks chunks as in use in `generation`, unless their mark is later. Returns for each whether the index has it. Writes
    /// only what changes, so it is fast if most chunks have the mark.
    pub async fn mark(&self, generation: Generation, chunks: &[ChunkHash]) -> Result<Vec<bool>, Error> {
        let mark = saturated(generation);
        if self.are_marked(mark, chunks).await? {
            return Ok(vec![true; chunks.len()]);
        }
        let write = self.make_room(chunks, |conn, chunks| {
            Box::pin(async move {
                let mut known = Vec::with_capacity(chunks.len());
                for part in chunks.chunks(ROWS) {
                    let update = list_query(MARK, part.len()).bind(mark).bind(mark);
                    bind_hashes(update, part).execute(&mut *conn).await?;
                    known.extend(which(conn, FIND, part).await?);
                }
                Ok(known)
            })
        });
        write.await
    }

    /// Whether the index has all these chunks with at least this mark.
    async fn are_marked(&self, mark: i64, chunks: &[ChunkHash]) -> Result<bool, Error> {
        let mut distinct = chunks.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let read = self.read(|conn| {
            Box::pin(async move {
                for part in distinct.chunks(ROWS) {
                    let select = list_query(COUNT_MARKED, part.len()).bind(mark);
                    let row = bind_hashes(select, part).fetch_one(&mut *conn).await?;
                    if row.try_get::<i64, _>(0)? != saturated(part.len()) {
                        return Ok(false);
                    }
                }
                Ok(true)
            })
        });
        read.await
    }

    /// Adds a pack and its chunks, with the mark `generation`. Idempotent. A chunk that the index already has keeps its
    /// location, and gets the mark unless its own is later.
    pub async fn record(
        &self,
        generation: Generation,
        pack: &ChunkPack,
        chunks: &[(ChunkHash, ChunkLocation)],
    ) -> Result<(), Error> {
        let (pack, mark) = (*pack, saturated(generation));
        let mut chunks = chunks.to_vec();
        // In the order of the hashes, each page of their index is changed once.
        chunks.sort_unstable_by_key(|(hash, _)| *hash);
        let write = self.write(&chunks[..], |conn, chunks| {
            Box::pin(async move {
                let number = put_pack(conn, &pack).await?;
                for part in chunks.chunks(ROWS) {
                    insert(part, number, mark).execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        write.await
    }

    /// Whether the index lists all packs of the store. False in a new index until [`Self::set_complete`].
    pub async fn is_complete(&self) -> Result<bool, Error> {
        let select = sqlx::query_scalar::<_, i64>("SELECT is_complete FROM state");
        let read = self.read(|conn| Box::pin(select.fetch_one(conn)));
        Ok(read.await? != 0)
    }

    /// Size of all packs in bytes.
    pub async fn stored_bytes(&self) -> Result<u64, Error> {
        let select = sqlx::query_scalar::<_, i64>("SELECT coalesce(sum(size_bytes), 0) FROM packs");
        let read = self.read(|conn| Box::pin(select.fetch_one(conn)));
        Ok(read.await?.cast_unsigned())
    }

    /// Notes that the index lists all packs of the store.
    pub async fn set_complete(&self) -> Result<(), Error> {
        let write = self
            .write(&(), |conn, ()| Box::pin(sqlx::query("UPDATE state SET is_complete = 1").execute(conn)));
        write.await.map(drop)
    }

    /// The current generation.
    pub async fn generation(&self) -> Result<Generation, Error> {
        let select = sqlx::query_scalar::<_, i64>("SELECT generation FROM state");
        let read = self.read(|conn| Box::pin(select.fetch_one(conn)));
        read.await.map(unsigned)
    }

    /// Begins a collection and returns its generation. With `continues`, that is the last one if it has not finished.
    pub async fn begin_collection(&self, continues: bool) -> Result<Generation, Error> {
        let write = self.make_room(&continues, |conn, continues| {
            let update = "UPDATE state SET generation = generation + 1 - ($1 AND is_collecting), is_collecting = 1 \
                 RETURNING generation";
            Box::pin(sqlx::query_scalar::<_, i64>(update).bind(*continues).fetch_one(conn))
        });
        write.await.map(unsigned)
    }

    /// Notes that the last collection has finished.
    pub async fn finish_collection(&self) -> Result<(), Error> {
        let finished = "UPDATE state SET is_collecting = 0";
        let write = self.make_room(&(), |conn, ()| Box::pin(sqlx::query(finished).execute(conn)));
        write.await.map(drop)
    }

    /// Up to `limit` packs in order of their names, after the name `after`. The chunks with a mark from `keep_from` on are in
    /// use.
    pub async fn packs(
        &self,
        keep_from: Generation,
        after: Option<ChunkHash>,
        limit: u32,
    ) -> Result<Vec<ChunkPackUse>, Error> {
        let after = after.map(|after| after.to_vec()).unwrap_or_default();
        let select = sqlx::query(PACKS).bind(saturated(keep_from)).bind(after).bind(limit);
        let read = self.read(|conn| {
            Box::pin(async move { select.fetch_all(conn).await?.iter().map(pack_use).collect() })
        });
        read.await
    }

    /// Which of these packs the index has.
    pub async fn has_packs(&self, packs: &[ChunkHash]) -> Result<Vec<bool>, Error> {
        let packs = packs.to_vec();
        let read = self.read(|conn| {
            Box::pin(async move {
                let mut known = Vec::with_capacity(packs.len());
                for part in packs.chunks(ROWS) {
                    known.extend(which(conn, FIND_PACKS, part).await?);
                }
                Ok(known)
            })
        });
        read.await
    }

    /// The chunks of a pack with a mark from `keep_from` on, in order of their offsets.
    pub async fn chunks_of(
        &self,
        pack: ChunkHash,
        keep_from: Generation,
    ) -> Result<Vec<(ChunkHash, ChunkLocation)>, Error> {
        let select = sqlx::query(CHUNKS_OF).bind(pack.to_vec()).bind(saturated(keep_from));
        let read = self.read(|conn| {
            Box::pin(async move { select.fetch_all(conn).await?.iter().map(location).collect() })
        });
        read.await
    }

    /// Adds the pack `to` if it is missing, and moves chunks to it that are in the pack `from`. Keeps their marks. Skips
    /// chunks that are elsewhere.
    pub async fn move_chunks(
        &self,
        from: ChunkHash,
        to: &ChunkPack,
        chunks: &[(ChunkHash, ChunkLocation)],
    ) -> Result<(), Error> {
        let to = *to;
        let write = self.make_room(chunks, |conn, chunks| {
            Box::pin(async move {
                let to = put_pack(conn, &to).await?;
                let Some(from) = number_of(conn, from).await? else {
                    return Ok(());
                };
                for (chunk, at) in chunks {
                    let update = sqlx::query(MOVE).bind(to).bind(at.offset).bind(at.stored_len);
                    update.bind(&chunk[..]).bind(from).execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        write.await
    }

    /// Removes a pack and its chunks, unless one of them has a mark from `keep_from` on. `None` removes it in any case.
    /// Returns whether the index no longer has the pack.
    pub async fn remove_pack(&self, pack: ChunkHash, keep_from: Option<Generation>) -> Result<bool, Error> {
        let keep_from = keep_from.map(saturated);
        let write = self.make_room(&pack, |conn, pack| {
            Box::pin(async move {
                let Some(number) = number_of(conn, *pack).await? else {
                    return Ok(true);
                };
                // Nothing is later than NULL.
                let live = "SELECT EXISTS (SELECT 1 FROM chunks WHERE pack = $1 AND mark >= $2)";
                let live = sqlx::query_scalar::<_, i64>(live).bind(number).bind(keep_from);
                if live.fetch_one(&mut *conn).await? != 0 {
                    return Ok(false);
                }
                sqlx::query("DELETE FROM chunks WHERE pack = $1").bind(number).execute(&mut *conn).await?;
                sqlx::query("DELETE FROM packs WHERE number = $1").bind(number).execute(conn).await?;
                Ok(true)
            })
        });
        write.await
    }

    async fn read<T>(
        &self,
        work: impl for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.connections.read(work).await.map_err(with_advice)
    }

    /// Runs `work` with `input` in one transaction.
    async fn write<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.connections.write(input, &work).await.map_err(with_advice)
    }

    /// As [`Self::write`], for writes of a collection, which frees space: it may use the reserve on the disk.
    async fn make_room<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.connections.write_with_reserve(input, &work).await.map_err(with_advice)
    }

    /// Closes the index within a time limit.
    pub async fn close(&self) {
        self.connections.close().await;
    }
}

/// Adds a pack if it is missing. Returns its number.
async fn put_pack(conn: &mut SqliteConnection, pack: &ChunkPack) -> Result<i64, sqlx::Error> {
    // Changes nothing if it is there, but returns its number.
    let put = "INSERT INTO packs (name, size_bytes) VALUES ($1, $2) \
         ON CONFLICT (name) DO UPDATE SET size_bytes = excluded.size_bytes RETURNING number";
    sqlx::query_scalar(put).bind(pack.name.to_vec()).bind(pack.size_bytes).fetch_one(conn).await
}

async fn number_of(conn: &mut SqliteConnection, pack: ChunkHash) -> Result<Option<i64>, sqlx::Error> {
    let select = sqlx::query_scalar("SELECT number FROM packs WHERE name = $1").bind(pack.to_vec());
    select.fetch_optional(conn).await
}

/// Which of these hashes a statement finds.
async fn which(
    conn: &mut SqliteConnection,
    select: &str,
    hashes: &[ChunkHash],
) -> Result<Vec<bool>, sqlx::Error> {
    let rows = bind_hashes(list_query(select, hashes.len()), hashes).fetch_all(conn).await?;
    let found: Result<Vec<ChunkHash>, _> = rows.iter().map(|row| hash(row, 0)).collect();
    let mut found = found?;
    found.sort_unstable();
    Ok(hashes.iter().map(|hash| found.binary_search(hash).is_ok()).collect())
}

/// The statement that inserts these chunks, at most [`ROWS`].
fn insert(chunks: &[(ChunkHash, ChunkLocation)], pack: i64, mark: i64) -> Statement<'_> {
    let mut insert = statement(list_of(INSERT, INSERT_ROW, chunks.len(), INSERT_END), chunks.len());
    for (chunk, at) in chunks {
        insert = insert.bind(&chunk[..]).bind(pack).bind(at.offset);
        insert = insert.bind(at.stored_len).bind(at.raw_len).bind(mark);
    }
    insert
}

/// A statement that ends with a list of hashes.
fn list_query<'q>(start: &str, values: usize) -> Statement<'q> {
    statement(list_of(start, "?", values, ")"), values)
}

/// A statement for this number of rows. Its text depends only on constants and the number. SQLite compiles those for full
/// lists once.
fn statement<'q>(text: String, rows: usize) -> Statement<'q> {
    sqlx::query(AssertSqlSafe(text)).persistent(rows == ROWS)
}

/// `start`, `part` separated by commas as often as given, and `end`.
fn list_of(start: &str, part: &str, times: usize, end: &str) -> String {
    let mut text = String::with_capacity(start.len() + times * (part.len() + 1) + end.len());
    text.push_str(start);
    for number in 0..times {
        text.push_str(if number == 0 { "" } else { "," });
        text.push_str(part);
    }
    text.push_str(end);
    text
}

fn bind_hashes<'q>(statement: Statement<'q>, hashes: &'q [ChunkHash]) -> Statement<'q> {
    hashes.iter().fold(statement, |statement, hash| statement.bind(&hash[..]))
}

fn hash(row: &SqliteRow, column: usize) -> Result<ChunkHash, sqlx::Error> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes
        .try_into()
        .map_err(|error| sqlx::Error::ColumnDecode { index: column.to_string(), source: Box::new(error) })
}

/// A row of the columns hash, name, offset, stored_len and raw_len.
fn location(row: &SqliteRow) -> Result<(ChunkHash, ChunkLocation), sqlx::Error> {
    let location = ChunkLocation {
        pack: hash(row, 1)?,
        offset: row.try_get(2)?,
        stored_len: row.try_get(3)?,
        raw_len: row.try_get(4)?,
    };
    Ok((hash(row, 0)?, location))
}

/// A row of the columns name, size_bytes, live_chunks and live_bytes.
fn pack_use(row: &SqliteRow) -> Result<ChunkPackUse, sqlx::Error> {
    Ok(ChunkPackUse {
        pack: ChunkPack { name: hash(row, 0)?, size_bytes: row.try_get(1)? },
        live_chunks: unsigned(row.try_get(2)?),
        live_bytes: unsigned(row.try_get(3)?),
    })
}

/// A number that is never negative.
fn unsigned(number: i64) -> u64 {
    number.try_into().unwrap_or_default()
}

/// The index has its own remedy.
fn with_advice(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Corrupt | ErrorKind::Schema | ErrorKind::Newer | ErrorKind::BadRow => {
            error.with_advice(Some(REBUILD))
        }
        _ => error,
    }
}
