//! Why a request did not do what it should.

use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::error::Error;
use std::time::Duration;

/// Why a request did not do what it should.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The object is not there.
    #[error("{0}")]
    NotFound(String),
    /// The object has changed, or the pod is bound already.
    #[error("{0}")]
    Conflict(String),
    /// The version that was asked for is too old.
    #[error("{0}")]
    Expired(String),
    /// The server is busy, and says when to come back.
    #[error("the API server is busy: {message}")]
    Busy {
        /// When to come back.
        after: Duration,
        /// What it said.
        message: String,
    },
    /// The server says no, and would say it again.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What it said.
        message: String,
    },
    /// The connection failed: nobody knows whether it was done.
    #[error("{why}")]
    Unreachable {
        /// The error with all its causes.
        why: String,
        /// The cause behind all others: those in front of it only say that something failed.
        cause: String,
    },
    /// Nobody knows whether it was done: no answer in time, or an error of the server.
    #[error("{0}")]
    Unclear(String),
    /// It was not sent, because this process may not write any more.
    #[error("this process does not lead any more")]
    Fenced,
}

/// No server can send us away for longer.
const LONGEST_BUSY: u64 = 60;

impl Failure {
    /// Whether there is nothing for us at that address, now and for some time to come.
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound(_) | Self::Refused { code: 403 | 405, .. })
    }

    /// The HTTP status with which the server said no.
    pub const fn status(&self) -> Option<u16> {
        Some(match self {
            Self::NotFound(_) => 404,
            Self::Conflict(_) => 409,
            Self::Expired(_) => 410,
            Self::Busy { .. } => 429,
            Self::Refused { code, .. } => *code,
            Self::Unreachable { .. } | Self::Unclear(_) | Self::Fenced => return None,
        })
    }

    /// What an error of the client means.
    pub(crate) fn of_client(error: &kube::Error) -> Self {
        let why = explain(error);
        match error {
            kube::Error::HyperError(_) | kube::Error::Service(_) => {
                Self::Unreachable { why, cause: innermost(error) }
            }
            _ => Self::Unclear(why),
        }
    }

    /// What an answer means; nothing if it is what was asked for.
    pub(crate) fn of_answer(code: StatusCode, headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        if code.is_success() {
            return None;
        }
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        let message = if status.message.is_empty() { code.to_string() } else { status.message };
        let retry_after =
            headers.get(header::RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
        Some(match code.as_u16() {
            404 => Self::NotFound(message),
            409 => Self::Conflict(message),
            410 => Self::Expired(message),
            429 => {
                let seconds = retry_after.unwrap_or(1).min(LONGEST_BUSY);
                Self::Busy { after: Duration::from_secs(seconds), message }
            }
            400 if status.reason == "Expired" => Self::Expired(message),
            code @ 400..=499 => Self::Refused { code, message },
            _ => Self::Unclear(message),
        })
    }

    /// What it means that a watch tells of an error.
    pub(crate) fn of_event(text: &str) -> Self {
        let status: Status = serde_json::from_str(text).unwrap_or_default();
        match status.code {
            410 => Self::Expired(status.message),
            _ => Self::Unclear(status.message),
        }
    }
}

/// `Status`, as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
    message: String,
    reason: String,
}

/// An answer as an object.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|why| Failure::Unclear(why.to_string()))
}

/// An error with all its causes on one line; the outermost alone says only that a request failed.
pub(crate) fn explain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        // Some print their cause themselves.
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}

pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_can_send_us_away_for_a_minute_at_most() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from(u64::MAX));
        let busy = Failure::of_answer(StatusCode::TOO_MANY_REQUESTS, &headers, b"{}").unwrap();
        let Failure::Busy { after, .. } = busy else { panic!("{busy:?}") };
        assert_eq!(after, Duration::from_secs(60));
    }

    #[test]
    fn what_we_may_not_read_is_absent_and_an_expired_token_is_not_that() {
        let refused = |code| Failure::Refused { code, message: String::new() };
        assert!(Failure::NotFound(String::new()).is_absence());
        assert!(refused(403).is_absence());
        assert!(!refused(401).is_absence(), "all objects of the kind would be taken for gone");
    }

    #[test]
    fn an_answer_means_what_the_server_wants_us_to_do() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("7"));
        let of = |code: u16, body: &str| {
            Failure::of_answer(StatusCode::from_u16(code).unwrap(), &headers, body.as_bytes())
        };
        let said = |text: &str| format!(r#"{{"kind":"Status","message":"{text}"}}"#);
        assert_eq!(of(201, "{}"), None);
        assert_eq!(of(404, &said("gone")), Some(Failure::NotFound("gone".into())));
        assert_eq!(of(409, &said("no")), Some(Failure::Conflict("no".into())));
        assert_eq!(of(410, &said("old")), Some(Failure::Expired("old".into())));
        let busy = Failure::Busy { after: Duration::from_secs(7), message: "later".into() };
        assert_eq!(of(429, &said("later")), Some(busy));
        let refused = Failure::Refused { code: 403, message: "never".into() };
        assert_eq!(of(403, &said("never")), Some(refused));
        assert_eq!(of(500, &said("oops")), Some(Failure::Unclear("oops".into())));
        assert_eq!(of(502, "<html>"), Some(Failure::Unclear("502 Bad Gateway".into())));
    }

    #[test]
    fn a_refusal_has_the_status_that_it_came_with_and_an_error_of_the_server_has_none() {
        for code in 400..=599 {
            let code = StatusCode::from_u16(code).unwrap();
            let failure = Failure::of_answer(code, &HeaderMap::new(), b"{}").unwrap();
            let expected = code.is_client_error().then_some(code.as_u16());
            assert_eq!(failure.status(), expected, "{failure}");
        }
    }
}
