//! The token of a login in the requests of an API.
//!
//! The API is loaded with a random text as the credential of the scheme. So [`toolgate_openapi`] decides where a credential
//! goes, and what goes there is a token that is refreshed. A refused request was not executed and is sent once more with
//! another token; if that is refused as well, a login is needed.

use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_mcp::client::auth::{AuthError, Authorizer, Challenge, Retry, SecretText};
use toolgate_openapi::{AnswerFuture, ApiAnswer, ApiRequest, ApiTransport, TransportError};

/// The login of an API.
#[derive(Debug, Clone)]
pub(super) struct ApiLogin {
    pub(super) authorizer: Arc<Authorizer>,
    /// Stands for the token in requests.
    pub(super) placeholder: Arc<str>,
    pub(super) scheme: Arc<str>,
}

/// A text that no argument has.
pub(super) fn placeholder() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Sends the requests of one call with the token.
pub(super) struct LoginTransport {
    login: ApiLogin,
    inner: Arc<dyn ApiTransport>,
    refusal: Arc<Mutex<Option<AuthError>>>,
}

impl LoginTransport {
    pub(super) fn new(login: ApiLogin, inner: Arc<dyn ApiTransport>) -> Self {
        Self { login, inner, refusal: Arc::default() }
    }

    /// Why there was no token, if that ended the call.
    pub(super) fn refusal(&self) -> Option<AuthError> {
        self.refusal.lock().take()
    }
}

impl ApiTransport for LoginTransport {
    fn send(&self, request: ApiRequest) -> AnswerFuture {
        let holds = |text: &str| text.contains(&*self.login.placeholder);
        let in_cookie = |(name, value): &(String, String)| name.eq_ignore_ascii_case("cookie") && holds(value);
        if holds(request.url.as_str()) || request.headers.iter().any(in_cookie) {
            let reason = format!("the security scheme {} takes no token of a login", self.login.scheme);
            return Box::pin(std::future::ready(Err(TransportError::NotSent(reason))));
        }
        if !request.headers.iter().any(|(_, value)| holds(value)) {
            return self.inner.send(request);
        }
        let (login, inner, refusal) = (self.login.clone(), Arc::clone(&self.inner), Arc::clone(&self.refusal));
        Box::pin(async move {
            let refuse = |error: AuthError| {
                let reason = error.to_string();
                *refusal.lock() = Some(error);
                TransportError::NotSent(reason)
            };
            let sent = login.authorizer.access_token().await.map_err(refuse)?;
            let answer = inner.send(login.with_token(&request, sent.as_ref())).await?;
            let Some(challenge) = challenge_of(&answer) else { return Ok(answer) };
            match login.authorizer.after_refusal(sent.as_ref(), &challenge).await.map_err(refuse)? {
                Retry::With(token) => {
                    let answer = inner.send(login.with_token(&request, Some(&token))).await?;
                    match challenge_of(&answer) {
                        Some(challenge) => Err(refuse(login.authorizer.after_second_refusal(&token, challenge).await)),
                        None => Ok(answer),
                    }
                }
                Retry::AfterLogin(error) => Err(refuse(error)),
            }
        })
    }
}

impl ApiLogin {
    /// The request with a token in place of the placeholder; without the header if there is no token.
    fn with_token(&self, request: &ApiRequest, token: Option<&SecretText>) -> ApiRequest {
        let mut request = request.clone();
        request.headers.retain_mut(|(_, value)| match (value.contains(&*self.placeholder), token) {
            (false, _) => true,
            (true, None) => false,
            (true, Some(token)) => {
                *value = value.replace(&*self.placeholder, token.expose());
                true
            }
        });
        request
    }
}

/// The challenge of an answer that refuses the token.
fn challenge_of(answer: &ApiAnswer) -> Option<Challenge> {
    let headers = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
    let challenge = Challenge::of_headers(headers.map(|(_, value)| value.as_str()));
    match answer.status {
        401 => Some(challenge),
        403 => Some(challenge).filter(Challenge::is_insufficient_scope),
        _ => None,
    }
}
