//! Checking packs, and rebuilding the index from them.

use std::collections::HashSet;
use std::error::Error as _;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt};
use sandboxd_sealed::{Damage, SEGMENT_BYTES};
use snapshot_format::compression::CorruptChunk;
use snapshot_format::{Decompressor, Hash};

use crate::error::blocking;
use crate::pack::{self, Entry, MAX_PACK_BYTES, PackBuilder, PackDamage};
use crate::path::{PACKS, pack_name, pack_path, quarantine_path};
use crate::writer::nonce;
use crate::{Error, Location, PackInfo, Packs};

/// Number of packs that are read from the index at a time.
const PAGE: u32 = 256;

/// Number of packs that may fail one after another. After one more, the store is assumed to be unavailable.
const MAX_FAILURES_IN_A_ROW: usize = 10;

/// Kind of changes that a check makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Adds what intact packs have to the index, and removes packs from it that do not exist.
    pub rebuild_index: bool,
    /// Moves damaged packs to `quarantine/<name>`. Their intact chunks move to a new pack, and the index no longer has the
    /// others, so the next snapshot stores them again.
    pub quarantine: bool,
}

/// Something that a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A pack is damaged. Its chunks may be intact.
    CorruptPack {
        /// Name of the pack.
        pack: Hash,
        /// What is wrong with it.
        damage: PackDamage,
    },
    /// A chunk is damaged.
    CorruptChunk {
        /// The chunk's name.
        chunk: Hash,
        /// Name of its pack.
        pack: Hash,
        /// What is wrong with its bytes.
        damage: CorruptChunk,
    },
    /// The index has a pack that does not exist.
    MissingPack {
        /// Name of the pack.
        pack: Hash,
    },
    /// The index does not have a pack, and no writer is about to record it.
    UnknownPack {
        /// Name of the pack.
        pack: Hash,
    },
    /// A damaged pack was moved to the quarantine.
    Quarantined {
        /// Name of the pack.
        pack: Hash,
        /// Number of its chunks that were intact and moved to a new pack.
        intact_chunks: u64,
    },
    /// A pack could not be read, or not be moved after its other findings. The check continues with the next one.
    Failed {
        /// Name of the pack.
        pack: Hash,
        /// The error with its cause.
        error: String,
    },
}

/// Amount of data that a check has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of packs.
    pub packs: u64,
    /// Number of chunks in their tables.
    pub chunks: u64,
    /// Size of the packs in bytes.
    pub bytes: u64,
    /// Number of packs that are damaged or have a damaged chunk.
    pub damaged_packs: u64,
    /// Number of packs whose table cannot be read, and which are not in the quarantine. While there are any, an index is not
    /// complete.
    pub unreadable_packs: u64,
    /// Number of packs that could not be read or moved because the store has failed. An index is not complete without
    /// them.
    pub failed_packs: u64,
}

/// A check that has stopped before its end. Its findings were reported.
#[derive(Debug, thiserror::Error)]
#[error("the check of the packs has stopped before its end")]
pub struct CheckStopped {
    /// Amount of data that was read.
    pub checked: Checked,
    /// Why it has stopped.
    pub source: Error,
}

/// A pack that was read.
struct Examined {
    info: PackInfo,
    bytes: Bytes,
    intact: Vec<Entry>,
    damaged: Vec<(Hash, CorruptChunk)>,
    damage: Option<PackDamage>,
    has_table: bool,
}

impl Packs {
    /// Reads every pack, and verifies its name, its table and its chunks. Calls `report` for each fault. Holds one pack in
    /// memory, and the names of all.
    ///
    /// A damaged pack is a finding, and so is one that the store cannot read. If the store or the index does not answer at
    /// all, the check stops. It can be repeated.
    pub async fn check(
        &self,
        options: CheckOptions,
        mut report: impl FnMut(Finding) + Send,
    ) -> Result<Checked, CheckStopped> {
        let mut checked = Checked::default();
        match self.check_all(options, &mut checked, &mut report).await {
            Ok(()) => Ok(checked),
            Err(source) => Err(CheckStopped { checked, source }),
        }
    }

    async fn check_all(
        &self,
        options: CheckOptions,
        checked: &mut Checked,
        report: &mut (impl FnMut(Finding) + Send),
    ) -> Result<(), Error> {
        let _permit = self.maintenance().await?;
        let mut seen = HashSet::new();
        let mut failures = 0;
        let mut packs = self.store().list(Some(&Path::from(PACKS)));
        while let Some(found) = packs.try_next().await.map_err(Error::of_store(PACKS))? {
            let Some(name) = pack_name(&found.location) else { continue };
            seen.insert(name);
            match self.check_pack(name, &found, options, checked, report).await {
                Ok(()) => failures = 0,
                // Every other pack needs the index too.
                Err(error @ Error::Index(_)) => return Err(error),
                Err(error) if failures == MAX_FAILURES_IN_A_ROW => return Err(error),
                Err(error) => {
                    failures += 1;
                    checked.failed_packs += 1;
                    report(Finding::Failed { pack: name, error: with_cause(&error) });
                }
            }
        }
        self.find_missing(&seen, options, report).await?;
        if options.rebuild_index && checked.unreadable_packs + checked.failed_packs == 0 {
            self.index().set_complete().await.map_err(Error::Index)?;
        }
        Ok(())
    }

    async fn check_pack(
        &self,
        name: Hash,
        found: &ObjectMeta,
        options: CheckOptions,
        checked: &mut Checked,
        report: &mut (impl FnMut(Finding) + Send),
    ) -> Result<(), Error> {
        let Some(examined) = self.examine(name, found).await? else { return Ok(()) };
        checked.add(&examined);
        examined.report(report);
        // Without its table it is unknown which chunks are intact. Reads use the index, so they may still find them.
        let may_be_read = !examined.has_table && self.is_known(name).await?;
        if !options.quarantine || !examined.is_broken() || may_be_read {
            return self.compare(&examined, options, report).await;
        }
        let is_unreadable = !examined.has_table;
        self.quarantine(examined, report).await?;
        checked.unreadable_packs -= u64::from(is_unreadable);
        Ok(())
    }

    /// Reads and verifies a pack. `None` if it no longer exists.
    async fn examine(&self, name: Hash, found: &ObjectMeta) -> Result<Option<Examined>, Error> {
        let info = PackInfo { name, size_bytes: u32::try_from(found.size).unwrap_or(u32::MAX) };
        if found.size > MAX_PACK_BYTES as u64 {
            return Ok(Some(Examined::unreadable(info, PackDamage::Format("it is too large"))));
        }
        let path = &found.location;
        let read = match self.store().get(path).await {
            Ok(object) => object.bytes().await,
            Err(error) => Err(error),
        };
        match read {
            Ok(bytes) => blocking(move || Examined::of(info, bytes)).await?.map(Some),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => match Damage::of(&error) {
                Some(damage @ Damage::Changed) => self.examine_segments(info, path, damage).await,
                Some(damage) => Ok(Some(Examined::unreadable(info, PackDamage::Sealed(damage)))),
                None => Err(Error::of_store(path)(error)),
            },
        }
    }

    /// Examines an encrypted pack that cannot be decrypted as a whole. The chunks of its other segments may be intact. The
    /// bytes of a segment that cannot be decrypted count as zeros, which no chunk and no table consists of. If the store
    /// fails now, the damage that it has shown is reported nevertheless.
    async fn examine_segments(
        &self,
        info: PackInfo,
        path: &Path,
        damage: Damage,
    ) -> Result<Option<Examined>, Error> {
        let damage = PackDamage::Sealed(damage);
        let mut bytes = Vec::with_capacity(info.size_bytes as usize);
        for from in (0..info.size_bytes).step_by(SEGMENT_BYTES) {
            let end = info.size_bytes.min(from.saturating_add(SEGMENT_BYTES as u32));
            match self.store().get_range(path, from.into()..end.into()).await {
                Ok(segment) => bytes.extend_from_slice(&segment),
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                Err(error) if Damage::of(&error).is_none() => {
                    return Ok(Some(Examined::unreadable(info, damage)));
                }
                Err(_) => {}
            }
            bytes.resize(end as usize, 0);
        }
        let examined = blocking(move || Examined::of(info, bytes.into())).await??;
        Ok(Some(Examined { damage: Some(damage), ..examined }))
    }

    /// Compares a pack with the index.
    async fn compare(
        &self,
        examined: &Examined,
        options: CheckOptions,
        report: &mut (impl FnMut(Finding) + Send),
    ) -> Result<(), Error> {
        let pack = examined.info.name;
        // In this order, as for strays.
        let is_under_way = self.is_under_way(pack);
        if self.is_known(pack).await? || is_under_way {
            return Ok(());
        }
        // Without its chunks, the next sweep would remove it.
        if options.rebuild_index && examined.has_table {
            self.record_intact(examined).await
        } else {
            report(Finding::UnknownPack { pack });
            Ok(())
        }
    }

    async fn is_known(&self, pack: Hash) -> Result<bool, Error> {
        Ok(self.index().has_packs(&[pack]).await.map_err(Error::Index)?.contains(&true))
    }

    async fn record_intact(&self, examined: &Examined) -> Result<(), Error> {
        let chunks = examined.locations(examined.info.name);
        let generation = self.leases().generation();
        self.index().record(generation, &examined.info, &chunks).await.map_err(Error::Index)
    }

    /// Moves intact chunks to a new pack, and the damaged pack to the quarantine.
    async fn quarantine(
        &self,
        examined: Examined,
        report: &mut (impl FnMut(Finding) + Send),
    ) -> Result<(), Error> {
        let old = examined.info.name;
        let intact_chunks = examined.intact.len() as u64;
        if intact_chunks > 0 {
            let nonce = nonce()?;
            let copy = blocking(move || examined.copy_intact(nonce).seal()).await?;
            self.put_pack(&copy).await?;
            sandboxd_seam::at("quarantine.stored");
            // Moved first, because a chunk that the index has keeps its location.
            self.index().move_chunks(old, &copy.info, &copy.chunks).await.map_err(Error::Index)?;
            let generation = self.leases().generation();
            self.index().record(generation, &copy.info, &copy.chunks).await.map_err(Error::Index)?;
            self.settle(copy.info.name);
            sandboxd_seam::at("quarantine.copied");
        }
        // The index is changed first, as in a sweep.
        self.lose_pack(old).await?;
        sandboxd_seam::at("quarantine.forgotten");
        let (from, to) = (pack_path(old), quarantine_path(old));
        self.store().rename(&from, &to).await.map_err(Error::of_store(&from))?;
        sandboxd_seam::at("quarantine.moved");
        report(Finding::Quarantined { pack: old, intact_chunks });
        Ok(())
    }

    async fn find_missing(
        &self,
        seen: &HashSet<Hash>,
        options: CheckOptions,
        report: &mut (impl FnMut(Finding) + Send),
    ) -> Result<(), Error> {
        let mut after = None;
        loop {
            let page = self.index().packs(0, after, PAGE).await.map_err(Error::Index)?;
            for pack in page.iter().map(|used| used.pack.name).filter(|pack| !seen.contains(pack)) {
                // A writer may have stored it since the packs were listed.
                if self.exists(pack).await? {
                    continue;
                }
                if options.rebuild_index {
                    self.lose_pack(pack).await?;
                }
                report(Finding::MissingPack { pack });
            }
            match page.last() {
                Some(last) => after = Some(last.pack.name),
                None => return Ok(()),
            }
        }
    }

    async fn exists(&self, pack: Hash) -> Result<bool, Error> {
        let path = pack_path(pack);
        match self.store().head(&path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(Error::of_store(&path)(error)),
        }
    }
}

/// An error of the object store has its own causes in its message.
fn with_cause(error: &Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

impl Checked {
    fn add(&mut self, examined: &Examined) {
        self.packs += 1;
        self.chunks += (examined.intact.len() + examined.damaged.len()) as u64;
        self.bytes += u64::from(examined.info.size_bytes);
        self.damaged_packs += u64::from(examined.is_damaged());
        self.unreadable_packs += u64::from(!examined.has_table);
    }
}

impl Examined {
    fn unreadable(info: PackInfo, damage: PackDamage) -> Self {
        let (bytes, intact, damaged) = Default::default();
        Self { info, bytes, intact, damaged, damage: Some(damage), has_table: false }
    }

    fn of(info: PackInfo, bytes: Bytes) -> Result<Self, Error> {
        let table = match pack::table(&bytes) {
            Ok(table) => table,
            Err(damage) => return Ok(Self::unreadable(info, damage)),
        };
        let mut decompressor = Decompressor::new().map_err(Error::System)?;
        let (mut intact, mut damaged) = (Vec::with_capacity(table.len()), Vec::new());
        for entry in table {
            match decompressor.verified(entry.hash, entry.raw_len as usize, entry.stored(&bytes)) {
                Ok(_) => intact.push(entry),
                Err(damage) => damaged.push((entry.hash, damage)),
            }
        }
        let damage = (Hash::of(&bytes) != info.name).then_some(PackDamage::OtherBytes);
        Ok(Self { info, bytes, intact, damaged, damage, has_table: true })
    }

    fn is_damaged(&self) -> bool {
        self.damage.is_some() || !self.damaged.is_empty()
    }

    /// Whether it is damaged, and not only unknown to this version.
    fn is_broken(&self) -> bool {
        match self.damage {
            Some(PackDamage::Version { .. } | PackDamage::Encrypted { .. }) => false,
            Some(PackDamage::Sealed(damage)) => damage.is_change(),
            Some(PackDamage::OtherBytes | PackDamage::Format(_)) => true,
            None => !self.damaged.is_empty(),
        }
    }

    fn report(&self, report: &mut impl FnMut(Finding)) {
        let pack = self.info.name;
        if let Some(damage) = self.damage {
            report(Finding::CorruptPack { pack, damage });
        }
        for (chunk, damage) in &self.damaged {
            report(Finding::CorruptChunk { chunk: *chunk, pack, damage: damage.clone() });
        }
    }

    fn locations(&self, pack: Hash) -> Vec<(Hash, Location)> {
        self.intact.iter().map(|entry| (entry.hash, entry.location(pack))).collect()
    }

    /// A new pack with the intact chunks.
    fn copy_intact(&self, nonce: [u8; 16]) -> PackBuilder {
        let mut copy = PackBuilder::new(nonce);
        for entry in &self.intact {
            copy.push(entry.hash, entry.raw_len, entry.stored(&self.bytes));
        }
        copy
    }
}
