//! Why a sign-in with the provider failed.

use openidconnect::ClaimsVerificationError;

/// A value, or why there is none.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a sign-in failed. Every message is for the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The provider does not respond, or its response is invalid.
    #[error("the identity provider does not respond; accounts with passwords still work")]
    Unavailable(#[source] Source),
    /// The sign-in is unknown, finished, or too old.
    #[error("this sign-in was not begun here, was finished already, or took too long; begin again")]
    Unknown,
    /// Another browser began the sign-in.
    #[error("another browser began this sign-in; begin again")]
    OtherBrowser,
    /// The answer names another issuer.
    #[error("another identity provider has answered; begin again")]
    OtherIssuer,
    /// The provider has no token endpoint.
    #[error("the identity provider exchanges no codes")]
    NoTokenEndpoint,
    /// The provider rejects the code.
    #[error("the identity provider rejects this sign-in; begin again")]
    Code(#[source] Source),
    /// The provider sent no ID token.
    #[error("the identity provider did not say who you are")]
    NoIdToken,
    /// The token is invalid: its signature, issuer, audience, time or nonce.
    #[error("what the identity provider says about you is not valid; begin again")]
    Token(#[source] ClaimsVerificationError),
    /// The public URL cannot have a path.
    #[error("CHAT_PUBLIC_URL cannot be used")]
    PublicUrl(#[source] url::ParseError),
    /// The HTTP client could not be created.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    Random(#[from] getrandom::Error),
}

impl Error {
    pub(super) fn discovery<E: std::error::Error + Send + Sync + 'static>(
        error: openidconnect::DiscoveryError<E>,
    ) -> Self {
        Self::Unavailable(error.into())
    }

    pub(super) fn user_info<E: std::error::Error + Send + Sync + 'static>(
        error: openidconnect::UserInfoError<E>,
    ) -> Self {
        Self::Unavailable(error.into())
    }

    /// A provider that responds with an error rejects the code.
    pub(super) fn code<E, T>(error: openidconnect::RequestTokenError<E, T>) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
        T: openidconnect::ErrorResponse + Send + Sync + 'static,
    {
        match error {
            openidconnect::RequestTokenError::ServerResponse(_) => Self::Code(error.into()),
            _ => Self::Unavailable(error.into()),
        }
    }
}
