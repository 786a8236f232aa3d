use std::error::Error as _;

use mcp_protocol::errors::ErrorCode;

use super::*;

#[test]
fn displayed_error_is_complete_and_source_repeats_nothing() {
    fn is_clone<T: Clone + Send + Sync + 'static>() {}
    is_clone::<Error>();
    let method = Method::ToolsCall;
    let error = || ErrorObject::new(ErrorCode::InvalidParams, "the inner cause");
    let refused = std::io::Error::other("the inner cause");
    let ended = ConnectionEnd {
        cause: EndCause::Read("the inner cause".to_owned()),
        stderr: "a line".to_owned(),
        ..ConnectionEnd::default()
    };
    for error in [
        Error::Refused { method: method.clone(), error: error() },
        Error::Input { method: method.clone(), error: error() },
        Error::Start(StartError::Refused { path: "x".into(), error: Arc::new(refused) }),
        Error::Connect {
            server: "x".to_owned(),
            error: Box::new(NegotiationError::Exited),
            ended: ended.clone(),
        },
        Error::Lost { method, sent: Sent::No, ended: Arc::new(ended) },
    ] {
        assert!(error.to_string().contains("the inner cause"), "{error}");
        assert!(error.source().is_none(), "{error}");
        assert_eq!(error.clone().to_string(), error.to_string());
    }
}
