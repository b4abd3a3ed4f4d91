//! Signing in with an identity provider: OpenID Connect, authorization code with PKCE.
//!
//! The provider is looked up at each step, so a new key or a provider that was down needs no restart. A sign-in that
//! began belongs to one browser, can be finished once, and is forgotten after some minutes.

mod error;
mod fetch;
mod pending;

use openidconnect::core::{
    CoreAuthenticationFlow, CoreClient, CoreIdTokenClaims, CoreProviderMetadata, CoreUserInfoClaims,
};
use openidconnect::{
    AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointMaybeSet, EndpointNotSet, EndpointSet,
    IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeChallenge, RedirectUrl, Scope, TokenResponse,
};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

pub use self::error::{Error, Result};
pub use self::pending::LIFETIME;

use self::fetch::Fetch;
use self::pending::{Pending, Started};
use crate::account::{Secret, SecretHash};

/// Path to which the provider sends the browser back.
pub const CALLBACK_PATH: &str = "/api/oidc/callback";

type Client = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// A provider, as the operator has registered the app with it.
#[derive(Debug, Clone)]
pub struct OidcSettings {
    /// URL of the issuer.
    pub issuer: IssuerUrl,
    /// Id of the app at the provider.
    pub client_id: String,
    /// Its secret, if it has one.
    pub client_secret: Option<SecretString>,
    /// Where browsers reach this app.
    pub public_url: Url,
}

/// Sign-ins with one provider. Cheap to share.
#[derive(Debug)]
pub struct Oidc {
    settings: OidcSettings,
    redirect: RedirectUrl,
    fetch: Fetch,
    pending: Pending,
}

/// The begin of a sign-in.
#[derive(Debug)]
pub struct Begun {
    /// Where the browser goes.
    pub url: Url,
    /// Secret that the browser must still have when it comes back.
    pub browser: Secret,
}

/// What the provider sends back with the browser.
#[derive(Debug)]
pub struct Returned<'a> {
    /// The state of the begin.
    pub state: &'a str,
    /// The code to exchange.
    pub code: &'a str,
    /// The issuer, if the provider names it (RFC 9207).
    pub issuer: Option<&'a str>,
    /// The secret of the browser.
    pub browser: &'a str,
}

/// A person whom the provider has identified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The issuer. Together with the subject it identifies the person, and nothing else does.
    pub issuer: String,
    /// The person at the issuer.
    pub subject: String,
    /// Name to start with.
    pub name: Option<String>,
    /// E-mail address, if the provider says that it has verified it.
    pub verified_email: Option<String>,
    /// Hash of the invitation that the sign-in began with.
    pub invitation: Option<SecretHash>,
}

impl Oidc {
    /// Creates the sign-ins. Sends nothing yet.
    ///
    /// # Errors
    /// The HTTP client cannot be created, or the public URL is invalid.
    pub fn new(settings: OidcSettings) -> Result<Self> {
        let redirect = settings.public_url.join(CALLBACK_PATH).map_err(Error::PublicUrl)?;
        let redirect = RedirectUrl::from_url(redirect);
        Ok(Self { settings, redirect, fetch: Fetch::new()?, pending: Pending::default() })
    }

    /// Begins a sign-in, perhaps with the invitation of a new user.
    pub async fn begin(&self, invitation: Option<SecretHash>) -> Result<Begun> {
        let client = self.client().await?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let (state, browser) = (Secret::generate()?, Secret::generate()?);
        let sent = state.expose().to_owned();
        let request = client.authorize_url(
            CoreAuthenticationFlow::AuthorizationCode,
            move || CsrfToken::new(sent),
            Nonce::new_random,
        );
        let scopes = ["profile", "email"].map(|scope| Scope::new(scope.to_owned()));
        let (url, _, nonce) = request.add_scopes(scopes).set_pkce_challenge(challenge).url();
        self.pending.insert(state.hash(), Started::new(browser.hash(), nonce, verifier, invitation));
        Ok(Begun { url, browser })
    }

    /// Finishes a sign-in: exchanges the code, and checks the token's signature, issuer, audience, time and nonce.
    pub async fn finish(&self, returned: Returned<'_>) -> Result<Identity> {
        // Taken whatever follows, so that no answer is used twice.
        let started = self.pending.take(SecretHash::of(returned.state)).ok_or(Error::Unknown)?;
        if started.browser != SecretHash::of(returned.browser) {
            return Err(Error::OtherBrowser);
        }
        if returned.issuer.is_some_and(|issuer| issuer != self.settings.issuer.as_str()) {
            return Err(Error::OtherIssuer);
        }
        let client = self.client().await?;
        let code = AuthorizationCode::new(returned.code.to_owned());
        let exchange = client.exchange_code(code).map_err(|_| Error::NoTokenEndpoint)?;
        let exchange = exchange.set_pkce_verifier(started.verifier);
        let tokens = exchange.request_async(&self.fetch).await.map_err(Error::code)?;
        let token = tokens.id_token().ok_or(Error::NoIdToken)?;
        let claims = token.claims(&client.id_token_verifier(), &started.nonce).map_err(Error::Token)?;
        let mut identity = self.identity(claims, started.invitation);
        // Many providers put only the subject into the token.
        if identity.name.is_none()
            && identity.verified_email.is_none()
            && let Ok(request) =
                client.user_info(tokens.access_token().clone(), Some(claims.subject().clone()))
        {
            let info: CoreUserInfoClaims =
                request.request_async(&self.fetch).await.map_err(Error::user_info)?;
            let email = info.email().filter(|_| info.email_verified() == Some(true));
            identity.verified_email = email.map(|email| email.to_string());
            identity.name = info.preferred_username().map(|name| name.to_string());
        }
        Ok(identity)
    }

    fn identity(&self, claims: &CoreIdTokenClaims, invitation: Option<SecretHash>) -> Identity {
        let email = claims.email().filter(|_| claims.email_verified() == Some(true));
        Identity {
            issuer: claims.issuer().to_string(),
            subject: claims.subject().to_string(),
            name: claims.preferred_username().map(|name| name.to_string()),
            verified_email: email.map(|email| email.to_string()),
            invitation,
        }
    }

    /// Looks the provider up.
    async fn client(&self) -> Result<Client> {
        let OidcSettings { issuer, client_id, client_secret, .. } = &self.settings;
        let metadata = CoreProviderMetadata::discover_async(issuer.clone(), &self.fetch).await;
        let metadata = metadata.map_err(Error::discovery)?;
        let secret =
            client_secret.as_ref().map(|secret| ClientSecret::new(secret.expose_secret().to_owned()));
        let client = CoreClient::from_provider_metadata(metadata, ClientId::new(client_id.clone()), secret);
        Ok(client.set_redirect_uri(self.redirect.clone()))
    }
}
