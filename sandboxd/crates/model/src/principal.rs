//! Who sends a request.

use std::sync::Arc;

use sandbox_api::{SandboxId, TokenId};

use sha2::{Digest, Sha256};

use crate::tool_tokens::ADMIN;
use crate::{FieldError, Owner};

/// Who sends a request, and what it may do.
#[derive(Debug, Clone)]
pub struct Principal {
    /// Whom what it creates belongs to. It can see what this owner [covers](Owner::covers).
    pub owner: Owner,
    /// What it may do.
    pub scopes: Scopes,
    /// Name of its token, for the log and for what surfaces keep apart by token.
    pub token: Arc<str>,
    /// Whether it has the operator's token, which may also do what concerns the whole daemon.
    pub is_operator: bool,
    /// Whether its token is only for surfaces.
    pub is_for_tools: bool,
    /// Where its right comes from. Without that, it ends.
    pub root: Root,
    /// When its token expires, in milliseconds since the Unix epoch. `None` is never, or not known.
    pub expires_at_ms: Option<i64>,
    /// When its token was issued, in milliseconds since the Unix epoch, if that decides whether it was revoked together with
    /// others of its subject.
    pub issued_at_ms: Option<i64>,
    /// The only sandbox that it can reach. `None` is every one of its owner.
    pub sandbox: Option<SandboxId>,
}

/// Where the right of a principal comes from. A child token has that of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The operator's token.
    Operator(Fingerprint),
    /// A tool token.
    ToolToken,
    /// A token of a project.
    Token(TokenId),
    /// A JSON Web Token.
    Jwt,
    /// The key of a trusted front.
    Front(Fingerprint),
}

/// Tells keys apart that the operator sets, so that what comes from a former one ends. It is a keyed hash, so it reveals
/// nothing about the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 16]);

impl Principal {
    /// Whether this is the same principal: the same token, for the same owner and sandbox.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.owner, &self.token, &self.root, &self.sandbox)
            == (&other.owner, &other.token, &other.root, &other.sandbox)
    }

    /// The holder of the operator's token, which has this fingerprint.
    pub fn operator(fingerprint: Fingerprint) -> Self {
        Self {
            owner: Owner::default(),
            scopes: Scopes::ALL,
            token: ADMIN.into(),
            is_operator: true,
            is_for_tools: false,
            root: Root::Operator(fingerprint),
            expires_at_ms: None,
            issued_at_ms: None,
            sandbox: None,
        }
    }

    /// The holder of the tool token with this name. It uses the operator's project.
    pub fn of_tool_token(name: &str) -> Self {
        Self {
            owner: Owner::default(),
            scopes: Scopes::USE,
            token: name.into(),
            is_operator: false,
            is_for_tools: true,
            root: Root::ToolToken,
            expires_at_ms: None,
            issued_at_ms: None,
            sandbox: None,
        }
    }

    /// Name under which a surface keeps its clients apart: that of the token, and if other subjects may have tokens with the
    /// same name, also what tells the subject from them.
    pub fn client_name(&self) -> String {
        let is_own = matches!(&self.root, Root::Token(id) if *id.as_str() == *self.token)
            && self.issued_at_ms.is_none();
        match self.owner.subject.as_ref().filter(|_| !is_own) {
            None => self.token.to_string(),
            Some(subject) => {
                let digest = Sha256::digest(subject.as_str());
                let name: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{}-{name}", self.token)
            }
        }
    }

    /// The project token that its right comes from.
    pub fn token_id(&self) -> Option<&TokenId> {
        match &self.root {
            Root::Token(id) => Some(id),
            _ => None,
        }
    }
}

/// A permission of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Read sandboxes, their files, output and snapshots. A read may wake a sandbox.
    Read,
    /// Create, use and delete sandboxes and snapshots. Includes [`Scope::Read`].
    Use,
    /// Create and revoke tokens of the project.
    Manage,
}

/// Permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 3] = [Self::Read, Self::Use, Self::Manage];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Use => "use",
            Self::Manage => "manage",
        }
    }

    /// What it permits, as bits.
    fn bits(self) -> u8 {
        match self {
            Self::Read => 0b001,
            Self::Use => 0b011,
            Self::Manage => 0b100,
        }
    }
}

impl Scopes {
    /// All scopes.
    pub const ALL: Self = Self(0b111);

    /// Scopes of a token that uses sandboxes.
    pub const USE: Self = Self(0b011);

    /// The scopes as a number, for the store.
    pub fn to_bits(self) -> u8 {
        self.0
    }

    /// Reads a number of [`Self::to_bits`].
    pub fn from_bits(bits: u8) -> Option<Self> {
        (1..=Self::ALL.0).contains(&bits).then_some(Self(bits))
    }

    /// Parses names of scopes, of which there must be one at least.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, FieldError> {
        let mut scopes = Self::default();
        for name in names {
            let scope = Scope::ALL.into_iter().find(|scope| scope.as_str() == name);
            let scope = scope.ok_or_else(|| FieldError::new("scopes", "must be read, use or manage each"))?;
            scopes.0 |= scope.bits();
        }
        match scopes.0 {
            0 => Err(FieldError::new("scopes", "must not be empty")),
            _ => Ok(scopes),
        }
    }

    /// Those without [`Scope::Manage`]. May be empty.
    pub fn without_manage(self) -> Self {
        Self(self.0 & !Scope::Manage.bits())
    }

    /// Whether they permit nothing.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether they permit what `scope` does.
    pub fn permit(self, scope: Scope) -> bool {
        self.0 & scope.bits() == scope.bits()
    }

    /// Whether they permit nothing that `other` does not.
    pub fn are_within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Their names. Not those that another one includes.
    pub fn names(self) -> Vec<&'static str> {
        let is_included = |scope: Scope| scope == Scope::Read && self.permit(Scope::Use);
        let named = Scope::ALL.into_iter().filter(|scope| self.permit(*scope) && !is_included(*scope));
        named.map(Scope::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn using_includes_reading() {
        let scopes = Scopes::parse(["use"]).unwrap();
        assert!(scopes.permit(Scope::Use) && scopes.permit(Scope::Read) && !scopes.permit(Scope::Manage));
        assert_eq!(scopes, Scopes::parse(["read", "use"]).unwrap());
        assert_eq!(scopes.names(), ["use"]);
        assert!(!Scopes::parse(["read"]).unwrap().permit(Scope::Use));
        assert_eq!(Scopes::ALL.names(), ["use", "manage"]);
    }

    #[test]
    fn clients_of_several_subjects_have_different_names() {
        let id: TokenId = "tok_0123456789abcdef".parse().unwrap();
        let of = |root: Root, subject: &str, issued_at_ms| Principal {
            owner: Owner { subject: Some(subject.parse().unwrap()), ..Owner::default() },
            root,
            issued_at_ms,
            token: id.as_str().into(),
            ..Principal::of_tool_token("any")
        };
        let of_token =
            |subject, issued_at_ms| of(Root::Token(id.clone()), subject, issued_at_ms).client_name();
        assert_eq!(of_token("ann", None), id.as_str(), "a token of a project has one subject");
        assert_ne!(of_token("ann", Some(1)), of_token("bob", Some(1)));
        assert_eq!(
            of_token("ann", Some(1)),
            of_token("ann", Some(2)),
            "the next child token of the same subject"
        );
        assert_ne!(of(Root::Jwt, "ann", Some(1)).client_name(), of(Root::Jwt, "bob", Some(1)).client_name());
        assert_eq!(Principal::of_tool_token("any").client_name(), "any");
    }

    #[test]
    fn scopes_are_within_others() {
        let parse = |names: &[&str]| Scopes::parse(names.iter().copied()).unwrap();
        assert!(parse(&["read"]).are_within(parse(&["use"])));
        assert!(!parse(&["use"]).are_within(parse(&["read", "manage"])));
        assert!(Scopes::parse([]).is_err() && Scopes::parse(["admin"]).is_err());
    }
}
