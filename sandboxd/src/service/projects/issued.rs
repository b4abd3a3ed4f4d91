//! A token in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::model::principal::Root;
use crate::model::{Principal, TokenRecord};

/// A token that is valid or was just revoked.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) record: TokenRecord,
    pub(super) principal: Arc<Principal>,
    pub(super) is_revoked: AtomicBool,
    /// Whether it was noted that it has expired.
    pub(super) has_ended: AtomicBool,
    /// 0 means never.
    pub(super) last_used_ms: AtomicI64,
    /// What the store has.
    pub(super) written_ms: AtomicI64,
}

impl Issued {
    pub(super) fn new(record: TokenRecord) -> Arc<Self> {
        let last_used = record.last_used_ms.unwrap_or_default();
        Arc::new(Self {
            principal: Arc::new(principal_of(&record)),
            record,
            is_revoked: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            last_used_ms: AtomicI64::new(last_used),
            written_ms: AtomicI64::new(last_used),
        })
    }

    /// Whether requests with it are accepted.
    pub(super) fn is_valid(&self, now_ms: i64) -> bool {
        !self.is_revoked.load(Ordering::Acquire) && !self.has_expired(now_ms)
    }

    pub(super) fn has_expired(&self, now_ms: i64) -> bool {
        self.record.expires_at_ms.is_some_and(|at| at <= now_ms)
    }

    /// Its record, with the time of its last use.
    pub(super) fn record(&self) -> TokenRecord {
        let last_used = self.last_used_ms.load(Ordering::Relaxed);
        TokenRecord { last_used_ms: (last_used != 0).then_some(last_used), ..self.record.clone() }
    }
}

fn principal_of(token: &TokenRecord) -> Principal {
    Principal {
        owner: token.owner.clone(),
        scopes: token.scopes,
        token: token.id.as_str().into(),
        is_operator: false,
        is_for_tools: false,
        root: Root::Token(token.id.clone()),
        expires_at_ms: token.expires_at_ms,
        issued_at_ms: None,
        sandbox: None,
    }
}
